#include <algorithm>
#include <set>
#include <string>
#include <string_view>

#include "estimator/base/index.h"
#include "estimator/program/modules.h"
#include "estimator/writer/fast_paths.h"

namespace onnxfit {
namespace {

// The calls that a module call makes.
class CallsOfModule {
 public:
  CallsOfModule(const Program& program, int64_t first, int64_t last, size_t level)
      : program_(program), first_(first), last_(last) {
    const ModuleTree& modules = program.modules;
    const std::string& path = modules.PathOf(modules.AtLevel(At(first).module, level));
    path_ = path.substr(0, path.find('@'));
  }

  const AtenCall& At(int64_t i) const { return program_.calls[Index(i)]; }

  // The one call of `op` whose second operand is the parameter `name` of this module; null
  // without a bias behind it.
  const AtenCall* ReaderOf(std::string_view op, const char* name) const {
    const std::string parameter = path_ + name;
    const AtenCall* found = nullptr;
    for (int64_t i = first_; i <= last_; ++i) {
      const AtenCall& call = At(i);
      if (call.op != op || call.inputs.size() < 3 || call.inputs[2] == kNoName) continue;
      if (call.inputs[1] == kNoName || NameOf(call.inputs[1]) != parameter) continue;
      if (found != nullptr) return nullptr;
      found = &call;
    }
    return found;
  }

  const AtenCall* MakerOf(NameId name) const {
    for (int64_t i = first_; i <= last_; ++i) {
      if (std::ranges::find(At(i).outputs, name) != At(i).outputs.end()) return &At(i);
    }
    return nullptr;
  }

  // The one call of an operator that `is_wanted`; null without one, or with several.
  template <typename Predicate>
  const AtenCall* Only(Predicate is_wanted) const {
    const AtenCall* found = nullptr;
    for (int64_t i = first_; i <= last_; ++i) {
      if (!is_wanted(At(i))) continue;
      if (found != nullptr) return nullptr;
      found = &At(i);
    }
    return found;
  }

  // What it makes and others read, in order.
  std::vector<NameId> Results() const {
    std::set<NameId> made;
    for (int64_t i = first_; i <= last_; ++i) {
      for (const NameId name : At(i).outputs) made.insert(name);
    }
    std::set<NameId> read;
    const auto note = [&](NameId name) {
      if (made.contains(name)) read.insert(name);
    };
    for (size_t i = Index(last_) + 1; i < program_.calls.size(); ++i) {
      std::ranges::for_each(program_.calls[i].inputs, note);
    }
    std::ranges::for_each(program_.outputs, note);
    read.erase(kNoName);
    return {read.begin(), read.end()};
  }

  const Dims& DimsOf(NameId name) const {
    static const Dims kNone;
    return name == kNoName ? kNone : program_.values[Index(name)].type.dims;
  }
  std::string_view NameOf(NameId name) const { return program_.values[Index(name)].name; }

