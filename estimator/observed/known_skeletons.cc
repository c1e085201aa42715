#include "estimator/observed/known_skeletons.h"

#include <zlib.h>

#include <optional>
#include <set>
#include <utility>

#include "estimator/base/error.h"
#include "estimator/base/inflate.h"
#include "estimator/base/module_names.h"

namespace onnxfit {

extern const std::span<const unsigned char> kLibraries;  // libraries.bin

namespace {

// Layout, all numbers of 32 bits, the lowest byte first: the size of the releases' text, the number
// of groups and of keys; that text; each group's hash, begin and size; each key's hash and group;
// the groups, deflated.
constexpr size_t kWord = 4;
constexpr size_t kMostText = 64 << 20;  // of one Python module

// "attention dense": the children that a forward runs, each once; "" where all have numbers.
// Dropouts may not be in a file.
std::string ChildrenOf(const std::vector<SkeletonStep>& steps) {
  std::set<std::string> names;
  for (const SkeletonStep& step : steps) {
    if (step.is_child && step.key.find("drop") == step.key.npos) names.insert(StarredKey(step));
  }
  if (names == std::set<std::string>{"*"}) return "";
  std::string text;
  for (const std::string& name : names) text += name + " ";
  return text;
}

[[noreturn]] void ThrowDamaged(std::string_view what) {
  throw Error({.where = "what was observed of libraries",
               .text = "expected " + std::string(what) + ", found damaged bytes"});
}

class Reader {
 public:
  explicit Reader(std::span<const unsigned char> bytes) : bytes_(bytes) {}

  uint32_t Number() {
    uint32_t number = 0;
    for (size_t i = 0; i < kWord; ++i) number |= uint32_t{Take(1)[0]} << (8 * i);
    return number;
  }
  std::span<const unsigned char> Take(size_t size) {
    if (size > bytes_.size() - at_) ThrowDamaged("more of them");
    at_ += size;
    return bytes_.subspan(at_ - size, size);
  }

