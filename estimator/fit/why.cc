#include "estimator/fit/why.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <utility>

#include "estimator/base/index.h"
#include "estimator/fit/predict.h"
#include "estimator/fit/tensor_names.h"
#include "estimator/memory/lives.h"
#include "estimator/program/modules.h"

namespace onnxfit {
namespace {

using By = HeldBy::By;

// Who holds what no name and no call holds.
constexpr std::pair<Kind, By> kHoldersOfKinds[] = {
    {Kind::kBuffer, By::kLoop},
    {Kind::kOptimizerState, By::kOptimizer},
    {Kind::kInput, By::kLoop},
    {Kind::kWorkspace, By::kLibrary},
};

std::string SlotText(Slots slot) {
  for (int i = 0; i < kMaxInputSlots; ++i) {
    if (slot == In(i)) return fmt::format("input {}", i);
  }
  for (int i = 0; i < kMaxOutputSlots; ++i) {
    if (slot == Out(i)) return i == 0 ? "its result" : fmt::format("its result {}", i);
  }
  return slot.empty() ? "an input" : "a result that only backward reads";
}

// What the stories of one run are read from.
class Stories {
 public:
  explicit Stories(const Prediction& prediction)
      : prediction_(prediction),
        program_(prediction.program),
        trace_(prediction.trace),
        lives_(ReadLives(prediction.trace, prediction.alloc_conf)),
        maker_(program_.values.size(), -1),
        dies_at_(program_.values.size(), -1),
        holders_of_(trace_.buffers.size()) {
    for (const Holder& holder : prediction.holders) {
      holders_of_[Index(holder.buffer)].push_back(&holder);
    }
    for (size_t i = 0; i < program_.calls.size(); ++i) {
      for (const NameId name : program_.calls[i].outputs) {
        if (name != kNoName) maker_[Index(name)] = static_cast<int32_t>(i);
      }
      for (const NameId name : program_.calls[i].dies) {
        dies_at_[Index(name)] = static_cast<int32_t>(i);
      }
    }
  }

  int64_t allocated_at_peak() const { return lives_.peak_allocated_bytes; }

  std::vector<TensorStory> Of(const NamedTensor& tensor) const {
    std::vector<TensorStory> stories;
    for (const BufferId buffer : ChosenOf(tensor)) stories.push_back(Story(tensor, buffer));
    std::stable_partition(stories.begin(), stories.end(),
                          [](const TensorStory& story) { return story.at_peak; });
    return stories;
  }

 private:
  const Life& LifeOf(BufferId buffer) const { return lives_.of_buffer[Index(buffer)]; }
  const Moment& At(int64_t event) const { return lives_.of_event[Index(event)]; }
  int32_t BirthStep(BufferId buffer) const { return At(LifeOf(buffer).born).step; }

  bool IsAtPeak(BufferId buffer) const {
    const Life& life = LifeOf(buffer);
    return life.born <= lives_.peak && (life.dies == kNever || life.dies > lives_.peak);
  }

  Instant InstantOf(int64_t event) const {
    const Moment& moment = At(event);
    return {moment.step, moment.phase, moment.at < 0 ? "" : trace_.labels[Index(moment.at)]};
  }

  bool IsNameOf(const NamedTensor& tensor, NameId name) const {
    return std::ranges::find(tensor.names, name) != tensor.names.end();
  }

  // Of all its lives those that a story is told of.
  std::vector<BufferId> ChosenOf(const NamedTensor& tensor) const {
    std::set<BufferId> all(tensor.buffers.begin(), tensor.buffers.end());
    for (const Holder& holder : prediction_.holders) {
      const bool is_name = holder.type == Holder::Type::kName;
      if (is_name && IsNameOf(tensor, holder.id)) all.insert(holder.buffer);
    }
    int32_t last = 0;
    for (const BufferId buffer : all) last = std::max(last, BirthStep(buffer));
    const int32_t peak = At(lives_.peak).step;
    const auto is_told = [&](BufferId b) { return IsAtPeak(b) || BirthStep(b) == peak; };
    const bool any = std::ranges::any_of(all, is_told);
    std::vector<BufferId> chosen;
    for (const BufferId buffer : all) {
      if (any ? is_told(buffer) : BirthStep(buffer) == last) chosen.push_back(buffer);
    }
    return chosen;
  }

  TensorStory Story(const NamedTensor& tensor, BufferId id) const {
    const Buffer& buffer = trace_.buffers[Index(id)];
    const Life& life = LifeOf(id);
    TensorStory story = {.name = tensor.name,
                         .type = {buffer.dtype, buffer.dims},
                         .kind = KindOf(id),
                         .bytes = buffer.bytes,
                         .block_bytes = life.block_bytes,
                         .born = InstantOf(life.born),
                         .at_peak = IsAtPeak(id),
                         .operators_from_peak = FromPeak(id)};
    if (life.dies != kNever) story.dies = InstantOf(life.dies);
    TellShares(tensor, id, story);
    story.held_by = HoldersOf(id, story);
    return story;
  }

