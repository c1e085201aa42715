// What an allocator sees of a run, for tests that compare two.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "estimator/fit/verdict.h"
#include "estimator/memory/loop.h"

namespace onnxfit {

// A call of a run, by what an allocator sees of it.
struct Seen {
  int64_t bytes = 0;
  int64_t born = -1;  // of what is freed: which birth it was
  bool frees = false;
  bool may_fail = false;
  StreamId stream = kMainStream;
  int64_t twin = -1;  // which birth that is
  bool begins_step = false;

  bool operator==(const Seen&) const = default;
};

// All but those of no bytes, which are as if they were not there.
inline std::vector<Seen> SeenCalls(const PlayableRun& run) {
  std::vector<int64_t> births(run.bytes.size(), -1);
  int64_t count = 0;
  for (const Loop::Call& call : run.loop->calls) {
    const auto buffer = static_cast<size_t>(call.buffer);
    if (!call.frees && run.bytes[buffer] > 0) births[buffer] = count++;
  }
  std::vector<Seen> seen;
  bool begins = false;
  for (size_t i = 0; i < run.loop->calls.size(); ++i) {
    const Loop::Call& call = run.loop->calls[i];
    begins = begins || std::ranges::count(run.loop->steps, i) > 0;
    const auto buffer = static_cast<size_t>(call.buffer);
    if (run.bytes[buffer] == 0) continue;
    const auto twin = run.loop->repeats() ? static_cast<size_t>(run.loop->twins[buffer]) : buffer;
    seen.push_back({run.bytes[buffer], births[buffer], call.frees, call.may_fail, call.stream,
                    births[twin], begins});
    begins = false;
  }
  return seen;
}

}  // namespace onnxfit
