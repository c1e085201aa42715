// Buffers that are constants to TorchScript's exporter, and those beside them that it leaves out.
#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <unordered_set>
#include <utility>
#include <vector>

#include "estimator/base/index.h"
#include "estimator/exporters/bound_graph.h"
#include "estimator/exporters/exporter_metadata.h"
#include "estimator/exporters/module_children.h"
#include "estimator/libraries/libraries.h"
#include "estimator/parameters/roles.h"
#include "estimator/program/modules.h"

namespace onnxfit {
namespace {

// Buffers that are constants to the exporter have no names: these are ours.
constexpr std::string_view kConstantBuffer = "buffer_";

// The module whose forward has the constant that `reader` reads: an index is its caller's.
std::string ModuleOfConstant(const BoundGraph& bound, NodeId reader) {
  const ExporterMetadata& metadata = bound.metadata();
  const ModuleId module = metadata.ModuleOf(reader);
  const bool is_argument = bound.At(reader).op_type == "Gather";
  return metadata.modules.PathOf(is_argument ? metadata.modules.CallerOf(module) : module);
}

// Of embeddings that have position_ids and token_type_ids: where a file shows one of them, forward
// does not read the other (RobertaEmbeddings, transformers 5.17).  Their caller may read the types
// (BigBirdModel).
void AddUnreadIds(const std::vector<ModuleTensor>& parameters,
                  const std::vector<ModuleTensor>& buffers, std::vector<LostTensor>& lost) {
  std::unordered_set<std::string_view> in_file;
  for (const auto* tensors : {&parameters, &buffers}) {
    for (const ModuleTensor& tensor : *tensors) in_file.insert(tensor.name);
  }
  const auto has_tables = [&](const std::string& module) {
    return in_file.contains(module + ".token_type_embeddings.weight") &&
           in_file.contains(module + ".position_embeddings.weight");
  };
  std::map<std::string, std::vector<const ModuleTensor*>> shown;  // by module
  for (const ModuleTensor& buffer : buffers) {
    const std::string_view name = ChildOf(buffer.name);
    const bool is_ids = buffer.type.dims.size() == 2 &&
                        (name.starts_with(kConstantBuffer) || name == "token_type_ids");
    if (!is_ids) continue;
    std::string module(ParentOf(buffer.name));
    const std::string embeddings = fmt::format("{}.{}", module, NameOfEmbeddings());
    shown[has_tables(embeddings) ? embeddings : module].push_back(&buffer);
  }
  for (const auto& [module, ids] : shown) {
    const std::string name = module + ".position_ids";
    if (!has_tables(module) || ids.size() != 1 || in_file.contains(name)) continue;
    lost.push_back({Role::kBuffer, name, ids[0]->type});
  }
}

// Nor does a forward that counts positions itself (CumSum) read the position_ids of embeddings
// without token types (MPNetEmbeddings, transformers 5.17).
void AddUncountedIds(const BoundGraph& bound, const std::vector<ModuleTensor>& parameters,
                     const std::vector<ModuleTensor>& buffers, std::vector<LostTensor>& lost) {
  std::map<std::string, int64_t> tables;  // module -> positions
  for (const auto* tensors : {&parameters, &buffers}) {
    for (const ModuleTensor& tensor : *tensors) {
      const std::string_view table = ParentOf(tensor.name);
      if (ChildOf(table) == "position_embeddings" && tensor.type.dims.size() == 2) {
        tables.emplace(ParentOf(table), tensor.type.dims[0]);
      }
    }
  }
  for (const auto* tensors : {&parameters, &buffers}) {
    for (const ModuleTensor& tensor : *tensors) {
      if (tensor.name.ends_with(".token_type_embeddings.weight")) {
        tables.erase(std::string(ParentOf(ParentOf(tensor.name))));
      }
    }
  }
  const Graph& graph = bound.graph();
  for (size_t i = 0; i < graph.nodes.size() && !tables.empty(); ++i) {
    if (graph.nodes[i].op_type != "CumSum") continue;
    const auto table = tables.find(bound.metadata().PathOf(static_cast<NodeId>(i)));
    if (table == tables.end()) continue;
    lost.push_back(
        {Role::kBuffer, table->first + ".position_ids", {DType::kInt64, {1, table->second}}});
    tables.erase(table);
  }
}

// "blocks.1.attn" of a reader in "blocks.1" of what belongs to "blocks.0.attn": the same module of
// another layer of the list; "" elsewhere.
std::string SameOfLayerAround(const std::string& owner, const std::string& reader) {
  const std::string path = owner + ".";
  const std::string_view layer = NumberedLayer(path);
  const std::string list = fmt::format("{}.", ParentOf(layer));
  if (layer.empty() || !reader.starts_with(list)) return "";
  const std::string number =
      reader.substr(list.size(), reader.find('.', list.size()) - list.size());
  if (!IsNumbered(number) || number == ChildOf(layer)) return "";
  return list + number + owner.substr(layer.size());
}

// The same modules of other layers that read `value`, which belongs to `owner`, or casts of it.
std::set<std::string> OtherOwners(const BoundGraph& bound, const std::string& owner,
                                  ValueId value) {
  std::set<std::string> owners;
  for (std::vector<ValueId> same = {value}; !same.empty();) {
    const std::span<const NodeId> readers = bound.AllReadersOf(same.back());
    same.pop_back();
    for (const NodeId reader : readers) {
      owners.insert(SameOfLayerAround(owner, bound.metadata().PathOf(reader)));
      const Node& node = bound.At(reader);
      if (node.op_type == "Cast" && HasResult(node)) same.push_back(node.outputs[0]);
    }
  }
  owners.erase("");
  return owners;
}

// The paths of modules that make a call, or of which a child does.
std::set<std::string> ModulesThatRun(const ExporterMetadata& metadata) {
  std::set<std::string> paths;
  const std::set<std::string> own = PathsOfModules(metadata);
  for (std::string_view path : own) {
    while (paths.emplace(path).second && path.find('.') != path.npos) path = ParentOf(path);
  }
  return paths;
}

// A buffer of one layer that others of its list read: each has its own, register_buffer ("mask",
// mask), and the exporter keeps one where they are equal.
void AddEqualBuffers(const BoundGraph& bound, const std::vector<ModuleTensor>& buffers,
                     std::vector<LostTensor>& lost) {
  const std::set<std::string> modules = ModulesThatRun(bound.metadata());
  for (const ModuleTensor& buffer : buffers) {
    const std::string_view name = ChildOf(buffer.name);
    if (buffer.value == kNoValue || name.starts_with(kConstantBuffer)) continue;
    for (const std::string& owner :
         OtherOwners(bound, std::string(ParentOf(buffer.name)), buffer.value)) {
      if (!modules.contains(owner)) continue;  // a mask that the layer is passed
      lost.push_back({Role::kBuffer, fmt::format("{}.{}", owner, name), buffer.type});
    }
  }
}

// A parameter of the module `owner`, or what one of its children makes of a table.
bool IsOwnTable(const BoundGraph& bound, ValueId table, const std::string& owner) {
  if (ParentOf(bound.NameOf(table)) == owner) return true;
  NodeId maker = bound.graph().values[Index(table)].producer;
  if (maker != kNoNode && bound.At(maker).op_type == "Reshape") {
    maker = bound.graph().values[Index(bound.At(maker).inputs[0])].producer;
  }
  return maker != kNoNode && bound.metadata().PathOf(maker).starts_with(owner + ".");
}

// How many modules take rows of tables of their own by `value`: each has such a buffer, of which
// TorchScript's exporter keeps one where they are equal.
size_t CountOwners(const BoundGraph& bound, ValueId value) {
  std::set<std::string_view> owners;
  for (const NodeId reader : bound.AllReadersOf(value)) {
    const Node& node = bound.At(reader);
    if (node.op_type != "Gather" || node.inputs[1] != value) continue;
    const std::string& owner = bound.metadata().PathOf(reader);
    if (!owner.empty() && IsOwnTable(bound, node.inputs[0], owner)) owners.insert(owner);
  }
  return owners.size();
}

// Whether norms alone read `value`, in place of the weight or bias that they do not have: the
// exporter's ones and zeros.
bool StandsForNone(const BoundGraph& bound, ValueId value) {
  constexpr std::string_view kNorms[] = {"BatchNormalization", "InstanceNormalization",
                                         "LayerNormalization"};
  return std::ranges::all_of(bound.AllReadersOf(value), [&](NodeId reader) {
    const Node& node = bound.At(reader);
    return std::ranges::find(kNorms, node.op_type) != std::end(kNorms) && node.inputs[0] != value;
  });
}

// Whether x[:, i, j] reads `value`: numbers that code spells, i times a size and added to j for the
// exporter's Gather.
bool IndexesSeveral(const BoundGraph& bound, ValueId value, int steps = 2) {
  return std::ranges::any_of(bound.AllReadersOf(value), [&](NodeId reader) {
    const Node& node = bound.At(reader);
    if (node.op_type == "Gather") return bound.Maker(node.inputs[0], "Flatten") != kNoNode;
    const bool is_sum = node.op_type == "Add" || node.op_type == "Mul";
    return is_sum && steps > 0 && HasResult(node) &&
           IndexesSeveral(bound, node.outputs[0], steps - 1);
  });
}

// Whether sines and cosines are taken of its product with what the run is given, the step of a
// diffusion: frequencies that the forward computes each time.  Those of positions, which it counts
// itself, are a module's.
bool AreOfSteps(const BoundGraph& bound, ValueId value) {
  return std::ranges::all_of(bound.AllReadersOf(value), [&](NodeId reader) {
    if (bound.At(reader).op_type != "Mul" || !HasResult(bound.At(reader))) return false;
    std::set<std::string_view> read_by;
    for (const NodeId id : bound.AllReadersOf(bound.At(reader).outputs[0])) {
      read_by.insert(bound.At(id).op_type);
    }
    return read_by.contains("Sin") && read_by.contains("Cos");
  });
}

// Whether sines and cosines are taken of its product with frequencies of the module: coordinates
// that the forward counts each time.
bool AreCoordinates(const BoundGraph& bound, ValueId value) {
  constexpr size_t kMostAxes = 3;
  const Dims& dims = bound.DimsOf(value);
  const bool has_axes = dims.size() > 2 && dims.back() <= static_cast<int64_t>(kMostAxes);
  return has_axes && std::ranges::all_of(bound.AllReadersOf(value), [&](NodeId reader) {
           const Node& product = bound.At(reader);
           if (product.op_type != "MatMul" || !bound.IsStored(product.inputs[1], 2)) return false;
           std::set<std::string_view> read_by;
           for (const NodeId scale : bound.AllReadersOf(product.outputs[0])) {
             if (bound.At(scale).op_type != "Mul") return false;
             for (const NodeId id : bound.AllReadersOf(bound.At(scale).outputs[0])) {
               read_by.insert(bound.At(id).op_type);
             }
           }
           return read_by.contains("Sin") && read_by.contains("Cos");
         });
}

struct StoredConstant {
  ValueId value = kNoValue;
  std::string module;  // whose forward reads it
  NodeId reader = kNoNode;
};

// inv_freq[None, :, None].expand(…) of transformers' rotary embeddings, of several dimensions of
// positions inv_freq[None, None, :, None].
bool HasFrequencies(const BoundGraph& bound, const StoredConstant& constant) {
  const auto& [dtype, dims] = bound.TypeOf(constant.value);
  const auto is_one = [](int64_t dim) { return dim == 1; };
  return bound.At(constant.reader).op_type == "Expand" && IsFloat(dtype) && dims.size() > 2 &&
         dims.back() == 1 && std::all_of(dims.begin(), dims.end() - 2, is_one) &&
         IsRotaryEmbedding(ChildOf(constant.module));
}

// "self.embed(ids + self.offsets)" of several parts of one table.
bool AreOffsets(const BoundGraph& bound, const StoredConstant& constant) {
  const auto& [dtype, dims] = bound.TypeOf(constant.value);
  const Node& reader = bound.At(constant.reader);
  if (reader.op_type != "Add" || IsFloat(dtype) || dims.size() != 1) return false;
  ValueId ids = reader.outputs[0];
  const auto look_up = [&](NodeId id) {
    const Node& node = bound.At(id);
    return node.op_type == "Gather" && node.inputs[1] == ids &&
           ReadsByOffsets(bound.metadata().PathOf(id));
  };
  for (const NodeId view : bound.AllReadersOf(ids)) {
    const Node& node = bound.At(view);
    if (node.op_type == "Reshape" && HasResult(node)) ids = node.outputs[0];
  }
  return std::ranges::any_of(bound.AllReadersOf(ids), look_up);
}

// position_ids [1, n], of which embeddings take the first.
bool ArePositions(const BoundGraph& bound, const StoredConstant& constant) {
  const auto& [dtype, dims] = bound.TypeOf(constant.value);
  const Node& reader = bound.At(constant.reader);
  return reader.op_type == "Slice" && reader.inputs[0] == constant.value && !IsFloat(dtype) &&
         dims.size() == 2 && dims[0] == 1 && ChildOf(constant.module) == NameOfEmbeddings();
}

// The embeddings beside its own that read it, positions or types [1, n]: each has its own, of which
// the exporter keeps those of one.
std::set<std::string> OtherEmbeddings(const BoundGraph& bound, const StoredConstant& constant) {
  std::set<std::string> modules;
  if (ChildOf(constant.module) != NameOfEmbeddings()) return modules;
  for (const NodeId reader : bound.AllReadersOf(constant.value)) {
    const std::string module = ModuleOfConstant(bound, reader);
    const std::string_view op = bound.At(reader).op_type;
    const bool reads = (op == "Slice" || op == "Expand") && HasResult(bound.At(reader));
    if (reads && ChildOf(module) == NameOfEmbeddings()) modules.insert(module);
  }
  modules.erase(constant.module);
  return modules;
}

// The rotary embeddings that read it: where they are equal, the exporter keeps those of one.
std::set<std::string> ModulesOfFrequencies(const BoundGraph& bound,
                                           const StoredConstant& constant) {
  std::set<std::string> modules;
  for (const NodeId reader : bound.AllReadersOf(constant.value)) {
    const StoredConstant read = {constant.value, ModuleOfConstant(bound, reader), reader};
    if (HasResult(bound.At(reader)) && HasFrequencies(bound, read)) modules.insert(read.module);
  }
  return modules;
}

// The rotary embeddings like one inside of a layer, of other layers' modules that have the same
// children otherwise: the exporter has merged what all compute.
std::set<std::string> MergedRotary(
    const std::map<std::string_view, std::set<std::string_view>>& children,
    const std::string& rotary) {
  const std::string owner(ParentOf(rotary));
  std::set<std::string> merged;
  if (NumberedLayer(owner + ".").empty()) return merged;
  std::set<std::string_view> others = children.at(owner);
  others.erase(ChildOf(rotary));
  for (const auto& [path, names] : children) {
    if (names == others && !NumberedLayer(fmt::format("{}.", path)).empty()) {
      merged.insert(fmt::format("{}.{}", path, ChildOf(rotary)));
    }
  }
  return merged;
}

// Constants that may be a module's, as numbers and sizes that code spells are not, nor floats that
// it joins to others, torch.zeros(…).
std::vector<StoredConstant> FindLargeConstants(const BoundGraph& bound) {
  constexpr int64_t kMostSpelled = 16;
  std::vector<StoredConstant> found;
  for (const Node& node : bound.graph().nodes) {
    if (node.op_type != "Constant" || !HasResult(node)) continue;
    const ValueId value = node.outputs[0];
    const std::span<const NodeId> readers = bound.AllReadersOf(value);
    const auto reader =
        std::ranges::find_if(readers, [&](NodeId id) { return HasResult(bound.At(id)); });
    if (reader == readers.end() || StandsForNone(bound, value)) continue;
    const StoredConstant constant = {value, ModuleOfConstant(bound, *reader), *reader};
    const bool is_spelled = Numel(bound.DimsOf(value)) <= kMostSpelled;
    const bool is_buffer = HasFrequencies(bound, constant) || ArePositions(bound, constant) ||
                           AreOffsets(bound, constant);
    if (is_spelled && !is_buffer) continue;
    const bool is_float = IsFloat(bound.TypeOf(value).dtype);
    const bool is_padding = is_float && bound.At(*reader).op_type == "Concat";
    const bool is_made = is_float ? AreOfSteps(bound, value) || AreCoordinates(bound, value)
                                  : IndexesSeveral(bound, value);
    if (!is_padding && !is_made) found.push_back(constant);
  }
  return found;
}

// Without floats of one type that calls of one kind read in a forward: it has computed them of
// numbers, and the exporter does so anew for each of the calls, where all of them read a buffer as
// one.
std::vector<StoredConstant> FindStoredConstants(const BoundGraph& bound) {
  std::vector<StoredConstant> stored = FindLargeConstants(bound);
  const auto key = [&](const StoredConstant& constant) {
    return std::tuple(constant.module, bound.At(constant.reader).op_type,
                      bound.TypeOf(constant.value).dims);
  };
  const auto is_float = [&](const StoredConstant& constant) {
    return IsFloat(bound.TypeOf(constant.value).dtype);
  };
  std::map<std::tuple<std::string, std::string_view, Dims>, int> alike;
  for (const StoredConstant& constant : stored) alike[key(constant)] += is_float(constant) ? 1 : 0;
  std::erase_if(stored, [&](const StoredConstant& constant) {
    return is_float(constant) && alike[key(constant)] > 1;
  });
  return stored;
}

// Masks [n, n] of modules that run, of which a file has what was sliced of them: as large as the
// table of positions of a module around them.
void AddSlicedMasks(const BoundGraph& bound, const std::vector<ModuleTensor>& parameters,
                    std::vector<LostTensor>& lost) {
  const std::set<std::string> modules = PathsOfModules(bound.metadata());
  std::set<std::string> stored;
  for (const Initializer& initializer : bound.graph().initializers) {
    stored.emplace(bound.NameOf(initializer.value));
  }
  for (const UnreadMask& row : UnreadMasks()) {
    const std::string_view module = ParentOf(row.buffer);
    for (const std::string& path : modules) {
      if (module.empty() || !path.ends_with(fmt::format(".{}", module))) continue;
      if (stored.contains(fmt::format("{}.{}", path, ChildOf(row.buffer)))) continue;
      std::string_view around = path;
      for (int level = 0; level < row.up; ++level) around = ParentOf(around);
      const auto table = std::ranges::find(parameters, fmt::format("{}.{}", around, row.table),
                                           &ModuleTensor::name);
      if (table == parameters.end() || table->type.dims.size() != 2) continue;
      const int64_t positions = table->type.dims[0];
      lost.push_back({Role::kBuffer,
                      fmt::format("{}.{}", path, ChildOf(row.buffer)),
                      {DType::kBool, {positions, positions}}});
    }
  }
}

}  // namespace

std::vector<ModuleTensor> FindConstantBuffers(const BoundGraph& bound) {
  std::vector<ModuleTensor> buffers;
  std::vector<ModuleTensor> copies;
  std::map<std::string_view, std::set<std::string_view>> children;  // where frequencies ask
  for (const StoredConstant& constant : FindStoredConstants(bound)) {
    const auto& [value, module, reader] = constant;
    const std::string name = fmt::format("{}{}", kConstantBuffer, buffers.size());
    buffers.push_back({module.empty() ? name : module + "." + name, value, bound.TypeOf(value)});
    for (size_t i = 1; i < CountOwners(bound, value); ++i) {
      const std::string copy = fmt::format("{}.copy_{}", buffers.back().name, i);
      copies.push_back({copy, kNoValue, bound.TypeOf(value)});
    }
    for (const std::string& other : OtherEmbeddings(bound, constant)) {
      copies.push_back({other + "." + name, kNoValue, bound.TypeOf(value)});
    }
    if (!HasFrequencies(bound, constant)) continue;
    if (children.empty()) children = ChildrenOfModules(bound);
    std::set<std::string> modules = ModulesOfFrequencies(bound, constant);
    modules.merge(MergedRotary(children, module));
    for (const std::string& rotary : modules) {
      const TensorType& type = bound.TypeOf(value);
      if (rotary != module) copies.push_back({rotary + "." + name, kNoValue, type});
      copies.push_back({fmt::format("{}.{}{}", rotary, CloneOfBuffer(), name), kNoValue, type});
    }
  }
  std::ranges::move(copies, std::back_inserter(buffers));
  return buffers;
}

std::vector<LostTensor> FindUnreadIds(const BoundGraph& bound,
                                      const std::vector<ModuleTensor>& parameters,
                                      const std::vector<ModuleTensor>& buffers) {
  std::vector<LostTensor> lost;
  AddUnreadIds(parameters, buffers, lost);
  AddUncountedIds(bound, parameters, buffers, lost);
  AddEqualBuffers(bound, buffers, lost);
  AddSlicedMasks(bound, parameters, lost);
  return lost;
}

}  // namespace onnxfit
