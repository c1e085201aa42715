#include "estimator/parameters/roles.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <iterator>
#include <limits>
#include <map>
#include <set>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "estimator/base/bytes.h"
#include "estimator/base/index.h"
#include "estimator/base/warnings.h"
#include "estimator/exporters/exporter_metadata.h"
#include "estimator/parameters/last_turns.h"
#include "estimator/program/module_tensors.h"
#include "estimator/program/modules.h"
#include "estimator/program/stored_type.h"

namespace onnxfit {
namespace {

constexpr size_t kMeanInput = 3;  // of BatchNormalization

// A tensor of the module and its place in the order of parameters.
struct Ranked {
  int64_t rank = 0;
  Role role = Role::kConstant;
  ModuleTensor tensor;
};

// Places between two neighbours of one rank: what a file lost goes behind its convolution.
constexpr int64_t kPlaces = 16;

class RoleFinder {
 public:
  RoleFinder(const BoundGraph& bound, const TensorFindings& found, const TrainingSettings& settings)
      : found_(found),
        bound_(bound),
        graph_(bound_.graph()),
        metadata_(bound_.metadata()),
        shapes_(bound_.shapes()),
        settings_(settings) {}

  Roles Find() {
    roles_.of_initializer.assign(graph_.initializers.size(), Role::kConstant);
    TakeBatchNorms();
    IndexFile();
    FindNameless();
    FindTable();
    for (size_t i = 0; i < graph_.initializers.size(); ++i) AddInitializer(i);
    AddConstantBuffers();
    AddBatchCounters();
    for (const FoldedBatchNorm& folded : roles_.folded) AddFolded(folded);
    for (const AffineBatchNorm& affine : roles_.affine) AddAffine(affine);
    AddLostTensors();
    AddUnreadTensors();
    if (!roles_.folded.empty()) {
      roles_.notes.push_back(
          fmt::format("{} x Conv run as convolution + batch_norm, the first at {} with {}",
                      roles_.folded.size(), DisplayName(graph_, roles_.folded[0].convolution),
                      roles_.folded[0].module));
    }
    std::stable_sort(tensors_.begin(), tensors_.end(),
                     [](const Ranked& a, const Ranked& b) { return a.rank < b.rank; });
    TellStored();
    if (signature_.empty() && roles_.folded.empty()) GroupByModules();
    for (Ranked& ranked : tensors_) {
      auto& list = ranked.role == Role::kParameter ? roles_.parameters : roles_.buffers;
      list.push_back(std::move(ranked.tensor));
    }
    return std::move(roles_);
  }

 private:
  // parameters() goes from module to module; what an exporter merged comes back behind the rest.
  void GroupByModules() {
    std::vector<std::string> names;
    for (const Ranked& ranked : tensors_) names.push_back(ranked.tensor.name);
    std::vector<Ranked> grouped;
    for (const size_t i : CopyOrder(names)) grouped.push_back(std::move(tensors_[i]));
    tensors_ = std::move(grouped);
  }

  void TakeBatchNorms() {
    BatchNorms norms = FindBatchNorms(bound_, settings_);
    roles_.folded = std::move(norms.folded);
    roles_.affine = std::move(norms.affine);
    roles_.assumptions = std::move(norms.assumptions);
    roles_.doubts = std::move(norms.doubts);
    roles_.warnings = std::move(norms.warnings);
  }

  // Weights that lost their names, of which a copy of an embedding is none; buffers.
  void FindNameless() {
    for (const FoldedWeight& weight : found_.folded_weights) {
      if (weight.tied != kNoValue) DecideTie(bound_, settings_, weight, roles_);
      transposed_.emplace(weight.value, &weight);
    }
  }

  void FindTable() {
    if (!found_.folded_table.has_value()) return;
    const auto& [rows, table] = *found_.folded_table;
    roles_.table_rows = {rows, table.name};
    roles_.assumptions.push_back(
        fmt::format("{} is taken to have {} rows, of which the export has kept {}", table.name,
                    table.type.dims[0], shapes_.types[Index(rows)].tensor.dims[0]));
    AddLost(table.name, kLast, table.role, table.type);
  }

