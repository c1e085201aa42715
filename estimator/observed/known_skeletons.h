// What tools/observe.py has seen of libraries' modules, as the binary has it.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "estimator/observed/packed_class.h"
#include "estimator/observed/skeletons.h"

namespace onnxfit {

// A skeleton of the binary; it lives as long as what it is of.
struct KnownSkeleton {
  uint32_t id = 0;  // its IdOf
  const Skeleton* skeleton = nullptr;
};

// Skeletons by class and by children, from the bytes that PackSkeletons makes.  A class's are
// unpacked when one of them is asked for, and read when its run is.
class KnownSkeletons {
 public:
  // `bytes` must outlive it.  Throws Error for what is damaged, as all that follows does.
  explicit KnownSkeletons(std::span<const unsigned char> bytes);

  // Of which releases they are: "timm 1.0.31, torch 2.11.0".
  std::string_view releases() const { return releases_; }
  // Whether it is of one of those libraries, but for torch.
  bool IsOfLibrary(std::string_view class_name) const;

  // Those of a class that do the same in one of `runs`.  O(log classes), once O(bytes of them).
  std::vector<KnownSkeleton> OfClass(std::string_view class_name, uint8_t runs = kAnyRun) const;
  // That of the class with that IdOf; null without one.  The same.
  KnownSkeleton OfId(std::string_view class_name, uint32_t id) const;
  // Classes with a forward that runs the children that `steps` do, for files that name no class; of
  // none where they run no child.  One in a million is of others, whose names have the same hash.
  // O(steps × log).
  std::vector<std::string_view> ClassesOfChildren(const std::vector<SkeletonStep>& steps) const;
  // All of them.  O(bytes).
  std::vector<const Skeleton*> All() const;

 private:
  struct Class {
    std::string_view name;
    std::string_view bytes;
  };
  struct Unpacked {
    PackedClass packed;
    std::vector<std::unique_ptr<const Skeleton>> read;  // null: not asked for
  };
  struct ChildrenKey {
    uint32_t hash = 0;  // of ChildrenOf
    size_t in_class = 0;
  };
  Unpacked* UnpackedOf(std::string_view class_name) const;
  static KnownSkeleton ReadAt(Unpacked& unpacked, size_t skeleton);

  std::string_view releases_;
  PackedNames names_;
  std::vector<Class> classes_;              // by name
  std::vector<ChildrenKey> children_keys_;  // by hash
  mutable std::mutex mutex_;
  mutable std::map<std::string_view, Unpacked> unpacked_;
};

// The bytes of all of them, each once.  O(skeletons × log).
std::string PackSkeletons(std::string_view releases, const std::vector<Skeleton>& skeletons);

// Those of the binary.
const KnownSkeletons& SkeletonsOfLibraries();

}  // namespace onnxfit
