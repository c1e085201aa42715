#include "estimator/observed/packed_class.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include "estimator/base/error.h"
#include "estimator/base/index.h"

namespace onnxfit {
namespace {

// Layout: the number of steps, and each; the number of skeletons, and of each its runs, id and
// size; their bodies.  Numbers are of seven bits a byte, the lowest first, with the eighth set
// where more follow; those with a sign have it in the lowest bit.
enum StepParts : uint8_t {
  kChild = 1,
  kInPlace = 2,
  kIdle = 4,
  kHasClass = 8,
  kHasLeaf = 16,
  kHasId = 32,
  kHasCast = 64,
};
constexpr unsigned kBits = 7;
constexpr unsigned char kMore = 1 << kBits;

void Put(std::string& bytes, uint64_t number) {
  for (; number >= kMore; number >>= kBits) bytes += static_cast<char>(kMore | (number % kMore));
  bytes += static_cast<char>(number);
}

void PutSigned(std::string& bytes, int64_t number) {
  Put(bytes, (static_cast<uint64_t>(number < 0 ? -(number + 1) : number) << 1) | (number < 0));
}

class NumberReader {
 public:
  explicit NumberReader(std::string_view bytes) : bytes_(bytes) {}

  uint64_t Number() {
    uint64_t number = 0;
    for (unsigned shift = 0; shift < 64; shift += kBits) {
      const unsigned char byte = Byte();
      number |= (uint64_t{byte} % kMore) << shift;
      if (byte < kMore) return number;
    }
    ThrowDamagedFacts("a number");
  }
  uint32_t Word() { return Checked<uint32_t>(Number()); }
  int32_t Signed() {
    const uint64_t number = Number();
    const auto half = Checked<int32_t>(number >> 1);
    return (number & 1) == 0 ? half : -half - 1;
  }
  unsigned char Byte() {
    if (at_ == bytes_.size()) ThrowDamagedFacts("more of them");
    return static_cast<unsigned char>(bytes_[at_++]);
  }
  // How many things follow, of a byte at least.
  size_t Count() {
    const uint64_t count = Number();
    if (count > bytes_.size() - at_) ThrowDamagedFacts("as many as they say");
    return count;
  }
  size_t at() const { return at_; }

 private:
  template <typename Kind>
  static Kind Checked(uint64_t number) {
    if (!std::in_range<Kind>(number)) ThrowDamagedFacts("a smaller number");
    return static_cast<Kind>(number);
  }