 private:
  const Program& program_;
  int64_t first_;
  int64_t last_;
  std::string path_;
};

bool SwapsBatch(const AtenCall* call) {
  return call != nullptr && call->op == "permute" && call->ints == std::vector<int64_t>{1, 0, 2};
}

// Behind views of a cast, a mask or a copy.
bool IsSoftmax(const AtenCall& call) { return call.op == "softmax" || call.op == "_safe_softmax"; }

// Fills what follows from the call in the middle; false where that is none of the module's.
bool ReadCore(const CallsOfModule& calls, SelfAttention& attention) {
  constexpr size_t kMask = 3;
  const int64_t batch = calls.DimsOf(attention.input)[0];
  if (const AtenCall* fused =
          calls.Only([](const AtenCall& c) { return c.op == "scaled_dot_product_attention"; })) {
    const Dims& q = calls.DimsOf(fused->inputs[0]);
    if (q.size() != 4 || q[0] != batch) return false;
    attention.heads = q[1];
    const NameId mask = fused->inputs.size() > kMask ? fused->inputs[kMask] : kNoName;
    attention.has_mask = mask != kNoName || (fused->ints.size() > 1 && fused->ints[1] != 0);
    attention.has_padding_mask =
        mask != kNoName && calls.DimsOf(mask).size() == 4 && calls.DimsOf(mask)[0] != 1;
    attention.has_row_mask = attention.has_padding_mask && calls.DimsOf(mask)[2] == 1;
    return true;
  }
  const AtenCall* softmax = calls.Only(IsSoftmax);
  if (softmax == nullptr || batch == 0) return false;
  const Dims& scores = calls.DimsOf(softmax->outputs[0]);
  if (scores.size() != 3 || scores[0] % batch != 0) return false;
  attention.heads = scores[0] / batch;
  attention.needs_weights = true;
  attention.has_mask = calls.Only([](const AtenCall& c) { return c.op == "baddbmm"; }) != nullptr;
  return true;
}

bool IsActivation(const AtenCall& call) { return call.op == "relu" || call.op == "gelu"; }

}  // namespace

std::optional<SelfAttention> FindSelfAttention(const Program& program, const ModuleRuns& runs,
                                               int64_t first, size_t level) {
  SelfAttention found = {.first = first, .last = runs.EndOf(first, level), .level = level};
  const CallsOfModule calls(program, found.first, found.last, level);
  found.in_projection = calls.ReaderOf("linear", ".in_proj_weight");
  found.out_projection = calls.ReaderOf("linear", ".out_proj.weight");
  if (found.in_projection == nullptr || found.out_projection == nullptr) return std::nullopt;
  const AtenCall* swap = calls.MakerOf(found.in_projection->inputs[0]);
  const std::vector<NameId> results = calls.Results();
  if (!SwapsBatch(swap) || results.empty() || results.size() > 2) return std::nullopt;
  found.input = swap->inputs[0];
  const auto result =
      std::ranges::find_if(results, [&](NameId name) { return SwapsBatch(calls.MakerOf(name)); });
  if (result == results.end()) return std::nullopt;
  found.result = *result;
  if (calls.DimsOf(found.result) != calls.DimsOf(found.input)) return std::nullopt;
  if (!ReadCore(calls, found) || found.heads % 2 != 0) return std::nullopt;
  if (results.size() == 2 && !found.needs_weights) return std::nullopt;
  return found;
}

std::optional<EncoderLayer> FindEncoderLayer(const Program& program, const ModuleRuns& runs,
                                             int64_t first, size_t level) {
  EncoderLayer found = {.first = first, .last = runs.EndOf(first, level), .level = level};
  const CallsOfModule calls(program, found.first, found.last, level);
  found.norm1 = calls.ReaderOf("layer_norm", ".norm1.weight");
  found.norm2 = calls.ReaderOf("layer_norm", ".norm2.weight");
  found.linear1 = calls.ReaderOf("linear", ".linear1.weight");
  found.linear2 = calls.ReaderOf("linear", ".linear2.weight");
  if (!found.norm1 || !found.norm2 || !found.linear1 || !found.linear2) return std::nullopt;
  const AtenCall* activation = calls.MakerOf(found.linear2->inputs[0]);
  if (activation == nullptr || !IsActivation(*activation)) return std::nullopt;
  if (activation->inputs[0] != found.linear1->outputs[0]) return std::nullopt;
  std::optional<SelfAttention> attention;
  int64_t adds = 0;
  int64_t others = 0;
  for (int64_t i = found.first; i <= found.last; ++i) {
    const bool is_child = runs.DepthAt(i) > level + 1;
    const ModuleId module = calls.At(i).module;
    if (!attention && is_child &&
        ChildOf(program.modules.NameAt(module, level + 1)) == "self_attn") {
      attention = FindSelfAttention(program, runs, i, level + 1);
      if (!attention) return std::nullopt;
      i = attention->last;
      continue;
    }
    ++(calls.At(i).op == "add" ? adds : others);
  }
  const std::vector<NameId> results = calls.Results();
  constexpr int64_t kParts = 5;  // two norms, two linears and what is between them
  if (!attention || adds != 2 || others != kParts || results.size() != 1) return std::nullopt;
  found.attention = *attention;
  found.result = results[0];
  found.norm_first = found.norm1->outputs[0] == attention->input;
  found.input = found.norm_first ? found.norm1->inputs[0] : attention->input;
  if (!found.norm_first && found.result != found.norm2->outputs[0]) return std::nullopt;
  return found;
}

}  // namespace onnxfit