  void TellStored() {
    std::vector<TensorType> parameters;
    for (const Ranked& ranked : tensors_) {
      if (ranked.role == Role::kParameter) parameters.push_back(ranked.tensor.type);
    }
    const auto told = settings_.keeps_types ? TellKeptTypes(parameters, settings_.precision)
                                            : TellStoredType(parameters, settings_.precision);
    if (told.has_value()) roles_.assumptions.push_back(*told);
  }

  void IndexFile() {
    for (const SignatureEntry& entry : metadata_.signature) {
      signature_.emplace(entry.target, kinds_.size());
      kinds_.push_back(entry.kind);
    }
    std::unordered_set<std::string_view> stored;
    for (const Initializer& tensor : graph_.initializers) stored.insert(NameOf(tensor.value));
    misses_parameters_ = std::ranges::any_of(metadata_.signature, [&](const SignatureEntry& entry) {
      return entry.kind == SignatureEntry::Kind::kParameter && !stored.contains(entry.target);
    });
    is_torchscript_ = std::ranges::any_of(graph_.nodes, IsNamedByTorchScript);
    for (const FoldedBatchNorm& folded : roles_.folded) {
      const Node& node = graph_.nodes[Index(folded.convolution)];
      if (node.inputs.size() > 2 && !folded.convolution_has_bias) {
        folded_biases_.insert(node.inputs[2]);
      }
      modules_[node.inputs[1]] = folded.convolution_module;
      if (node.inputs.size() > 2) modules_[node.inputs[2]] = folded.convolution_module;
    }
    for (const AffineBatchNorm& affine : roles_.affine) {
      for (const NodeId id : {affine.scale, affine.shift}) {
        if (id == kNoNode) continue;
        const auto& inputs = graph_.nodes[Index(id)].inputs;
        folded_biases_.insert(inputs.begin(), inputs.end());
      }
    }
  }

  std::string_view NameOf(ValueId value) const { return graph_.values[Index(value)].name; }

  Role RoleOf(const Initializer& initializer) const {
    const std::string_view name = NameOf(initializer.value);
    if (folded_biases_.contains(initializer.value)) return Role::kConstant;
    if (const auto entry = signature_.find(name); entry != signature_.end()) {
      const bool trained = kinds_[entry->second] == SignatureEntry::Kind::kParameter;
      return trained ? Role::kParameter : Role::kBuffer;
    }
    if (IsLifted(name)) return Role::kConstant;  // torch.tensor(2.0)
    if (found_.folded_parameters.contains(initializer.value)) return Role::kParameter;
    const auto& constants = metadata_.constants;
    if (std::ranges::find(constants, name) != constants.end()) return Role::kConstant;
    const bool is_number = Numel(initializer.type.dims) <= 1;
    if (is_number && IsOfAttribute(name)) return Role::kConstant;
    const bool is_rows =
        roles_.table_rows.has_value() && roles_.table_rows->first == initializer.value;
    if (is_rows) return Role::kConstant;
    if (const auto slot = found_.uses.roles.find(initializer.value);
        slot != found_.uses.roles.end()) {
      const bool is_ones = !signature_.empty() && !misses_parameters_;
      return is_ones ? Role::kConstant : slot->second;
    }
    if (IsTied(initializer.value)) return Role::kConstant;
    if (found_.float_buffers.contains(initializer.value)) return Role::kBuffer;
    // Exporters name what belongs to a module by its path, "encoder.scale"; numbers that
    // they fold have names of their own, "val_12", "/Constant_output_0", which TorchScript's alone
    // can be told from what the outermost module has, "offsets".
    const bool has_path = name.find('.') != std::string_view::npos && name[0] != '/';
    const bool is_outermost = is_torchscript_ && !has_path && !IsComputedName(name) &&
                              found_.uses.first.contains(initializer.value);
    if (IsFloat(initializer.type.dtype)) {
      const bool in_module = has_path || is_outermost;
      return IsComputed(initializer) && !in_module ? Role::kConstant : Role::kParameter;
    }
    const bool is_read = found_.uses.on_device.contains(initializer.value);
    const bool is_buffer = has_path ? is_read || IsTable(initializer)
                                    : is_outermost && IsReadAsTensor(initializer.value);
    return is_buffer ? Role::kBuffer : Role::kConstant;
  }