  std::string_view bytes_;
  size_t at_ = 0;
};

auto PartsOf(const SkeletonStep& step) {
  return std::tie(step.key, step.is_child, step.class_name, step.leaf, step.line, step.in_place,
                  step.is_idle, step.cast_to, step.id);
}

struct StepOrder {
  bool operator()(const SkeletonStep& a, const SkeletonStep& b) const {
    return PartsOf(a) < PartsOf(b);
  }
};

void PutStep(std::string& bytes, const SkeletonStep& step, NamesToPack& names) {
  const auto part = [](bool is_there, StepParts one) { return is_there ? int{one} : 0; };
  bytes += static_cast<char>(part(step.is_child, kChild) | part(step.in_place, kInPlace) |
                             part(step.is_idle, kIdle) | part(!step.class_name.empty(), kHasClass) |
                             part(!step.leaf.empty(), kHasLeaf) | part(step.id != 0, kHasId) |
                             part(step.cast_to != 0, kHasCast));
  Put(bytes, names.NumberOf(step.key));
  if (!step.class_name.empty()) Put(bytes, names.NumberOf(step.class_name));
  if (!step.leaf.empty()) Put(bytes, names.NumberOf(step.leaf));
  if (step.id != 0) Put(bytes, step.id);
  if (step.cast_to != 0) bytes += static_cast<char>(step.cast_to);
  Put(bytes, step.line);
}

SkeletonStep ReadStep(NumberReader& reader, const PackedNames& names) {
  SkeletonStep step;
  const unsigned char parts = reader.Byte();
  step.is_child = (parts & kChild) != 0;
  step.in_place = (parts & kInPlace) != 0;
  step.is_idle = (parts & kIdle) != 0;
  step.key = names.At(reader.Number());
  if ((parts & kHasClass) != 0) step.class_name = names.At(reader.Number());
  if ((parts & kHasLeaf) != 0) step.leaf = names.At(reader.Number());
  if ((parts & kHasId) != 0) step.id = reader.Word();
  if ((parts & kHasCast) != 0) step.cast_to = reader.Byte();
  step.line = reader.Word();
  return step;
}

// Each number beside the one before it, as most follow one another.
std::string Body(const Skeleton& skeleton,
                 const std::map<SkeletonStep, int32_t, StepOrder>& numbers) {
  std::string bytes;
  Put(bytes, skeleton.steps.size());
  for (int32_t before = -1; const SkeletonStep& step : skeleton.steps) {
    PutSigned(bytes, numbers.at(step) - before - 1);
    before = numbers.at(step);
  }
  Put(bytes, skeleton.values.size());
  for (int32_t before = 0; const SkeletonValue& value : skeleton.values) {
    PutSigned(bytes, value.step - std::exchange(before, value.step));
    Put(bytes, static_cast<uint64_t>(value.result));
    PutSigned(bytes,
              value.dies_behind == SkeletonValue::kLeft ? -1 : value.dies_behind - value.step);
  }
  Put(bytes, skeleton.flows.size());
  for (int32_t before = 0; const SkeletonFlow& flow : skeleton.flows) {
    PutSigned(bytes, flow.step - std::exchange(before, flow.step));
    PutSigned(bytes, flow.other);
    PutSigned(bytes, flow.result);
  }
  return bytes;
}

// Of numbers that follow one another a step is at most this far from the one before.
constexpr int32_t kMostStep = 1 << 24;

int32_t Next(int32_t before, int32_t distance) {
  if (before > kMostStep || distance > kMostStep || distance < -kMostStep)
    ThrowDamagedFacts("steps of one forward");
  return before + distance;
}

// A value never dies in front of the step that makes it, so that -1 is free for what is left.
SkeletonValue ReadValue(NumberReader& reader, int32_t before, size_t steps) {
  SkeletonValue value;
  value.step = Next(before, reader.Signed());
  value.result = static_cast<int32_t>(reader.Word());
  const int32_t behind = reader.Signed();
  value.dies_behind = behind < 0 ? SkeletonValue::kLeft : Next(value.step, behind);
  CheckValue(value, steps);
  return value;
}

SkeletonFlow ReadFlow(NumberReader& reader, int32_t before, size_t steps) {
  SkeletonFlow flow;
  flow.step = Next(before, reader.Signed());
  flow.other = reader.Signed();
  flow.result = reader.Signed();
  CheckFlow(flow, steps);
  return flow;
}

}  // namespace

void ThrowDamagedFacts(std::string_view what) {
  throw Error({.where = "what was observed of libraries",
               .text = "expected " + std::string(what) + ", found damaged bytes"});
}

uint32_t NamesToPack::NumberOf(std::string_view name) {
  const auto [found, is_new] = numbers_.try_emplace(name, static_cast<uint32_t>(all_.size()));
  if (is_new) all_.push_back(name);
  return found->second;
}

std::string_view PackedNames::At(uint64_t number) const {
  constexpr size_t kWord = 4;
  const auto end_at = [this](size_t at) {
    uint32_t end = 0;
    for (size_t i = 0; i < kWord; ++i) end |= uint32_t{ends_[at * kWord + i]} << (8 * i);
    return end;
  };
  if (number >= ends_.size() / kWord) ThrowDamagedFacts("a name of theirs");
  const uint32_t begin = number == 0 ? 0 : end_at(number - 1);
  const uint32_t end = end_at(number);
  if (begin > end || end > text_.size()) ThrowDamagedFacts("names in order");
  return {reinterpret_cast<const char*>(text_.data()) + begin, end - begin};
}

std::string PackClass(const std::vector<Skeleton>& skeletons, NamesToPack& names) {
  std::map<SkeletonStep, int32_t, StepOrder> numbers;
  std::string steps;
  for (const Skeleton& skeleton : skeletons) {
    for (const SkeletonStep& step : skeleton.steps) {
      const auto number = static_cast<int32_t>(numbers.size());
      if (numbers.try_emplace(step, number).second) PutStep(steps, step, names);
    }
  }
  std::string heads;
  std::string bodies;
  for (const Skeleton& skeleton : skeletons) {
    const std::string body = Body(skeleton, numbers);
    heads += static_cast<char>(skeleton.runs);
    Put(heads, IdOf(skeleton));
    Put(heads, body.size());
    bodies += body;
  }
  std::string bytes;
  Put(bytes, numbers.size());
  bytes += steps;
  Put(bytes, skeletons.size());
  return bytes + heads + bodies;
}

PackedClass::PackedClass(std::string_view class_name, std::string bytes, const PackedNames& names)
    : class_name_(class_name), bytes_(std::move(bytes)) {
  NumberReader reader(bytes_);
  for (size_t left = reader.Count(); left > 0; --left) steps_.push_back(ReadStep(reader, names));
  size_t begin = 0;
  for (size_t left = reader.Count(); left > 0; --left) {
    Entry& entry = entries_.emplace_back();
    entry.runs = reader.Byte();
    entry.id = reader.Word();
    entry.begin = begin;
    entry.size = reader.Word();
    begin += entry.size;
  }
  for (Entry& entry : entries_) entry.begin += reader.at();
  if (begin != bytes_.size() - reader.at()) ThrowDamagedFacts("skeletons of these sizes");
}

Skeleton PackedClass::At(size_t skeleton) const {
  const Entry& entry = entries_[skeleton];
  NumberReader reader(std::string_view(bytes_).substr(entry.begin, entry.size));
  Skeleton made = {.class_name = class_name_, .steps = {}, .values = {}, .runs = entry.runs};
  const size_t count = reader.Count();
  made.steps.reserve(count);
  int32_t number = -1;
  for (size_t i = 0; i < count; ++i) {
    number = Next(number, reader.Signed() + 1);
    if (number < 0 || Index(number) >= steps_.size()) ThrowDamagedFacts("a step of theirs");
    made.steps.push_back(Starred(steps_[Index(number)]));
  }
  for (size_t left = reader.Count(); left > 0; --left) {
    const int32_t before = made.values.empty() ? 0 : made.values.back().step;
    made.values.push_back(ReadValue(reader, before, count));
  }
  for (size_t left = reader.Count(); left > 0; --left) {
    const int32_t before = made.flows.empty() ? 0 : made.flows.back().step;
    made.flows.push_back(ReadFlow(reader, before, count));
  }
  return made;
}

}  // namespace onnxfit
