#include "estimator/recover/roles.h"

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
#include "estimator/program/module_names.h"
#include "estimator/program/placement.h"
#include "estimator/recover/exporter_metadata.h"
#include "estimator/recover/float_buffers.h"
#include "estimator/recover/folded_weights.h"
#include "estimator/recover/known_in_place.h"
#include "estimator/recover/lost_tensors.h"
#include "estimator/recover/quantized.h"
#include "estimator/recover/ties.h"
#include "estimator/recover/unread_tensors.h"

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
    {"Resize", 1, Role::kConstant},  // roi, scales, sizes
    {"Resize", 2, Role::kConstant},
    {"Resize", 3, Role::kConstant},
    {"Upsample", 1, Role::kConstant},
};

constexpr size_t kMeanInput = 3;  // of BatchNormalization

// A tensor of the module and its place in the order of parameters.
struct Ranked {
  int64_t rank = 0;
  Role role = Role::kConstant;
  ModuleTensor tensor;
};

// Buffers that are constants to the exporter have no names: these are ours.
constexpr std::string_view kConstantBuffer = "buffer_";

// Places between two neighbours of one rank: what a file lost goes behind its convolution.
constexpr int64_t kPlaces = 16;

class RoleFinder {
 public:
  RoleFinder(const BoundGraph& bound, const TrainingSettings& settings)
      : bound_(bound),
        graph_(bound.graph()),
        metadata_(bound.metadata()),
        shapes_(bound.shapes()),
        settings_(settings) {}