  // By what does not read it as sizes or axes.
  bool IsReadAsTensor(ValueId value) const {
    const auto use = found_.uses.first.find(value);
    if (use == found_.uses.first.end()) return false;
    const std::string_view op = bound_.At(use->second.node).op_type;
    return op == "Add" || op == "Gather" || (op == "Unsqueeze" && use->second.input == 0);
  }

  // More integers than sizes that code spells: relative positions, which exporters read as indices.
  static bool IsTable(const Initializer& initializer) {
    constexpr int64_t kMostSpelled = 16;
    return Numel(initializer.type.dims) > kMostSpelled;
  }

  // A number; or, where a signature names all that belongs to the model, what is not in it: the
  // exporter has run the model's arithmetic on numbers.  Where parameters are missing, two
  // kinds of results stand for them: what a small table gave, and 1 + the weight of a norm.
  bool IsComputed(const Initializer& initializer) const {
    if (signature_.empty()) return Numel(initializer.type.dims) <= 1;
    const std::string_view name = NameOf(initializer.value);
    const bool may_be_parameter = name.starts_with("embedding") || name.starts_with("add");
    return !misses_parameters_ || !may_be_parameter;
  }

  bool IsTied(ValueId value) const {
    return std::ranges::any_of(roles_.ties, [&](const auto& tie) { return tie.first == value; });
  }

  void AddInitializer(size_t index) {
    const Initializer& initializer = graph_.initializers[index];
    const Role role = RoleOf(initializer);
    roles_.of_initializer[index] = role;
    if (role == Role::kConstant) return;
    const std::string name = ModuleName(initializer);
    TensorType type = initializer.type;
    if (transposed_.contains(initializer.value)) std::swap(type.dims[0], type.dims[1]);
    tensors_.push_back({RankOf(name, initializer.value, static_cast<int64_t>(index)),
                        role,
                        {name, initializer.value, std::move(type)}});
  }

  // Its name in the module: the file's, but for weights that the exporter computed anew.
  std::string ModuleName(const Initializer& initializer) const {
    const auto transposed = transposed_.find(initializer.value);
    if (transposed != transposed_.end()) return transposed->second->name;
    const auto folded = found_.folded_parameters.find(initializer.value);
    if (folded != found_.folded_parameters.end()) return std::string(folded->second);
    const auto module = modules_.find(initializer.value);
    const std::string_view name = NameOf(initializer.value);
    const auto first = found_.first_names.find(name);
    if (first != found_.first_names.end()) return std::string(first->second);
    if (module == modules_.end() || name.find('.') != std::string_view::npos) {
      return std::string(name);
    }
    return module->second + (initializer.type.dims.size() > 1 ? ".weight" : ".bias");
  }

  // The signature's order where there is one; the order of use where the exporter has
  // computed weights anew, which it lists last; else the file's.
  int64_t RankOf(const std::string& name, ValueId value, int64_t index) const {
    const auto entry = signature_.find(name);
    if (entry != signature_.end()) return static_cast<int64_t>(entry->second) * kPlaces;
    if (!signature_.empty()) return kLast;
    const auto transposed = transposed_.find(value);
    const bool is_moved = transposed != transposed_.end() && roles_.folded.empty();
    if (is_moved) return RankBefore(transposed->second->before);
    if (roles_.folded.empty()) return index * kPlaces;
    const auto use = found_.uses.first.find(value);
    if (use == found_.uses.first.end()) return kLast;
    return use->second.node * kPlaces + static_cast<int64_t>(use->second.input);
  }

