#include "estimator/program/helper_locals.h"

#include <algorithm>
#include <string>
#include <string_view>

#include "estimator/base/index.h"
#include "estimator/program/like.h"

namespace onnxfit {
namespace {

// What a helper of transformers 5.17, or of torch.nn where a row says so, binds to names: a method,
// and a call that makes it or reads it.
struct Local {
  std::string_view helper;
  std::string_view op;
  bool is_result = true;
  bool are_operands = false;
  std::string_view before = {};  // that call: by then an inner helper has returned, which names it
};

constexpr Local kLocals[] = {
    // modeling_roberta.py, modeling_mpnet.py: the positions without padding's, the mask.
    {"create_position_ids_from_input_ids", "mul"},
    {"create_position_ids_from_input_ids", "cumsum", false, true},
    // modeling_deberta_v2.py: pos_key_layer, c2p_pos, c2p_att, and the same of p2c.
    {"disentangled_attention_bias", "repeat"},
    {"disentangled_attention_bias", "hardtanh"},
    {"disentangled_attention_bias", "clamp"},
    {"disentangled_attention_bias", "gather"},
    // modeling_t5.py: relative_position = memory_position - context_position; is_small,
    // relative_position and relative_position_if_large in _relative_position_bucket.
    {"compute_bias", "sub", true, true},
    {"compute_bias", "where", false, true, "embedding"},
    // integrations/sdpa_attention.py: the mask of create_position_bias_mask.
    {"attention_interface", "where"},
    // torch/nn/functional.py, 2.11: q, k and v, and where weights are asked for, q_scaled.
    {"multi_head_attention_forward", "scaled_dot_product_attention", false, true},
    {"multi_head_attention_forward", "baddbmm", false, true},
    {"multi_head_attention_forward", "bmm", false, true},
};

bool Calls(const Program& program, const Statement& statement, std::string_view helper) {
  return statement.source != kNoStatement && program.source.At(statement.source).Mentions(helper);
}

// How many calls of the statement read `name`; of operator `op` alone, if it is given.
int64_t ReadsOf(const std::vector<AtenCall>& calls, const Statement& statement, NameId name,
                std::string_view op = {}) {
  int64_t reads = 0;
  for (int64_t i = statement.first; i <= statement.last; ++i) {
    const AtenCall& call = calls[Index(i)];
    const bool counts = op.empty() || call.op == op;
    if (counts && std::ranges::find(call.inputs, name) != call.inputs.end()) ++reads;
  }
  return reads;
}

bool Names(const Local& local, const Program& program, const Statement& statement, int64_t maker,
           NameId name) {
  if (!Calls(program, statement, local.helper)) return false;
  return (local.is_result && local.op == RuleNameOf(program.calls[Index(maker)].op)) ||
         (local.are_operands && ReadsOf(program.calls, statement, name, local.op) > 0);
}

// The last call of the helper that binds `local`.
int64_t EndOf(const Local& local, const std::vector<AtenCall>& calls, const Statement& statement,
              int64_t maker) {
  for (int64_t i = maker + 1; i <= statement.last && !local.before.empty(); ++i) {
    if (calls[Index(i)].op == local.before) return i - 1;
  }
  return statement.last;
}

// The last call of the step that begins with call `i`: it, or the module that the method calls.
int64_t StepEnd(const ModuleRuns& runs, const Statement& statement, int64_t i) {
  return runs.DepthAt(i) > statement.level ? runs.EndOf(i, statement.level) : i;
}

// Whether more than one step of the method reads `name`, a result of its step that ends with
// call `maker`.
bool IsReadAgain(const std::vector<AtenCall>& calls, const ModuleRuns& runs,
                 const Statement& statement, int64_t maker, NameId name) {
  if (StepEnd(runs, statement, maker) != maker) return false;
  int64_t readers = 0;
  for (int64_t i = maker + 1; i <= statement.last && readers < 2;) {
    const int64_t last = StepEnd(runs, statement, i);
    const auto reads = [&](const AtenCall& call) {
      return std::ranges::find(call.inputs, name) != call.inputs.end();
    };
    if (std::any_of(calls.begin() + i, calls.begin() + last + 1, reads)) ++readers;
    i = last + 1;
  }
  return readers > 1;
}

// Methods of transformers 5.17 whose objects hold what they were given last: DynamicLayer.update of
// cache_utils.py.
constexpr std::string_view kReplacing[] = {"past_key_values.update(", "cache.update("};

}  // namespace

bool ReplacesOperand(const Program& program, const AtenCall& call) {
  const bool is_known = !call.frames.empty() && call.frames.back() != kNoStatement;
  if (call.op != "cat" || !is_known) return false;
  const SourceStatement& line = program.source.At(call.frames.back());
  return std::ranges::any_of(kReplacing,
                             [&](std::string_view method) { return line.Mentions(method); });
}

int64_t HeldInHelper(const Program& program, const ModuleRuns& runs, const Statement& statement,
                     int64_t maker, NameId name) {
  for (const Local& local : kLocals) {
    if (!Names(local, program, statement, maker, name)) continue;
    return EndOf(local, program.calls, statement, maker);
  }
  const bool is_local =
      statement.in_helper && IsReadAgain(program.calls, runs, statement, maker, name);
  return is_local ? statement.last : maker;
}

}  // namespace onnxfit
