// The skeletons of one class as bytes, of which those that are asked for are read.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "estimator/observed/skeletons.h"

namespace onnxfit {

// Throws Error: the bytes are not what `what` says.
[[noreturn]] void ThrowDamagedFacts(std::string_view what);

// The names of operators, children and classes, each with its number: what packing writes.
class NamesToPack {
 public:
  uint32_t NumberOf(std::string_view name);
  const std::vector<std::string_view>& all() const { return all_; }

 private:
  std::map<std::string_view, uint32_t> numbers_;
  std::vector<std::string_view> all_;
};

// The same as they were packed: the end of each, of 32 bits, then their text.  Names are views of
// the bytes.
class PackedNames {
 public:
  PackedNames() = default;
  PackedNames(std::span<const unsigned char> ends, std::span<const unsigned char> text)
      : ends_(ends), text_(text) {}
  // Throws Error where there is no such name.  O(1).
  std::string_view At(uint64_t number) const;

 private:
  std::span<const unsigned char> ends_;
  std::span<const unsigned char> text_;
};

// `skeletons` are all of one class; their steps stand once each.  O(steps × log).
std::string PackClass(const std::vector<Skeleton>& skeletons, NamesToPack& names);

class PackedClass {
 public:
  // `bytes` as PackClass made them.  Reads steps, and of each skeleton its size alone.  Throws
  // Error for what is damaged, as At does.
  PackedClass(std::string_view class_name, std::string bytes, const PackedNames& names);

  size_t size() const { return entries_.size(); }
  uint8_t RunsOf(size_t skeleton) const { return entries_[skeleton].runs; }
  uint32_t IdAt(size_t skeleton) const { return entries_[skeleton].id; }  // its IdOf
  Skeleton At(size_t skeleton) const;

 private:
  struct Entry {
    uint8_t runs = 0;
    uint32_t id = 0;
    size_t begin = 0;
    size_t size = 0;
  };

  std::string_view class_name_;
  std::string bytes_;
  std::vector<SkeletonStep> steps_;  // each that one of them has
  std::vector<Entry> entries_;
};

}  // namespace onnxfit