  // Those that are constants to TorchScript's exporter, and those that no result needs.
  void AddConstantBuffers() {
    if (!signature_.empty()) return;
    for (ModuleTensor& buffer : FindConstantBuffers(bound_)) {
      tensors_.push_back({kLast, Role::kBuffer, std::move(buffer)});
    }
    const std::vector<LostTensor> lost =
        FindUnreadIds(bound_, Listed(Role::kParameter), Listed(Role::kBuffer));
    for (const auto& [role, name, type] : lost) AddLost(name, kLast, role, type);
  }

  std::vector<ModuleTensor> Listed(Role role) const {
    std::vector<ModuleTensor> tensors;
    for (const Ranked& ranked : tensors_) {
      if (ranked.role == role) tensors.push_back(ranked.tensor);
    }
    return tensors;
  }

  int64_t RankBefore(ValueId value) const {
    const int32_t index = value == kNoValue ? -1 : graph_.values[Index(value)].initializer;
    return index < 0 ? kLast : index * kPlaces - 1;
  }

  // Those of which the file holds a name, or what the exporter computed of them.
  void AddLostTensors() {
    std::vector<ModuleTensor> in_file;
    for (const Ranked& ranked : tensors_) in_file.push_back(ranked.tensor);
    LostTensors lost = FindLostTensors(bound_, found_.rotary, in_file);
    for (const auto& [role, name, type] : lost.tensors) AddLost(name, kLast, role, type);
    roles_.views = std::move(lost.views);
    std::ranges::move(lost.assumptions, std::back_inserter(roles_.assumptions));
    std::ranges::move(lost.warnings, std::back_inserter(roles_.warnings));
  }

  // A signature names them.
  void AddUnreadTensors() {
    if (!signature_.empty()) return;
    std::map<std::string, const Ranked*> in_file;
    std::set<std::string_view> names;
    for (const Ranked& ranked : tensors_) {
      names.insert(in_file.emplace(ranked.tensor.name, &ranked).first->first);
    }
    std::vector<Ranked> unread;
    std::vector<UnreadTensor> found = FindUnreadTensors(names, Operators());
    std::ranges::move(FindLastTurns(bound_, names), std::back_inserter(found));
    for (const UnreadTensor& tensor : found) {
      int64_t rank = 0;
      const std::string inside = std::string(tensor.module) + ".";
      for (auto it = in_file.lower_bound(inside); it != in_file.end(); ++it) {
        if (!it->first.starts_with(inside)) break;
        if (it->second->rank < kLast) rank = std::max(rank, it->second->rank);
      }
      TensorType type = {DType::kFloat32, {}};
      if (!tensor.like.empty()) type = in_file.at(std::string(tensor.like))->tensor.type;
      type.dims.insert(type.dims.begin(), tensor.sizes.begin(), tensor.sizes.end());
      if (!tensor.rows_of.empty()) {
        const Dims& rows = in_file.at(std::string(tensor.rows_of))->tensor.type.dims;
        if (rows.empty()) continue;  // no table
        type.dims.insert(type.dims.begin(), rows.begin(), rows.begin() + 1);
      }
      unread.push_back({rank + 1, Role::kParameter, {tensor.name, kNoValue, std::move(type)}});
    }
    tensors_.insert(tensors_.end(), unread.begin(), unread.end());
  }

  // "model.mlp.act/Tanh", of each module.
  std::set<std::string> Operators() const {
    std::set<std::string> operators;
    for (NodeId node = 0; node < std::ssize(graph_.nodes); ++node) {
      operators.insert(fmt::format("{}/{}", metadata_.PathOf(node), bound_.At(node).op_type));
    }
    return operators;
  }

  // num_batches_tracked of each batch norm (torch.nn.BatchNorm2d): exporters leave it out
  // where nothing reads it.
  void AddBatchCounters() {
    const bool named = std::any_of(tensors_.begin(), tensors_.end(), [](const Ranked& ranked) {
      return ranked.tensor.name.ends_with("num_batches_tracked");
    });
    if (named) return;
    std::unordered_set<ValueId> counted;
    for (const Node& node : graph_.nodes) {
      if (node.op_type != "BatchNormalization" || node.inputs.size() <= kMeanInput) continue;
      const ValueId mean = node.inputs[kMeanInput];
      const bool is_stored = graph_.values[Index(mean)].initializer >= 0;
      if (!is_stored || !counted.insert(mean).second) continue;
      AddLost(std::string(ParentOf(NameOf(mean))) + ".num_batches_tracked", kLast, Role::kBuffer,
              {DType::kInt64, {}});
    }
  }

