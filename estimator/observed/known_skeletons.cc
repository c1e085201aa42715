#include "estimator/observed/known_skeletons.h"

#include <zlib.h>

#include <algorithm>
#include <optional>
#include <set>
#include <utility>

#include "estimator/base/error.h"
#include "estimator/base/inflate.h"
#include "estimator/base/module_names.h"

namespace onnxfit {

extern const std::span<const unsigned char> kLibraries;  // libraries.bin

namespace {

// Layout, all numbers of 32 bits, the lowest byte first: how many bytes of releases, names, bytes
// of names, classes and keys of children there are; the releases; the ends of names, and their
// text; of each class its name, begin and size; of each key its hash and class; the classes,
// deflated.
constexpr size_t kWord = 4;
constexpr size_t kMostBytes = 64 << 20;  // of one class

// "attention dense": the children that a forward runs, each once; "" where all have numbers.
// Dropouts may not be in a file.
std::string ChildrenOf(const std::vector<SkeletonStep>& steps) {
  std::set<std::string_view> names;
  for (const SkeletonStep& step : steps) {
    if (step.is_child && step.key.find("drop") == step.key.npos) names.insert(StarredKey(step));
  }
  if (names == std::set<std::string_view>{"*"}) return "";
  std::string text;
  for (const std::string_view name : names) text.append(name).append(" ");
  return text;
}

class WordReader {
 public:
  explicit WordReader(std::span<const unsigned char> bytes) : bytes_(bytes) {}

