// What tools/observe.py has seen of libraries' modules, as the binary has it.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "estimator/observed/skeletons.h"

namespace onnxfit {

// Skeletons by class and by children, from the bytes that PackSkeletons makes: those of a Python
// module together, which are unpacked when one of them is asked for.
class KnownSkeletons {
 public:
  // `bytes` must outlive it.  Throws Error for what is damaged, as all that follows does.
  explicit KnownSkeletons(std::span<const unsigned char> bytes);

  // Of which releases they are: "timm 1.0.31, torch 2.11.0".
  const std::string& releases() const { return releases_; }
  // Whether it is of one of those libraries, but for torch.
  bool IsOfLibrary(std::string_view class_name) const;

  // Those of a class; they live as long as this.  O(log modules), once O(bytes of the module).
  std::vector<const Skeleton*> OfClass(std::string_view class_name) const;
  // That of the class with that IdOf; null without one.  O(log), once O(bytes of the class).
  const Skeleton* OfId(std::string_view class_name, uint32_t id) const;
  // Those of all classes whose forwards run the children that `steps` do, for files that name no
  // class; of none where they run no child.  O(steps × log), once O(bytes of their modules).
  const std::vector<const Skeleton*>& OfChildren(const std::vector<SkeletonStep>& steps) const;
  // All of them.  O(bytes).
  std::vector<const Skeleton*> All() const;

 private:
  struct Group {  // one Python module
    size_t begin = 0;
    size_t size = 0;
  };
  const std::vector<Skeleton>& Unpacked(size_t group) const;

  std::span<const unsigned char> bytes_;
  std::string releases_;
  std::vector<Group> groups_;
  std::multimap<uint32_t, size_t> by_module_;    // hashes of names
  std::multimap<uint32_t, size_t> by_children_;  // the same of ChildrenOf
  mutable std::mutex mutex_;
  mutable std::map<size_t, std::vector<Skeleton>> unpacked_;
  mutable std::map<std::string, std::vector<const Skeleton*>> of_children_;
  mutable std::map<std::string, std::map<uint32_t, const Skeleton*>, std::less<>> by_id_;
};

// The bytes of all of them, each once.  O(skeletons × log).
std::string PackSkeletons(std::string_view releases, const std::vector<Skeleton>& skeletons);

// Those of the binary.
const KnownSkeletons& SkeletonsOfLibraries();

}  // namespace onnxfit