  Kind KindOf(BufferId buffer) const {
    if (!IsAtPeak(buffer)) return LifeOf(buffer).kind;
    Kind kind = Kind::kTemporary;
    for (int64_t i = LifeOf(buffer).born; i <= lives_.peak; ++i) {
      const Event& event = trace_.events[Index(i)];
      const bool holds = event.type == Event::Type::kAlloc || event.type == Event::Type::kKind;
      if (holds && event.id == buffer) kind = event.kind;
    }
    return kind;
  }

  int64_t FromPeak(BufferId buffer) const {
    if (IsAtPeak(buffer)) return 0;
    const Life& life = LifeOf(buffer);
    const int64_t nearest = life.born > lives_.peak ? life.born : life.dies;
    return At(nearest).operators - At(lives_.peak).operators;
  }

  // --- Whose storage it is ---

  // The first name of a storage; null where it never had one.
  const Holder* FirstName(BufferId buffer) const {
    const auto found =
        std::ranges::find(holders_of_[Index(buffer)], Holder::Type::kName, &Holder::type);
    return found == holders_of_[Index(buffer)].end() ? nullptr : *found;
  }

  // The first of its names that is `tensor`'s; null where there is none.
  const Holder* OwnName(const NamedTensor& tensor, BufferId buffer) const {
    for (const Holder* holder : holders_of_[Index(buffer)]) {
      if (holder->type == Holder::Type::kName && IsNameOf(tensor, holder->id)) return holder;
    }
    return nullptr;
  }

  void TellShares(const NamedTensor& tensor, BufferId buffer, TensorStory& story) const {
    const Holder* first = FirstName(buffer);
    const std::string& label = trace_.labels[Index(trace_.buffers[Index(buffer)].label)];
    if (first == nullptr && !tensor.names.empty()) return TellCopy(tensor, story);
    if (first == nullptr || label == tensor.name) return;
    if (IsNameOf(tensor, first->id)) {
      const std::string& name = program_.values[Index(first->id)].name;
      if (name == tensor.name) return;
      story.shares = Shares::kIdentity;
      story.storage = name;
      return;
    }
    const Holder* own = OwnName(tensor, buffer);
    if (own == nullptr) return;
    story.shares = own->is_view ? Shares::kView : Shares::kInPlace;
    story.storage = label;
    story.type.dims = program_.values[Index(own->id)].type.dims;
    if (const AtenCall* call = MakerOf(own->id); call != nullptr) {
      story.op = call->op;
      story.node = call->where;
    }
  }

  // A tensor under a name's label that the name never held.
  static void TellCopy(const NamedTensor& tensor, TensorStory& story) {
    story.shares = Shares::kCopy;
    story.storage = tensor.name;
    story.node = story.born.node;
  }

  const AtenCall* MakerOf(NameId name) const {
    const int32_t call = maker_[Index(name)];
    return call < 0 ? nullptr : &program_.calls[Index(call)];
  }

  // --- Who holds it ---

  // Those of the step that the story is about.
  std::vector<HeldBy> HoldersOf(BufferId buffer, const TensorStory& story) const {
    const int32_t step = story.at_peak ? At(lives_.peak).step : BirthStep(buffer);
    std::vector<std::pair<int64_t, HeldBy>> rows;  // by when they let go
    const Holder* first = FirstName(buffer);
    for (const Holder* holder : holders_of_[Index(buffer)]) {
      const bool stays = holder->until == Holder::kForGood;
      if (!stays && (StepBefore(holder->from) > step || StepBefore(holder->until) < step)) continue;
      rows.emplace_back(stays ? kEnd : holder->until, Row(*holder, first));
    }
    AddUnnamedHolder(buffer, story, rows);
    std::ranges::stable_sort(rows, {}, &std::pair<int64_t, HeldBy>::first);
    std::vector<HeldBy> held;
    for (auto& [until, row] : rows) held.push_back(std::move(row));
    return held;
  }

  int32_t StepBefore(int64_t event) const { return event == 0 ? 0 : At(event - 1).step; }

