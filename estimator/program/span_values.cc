#include "estimator/program/span_values.h"

#include <cstdint>
#include <unordered_set>

#include "estimator/base/index.h"

namespace onnxfit {
namespace {

// By name: the last call that reads it, that behind all for the model's outputs; -1 for none.
std::vector<int64_t> LastReads(const Program& program) {
  std::vector<int64_t> last(program.values.size(), -1);
  const auto end = static_cast<int64_t>(program.calls.size());
  for (int64_t i = 0; i < end; ++i) {
    for (const NameId name : program.calls[Index(i)].inputs) {
      if (name != kNoName) last[Index(name)] = i;
    }
  }
  for (const NameId name : program.outputs) {
    if (name != kNoName) last[Index(name)] = end;
  }
  return last;
}

SpanValues ValuesOf(const Program& program, const CallSpan& span,
                    const std::vector<int64_t>& last_reads, std::unordered_set<NameId> known) {
  SpanValues values;
  for (int32_t i = span.first; i <= span.last; ++i) {
    const AtenCall& call = program.calls[Index(i)];
    for (const NameId name : call.inputs) {
      if (name != kNoName && known.insert(name).second) values.given.push_back(name);
    }
    for (const NameId name : call.outputs) {
      known.insert(name);
      if (name != kNoName && last_reads[Index(name)] > span.last) values.returned.push_back(name);
    }
  }
  return values;
}

}  // namespace

std::vector<SpanValues> ValuesAcross(const Program& program, std::span<const CallSpan> spans) {
  const std::vector<int64_t> last_reads = LastReads(program);
  std::unordered_set<NameId> own(program.placement.begin(), program.placement.end());
  own.insert(program.cached_casts.begin(), program.cached_casts.end());
  std::vector<SpanValues> values;
  for (const CallSpan& span : spans) values.push_back(ValuesOf(program, span, last_reads, own));
  return values;
}

}  // namespace onnxfit