  Roles Find() {
    roles_.of_initializer.assign(graph_.initializers.size(), Role::kConstant);
    FindFolded();
    FindAffine();
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
    TellStoredType();
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

  // Those that the file has lost, if they are to be put back; else a warning.
  void FindFolded() {
    FoldedBatchNorms found = FindFoldedBatchNorms(bound_, settings_);
    roles_.folded = std::move(found.folded);
    const bool keeps = settings_.batch_norm == BatchNormUse::kKeep;
    if (found.in_doubt && !keeps) DoubtBatchNorms(found);
    const size_t count = roles_.folded.size();
    if (count == 0 || (found.in_doubt && !keeps)) return;
    const std::string were = fmt::format("{} batch norm{}", count, count == 1 ? "" : "s");
    if (!keeps) {
      roles_.assumptions.push_back(
          fmt::format("{} that {} folded into convolutions {} put back{} "
                      "(--batch-norm keep, to leave {} folded)",
                      were, settings_.batch_norm == BatchNormUse::kAuto ? "the exporter" : "may be",
                      count == 1 ? "is" : "are", KeptByFolded(), count == 1 ? "it" : "them"));
      return;
    }
    roles_.folded.clear();
    if (found.in_doubt) return;
    roles_.warnings.push_back(
        {warning::kFoldedBatchNorm,
         were + " folded into convolutions by the exporter: parameters and activations are "
                "counted as in the file"});
  }

  // A product and a sum for each channel.
  void FindAffine() {
    if (settings_.batch_norm == BatchNormUse::kKeep) return;
    roles_.affine = FindAffineBatchNorms(bound_);
    const size_t count = roles_.affine.size();
    if (count == 0) return;
    roles_.assumptions.push_back(fmt::format(
        "{} batch norm{} that the file has as a product for each channel {} put back "
        "(--batch-norm keep, to leave {} so)",
        count, count == 1 ? "" : "s", count == 1 ? "is" : "are", count == 1 ? "it" : "them"));
  }

  // No name says whether they were folded.
  void DoubtBatchNorms(const FoldedBatchNorms& found) {
    roles_.doubts.push_back(Doubt::kBatchNorm);
    if (found.shape.empty()) {
      roles_.assumptions.push_back(
          "biases of convolutions are taken for biases, and no norm is in the file "
          "(--batch-norm restore, if batch norms were folded into them)");
      return;
    }
    const size_t count = roles_.folded.size();
    roles_.assumptions.push_back(fmt::format(
        "{} batch norm{} {} taken to be folded into biases of convolutions, for the file has {}, "
        "and {} put back{} (--batch-norm keep, if there were none)",
        count, count == 1 ? "" : "s", count == 1 ? "is" : "are", found.shape,
        count == 1 ? "is" : "are", KeptByFolded()));
  }

  // Weights that lost their names, of which a copy of an embedding is none; buffers.
  void FindNameless() {
    if (!signature_.empty()) return;
    float_buffers_ = FindFloatBuffers(graph_);
    for (FoldedWeight& weight : FindFoldedWeights(graph_, metadata_)) {
      if (weight.tied != kNoValue) DecideTie(weight);
      transposed_.emplace(weight.value, std::move(weight));
    }
  }

  void DoubtTie() {
    const bool is_told = settings_.assumed.tied_head.has_value();
    if (is_told || std::ranges::count(roles_.doubts, Doubt::kTiedHead) > 0) return;
    roles_.doubts.push_back(Doubt::kTiedHead);
  }

  void FindTable() {
    std::optional<FoldedTable> found = FindFoldedTable(graph_, metadata_);
    if (!found.has_value()) return;
    LostTensor& table = found->table;
    roles_.table_rows = {found->rows, table.name};
    roles_.assumptions.push_back(
        fmt::format("{} is taken to have {} rows, of which the export has kept {}", table.name,
                    table.type.dims[0], shapes_.types[Index(found->rows)].tensor.dims[0]));
    AddLost(table.name, kLast, table.role, table.type);
  }

  // Stored elements say it; where they are not in the file, it is a guess.
  void DecideTie(const FoldedWeight& weight) {
    const std::optional<bool> stored = AreTransposes(graph_, weight.value, weight.tied);
    if (stored.has_value() && !settings_.assumed.tied_head.has_value()) {
      if (*stored) roles_.ties.emplace_back(weight.value, weight.tied);
      roles_.notes.push_back(fmt::format("{} {} {}, by the elements that the file stores",
                                         weight.name, *stored ? "is" : "is not",
                                         NameOf(weight.tied)));
      return;
    }
    DoubtTie();
    const bool is_tied = settings_.assumed.tied_head.value_or(LikelyTiesHead(graph_, metadata_));
    if (is_tied) roles_.ties.emplace_back(weight.value, weight.tied);
    const std::string bytes = FormatBytes(BytesOf(
        {ParameterType(settings_.precision), shapes_.types[Index(weight.value)].tensor.dims}));
    if (is_tied) {
      roles_.assumptions.push_back(
          fmt::format("{} is taken to be {}, tied: {} less are parameters (--assume tied-head=no, "
                      "if it is not)",
                      weight.name, NameOf(weight.tied), bytes));
    } else if (!settings_.assumed.tied_head.has_value()) {
      roles_.assumptions.push_back(fmt::format(
          "{} is not taken to be {}, though it may be: {} more are parameters (--assume "
          "tied-head=yes, if they are tied)",
          weight.name, NameOf(weight.tied), bytes));
    }
  }

  // A file may say how its parameters were stored, not how they are trained: 16 bits are what
  // models are published in, and what pure training in them would not keep.  The settings decide,
  // in inference too, where fp32 is the larger; here they are told from the file.
  void TellStoredType() {
    const DType counted = ParameterType(settings_.precision);
    if (counted != DType::kFloat32) return;
    int64_t numel_16_bit = 0;
    int64_t numel = 0;
    DType stored = DType::kUndefined;
    for (const Ranked& ranked : tensors_) {
      const TensorType& type = ranked.tensor.type;
      if (ranked.role != Role::kParameter || !IsFloat(type.dtype)) continue;
      numel = CheckedAdd(numel, Numel(type.dims));
      if (BitsOf(type.dtype) != 16) continue;
      numel_16_bit = CheckedAdd(numel_16_bit, Numel(type.dims));
      stored = type.dtype;
    }
    if (numel_16_bit <= numel / 2) return;
    roles_.assumptions.push_back(fmt::format(
        "the file stores its parameters in {}; they are counted in fp32 (-p {}, if the model runs "
        "in what the file holds)",
        Name(stored), stored == DType::kFloat16 ? "fp16" : "bf16"));
  }

  // ": 1.2 GiB more are kept for backward", their results; nothing is in eval.
  std::string KeptByFolded() const {
    if (settings_.mode == Mode::kEval) return "";
    int64_t bytes = 0;
    for (const FoldedBatchNorm& folded : roles_.folded) {
      const ValueId result = graph_.nodes[Index(folded.convolution)].outputs[0];
      const TensorType type = {ComputeType(settings_.precision),
                               shapes_.types[Index(result)].tensor.dims};
      bytes = CheckedAdd(bytes, BytesOf(type));
    }
    return fmt::format(": {} more are kept for backward", FormatBytes(bytes));
  }

  void IndexFile() {
    first_names_ = FindFirstNames(graph_, metadata_);
    for (const SignatureEntry& entry : metadata_.signature) {
      signature_.emplace(entry.target, kinds_.size());
      kinds_.push_back(entry.kind);
    }
    std::unordered_set<std::string_view> stored;
    for (const Initializer& tensor : graph_.initializers) stored.insert(NameOf(tensor.value));
    misses_parameters_ = std::ranges::any_of(metadata_.signature, [&](const SignatureEntry& entry) {
      return entry.kind == SignatureEntry::Kind::kParameter && !stored.contains(entry.target);
    });
    for (size_t i = 0; i < graph_.nodes.size(); ++i) IndexNode(static_cast<int64_t>(i));
    roles_.rewrites = FindRewrites(bound_);
    for (const Rewritten& rewritten : roles_.rewrites) IndexRewritten(rewritten);
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

  void IndexNode(int64_t index) {
    const Node& node = graph_.nodes[Index(index)];
    if (!HasResult(node)) return;
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      first_use_.try_emplace(node.inputs[i], index * kPlaces + static_cast<int64_t>(i));
    }
    for (const ModuleSlot& slot : kModuleSlots) {
      if (node.op_type != slot.op_type || slot.input >= node.inputs.size()) continue;
      if (node.inputs[slot.input] != kNoValue) slots_[node.inputs[slot.input]] = slot.role;
    }
    if (IsQuantizing(node)) IndexQuantizing(node);
    if (IsHost(node)) return;
    for (const ValueId value : node.inputs) device_reads_.insert(value);
  }

  // Weights of integers, scales and zero points of channels.  Those of a tensor are numbers.
  void IndexQuantizing(const Node& node) {
    for (const ValueId value : node.inputs) {
      if (value == kNoValue) continue;
      const bool is_number = Numel(shapes_.types[Index(value)].tensor.dims) <= 1;
      slots_[value] = is_number ? Role::kConstant : Role::kBuffer;
    }
  }

  // What only the inner nodes of a rewrite read does not exist in PyTorch.
  void IndexRewritten(const Rewritten& rewritten) {
    for (const NodeId node : rewritten.nodes) {
      for (const ValueId value : graph_.nodes[Index(node)].inputs) {
        const auto& kept = rewritten.inputs;
        if (std::find(kept.begin(), kept.end(), value) != kept.end()) continue;
        slots_.try_emplace(value, Role::kConstant);
      }
    }
  }

  // All its results follow from shapes: it runs on the host.
  bool IsHost(const Node& node) const {
    return std::all_of(node.outputs.begin(), node.outputs.end(), [&](ValueId value) {
      return value == kNoValue || shapes_.known[Index(value)].has_value();
    });
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
    const bool is_rows =
        roles_.table_rows.has_value() && roles_.table_rows->first == initializer.value;
    if (is_rows) return Role::kConstant;
    if (const auto slot = slots_.find(initializer.value); slot != slots_.end()) {
      const bool is_ones = !signature_.empty() && !misses_parameters_;
      return is_ones ? Role::kConstant : slot->second;
    }
    if (IsTied(initializer.value)) return Role::kConstant;
    if (float_buffers_.contains(initializer.value)) return Role::kBuffer;
    // Exporters name what belongs to a module by its path, "encoder.scale"; numbers that
    // they fold have names of their own, "val_12", "/Constant_output_0".
    const bool in_module = name.find('.') != std::string_view::npos && name[0] != '/';
    if (IsFloat(initializer.type.dtype)) {
      return IsComputed(initializer) && !in_module ? Role::kConstant : Role::kParameter;
    }
    return in_module && device_reads_.contains(initializer.value) ? Role::kBuffer : Role::kConstant;
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
    if (transposed != transposed_.end()) return transposed->second.name;
    const auto module = modules_.find(initializer.value);
    const std::string_view name = NameOf(initializer.value);
    const auto first = first_names_.find(name);
    if (first != first_names_.end()) return std::string(first->second);
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
    if (is_moved) return RankBefore(transposed->second.before);
    if (roles_.folded.empty()) return index * kPlaces;
    const auto use = first_use_.find(value);
    return use == first_use_.end() ? kLast : use->second;
  }

  // Buffers that state_dict leaves out (position ids) are constants to TorchScript's exporter;
  // so are the numbers and sizes that code spells, which are fewer.
  void AddConstantBuffers() {
    constexpr int64_t kMostSpelled = 16;
    if (!signature_.empty()) return;
    for (size_t i = 0; i < graph_.nodes.size(); ++i) {
      const Node& node = graph_.nodes[i];
      if (node.op_type != "Constant" || !HasResult(node)) continue;
      const ValueId value = node.outputs[0];
      const TensorType& type = shapes_.types[Index(value)].tensor;
      const auto use = first_use_.find(value);
      if (Numel(type.dims) <= kMostSpelled || use == first_use_.end()) continue;
      const auto reader = static_cast<NodeId>(use->second / kPlaces);
      ModuleId module = metadata_.ModuleOf(reader);
      const bool is_argument = graph_.nodes[Index(reader)].op_type == "Gather";
      if (is_argument) module = metadata_.modules.CallerOf(module);
      AddConstantBuffer(value, metadata_.modules.PathOf(module), type);
    }
    AddUnreadIds();
  }

  // transformers' embeddings have position_ids and token_type_ids; where a file shows one of
  // them, forward does not read the other (RobertaEmbeddings, transformers 5.17).
  void AddUnreadIds() {
    std::map<std::string, std::vector<const Ranked*>> shown;  // by module
    std::unordered_set<std::string_view> in_file;
    for (const Ranked& ranked : tensors_) {
      in_file.insert(ranked.tensor.name);
      const bool is_ids = ranked.role == Role::kBuffer && ranked.tensor.type.dims.size() == 2 &&
                          ChildOf(ranked.tensor.name).starts_with(kConstantBuffer);
      if (is_ids) shown[std::string(ParentOf(ranked.tensor.name))].push_back(&ranked);
    }
    std::vector<std::pair<std::string, TensorType>> lost;
    for (const auto& [module, buffers] : shown) {
      const bool has_tables = in_file.contains(module + ".token_type_embeddings.weight") &&
                              in_file.contains(module + ".position_embeddings.weight");
      if (!has_tables || buffers.size() != 1) continue;
      lost.emplace_back(module + ".position_ids", buffers[0]->tensor.type);
    }
    for (const auto& [name, type] : lost) AddLost(name, kLast, Role::kBuffer, type);
    AddUncountedIds();
  }

  // Nor does a forward that counts positions itself (CumSum) read the position_ids of embeddings
  // without token types (MPNetEmbeddings, transformers 5.17).
  void AddUncountedIds() {
    std::map<std::string, int64_t> tables;  // module -> positions
    for (const Ranked& ranked : tensors_) {
      const std::string_view table = ParentOf(ranked.tensor.name);
      if (ChildOf(table) == "position_embeddings" && ranked.tensor.type.dims.size() == 2) {
        tables.emplace(ParentOf(table), ranked.tensor.type.dims[0]);
      }
    }
    for (const Ranked& ranked : tensors_) {
      if (ranked.tensor.name.ends_with(".token_type_embeddings.weight")) {
        tables.erase(std::string(ParentOf(ParentOf(ranked.tensor.name))));
      }
    }
    for (size_t i = 0; i < graph_.nodes.size() && !tables.empty(); ++i) {
      if (graph_.nodes[i].op_type != "CumSum") continue;
      const auto table = tables.find(metadata_.PathOf(static_cast<NodeId>(i)));
      if (table == tables.end()) continue;
      const TensorType type = {DType::kInt64, {1, table->second}};
      AddLost(table->first + ".position_ids", kLast, Role::kBuffer, type);
      tables.erase(table);
    }
  }

  void AddConstantBuffer(ValueId value, const std::string& module, const TensorType& type) {
    const std::string number = fmt::format("{}{}", kConstantBuffer, constant_buffers_++);
    const std::string name = module.empty() ? number : module + "." + number;
    tensors_.push_back({kLast, Role::kBuffer, {name, value, type}});
  }

  int64_t RankBefore(ValueId value) const {
    const int32_t index = value == kNoValue ? -1 : graph_.values[Index(value)].initializer;
    return index < 0 ? kLast : index * kPlaces - 1;
  }

  // Those of which the file holds a name, or what the exporter computed of them.
  void AddLostTensors() {
    std::vector<ModuleTensor> in_file;
    for (const Ranked& ranked : tensors_) in_file.push_back(ranked.tensor);
    LostTensors lost = FindLostTensors(bound_, in_file);
    for (const auto& [role, name, type] : lost.tensors) AddLost(name, kLast, role, type);
    roles_.views = std::move(lost.views);
    std::ranges::move(lost.assumptions, std::back_inserter(roles_.assumptions));
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
    for (const UnreadTensor& tensor : FindUnreadTensors(names)) {
      int64_t rank = 0;
      for (const auto& [name, ranked] : in_file) {
        const bool is_in = name.starts_with(std::string(tensor.module) + ".");
        if (is_in && ranked->rank < kLast) rank = std::max(rank, ranked->rank);
      }
      const TensorType& type = in_file.at(std::string(tensor.like))->tensor.type;
      unread.push_back({rank + 1, Role::kParameter, {tensor.name, kNoValue, type}});
    }
    tensors_.insert(tensors_.end(), unread.begin(), unread.end());
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
      if (!counted.insert(mean).second) continue;
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

  const BoundGraph& bound_;
  const Graph& graph_;
  const ExporterMetadata& metadata_;
  const Shapes& shapes_;
  const TrainingSettings& settings_;
  Roles roles_;
  std::vector<Ranked> tensors_;
  std::map<std::string, size_t, std::less<>> signature_;      // target -> place
  bool misses_parameters_ = false;                            // of the signature's
  std::map<std::string_view, std::string_view> first_names_;  // of tied ones
  std::vector<SignatureEntry::Kind> kinds_;                   // by place
  std::unordered_map<ValueId, Role> slots_;
  std::unordered_map<ValueId, int64_t> first_use_;
  std::unordered_map<ValueId, std::string> modules_;  // of convolutions with folded norms
  std::unordered_map<ValueId, FoldedWeight> transposed_;
  std::unordered_set<ValueId> float_buffers_;
  std::unordered_set<ValueId> folded_biases_;  // what batch norms were made of or folded into
  std::set<std::string> put_back_;             // batch norms and biases, by name
  int constant_buffers_ = 0;
  std::unordered_set<ValueId> device_reads_;
};

}  // namespace

Roles FindRoles(const BoundGraph& bound, const TrainingSettings& settings) {
  return RoleFinder(bound, settings).Find();
}

}  // namespace onnxfit
