// A rotary embedding that an export has lost, put back while nodes are lowered.
#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "estimator/base/index.h"
#include "estimator/recover/lowering.h"
#include "estimator/recover/scopes.h"

namespace onnxfit {

void Lowering::PlanLostRotary() {
  rotary_ = FindLostRotary(graph_, metadata_);
  if (!rotary_.has_value()) return;
  for (const NodeId node : rotary_->nodes) consumed_[Index(node)] = true;
  program_.notes.push_back(rotary_->module + " is put back: the export holds its results");
}

// cos * 1.0, which is put back with cos.
bool Lowering::IsOfRotary(const LostCall& lost) const {
  if (!rotary_.has_value() || lost.op != "mul.Scalar") return false;
  const auto is_input = [&](ValueId value) { return value == lost.input; };
  return std::ranges::any_of(rotary_->cos, is_input) || std::ranges::any_of(rotary_->sin, is_input);
}

void Lowering::PutRotaryBack(NodeId node) {
  if (!rotary_.has_value() || rotary_->layer != node) return;
  SetPlace(rotary_->module, rotary_->scope);
  const NameId angles = MakeRotaryAngles(MakePositionIds());
  EnterRotary({.line = 5, .targets = {"cos"}, .receiver = "emb", .callee = "emb.cos"});
  const NameId cos = MakeRotaryTable("cos", angles);
  EnterRotary({.line = 6, .targets = {"sin"}, .receiver = "emb", .callee = "emb.sin"});
  const NameId sin = MakeRotaryTable("sin", angles);
  EnterRotary({.line = 7, .returns = true, .receiver = "cos", .callee = "cos.to"});
  BindRotary(rotary_->cos, cos);
  BindRotary(rotary_->sin, sin);
}

// (torch.arange(n) + past_seen_tokens).unsqueeze(0), the caller's (transformers 5.17).
NameId Lowering::MakePositionIds() {
  const TensorType type = {DType::kInt64, {rotary_->positions}};
  scope_.pop_back();
  EnterRotaryCaller({.line = 1, .targets = {"position_ids"}, .callee = "torch.arange"});
  const NameId range = MakeStep("constant", {}, type);
  const NameId counted = MakeStep("add.Scalar", {range}, type);
  EnterRotaryCaller({.line = 2,
                     .targets = {"position_ids"},
                     .receiver = "position_ids",
                     .callee = "position_ids.unsqueeze"});
  const NameId ids = MakeStep("view", {counted}, {DType::kInt64, {1, rotary_->positions}});
  scope_ = rotary_->scope;
  return ids;
}

NameId Lowering::MakeRotaryAngles(NameId position_ids) {
  const int64_t n = rotary_->positions;
  const int64_t f = rotary_->frequencies;
  const DType dtype = DType::kFloat32;
  // inv_freq_expanded = self.inv_freq[None, :, None].expand(1, -1, 1).float()
  EnterRotary({.line = 1, .targets = {"inv_freq_expanded"}});
  const NameId stored = LostTensor(rotary_->module + ".inv_freq");
  const DType as_stored = program_.values[Index(stored)].type.dtype;
  const NameId column = MakeStep("view", {stored}, {as_stored, {1, f, 1}});
  const NameId expanded = MakeStep("expand", {column}, {as_stored, {1, f, 1}});
  const NameId inverse = MakeStep("to", {expanded}, {dtype, {1, f, 1}});
  // position_ids_expanded = position_ids[:, None, :].float()
  EnterRotary({.line = 2, .targets = {"position_ids_expanded"}});
  const NameId row = MakeStep("view", {position_ids}, {DType::kInt64, {1, 1, n}});
  const NameId positions = MakeStep("to", {row}, {dtype, {1, 1, n}});
  // freqs = (inv_freq_expanded @ position_ids_expanded).transpose(1, 2)
  EnterRotary({.line = 3, .targets = {"freqs"}});
  const NameId product = MakeStep("matmul", {inverse, positions}, {dtype, {1, f, n}});
  const NameId freqs = MakeStep("permute", {product}, {dtype, {1, n, f}}, {0, 2, 1});
  // emb = torch.cat((freqs, freqs), dim=-1)
  EnterRotary({.line = 4, .targets = {"emb"}});
  return MakeStep("cat", {freqs, freqs}, {dtype, {1, n, 2 * f}});
}

// cos or sin.
NameId Lowering::MakeRotaryTable(std::string_view function, NameId angles) {
  const TensorType type = program_.values[Index(angles)].type;
  const NameId made = MakeStep(function, {angles}, type);
  return MakeStep("mul.Scalar", {made}, type);
}

// `table` in the type of the caller's hidden states is what `values` are, or are views of.
void Lowering::BindRotary(const std::vector<ValueId>& values, NameId table) {
  const TensorType type = program_.values[Index(table)].type;
  const NameId cast = MakeStep("to", {table}, WithPrecision(type));
  for (const ValueId value : values) {
    if (TypeOf(value).dims == type.dims) {
      Bind(value, cast);
    } else {
      views_[value] = cast;
    }
  }
}

NameId Lowering::MakeStep(std::string_view op, std::vector<NameId> inputs, const TensorType& type,
                          std::vector<int64_t> ints) {
  const NameId made = NewName(place_ + "." + std::string(op), type);
  Emit(op, std::move(inputs), {made}, std::move(ints));
  return made;
}

// A line of its forward, which its caller calls in
// position_embeddings = self.rotary_emb(hidden_states, position_ids).
void Lowering::EnterRotary(SourceStatement statement) {
  EnterRotaryCaller({.line = 3,
                     .targets = {"position_embeddings"},
                     .callee = "self.rotary_emb",
                     .own_call = "rotary_emb",
                     .argument = "hidden_states",
                     .module_calls = 1});
  if (!frames_.empty()) frames_.push_back(program_.source.PutBack(std::move(statement)));
}

// A line of its caller's, which calls the layers, too.  None where the file has no lines.
void Lowering::EnterRotaryCaller(SourceStatement statement) {
  frames_ = FramesOf(At(rotary_->layer));
  const size_t callers = rotary_->scope.size() - 1;
  if (frames_.size() < callers) return frames_.clear();
  frames_.resize(callers - 1);
  frames_.push_back(program_.source.PutBack(std::move(statement)));
}

}  // namespace onnxfit
