#include "estimator/locals/nested_calls.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <set>
#include <string_view>

#include "estimator/base/index.h"
#include "estimator/program/like.h"

namespace onnxfit {
namespace {

constexpr std::string_view kWrite = "copy_slice";  // x[:, i] = y

// Whether `next` reads first what `step` makes.
bool ReadsFirst(const std::vector<AtenCall>& calls, const ForwardStep& step,
                const ForwardStep& next) {
  const std::vector<NameId>& results = calls[Index(step.last)].outputs;
  const std::vector<NameId>& read = calls[Index(next.first)].inputs;
  return !read.empty() && !results.empty() && read[0] == results[0];
}

// The first call of a child that is not a view.
std::string_view KindOf(const std::vector<AtenCall>& calls, const ForwardStep& child) {
  for (int64_t i = child.first; i < child.last; ++i) {
    const std::string_view op = calls[Index(i)].op;
    if (op != "view" && op != "permute") return RuleNameOf(op);
  }
  return RuleNameOf(calls[Index(child.last)].op);
}

class NestedCallFinder {
 public:
  // All must outlive it.
  NestedCallFinder(const std::vector<AtenCall>& calls, const std::vector<int64_t>& last_reads,
                   const std::vector<ForwardStep>& steps)
      : calls_(calls), last_reads_(last_reads), steps_(steps) {
    for (const ForwardStep& step : steps_) {
      for (const NameId value : At(step.last).outputs) makers_[value] = &step;
    }
    makers_.erase(kNoName);
  }

  // "x = F.relu(self.conv(x))": an activation of a forward's own, of what a child has just made, is
  // in the statement that calls the child, so that x is what it was until then; and so is a child
  // that reads what that makes, "x = self.conv(F.relu(self.norm(x)))", unless it is of the kind
  // that the statement begins with, "x = F.relu(self.conv1(x)); x = F.relu(self.conv2(x))".
  void Find(std::vector<KnownName>& names) const {
    std::set<NameId> made;
    size_t begin = 0;  // of the statement
    for (size_t i = 0; i + 1 < steps_.size(); ++i) {
      if (IsActivation(i + 1)) {
        const size_t first = BeginOfStatement(begin, i);
        const size_t end = EndOfFunction(i + 1);
        const bool goes_on =
            end + 1 < steps_.size() && GoesOn(steps_[first], steps_[end], steps_[end + 1]);
        const int64_t last = steps_[goes_on ? end + 1 : end].last;
        for (int64_t call = steps_[first].first; call <= steps_[first].last; ++call) {
          for (const NameId value : At(call).inputs) {
            if (made.contains(value)) names.push_back({value, last, "x"});
          }
        }
        begin = goes_on ? end + 2 : end + 1;
      }
      const std::vector<NameId>& results = At(steps_[i].last).outputs;
      made.insert(results.begin(), results.end());
    }
  }

  // "x = F.gelu(self.gate(x)) * self.up(x)": what the forward has made and two children read is x
  // until what these have made is joined.
  void FindJoined(std::vector<KnownName>& names) const {
    for (const ForwardStep& join : steps_) {
      const std::vector<NameId>& operands = At(join.first).inputs;
      if (join.is_child || operands.size() != 2) continue;
      const ForwardStep* up = MakerOf(operands[1]);
      if (up == nullptr || !up->is_child) continue;
      const ForwardStep* gate = ChildBehind(operands[0]);
      if (gate == nullptr || gate >= up) continue;
      const NameId read = ReadFirstBy(*up);
      const ForwardStep* maker = MakerOf(read);
      const bool is_own = maker != nullptr && !maker->is_child;
      if (is_own && ReadFirstBy(*gate) == read) names.push_back({read, join.last, "x"});
    }
  }

 private:
  const AtenCall& At(int64_t call) const { return calls_[Index(call)]; }

  NameId ReadFirstBy(const ForwardStep& step) const {
    const std::vector<NameId>& read = At(step.first).inputs;
    return read.empty() ? kNoName : read[0];
  }

  // The step that makes `value`; null where none does.
  const ForwardStep* MakerOf(NameId value) const {
    const auto maker = makers_.find(value);
    return maker == makers_.end() ? nullptr : maker->second;
  }

  // The child that makes `value`, or of which a few calls of the forward's own make it; null
  // without one.
  const ForwardStep* ChildBehind(NameId value) const {
    constexpr int kMostCalls = 8;
    const ForwardStep* step = MakerOf(value);
    for (int call = 0; call < kMostCalls && step != nullptr && !step->is_child; ++call) {
      const ForwardStep* before = MakerOf(ReadFirstBy(*step));
      step = before < step ? before : nullptr;
    }
    return step != nullptr && step->is_child ? step : nullptr;
  }

  // Whether step `i` begins a function of the forward's own, which reads what a child has just
  // made.
  bool IsActivation(size_t i) const {
    constexpr std::string_view kFunctions[] = {"relu", "tanh", "sigmoid", "gelu", "silu"};
    const bool is_function = std::ranges::find(kFunctions, steps_[i].key) != std::end(kFunctions) ||
                             EndOfFunction(i) > i;
    return steps_[i - 1].is_child && !steps_[i].is_child && is_function &&
           ReadsFirst(calls_, steps_[i - 1], steps_[i]);
  }

