#include "estimator/memory/loop.h"

#include <algorithm>
#include <numeric>

#include "estimator/base/bytes.h"
#include "estimator/base/index.h"

namespace onnxfit {
namespace {

using Calls = std::span<const Loop::Call>;

constexpr BufferId kNobody = -1;
constexpr int64_t kBlockStep = 512;  // kMinBlockSize of PyTorch's allocator

// What a step allocates, in order, and what of that it leaves to the next one.
struct Step {
  Calls calls;
  std::vector<BufferId> born;
  std::vector<BufferId> left;
};

// Fills `place`: for each buffer born here, its index into `born`.
Step ReadStep(Calls calls, std::vector<int64_t>& place) {
  Step step;
  step.calls = calls;
  std::vector<bool> freed;
  for (const Loop::Call& call : calls) {
    if (!call.frees) {
      place[Index(call.buffer)] = static_cast<int64_t>(step.born.size());
      step.born.push_back(call.buffer);
      freed.push_back(false);
    } else if (place[Index(call.buffer)] >= 0) {
      const auto at = static_cast<size_t>(place[Index(call.buffer)]);
      if (at < step.born.size() && step.born[at] == call.buffer) freed[at] = true;
    }
  }
  for (size_t i = 0; i < step.born.size(); ++i) {
    if (!freed[i]) step.left.push_back(step.born[i]);
  }
  return step;
}

bool AskAlike(const Trace& trace, const Step& a, const Step& b) {
  return std::equal(a.born.begin(), a.born.end(), b.born.begin(), b.born.end(),
                    [&](BufferId x, BufferId y) {
                      return trace.buffers[Index(x)].bytes == trace.buffers[Index(y)].bytes;
                    });
}

// Whether the calls of `later` are those of `earlier`, twin for twin: births by their order,
// frees of what is born in the step itself.
bool RunAlike(const Step& earlier, const Step& later, const std::vector<BufferId>& twins) {
  if (earlier.calls.size() != later.calls.size()) return false;
  for (size_t i = 0; i < later.calls.size(); ++i) {
    const Loop::Call& a = earlier.calls[i];
    const Loop::Call& b = later.calls[i];
    if (a.frees != b.frees) return false;
    const bool is_own = std::binary_search(later.born.begin(), later.born.end(), b.buffer);
    if (is_own && twins[Index(b.buffer)] != a.buffer) return false;
  }
  return true;
}

// Whether `later` frees exactly what `earlier` left, and leaves its twins.
bool TakesOver(const Step& earlier, const Step& later, const std::vector<BufferId>& twins) {
  std::vector<BufferId> taken;
  for (const Loop::Call& call : later.calls) {
    const bool is_own = std::binary_search(later.born.begin(), later.born.end(), call.buffer);
    if (call.frees && !is_own) taken.push_back(call.buffer);
  }
  std::sort(taken.begin(), taken.end());
  return taken == earlier.left &&
         std::equal(earlier.left.begin(), earlier.left.end(), later.left.begin(), later.left.end(),
                    [&](BufferId a, BufferId b) { return twins[Index(b)] == a; });
}

// Born in order, so that their ids are sorted.
bool IsSorted(const Step& step) { return std::is_sorted(step.born.begin(), step.born.end()); }

std::vector<BufferId> FindTwins(const Trace& trace, const Loop& loop) {
  if (loop.traced_steps() < 3) return {};
  const size_t last = loop.steps.size() - 1;
  std::vector<int64_t> place(trace.buffers.size(), kNobody);
  const Step before = ReadStep(loop.CallsOf(last - 1), place);
  const Step later = ReadStep(loop.CallsOf(last), place);
  if (!IsSorted(before) || !IsSorted(later)) return {};
  if (!AskAlike(trace, before, later)) return {};
  std::vector<BufferId> twins(trace.buffers.size());
  std::iota(twins.begin(), twins.end(), 0);
  for (size_t i = 0; i < later.born.size(); ++i) {
    twins[Index(later.born[i])] = before.born[i];
    twins[Index(before.born[i])] = later.born[i];
  }
  if (!RunAlike(before, later, twins) || !TakesOver(before, later, twins)) return {};
  return twins;
}

// Before the call that comes next.
void EmptyCache(Loop& loop) {
  const auto at = static_cast<int64_t>(loop.calls.size());
  std::vector<int64_t>& emptied = loop.cache_emptied_at;
  if (emptied.empty() || emptied.back() != at) emptied.push_back(at);
}

}  // namespace

std::span<const Loop::Call> Loop::CallsOf(size_t step) const {
  const size_t end = step + 1 < steps.size() ? steps[step + 1] : calls.size();
  return std::span(calls).subspan(steps[step], end - steps[step]);
}

Loop ReadLoop(const Trace& trace) {
  Loop loop;
  loop.steps = {0};
  for (size_t i = 0; i < trace.events.size(); ++i) {
    const Event& event = trace.events[i];
    if (event.type == Event::Type::kPhase && event.id == static_cast<int32_t>(loop.steps.size())) {
      loop.steps.push_back(loop.calls.size());
    }
    if (trace.EmptiesCacheAt(i)) EmptyCache(loop);
    const bool frees = event.type == Event::Type::kFree;
    if (!frees && event.type != Event::Type::kAlloc) continue;
    if (trace.buffers[Index(event.id)].is_trial) continue;
    loop.calls.push_back({.buffer = event.id,
                          .frees = frees,
                          .stream = trace.buffers[Index(event.id)].stream,
                          .event = static_cast<int32_t>(i),
                          .may_fail = trace.buffers[Index(event.id)].may_fail});
  }
  loop.twins = FindTwins(trace, loop);
  return loop;
}

int64_t PeakBlockBytes(const Loop& loop, std::span<const int64_t> bytes) {
  int64_t held = 0;
  int64_t peak = 0;
  for (const Loop::Call& call : loop.calls) {
    if (call.may_fail) continue;
    const int64_t block = RoundUp(bytes[Index(call.buffer)], kBlockStep);
    held = call.frees ? held - block : CheckedAdd(held, block);
    peak = std::max(peak, held);
  }
  return peak;
}

std::vector<int64_t> BytesOf(const Trace& trace) {
  std::vector<int64_t> bytes;
  bytes.reserve(trace.buffers.size());
  for (const Buffer& buffer : trace.buffers) bytes.push_back(buffer.bytes);
  return bytes;
}

}  // namespace onnxfit
