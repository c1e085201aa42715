#include "estimator/program/roles.h"

#include <fmt/format.h>

#include <algorithm>
#include <unordered_map>
#include <unordered_set>

#include "estimator/base/bytes.h"
#include "estimator/base/warnings.h"
#include "estimator/program/signature.h"

namespace onnxfit {
namespace {

// Inputs that hold a module's tensors by the meaning of their operator.
struct ModuleSlot {
  std::string_view op_type;
  size_t input;
  Role role;
};

constexpr ModuleSlot kModuleSlots[] = {
    {"BatchNormalization", 1, Role::kParameter},
    {"BatchNormalization", 2, Role::kParameter},
    {"BatchNormalization", 3, Role::kBuffer},
    {"BatchNormalization", 4, Role::kBuffer},
    {"Conv", 1, Role::kParameter},
    {"Conv", 2, Role::kParameter},
    {"ConvTranspose", 1, Role::kParameter},
    {"ConvTranspose", 2, Role::kParameter},
    {"Gemm", 1, Role::kParameter},
    {"Gemm", 2, Role::kParameter},
    {"LayerNormalization", 1, Role::kParameter},
    {"LayerNormalization", 2, Role::kParameter},
    {"PRelu", 1, Role::kParameter},
};

constexpr size_t kMeanInput = 3;  // of BatchNormalization

class RoleFinder {
 public:
  RoleFinder(const Graph& graph, const Shapes& shapes) : graph_(graph), shapes_(shapes) {}

  Roles Find() {
    roles_.of_initializer.assign(graph_.initializers.size(), Role::kConstant);
    IndexFile();
    for (size_t i = 0; i < graph_.initializers.size(); ++i) {
      roles_.of_initializer[i] = RoleOf(graph_.initializers[i]);
    }
    ListInOrder();
    AddBatchCounters();
    WarnOfFoldedBatchNorms();
    return std::move(roles_);
  }

 private:
  void IndexFile() {
    for (const SignatureEntry& entry : ReadSignature(graph_)) {
      signature_.emplace(entry.target, signature_.size());
      kinds_.push_back(entry.kind);
    }
    for (const Node& node : graph_.nodes) {
      for (const ModuleSlot& slot : kModuleSlots) {
        if (node.op_type != slot.op_type || slot.input >= node.inputs.size()) continue;
        if (node.inputs[slot.input] != kNoValue) slots_[node.inputs[slot.input]] = slot.role;
      }
      if (IsHost(node)) continue;
      for (const ValueId value : node.inputs) device_reads_.insert(value);
    }
  }

  // All its results follow from shapes: it runs on the host.
  bool IsHost(const Node& node) const {
    return std::all_of(node.outputs.begin(), node.outputs.end(), [&](ValueId value) {
      return value == kNoValue || shapes_.known[static_cast<size_t>(value)].has_value();
    });
  }

  std::string_view NameOf(const Initializer& initializer) const {
    return graph_.values[static_cast<size_t>(initializer.value)].name;
  }

  Role RoleOf(const Initializer& initializer) const {
    const std::string_view name = NameOf(initializer);
    if (const auto entry = signature_.find(name); entry != signature_.end()) {
      const bool trained = kinds_[entry->second] == SignatureEntry::Kind::kParameter;
      return trained ? Role::kParameter : Role::kBuffer;
    }
    if (const auto slot = slots_.find(initializer.value); slot != slots_.end()) {
      return slot->second;
    }
    // Exporters name what belongs to a module by its path, "encoder.scale"; numbers that
    // they fold have names of their own, "val_12", "/Constant_output_0".
    const bool in_module = name.find('.') != std::string_view::npos && name[0] != '/';
    if (IsFloat(initializer.type.dtype)) {
      const bool is_number = Numel(initializer.type.dims) <= 1;
      return is_number && !in_module ? Role::kConstant : Role::kParameter;
    }
    return in_module && device_reads_.contains(initializer.value) ? Role::kBuffer : Role::kConstant;
  }