  HeldBy Row(const Holder& holder, const Holder* first) const {
    HeldBy row;
    // What comes next may be of another operator: it was let go of before.
    if (holder.until != Holder::kForGood) row.until = InstantOf(holder.until - 1);
    switch (holder.type) {
      case Holder::Type::kName:
        TellName(holder, *first, row);
        break;
      case Holder::Type::kSaved:
        row.by = By::kSaved;
        row.as = SlotText(holder.slot);
        row.op = program_.calls[Index(holder.id)].op;
        row.node = program_.calls[Index(holder.id)].where;
        break;
      case Holder::Type::kGradient:
        row.by = By::kGradient;
        row.name = program_.values[Index(holder.id)].name + std::string(kGradSuffix);
        break;
      case Holder::Type::kCache:
        row.by = By::kCache;
        break;
    }
    return row;
  }

  void TellName(const Holder& holder, const Holder& first, HeldBy& row) const {
    row.name = program_.values[Index(holder.id)].name;
    const Kind kind = LifeOf(holder.buffer).kind;
    const bool is_module = kind == Kind::kParameter || kind == Kind::kBuffer;
    const By other = is_module ? By::kModule : By::kName;
    row.by = holder.is_view ? By::kView : holder.id != first.id ? By::kInPlace : other;
    row.as = KeeperText(holder.id);
    const AtenCall* call = MakerOf(holder.id);
    if (call == nullptr) return;
    row.op = call->op;
    row.node = call->where;
  }

  std::string KeeperText(NameId name) const {
    if (Index(name) >= program_.keepers.size() || dies_at_[Index(name)] < 0) return "";
    const NameKeeper& keeper = program_.keepers[Index(name)];
    const ModuleId module = program_.calls[Index(dies_at_[Index(name)])].module;
    switch (keeper.by) {
      case NameKeeper::By::kCall:
        return "";
      case NameKeeper::By::kArgument:
        return "argument of " + ModuleText(program_.modules.AtLevel(module, keeper.level));
      case NameKeeper::By::kObserved:
        return "a name of Python's";
      case NameKeeper::By::kStatement:
        return "Python's '" + keeper.target + "'";
      case NameKeeper::By::kOutput:
        return "the model's output";
    }
    return "";
  }

  std::string ModuleText(ModuleId module) const {
    const std::string& path = program_.modules.PathOf(module);
    return path.empty() ? "the model" : path;
  }

  // Where nobody of `rows` let go last: the one who did, by the kind and the phase.
  void AddUnnamedHolder(BufferId buffer, const TensorStory& story,
                        std::vector<std::pair<int64_t, HeldBy>>& rows) const {
    const Life& life = LifeOf(buffer);
    const bool is_told = std::ranges::any_of(rows, [&](const auto& row) {
      if (row.first == kEnd || life.dies == kNever) return row.first == kEnd;
      return At(row.first - 1) == At(life.dies);
    });
    if (is_told) return;
    HeldBy row = {.by = ByKind(life, story), .until = story.dies};
    rows.emplace_back(life.dies == kNever ? kEnd : life.dies, row);
  }

  By ByKind(const Life& life, const TensorStory& story) const {
    for (const auto& [kind, by] : kHoldersOfKinds) {
      if (life.kind == kind) return by;
    }
    if (!story.dies) return By::kLoop;
    if (At(life.born).operators == At(life.dies).operators) return By::kOperator;
    return story.dies->phase == Phase::kBackward ? By::kEngine : By::kLoop;
  }

  static constexpr int64_t kEnd = INT64_MAX;

  const Prediction& prediction_;
  const Program& program_;
  const Trace& trace_;
  const Lives lives_;
  std::vector<int32_t> maker_;    // by NameId: the call that makes it, -1 where none does
  std::vector<int32_t> dies_at_;  // by NameId: the call after which it is dropped
  std::vector<std::vector<const Holder*>> holders_of_;  // by BufferId, in their order
};

}  // namespace

std::string_view ToString(HeldBy::By by) {
  constexpr std::string_view kNames[] = {"name",     "view",    "in_place", "saved",
                                         "gradient", "cache",   "module",   "optimizer",
                                         "loop",     "library", "engine",   "operator"};
  return kNames[static_cast<size_t>(by)];
}

std::string_view ToString(Shares shares) {
  constexpr std::string_view kNames[] = {"nothing", "view", "in_place", "identity", "copy"};
  return kNames[static_cast<size_t>(shares)];
}

WhyAnswer ExplainTensor(const Prediction& prediction, std::string_view asked) {
  const Stories stories(prediction);
  WhyAnswer answer = {.asked = std::string(asked),
                      .allocated_at_peak = stories.allocated_at_peak()};
  for (const NamedTensor& tensor : FindTensors(prediction, asked)) {
    const std::vector<TensorStory> found = stories.Of(tensor);
    if (found.empty()) answer.absent = WhyAbsent(prediction, tensor);
    answer.tensors.insert(answer.tensors.end(), found.begin(), found.end());
  }
  if (!answer.tensors.empty()) answer.absent.clear();
  return answer;
}

}  // namespace onnxfit