  // The last step of the function that step `i` begins: itself, but of F.normalize, which divides
  // by a norm.
  size_t EndOfFunction(size_t i) const {
    constexpr std::string_view kNormalize[] = {"linalg_vector_norm", "clamp_min", "expand", "div"};
    for (size_t k = 0; k < std::size(kNormalize); ++k) {
      if (i + k >= steps_.size() || steps_[i + k].key != kNormalize[k]) return i;
    }
    return i + std::size(kNormalize) - 1;
  }

  // Whether only the next step reads what `step` makes.
  bool IsReadOnce(const ForwardStep& step, const ForwardStep& next) const {
    if (!ReadsFirst(calls_, step, next)) return false;
    const NameId made = At(step.last).outputs[0];
    return made != kNoName && last_reads_[Index(made)] <= next.last;
  }

  // The first step of those from `begin` on that hand on to step `i` what they make, as norms are
  // in one statement with their layers: "F.relu(self.norm(self.conv(x)))".
  size_t BeginOfStatement(size_t begin, size_t i) const {
    const auto is_norm = [&](const ForwardStep& step) {
      return KindOf(calls_, step).ends_with("_norm");
    };
    while (i > begin && steps_[i - 1].is_child && is_norm(steps_[i - 1]) != is_norm(steps_[i]) &&
           IsReadOnce(steps_[i - 1], steps_[i])) {
      --i;
    }
    return i;
  }

  bool GoesOn(const ForwardStep& first, const ForwardStep& activation,
              const ForwardStep& next) const {
    return next.is_child && IsReadOnce(activation, next) &&
           KindOf(calls_, next) != KindOf(calls_, first);
  }

  const std::vector<AtenCall>& calls_;
  const std::vector<int64_t>& last_reads_;
  const std::vector<ForwardStep>& steps_;
  std::map<NameId, const ForwardStep*> makers_;
};

bool Pools(const ForwardStep& step) {
  constexpr std::string_view kPools[] = {"mean", "select", "amax", "adaptive_avg_pool2d"};
  return std::ranges::find(kPools, step.key) != std::end(kPools);
}

// The step that reads first what is pooled for the last child, by calls of the forward's own; the
// number of steps where none does.
size_t BeginOfPooling(const std::vector<AtenCall>& calls, const std::vector<ForwardStep>& steps) {
  const auto goes_on = [&](size_t i) { return i > 0 && ReadsFirst(calls, steps[i - 1], steps[i]); };
  size_t last = steps.size() - 1;
  while (!steps[last].is_child && goes_on(last)) --last;
  size_t first = last;
  while (goes_on(first) && !steps[first - 1].is_child) --first;
  const bool pools = first < last && steps[last].is_child && Pools(steps[first]);
  return pools ? first : steps.size();
}

// The norm before the last child, of which the forward's own calls make what it returns; the number
// of steps where there is none.
size_t LastNorm(const std::vector<AtenCall>& calls, const std::vector<ForwardStep>& steps) {
  size_t last = steps.size() - 1;
  while (last > 0 && !steps[last].is_child && ReadsFirst(calls, steps[last - 1], steps[last]))
    --last;
  if (last == 0) return steps.size();
  const ForwardStep& norm = steps[last - 1];
  const bool is_read = norm.is_child && steps[last].is_child;
  const bool is_norm =
      is_read && ReadsFirst(calls, norm, steps[last]) && KindOf(calls, norm).ends_with("_norm");
  return is_norm ? last - 1 : steps.size();
}

// The step that begins what the forward returns: its own calls at its end, each of which reads
// first what the one before makes.
size_t BeginOfReturned(const std::vector<AtenCall>& calls, const std::vector<ForwardStep>& steps) {
  size_t first = steps.size() - 1;
  const auto goes_on = [&](const ForwardStep& before) {
    return !before.is_child && before.key != kWrite && ReadsFirst(calls, before, steps[first]);
  };
  while (first > 0 && goes_on(steps[first - 1])) --first;
  return first;
}

// What step `returned` reads that lines have written into.
std::vector<NameId> WrittenFor(const std::vector<AtenCall>& calls,
                               const std::vector<ForwardStep>& steps, size_t returned) {
  std::vector<NameId> written;
  const std::vector<NameId>& read = calls[Index(steps[returned].first)].inputs;
  for (size_t i = 0; i < returned; ++i) {
    if (steps[i].is_child || steps[i].key != kWrite) continue;
    const NameId value = calls[Index(steps[i].last)].outputs[0];
    const bool is_read = std::ranges::find(read, value) != read.end();
    if (value != kNoName && is_read) written.push_back(value);
  }
  return written;
}

}  // namespace

void FindNestedNames(const std::vector<AtenCall>& calls, const std::vector<int64_t>& last_reads,
                     const std::vector<ForwardStep>& steps, std::vector<KnownName>& names) {
  const NestedCallFinder finder(calls, last_reads, steps);
  finder.Find(names);
  finder.FindJoined(names);
}

void FindLastLine(const std::vector<AtenCall>& calls, const ForwardRun& forward,
                  const std::vector<ForwardStep>& steps, size_t known,
                  std::vector<KnownName>& names) {
  if (forward.level > 0 || steps.empty()) return;
  for (const NameId value : WrittenFor(calls, steps, BeginOfReturned(calls, steps))) {
    names.push_back({value, forward.last, "x"});
  }
  const size_t begin = std::min(BeginOfPooling(calls, steps), LastNorm(calls, steps));
  if (begin == steps.size()) return;
  const NameId value = calls[Index(steps[begin].first)].inputs[0];
  if (value != kNoName && !HoldsSince(names, known, value))
    names.push_back({value, forward.last, "x"});
}

}  // namespace onnxfit