  // The signature's order where there is one, then the file's.
  void ListInOrder() {
    std::vector<size_t> order(graph_.initializers.size());
    for (size_t i = 0; i < order.size(); ++i) order[i] = i;
    std::stable_sort(order.begin(), order.end(),
                     [&](size_t a, size_t b) { return Rank(a) < Rank(b); });
    for (const size_t i : order) {
      const Initializer& initializer = graph_.initializers[i];
      const ModuleTensor tensor = {std::string(NameOf(initializer)), initializer.value,
                                   initializer.type};
      if (roles_.of_initializer[i] == Role::kParameter) roles_.parameters.push_back(tensor);
      if (roles_.of_initializer[i] == Role::kBuffer) roles_.buffers.push_back(tensor);
    }
  }

  size_t Rank(size_t initializer) const {
    const auto entry = signature_.find(NameOf(graph_.initializers[initializer]));
    return entry == signature_.end() ? signature_.size() : entry->second;
  }

  // num_batches_tracked of each batch norm (torch.nn.BatchNorm2d): exporters leave it out
  // where nothing reads it.
  void AddBatchCounters() {
    std::unordered_set<ValueId> counted;
    const auto named = std::count_if(
        roles_.buffers.begin(), roles_.buffers.end(),
        [](const ModuleTensor& buffer) { return buffer.name.ends_with("num_batches_tracked"); });
    if (named > 0) return;
    for (const Node& node : graph_.nodes) {
      if (node.op_type != "BatchNormalization" || node.inputs.size() <= kMeanInput) continue;
      const ValueId mean = node.inputs[kMeanInput];
      if (!counted.insert(mean).second) continue;
      std::string module(graph_.values[static_cast<size_t>(mean)].name);
      module.resize(std::min(module.rfind('.'), module.size()));
      roles_.buffers.push_back({module + ".num_batches_tracked", kNoValue, {DType::kInt64, {}}});
    }
  }

  void WarnOfFoldedBatchNorms() {
    const int64_t folded = std::max(FoldedInSignature(), FoldedByName());
    if (folded == 0) return;
    roles_.warnings.push_back(
        {warning::kFoldedBatchNorm,
         fmt::format("{} batch norm{} folded into convolutions by the exporter: their "
                     "parameters and activations are not counted; export in training mode "
                     "to keep them",
                     folded, folded == 1 ? " was" : "s were")});
  }

  // Statistics that the module has and the file has not.
  int64_t FoldedInSignature() const {
    std::unordered_set<std::string_view> names;
    for (const Initializer& initializer : graph_.initializers) names.insert(NameOf(initializer));
    return std::count_if(signature_.begin(), signature_.end(), [&](const auto& entry) {
      return entry.first.ends_with("running_mean") && !names.contains(entry.first);
    });
  }

  // TorchScript names the weights that it computed "onnx::Conv_193".
  int64_t FoldedByName() const {
    return std::count_if(graph_.initializers.begin(), graph_.initializers.end(),
                         [&](const Initializer& i) {
                           return NameOf(i).starts_with("onnx::Conv_") && i.type.dims.size() > 1;
                         });
  }

  const Graph& graph_;
  const Shapes& shapes_;
  Roles roles_;
  std::unordered_map<std::string_view, size_t> signature_;  // target -> place
  std::vector<SignatureEntry::Kind> kinds_;                 // by place
  std::unordered_map<ValueId, Role> slots_;
  std::unordered_set<ValueId> device_reads_;
};

int64_t SumBytes(const std::vector<ModuleTensor>& tensors) {
  int64_t bytes = 0;
  for (const ModuleTensor& tensor : tensors) bytes = CheckedAdd(bytes, BytesOf(tensor.type));
  return bytes;
}

}  // namespace

int64_t Roles::ParameterCount() const {
  int64_t count = 0;
  for (const ModuleTensor& tensor : parameters) count = CheckedAdd(count, Numel(tensor.type.dims));
  return count;
}

int64_t Roles::ParameterBytes() const { return SumBytes(parameters); }
int64_t Roles::BufferBytes() const { return SumBytes(buffers); }

Roles FindRoles(const Graph& graph, const Shapes& shapes) {
  return RoleFinder(graph, shapes).Find();
}

}  // namespace onnxfit
