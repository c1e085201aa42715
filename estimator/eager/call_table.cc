#include "estimator/eager/call_table.h"

#include "estimator/base/bytes.h"
#include "estimator/base/index.h"

namespace onnxfit {
namespace {

struct WorkspaceRow {
  std::string_view label;
  int64_t bytes;
};

// Kept for the process, one a handle and thread.  Source: pytorch v2.6.0,
// aten/src/ATen/cuda/CublasHandlePool.cpp: 2 × 4096 KiB + 8 × 16 KiB on every card but
// Hopper; cublasLt 1 MiB, persistent from 2.8 to 2.11.
constexpr WorkspaceRow kWorkspaces[] = {
    {"cuBLAS workspace", 2 * 4096 * kKiB + 8 * 16 * kKiB},
    {"cublasLt workspace", 1 * kMiB},
};

}  // namespace

CallTable::CallTable(const Program& program, Machine& machine)
    : program_(program), machine_(machine), gradient_labels_(program.values.size(), -1) {
  for (const ProgramValue& value : program.values) {
    name_labels_.push_back(machine.AddLabel(value.name));
  }
  for (const AtenCall& call : program.calls) {
    rules_.push_back(&FindOpRule(call.op));
    labels_.push_back({.at = machine.AddLabel(call.where)});
  }
  for (auto& thread : workspaces_) thread.fill(kNoTensor);
}

const StridedType& CallTable::TypeOf(NameId name) const {
  return program_.values[Index(name)].type;
}

LabelId CallTable::GradientLabel(NameId name) { return Derived(gradient_labels_, name, ".grad"); }

LabelId CallTable::Derived(std::vector<LabelId>& labels, NameId name, const char* suffix) {
  LabelId& label = labels[Index(name)];
  if (label < 0) label = machine_.AddLabel(program_.values[Index(name)].name + suffix);
  return label;
}

LabelId CallTable::AuxLabel(int32_t index, size_t aux) {
  LabelId& label = labels_[Index(index)].aux[aux];
  if (label < 0) {
    const std::string& output = program_.values[Index(call(index).outputs[0])].name;
    label = machine_.AddLabel(output + "." + std::string(rule(index).aux[aux].name));
  }
  return label;
}

LabelId CallTable::ScratchLabel(int32_t index) {
  LabelId& label = labels_[Index(index)].scratch;
  if (label < 0) label = machine_.AddLabel(call(index).where + ".scratch");
  return label;
}

void CallTable::TakeWorkspace(Workspace workspace, Thread thread) {
  const auto library = static_cast<size_t>(workspace);
  TensorId& held = workspaces_[static_cast<size_t>(thread)][library];
  if (held != kNoTensor) return;
  const WorkspaceRow& row = kWorkspaces[library];
  held = machine_.New({DType::kUint8, {row.bytes}}, machine_.AddLabel(std::string(row.label)),
                      Kind::kWorkspace);
}

}  // namespace onnxfit
