// Attention, as torch.nn.functional has it: its mask, and heads that several of the query share.
#include <string_view>
#include <utility>
#include <vector>

#include "estimator/libraries/libraries.h"
#include "estimator/pt2/call_rows.h"

namespace onnxfit::pt2 {
namespace {

// Without a mask, transformers passes grouped heads as they are (enable_gqa) instead of repeating
// keys and values.
void PassGroupedHeads(CallWriter& writer, std::vector<NameId>& operands) {
  const Dims& key = writer.DimsOf(operands[1]);
  const Dims& value = writer.DimsOf(operands[2]);
  if (key.empty() || value.empty() || !PassesGroupedHeads(key.back(), value.back())) return;
  operands[1] = writer.UnrepeatedHeads(operands[1]);
  operands[2] = writer.UnrepeatedHeads(operands[2]);
}

// Whether one head of keys is read by all of the query, as any product of matrices does: attention
// is not told to repeat it.
bool BroadcastsHeads(CallWriter& writer, const Call& call) {
  const NameId key = writer.TensorAt(call, "key");
  const Dims& query = writer.DimsOf(writer.TensorAt(call, "query"));
  const bool has_one = writer.DimsOf(key).size() == 4 && writer.DimsOf(key)[1] == 1;
  return has_one && query[1] > 1 && writer.IntAt(call, "enable_gqa", 0) == 0;
}

}  // namespace

// A mask that hides nothing, and a causal one, are none where torch.export alone makes them
// (libraries.h).  ints: whether it drops out; whether it is causal; 1 where heads are broadcast.
void WriteAttention(CallWriter& writer, const Call& call, std::string_view op) {
  const bool drops = writer.trains() && writer.RealAt(call, "dropout_p", 0) > 0 &&
                     writer.settings().dropout.value_or(1) != 0;
  std::vector<NameId> operands;
  for (const char* name : {"query", "key", "value"})
    operands.push_back(writer.TensorAt(call, name));
  bool is_causal = writer.IntAt(call, "is_causal", 0) != 0;
  const Known* mask = writer.LibraryMaskAt(call, "attn_mask");
  NameId given = writer.TensorAt(call, "attn_mask");
  is_causal = is_causal || (mask != nullptr && IsCausal(*mask));
  if (mask != nullptr && (IsCausal(*mask) || AreAllTrue(*mask))) {
    given = kNoName;
    PassGroupedHeads(writer, operands);
  }
  if (given != kNoName) operands.push_back(given);
  std::vector<int64_t> ints = {drops ? 1 : 0, is_causal ? 1 : 0};
  if (BroadcastsHeads(writer, call)) ints.push_back(1);
  writer.Emit(op, std::move(operands), {writer.Result(call)}, std::move(ints));
}

}  // namespace onnxfit::pt2
