// Tensors that the file holds as numbers and PyTorch makes on the device.
#include <algorithm>
#include <string>
#include <vector>

#include "estimator/base/index.h"
#include "estimator/recover/lowering.h"
#include "estimator/recover/scopes.h"

namespace onnxfit {

// A range of integers, named for the call that made it last.
bool Lowering::IsFolded(ValueId value, std::string_view call) const {
  const Value& stored = graph_.values[Index(value)];
  const KnownTensor* known = Known(value);
  if (stored.initializer < 0 || known == nullptr || !stored.name.starts_with(call)) return false;
  if (known->elements().empty() || TypeOf(value).dims.empty()) return false;
  int64_t next = known->elements()[0];
  return std::ranges::all_of(known->elements(), [&](int64_t at) { return at == next++; });
}

NameId Lowering::MakeConstant(ValueId value) {
  if (IsFolded(value, "add_")) return CountPositions(value);
  if (table_rows_.has_value() && table_rows_->first == value) {
    return EmbedPositions(value, table_rows_->second);
  }
  const std::vector<std::string> scope = scope_;
  const NameId made = NewResult(value);
  if (IsFolded(value, "unsqueeze")) {
    // (torch.arange(n) + past).unsqueeze(0), as transformers' decoders count (5.17)
    EnterCaller();
    const NameId range = NewName(program_.values[Index(made)].name + ".arange", TypeOf(value));
    Emit("constant", {}, {range});
    Emit("add.Scalar", {range}, {made});
  } else {
    if (IsFolded(value, "arange")) EnterCaller();
    Emit("constant", {}, {made});
  }
  scope_ = scope;
  frames_ = node_frames_;
  return made;
}

// What follows made the argument that its line passes to the running module call, "pos" of
// "x = self.wpe(pos)": an earlier line of that forward.  No line where it passes an expression.
void Lowering::EnterCaller() {
  if (scope_.size() < 2 || node_frames_.size() < scope_.size()) return;
  const size_t caller = scope_.size() - 2;
  if (node_frames_[caller] == kNoStatement) return;
  const std::string argument = program_.source.At(node_frames_[caller]).ArgumentTo(scope_.back());
  if (argument.empty()) return;
  scope_.pop_back();
  frames_ = {node_frames_.begin(), node_frames_.begin() + static_cast<std::ptrdiff_t>(caller)};
  frames_.push_back(
      program_.source.PutBack({.line = 1, .targets = {argument}, .callee = "torch.arange"}));
}

// pos_emb = self.table(torch.arange(n)), a line before the one that reads pos_emb.
NameId Lowering::EmbedPositions(ValueId value, const std::string& table) {
  const std::vector<std::string> scope = scope_;
  const std::string name = NameInLine(value);
  const std::string_view module = ParentOf(table);
  if (!name.empty()) {
    const std::string called(ChildOf(module));
    frames_.back() = program_.source.PutBack({.line = 1,
                                              .targets = {name},
                                              .callee = "self." + called,
                                              .own_call = called,
                                              .module_calls = 1});
  }
  const NameId rows = NewName(table + ".arange", {DType::kInt64, {TypeOf(value).dims[0]}});
  Emit("constant", {}, {rows});
  scope_.emplace_back(module);
  if (!name.empty()) {
    frames_.push_back(
        program_.source.PutBack({.line = 1, .returns = true, .callee = "F.embedding"}));
  }
  const NameId made = NewResult(value);
  Emit("embedding", {LostTensor(table), rows}, {made});
  scope_ = scope;
  frames_ = node_frames_;
  return made;
}

// What the running line, "x = tok_emb + pos_emb", calls `value`; "" where that is not known.
std::string Lowering::NameInLine(ValueId value) const {
  const bool has_line = !frames_.empty() && frames_.back() != kNoStatement;
  if (!has_line || frames_.size() != scope_.size()) return "";
  const auto& [left, right] = program_.source.At(frames_.back()).operands;
  const std::vector<const Node*> readers = ReadersOf(value);
  if (readers.empty() || readers[0]->inputs.size() != 2) return "";
  return readers[0]->inputs[0] == value ? left : right;
}

// position_ids = torch.arange(n) + past, a line of the caller's, then position_ids + offset
// (transformers 5.17, BartLearnedPositionalEmbedding).
NameId Lowering::CountPositions(ValueId value) {
  const std::vector<std::string> scope = scope_;
  if (!scope_.empty()) scope_.pop_back();
  frames_ = {
      program_.source.PutBack({.line = 1, .targets = {"position_ids"}, .callee = "torch.arange"})};
  const std::string name(graph_.values[Index(value)].name);
  const NameId range = NewName(name + ".arange", TypeOf(value));
  Emit("constant", {}, {range});
  const NameId ids = NewName(name + ".position_ids", TypeOf(value));
  Emit("add.Scalar", {range}, {ids});
  scope_ = scope;
  frames_ = node_frames_;
  const NameId made = NewResult(value);
  Emit("add.Scalar", {ids}, {made});
  return made;
}

}  // namespace onnxfit