  uint32_t Number() {
    uint32_t number = 0;
    for (size_t i = 0; i < kWord; ++i) number |= uint32_t{Take(1)[0]} << (8 * i);
    return number;
  }
  std::string_view Text(size_t size) {
    const auto taken = Take(size);
    return {reinterpret_cast<const char*>(taken.data()), taken.size()};
  }
  std::span<const unsigned char> Take(size_t size) {
    if (size > bytes_.size() - at_) ThrowDamagedFacts("more of them");
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

// All of it, the class of each of `packed` being that of `names`.
std::string Layout(std::string_view releases, const NamesToPack& names,
                   const std::vector<uint32_t>& classes, const std::vector<std::string>& packed,
                   const std::set<std::pair<uint32_t, size_t>>& keys) {
  std::string ends;
  std::string text;
  for (const std::string_view name : names.all()) {
    text += name;
    Append(ends, text.size());
  }
  std::string bytes;
  for (const size_t size :
       {releases.size(), names.all().size(), text.size(), classes.size(), keys.size()}) {
    Append(bytes, size);
  }
  bytes.append(releases).append(ends).append(text);
  size_t begin = bytes.size() + kWord * (3 * classes.size() + 2 * keys.size());
  for (size_t i = 0; i < classes.size(); ++i) {
    Append(bytes, classes[i]);
    Append(bytes, begin);
    Append(bytes, packed[i].size());
    begin += packed[i].size();
  }
  for (const auto& [hash, in_class] : keys) {
    Append(bytes, hash);
    Append(bytes, in_class);
  }
  for (const std::string& one : packed) bytes += one;
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

KnownSkeletons::KnownSkeletons(std::span<const unsigned char> bytes) {
  WordReader reader(bytes);
  const size_t releases = reader.Number();
  const size_t names = reader.Number();
  const size_t text = reader.Number();
  const size_t classes = reader.Number();
  const size_t keys = reader.Number();
  releases_ = reader.Text(releases);
  const auto ends = reader.Take(names * kWord);
  names_ = PackedNames(ends, reader.Take(text));
  const std::string_view all(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  for (size_t i = 0; i < classes; ++i) {
    const std::string_view name = names_.At(reader.Number());
    const size_t begin = reader.Number();
    const size_t size = reader.Number();
    const bool is_inside = begin <= bytes.size() && size <= bytes.size() - begin;
    if (!is_inside) ThrowDamagedFacts("classes inside of them");
    classes_.push_back({name, all.substr(begin, size)});
  }
  for (size_t i = 0; i < keys; ++i) {
    const uint32_t hash = reader.Number();
    const size_t in_class = reader.Number();
    if (in_class >= classes) ThrowDamagedFacts("a class of theirs");
    children_keys_.push_back({hash, in_class});
  }
}

bool KnownSkeletons::IsOfLibrary(std::string_view class_name) const {
  const std::string_view library = class_name.substr(0, class_name.find('.'));
  if (library.empty() || library == "torch") return false;
  std::string name = " ";
  name.append(library) += ' ';
  return releases_.starts_with(std::string_view(name).substr(1)) ||
         releases_.find(name) != releases_.npos;
}

// With mutex_ held; null for a class that is not known.
KnownSkeletons::Unpacked* KnownSkeletons::UnpackedOf(std::string_view class_name) const {
  const auto found = std::ranges::lower_bound(classes_, class_name, {}, &Class::name);
  if (found == classes_.end() || found->name != class_name) return nullptr;
  if (const auto known = unpacked_.find(class_name); known != unpacked_.end())
    return &known->second;
  std::optional<std::string> bytes = Inflate(found->bytes, kMostBytes);
  if (!bytes) ThrowDamagedFacts("deflated facts");
  Unpacked unpacked = {.packed = PackedClass(found->name, std::move(*bytes), names_), .read = {}};
  unpacked.read.resize(unpacked.packed.size());
  return &unpacked_.emplace(found->name, std::move(unpacked)).first->second;
}

KnownSkeleton KnownSkeletons::ReadAt(Unpacked& unpacked, size_t skeleton) {
  auto& read = unpacked.read[skeleton];
  if (read == nullptr) read = std::make_unique<const Skeleton>(unpacked.packed.At(skeleton));
  return {unpacked.packed.IdAt(skeleton), read.get()};
}

std::vector<KnownSkeleton> KnownSkeletons::OfClass(std::string_view class_name,
                                                   uint8_t runs) const {
  const std::lock_guard lock(mutex_);
  std::vector<KnownSkeleton> found;
  Unpacked* const unpacked = UnpackedOf(class_name);
  const size_t count = unpacked == nullptr ? 0 : unpacked->packed.size();
  for (size_t i = 0; i < count; ++i) {
    if ((unpacked->packed.RunsOf(i) & runs) != 0) found.push_back(ReadAt(*unpacked, i));
  }
  return found;
}

KnownSkeleton KnownSkeletons::OfId(std::string_view class_name, uint32_t id) const {
  const std::lock_guard lock(mutex_);
  Unpacked* const unpacked = UnpackedOf(class_name);
  const size_t count = unpacked == nullptr ? 0 : unpacked->packed.size();
  for (size_t i = 0; i < count; ++i) {
    if (unpacked->packed.IdAt(i) == id) return ReadAt(*unpacked, i);
  }
  return {};
}

std::vector<std::string_view> KnownSkeletons::ClassesOfChildren(
    const std::vector<SkeletonStep>& steps) const {
  const std::string children = ChildrenOf(steps);
  std::vector<std::string_view> found;
  if (children.empty()) return found;
  const uint32_t hash = HashOf(children);
  for (auto key = std::ranges::lower_bound(children_keys_, hash, {}, &ChildrenKey::hash);
       key != children_keys_.end() && key->hash == hash; ++key) {
    found.push_back(classes_[key->in_class].name);
  }
  return found;
}

std::vector<const Skeleton*> KnownSkeletons::All() const {
  std::vector<const Skeleton*> found;
  for (const Class& one : classes_) {
    for (const KnownSkeleton& known : OfClass(one.name)) found.push_back(known.skeleton);
  }
  return found;
}

std::string PackSkeletons(std::string_view releases, const std::vector<Skeleton>& skeletons) {
  std::map<std::string_view, std::map<std::string, Skeleton>> classes;  // in order of their texts
  for (const Skeleton& skeleton : Joined(skeletons)) {
    classes[skeleton.class_name].emplace(ToText(skeleton), skeleton);
  }
  NamesToPack names;
  std::vector<uint32_t> numbers;  // of the classes' names
  std::vector<std::string> packed;
  std::set<std::pair<uint32_t, size_t>> keys;
  for (const auto& [class_name, texts] : classes) {
    std::vector<Skeleton> of_class;
    for (const auto& [text, skeleton] : texts) {
      of_class.push_back(skeleton);
      const std::string children = ChildrenOf(skeleton.steps);
      if (!children.empty()) keys.emplace(HashOf(children), packed.size());
    }
    numbers.push_back(names.NumberOf(class_name));
    packed.push_back(Deflated(PackClass(of_class, names)));
  }
  return Layout(releases, names, numbers, packed, keys);
}

const KnownSkeletons& SkeletonsOfLibraries() {
  static const KnownSkeletons known(kLibraries);
  return known;
}

}  // namespace onnxfit