 private:
  std::span<const unsigned char> bytes_;
  size_t at_ = 0;
};

void Append(std::string& bytes, size_t number) {
  for (size_t i = 0; i < kWord; ++i) bytes += static_cast<char>((number >> (8 * i)) & 0xFF);
}

std::string Deflated(const std::string& text) {
  uLongf size = compressBound(text.size());
  std::string bytes(size, '\0');
  const auto* const from = reinterpret_cast<const Bytef*>(text.data());
  compress2(reinterpret_cast<Bytef*>(bytes.data()), &size, from, text.size(), Z_BEST_COMPRESSION);
  bytes.resize(size);
  return bytes;
}

// Those that are the same in several kinds of runs, once.
std::vector<Skeleton> Joined(const std::vector<Skeleton>& skeletons) {
  std::map<std::string, Skeleton> joined;
  for (const Skeleton& skeleton : skeletons) {
    Skeleton key = skeleton;
    key.runs = kAllRuns;
    const auto [found, is_new] = joined.try_emplace(ToText(key), skeleton);
    found->second.runs |= skeleton.runs;
  }
  std::vector<Skeleton> all;
  for (auto& [text, skeleton] : joined) all.push_back(std::move(skeleton));
  return all;
}

}  // namespace

KnownSkeletons::KnownSkeletons(std::span<const unsigned char> bytes) : bytes_(bytes) {
  Reader reader(bytes);
  const size_t releases = reader.Number();
  const size_t groups = reader.Number();
  const size_t keys = reader.Number();
  const auto text = reader.Take(releases);
  releases_.assign(text.begin(), text.end());
  for (size_t i = 0; i < groups; ++i) {
    by_module_.emplace(reader.Number(), i);
    const size_t begin = reader.Number();
    const size_t size = reader.Number();
    groups_.push_back({begin, size});
    const bool is_inside = begin <= bytes.size() && size <= bytes.size() - begin;
    if (!is_inside) ThrowDamaged("groups inside of them");
  }
  for (size_t i = 0; i < keys; ++i) {
    const uint32_t hash = reader.Number();
    const size_t group = reader.Number();
    if (group >= groups) ThrowDamaged("a group of theirs");
    by_children_.emplace(hash, group);
  }
}

bool KnownSkeletons::IsOfLibrary(std::string_view class_name) const {
  const std::string_view library = class_name.substr(0, class_name.find('.'));
  if (library.empty() || library == "torch") return false;
  return (" " + releases_).find(" " + std::string(library) + " ") != std::string::npos;
}

const std::vector<Skeleton>& KnownSkeletons::Unpacked(size_t group) const {
  const std::lock_guard lock(mutex_);
  const auto [made, is_new] = unpacked_.try_emplace(group);
  if (!is_new) return made->second;
  const auto& [begin, size] = groups_[group];
  const std::string_view bytes(reinterpret_cast<const char*>(bytes_.data()), bytes_.size());
  const std::optional<std::string> text = Inflate(bytes.substr(begin, size), kMostText);
  if (!text) ThrowDamaged("deflated text");
  return made->second = ParseSkeletons(*text);
}

std::vector<const Skeleton*> KnownSkeletons::OfClass(std::string_view class_name) const {
  std::vector<const Skeleton*> found;
  const auto [first, last] = by_module_.equal_range(HashOf(ParentOf(class_name)));
  for (auto group = first; group != last; ++group) {
    for (const Skeleton& skeleton : Unpacked(group->second)) {
      if (skeleton.class_name == class_name) found.push_back(&skeleton);
    }
  }
  return found;
}

const Skeleton* KnownSkeletons::OfId(std::string_view class_name, uint32_t id) const {
  const std::vector<const Skeleton*> all =
      by_id_.contains(class_name) ? std::vector<const Skeleton*>() : OfClass(class_name);
  const std::lock_guard lock(mutex_);
  std::map<uint32_t, const Skeleton*>& ids = by_id_[std::string(class_name)];
  for (const Skeleton* skeleton : all) ids.emplace(IdOf(*skeleton), skeleton);
  const auto found = ids.find(id);
  return found == ids.end() ? nullptr : found->second;
}

const std::vector<const Skeleton*>& KnownSkeletons::OfChildren(
    const std::vector<SkeletonStep>& steps) const {
  const std::string children = ChildrenOf(steps);
  {
    const std::lock_guard lock(mutex_);
    if (const auto known = of_children_.find(children); known != of_children_.end())
      return known->second;
  }
  std::vector<const Skeleton*> found;
  const auto [first, last] = by_children_.equal_range(HashOf(children));
  for (auto group = first; !children.empty() && group != last; ++group) {
    for (const Skeleton& skeleton : Unpacked(group->second)) {
      if (ChildrenOf(skeleton.steps) == children) found.push_back(&skeleton);
    }
  }
  const std::lock_guard lock(mutex_);
  return of_children_.try_emplace(children, std::move(found)).first->second;
}

std::vector<const Skeleton*> KnownSkeletons::All() const {
  std::vector<const Skeleton*> found;
  for (size_t group = 0; group < groups_.size(); ++group) {
    for (const Skeleton& skeleton : Unpacked(group)) found.push_back(&skeleton);
  }
  return found;
}

std::string PackSkeletons(std::string_view releases, const std::vector<Skeleton>& skeletons) {
  std::map<std::string, std::set<std::string>> texts;  // by Python module
  std::map<std::string, std::set<uint32_t>> keys;
  for (const Skeleton& skeleton : Joined(skeletons)) {
    const std::string module(ParentOf(skeleton.class_name));
    texts[module].insert(ToText(skeleton));
    const std::string children = ChildrenOf(skeleton.steps);
    if (!children.empty()) keys[module].insert(HashOf(children));
  }
  size_t count = 0;
  for (const auto& [module, hashes] : keys) count += hashes.size();
  std::string bytes;
  Append(bytes, releases.size());
  Append(bytes, texts.size());
  Append(bytes, count);
  bytes += releases;
  const size_t begin = bytes.size() + kWord * (3 * texts.size() + 2 * count);
  std::string groups;
  std::string of_children;
  size_t group = 0;
  for (const auto& [module, ordered] : texts) {
    std::string text;
    for (const std::string& one : ordered) text += one;
    const std::string packed = Deflated(text);
    Append(bytes, HashOf(module));
    Append(bytes, begin + groups.size());
    Append(bytes, packed.size());
    groups += packed;
    for (const uint32_t hash : keys[module]) {
      Append(of_children, hash);
      Append(of_children, group);
    }
    ++group;
  }
  return bytes + of_children + groups;
}

const KnownSkeletons& SkeletonsOfLibraries() {
  static const KnownSkeletons known(kLibraries);
  return known;
}

}  // namespace onnxfit