  // The convolution's own bias, then the five tensors of the batch norm; once for a module that is
  // called twice.
  void AddFolded(const FoldedBatchNorm& folded) {
    const Node& node = graph_.nodes[Index(folded.convolution)];
    const Dims channels = {folded.channels};
    const DType dtype = shapes_.types[Index(node.outputs[0])].tensor.dtype;
    const int64_t use = RankBehind(node.inputs[1], folded.convolution);
    const bool in_file = node.inputs.size() > 2 && node.inputs[2] != kNoValue;
    const std::string bias = folded.convolution_module + ".bias";
    if (folded.convolution_has_bias && !in_file && put_back_.insert(bias).second) {
      AddLost(bias, use, Role::kParameter, {dtype, channels});
    }
    if (!put_back_.insert(folded.module).second) return;
    AddBatchNorm(folded.module, use, {dtype, channels});
  }

  void AddAffine(const AffineBatchNorm& affine) {
    if (!put_back_.insert(affine.module).second) return;
    const DType dtype = shapes_.types[Index(affine.input)].tensor.dtype;
    const int64_t use = affine.scale * kPlaces + static_cast<int64_t>(kMeanInput);
    AddBatchNorm(affine.module, use, {dtype, {affine.channels}});
  }

  // The five tensors of torch.nn.BatchNorm2d.
  void AddBatchNorm(const std::string& module, int64_t rank, const TensorType& type) {
    AddLost(module + ".weight", rank + 1, Role::kParameter, type);
    AddLost(module + ".bias", rank + 2, Role::kParameter, type);
    AddLost(module + ".running_mean", rank, Role::kBuffer, type);
    AddLost(module + ".running_var", rank, Role::kBuffer, type);
    AddLost(module + ".num_batches_tracked", rank, Role::kBuffer, {DType::kInt64, {}});
  }

  // The place behind the weight and the bias of a convolution.
  int64_t RankBehind(ValueId weight, NodeId convolution) const {
    const auto entry = signature_.find(NameOf(weight));
    const int64_t place =
        entry == signature_.end() ? convolution : static_cast<int64_t>(entry->second);
    return place * kPlaces + static_cast<int64_t>(kMeanInput);
  }

  // A tensor of the module that the file does not hold.
  void AddLost(const std::string& name, int64_t rank, Role role, const TensorType& type) {
    const auto entry = signature_.find(name);
    if (entry != signature_.end()) rank = static_cast<int64_t>(entry->second) * kPlaces;
    tensors_.push_back({rank, role, {name, kNoValue, type}});
  }

  static constexpr int64_t kLast = std::numeric_limits<int64_t>::max();

  const TensorFindings& found_;
  const BoundGraph& bound_;
  const Graph& graph_;
  const ExporterMetadata& metadata_;
  const Shapes& shapes_;
  const TrainingSettings& settings_;
  Roles roles_;
  std::vector<Ranked> tensors_;
  std::map<std::string, size_t, std::less<>> signature_;  // target -> place
  bool misses_parameters_ = false;                        // of the signature's
  bool is_torchscript_ = false;
  std::vector<SignatureEntry::Kind> kinds_;           // by place
  std::unordered_map<ValueId, std::string> modules_;  // of convolutions with folded norms
  std::unordered_map<ValueId, const FoldedWeight*> transposed_;
  std::unordered_set<ValueId> folded_biases_;  // what batch norms were made of or folded into
  std::set<std::string> put_back_;             // batch norms and biases, by name
};

}  // namespace

Roles FindRoles(const BoundGraph& bound, const TensorFindings& found,
                const TrainingSettings& settings) {
  return RoleFinder(bound, found, settings).Find();
}

}  // namespace onnxfit
