// What torch.export's optimizer computed of a module's tensors alone: an expanded query, weights of
// an LSTM in ONNX's order, a scaled weight.  The file stores the result and notes the names that it
// was made of; here the module's tensors are put back, and nodes make the result of them.
// Source: onnxscript 0.7.2, optimizer/_constant_folding.py, which computes each node whose inputs
// are stored, of up to 8,192 elements each, up to 262,144 elements, and writes "folded_from".
#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <iterator>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "estimator/base/warnings.h"
#include "estimator/onnx/onnx_model.h"

namespace onnxfit {
namespace {

constexpr std::string_view kFoldedFrom = "pkg.onnxscript.optimizer.folded_from";
constexpr std::string_view kSignature = "pkg.torch.export.ExportedProgram.graph_signature";
constexpr std::string_view kFxNode = "pkg.torch.onnx.fx_node";
constexpr std::string_view kEmbedded = "onnxfit.";  // a program beside the nodes, which counts
constexpr std::string_view kNameless = "val";       // what a name without a call begins with

// --- Calls, by the names that torch.export gives to their results ---------------------------

enum class Effect : uint8_t {
  kElementwise,  // of one tensor
  kWithNumber,   // of a tensor and a number
  kView,         // the same elements in another order or shape
  kCopies,       // the same elements several times
  kPart,         // some of the elements
};

struct CallRow {
  std::string_view call;
  Effect effect;
  const char* op_type = "";  // ONNX's
};

constexpr CallRow kCalls[] = {
    {"neg", Effect::kElementwise, "Neg"},
    {"exp", Effect::kElementwise, "Exp"},
    {"log", Effect::kElementwise, "Log"},
    {"abs", Effect::kElementwise, "Abs"},
    {"sqrt", Effect::kElementwise, "Sqrt"},
    {"tanh", Effect::kElementwise, "Tanh"},
    {"relu", Effect::kElementwise, "Relu"},
    {"sigmoid", Effect::kElementwise, "Sigmoid"},
    {"softplus", Effect::kElementwise, "Softplus"},
    {"reciprocal", Effect::kElementwise, "Reciprocal"},
    {"mul", Effect::kWithNumber, "Mul"},
    {"div", Effect::kWithNumber, "Div"},
    {"add", Effect::kWithNumber, "Add"},
    {"sub", Effect::kWithNumber, "Sub"},
    {"pow", Effect::kWithNumber, "Pow"},
    {"t", Effect::kView},
    {"view", Effect::kView},
    {"clone", Effect::kView},
    {"reshape", Effect::kView},
    {"permute", Effect::kView},
    {"flatten", Effect::kView},
    {"squeeze", Effect::kView},
    {"unsqueeze", Effect::kView},
    {"transpose", Effect::kView},
    {"contiguous", Effect::kView},
    {"_unsafe_view", Effect::kView},
    {"expand", Effect::kCopies, "Expand"},
    {"repeat", Effect::kCopies, "Tile"},
    {"slice", Effect::kPart},
    {"select", Effect::kPart},
};

const CallRow* FindCallRow(std::string_view call) {
  const auto* row = std::ranges::find(kCalls, call, &CallRow::call);
  return row == std::end(kCalls) ? nullptr : row;
}

// "expand" of "expand_1".
std::string_view CallOf(std::string_view result) {
  const size_t end = result.find_last_not_of("0123456789");
  const bool is_counted = end != result.npos && end + 1 < result.size() && result[end] == '_';
  return is_counted && end > 0 ? result.substr(0, end) : result;
}

// --- What the file says ---------------------------------------------------------------------

// A tensor that the optimizer has stored, and what it was made of.
struct FoldedTensor {
  const onnx::TensorProto* tensor = nullptr;
  Dims dims = {};
  std::vector<std::string_view> of = {};  // tensors of the module
  std::vector<const CallRow*> calls;      // that are known, its own last
  std::set<std::string_view> others;      // names of all other calls
  bool has_numbers = false;               // stored ones
  int reader = 0;                         // the first node that reads it
  int place = 0;                          // its input
  bool is_factor = false;                 // the second one of a product

  std::string_view own_call() const { return CallOf(tensor->name()); }
  // A nameless weight [in, out] of a product, which the exporter turned last.
  bool is_turned() const { return dims.size() == 2 && own_call() == kNameless && is_factor; }
  bool Calls(std::string_view call) const {
    return others.contains(call) ||
           std::ranges::any_of(calls, [&](const CallRow* row) { return row->call == call; });
  }
  bool CallsHave(Effect effect) const {
    return std::ranges::find(calls, effect, &CallRow::effect) != calls.end();
  }
  // Whether its own call is of one tensor.
  bool EndsElementwise() const {
    return !calls.empty() && calls.back()->effect == Effect::kElementwise &&
           calls.back()->call == own_call();
  }
  bool CallsOnlyViews() const {
    return std::ranges::all_of(calls,
                               [](const CallRow* row) { return row->effect == Effect::kView; });
  }
  bool CallsOnly(std::initializer_list<Effect> effects) const {
    return others.empty() && std::ranges::all_of(calls, [&](const CallRow* row) {
             return std::ranges::find(effects, row->effect) != effects.end();
           });
  }
};

// "['query', 'val_1']".
std::vector<std::string_view> NamesIn(std::string_view list) {
  std::vector<std::string_view> names;
  for (size_t at = list.find('\''); at != list.npos; at = list.find('\'', at)) {
    const size_t end = list.find('\'', at + 1);
    if (end == list.npos) break;
    names.push_back(list.substr(at + 1, end - at - 1));
    at = end + 1;
  }
  return names;
}

template <typename Entries>
std::string_view Find(const Entries& entries, std::string_view key) {
  for (const onnx::StringStringEntryProto& entry : entries) {
    if (entry.key() == key) return entry.value();
  }
  return "";
}

// "p_query: PARAMETER target='query'" of each line.
std::set<std::string, std::less<>> TargetsIn(std::string_view signature) {
  constexpr std::string_view kTarget = " target='";
  std::set<std::string, std::less<>> targets;
  for (size_t at = signature.find(kTarget); at != signature.npos;
       at = signature.find(kTarget, at)) {
    at += kTarget.size();
    targets.emplace(signature.substr(at, signature.find('\'', at) - at));
  }
  return targets;
}

Dims DimsOf(const onnx::TensorProto& tensor) {
  return Dims(tensor.dims().begin(), tensor.dims().end());
}

// The batch that the file was exported with: the first dimension of its first input; 0: free.
int64_t BatchOf(const onnx::GraphProto& graph) {
  for (const onnx::ValueInfoProto& input : graph.input()) {
    const auto& dims = input.type().tensor_type().shape().dim();
    if (!dims.empty()) return dims[0].dim_value();
  }
  return 0;
}

using Notes = std::map<std::string_view, std::string_view>;  // by tensor

Notes NotesIn(const onnx::GraphProto& graph) {
  Notes notes;
  for (const onnx::ValueInfoProto& info : graph.value_info()) {
    const std::string_view list = Find(info.metadata_props(), kFoldedFrom);
    if (!list.empty()) notes.emplace(info.name(), list);
  }
  return notes;
}

void AddCall(std::string_view call, FoldedTensor& folded) {
  const CallRow* row = FindCallRow(call);
  if (row != nullptr) folded.calls.push_back(row);
  if (row == nullptr && call != kNameless) folded.others.insert(call);
}

void AddSources(std::string_view list, const std::set<std::string, std::less<>>& targets,
                FoldedTensor& folded) {
  for (const std::string_view name : NamesIn(list)) {
    if (targets.contains(name)) {
      folded.of.push_back(name);
      continue;
    }
    folded.has_numbers = folded.has_numbers || CallOf(name) == kNameless;
    AddCall(CallOf(name), folded);
  }
  AddCall(folded.own_call(), folded);
}

std::vector<FoldedTensor> FindFolded(const onnx::GraphProto& graph) {
  const auto targets = TargetsIn(Find(graph.metadata_props(), kSignature));
  const Notes notes = NotesIn(graph);
  std::map<std::string_view, std::pair<int, int>> readers;  // the first node, and its input
  for (int i = 0; i < graph.node_size() && !notes.empty(); ++i) {
    for (int place = 0; place < graph.node(i).input_size(); ++place) {
      readers.try_emplace(graph.node(i).input(place), i, place);
    }
  }
  std::vector<FoldedTensor> found;
  for (const onnx::TensorProto& tensor : graph.initializer()) {
    const auto note = notes.find(tensor.name());
    const auto reader = readers.find(tensor.name());
    const bool is_float = IsFloat(static_cast<DType>(tensor.data_type()));
    if (note == notes.end() || reader == readers.end() || !is_float) continue;
    FoldedTensor& folded = found.emplace_back();
    folded.tensor = &tensor;
    folded.dims = DimsOf(tensor);
    folded.reader = reader->second.first;
    folded.place = reader->second.second;
    folded.is_factor = folded.place == 1 && graph.node(folded.reader).op_type() == "MatMul";
    AddSources(note->second, targets, folded);
  }
  return found;
}

// --- Which dimensions are copies ------------------------------------------------------------

// Whether the elements are the same, `size` bytes each, at all places of `axis`.
bool AreCopies(std::string_view bytes, const Dims& dims, size_t axis, size_t size) {
  size_t inner = size;
  for (size_t i = axis + 1; i < dims.size(); ++i) inner *= static_cast<size_t>(dims[i]);
  const size_t outer = inner * static_cast<size_t>(dims[axis]);
  for (size_t at = 0; at < bytes.size(); at += outer) {
    for (size_t copy = at + inner; copy < at + outer; copy += inner) {
      if (bytes.substr(copy, inner) != bytes.substr(at, inner)) return false;
    }
  }
  return true;
}

// As the elements say; where they are not in the file, or one number over and over, as a new
// model's zeros are, the first dimension of the batch's size.
std::vector<size_t> CopiedAxes(const Dims& dims, std::string_view bytes, size_t size,
                               int64_t batch) {
  std::vector<size_t> axes;
  const bool is_filled = bytes.substr(std::min(size, bytes.size())) ==
                         bytes.substr(0, bytes.size() - std::min(size, bytes.size()));
  for (size_t axis = 0; axis < dims.size() && !is_filled; ++axis) {
    if (dims[axis] > 1 && AreCopies(bytes, dims, axis, size)) axes.push_back(axis);
  }
  if (!is_filled) return axes;
  const auto of_batch = std::ranges::find(dims, batch);
  if (of_batch != dims.end() && batch > 1) {
    axes.push_back(static_cast<size_t>(of_batch - dims.begin()));
  }
  return axes;
}

// The type of 16 bits that holds all of these numbers of float32, as bfloat16 does whose last 16
// bits are zero; float32 where there is none, or no element.
int32_t NarrowTypeOf(std::string_view bytes) {
  bool is_narrow = !bytes.empty();
  bool is_zero = true;
  for (size_t at = 0; at + sizeof(uint32_t) <= bytes.size(); at += sizeof(uint32_t)) {
    uint32_t bits = 0;
    std::memcpy(&bits, bytes.data() + at, sizeof(bits));
    is_narrow = is_narrow && (bits & 0xffffU) == 0;
    is_zero = is_zero && bits == 0;
  }
  return is_narrow && !is_zero ? onnx::TensorProto::BFLOAT16 : onnx::TensorProto::FLOAT;
}

// --- Putting back ---------------------------------------------------------------------------

class Unfolder {
 public:
  Unfolder(onnx::GraphProto& graph, const ReadElements& read)
      : graph_(graph), read_(read), batch_(BatchOf(graph)) {
    for (const onnx::TensorProto& tensor : graph.initializer()) stored_[tensor.name()] = &tensor;
  }

  const std::vector<std::string>& parts() const { return parts_; }

  // How many tensors of the module are put back.
  int Unfold() {
    for (const FoldedTensor& folded : FindFolded(graph_)) {
      made_.clear();
      if (IsOneOf(folded.tensor->name(), folded)) stored_.erase(folded.tensor->name());
      if (!PutBack(folded)) continue;
      auto& before = nodes_[folded.reader];
      before.insert(before.end(), made_.begin(), made_.end());
      gone_.insert(folded.tensor);
    }
    if (!gone_.empty()) Write();
    return unfolded_;
  }

 private:
  using Names = std::vector<std::string>;

  static bool IsRecurrent(const onnx::NodeProto& node) {
    return node.op_type() == "LSTM" || node.op_type() == "GRU" || node.op_type() == "RNN";
  }

  const onnx::NodeProto& ReaderOf(const FoldedTensor& folded) const {
    return graph_.node(folded.reader);
  }

  bool PutBack(const FoldedTensor& folded) {
    is_of_reader_ = IsRecurrent(ReaderOf(folded));
    if (is_of_reader_ && folded.place > 0 && PutBackRecurrent(folded)) return true;
    is_of_reader_ = false;
    if (folded.of.size() == 1) return PutBackOne(folded);
    return PutBackJoined(folded) || PutBackNormed(folded) || PutBackMasked(folded) ||
           PutBackTable(folded);
  }

  // --- Weights and states of recurrent layers

  // The tensors of the module of that name, "weight_ih"; those of a direction in their order.
  static Names Among(const FoldedTensor& folded, std::string_view child) {
    Names names;
    for (const std::string_view name : folded.of) {
      const size_t at = name.rfind('.') + 1;  // npos + 1 is 0
      if (name.substr(at).starts_with(child)) names.emplace_back(name);
    }
    return names;
  }

  bool PutBackRecurrent(const FoldedTensor& folded) {
    constexpr int kWeight = 1;
    constexpr int kRecurrence = 2;
    constexpr int kBias = 3;
    if (folded.place == kBias) return PutBackBias(folded);
    if (folded.place > kBias) return PutBackZeros(folded);
    if (folded.dims.size() != 3 || folded.place > kRecurrence) return false;
    const Names weights = Among(folded, folded.place == kWeight ? "weight_ih" : "weight_hh");
    if (static_cast<int64_t>(weights.size()) != folded.dims[0]) return false;
    JoinDirections(folded, weights, {folded.dims[1], folded.dims[2]});
    return true;
  }

  // Each direction has two, one behind the other.
  bool PutBackBias(const FoldedTensor& folded) {
    const Names first = Among(folded, "bias_ih");
    const Names second = Among(folded, "bias_hh");
    const bool is_whole = folded.dims.size() == 2 && first.size() == second.size() &&
                          static_cast<int64_t>(first.size()) == folded.dims[0];
    if (!is_whole || folded.dims[1] % 2 != 0) return false;
    Names both;
    for (size_t i = 0; i < first.size(); ++i) {
      AddTensor(first[i], folded, {folded.dims[1] / 2});
      AddTensor(second[i], folded, {folded.dims[1] / 2});
      both.push_back(Between(folded, "Concat", {first[i], second[i]}));
      AddInt(made_.back(), "axis", 0);
    }
    JoinDirections(folded, both, {});
    return true;
  }

  // [directions, …] of `parts`, tensors of the module of `dims` where these are given.
  void JoinDirections(const FoldedTensor& folded, const Names& parts, const Dims& dims) {
    const std::string axis = AddIntegers(folded, {0});
    Names raised;
    for (const std::string& part : parts) {
      if (!dims.empty()) AddTensor(part, folded, dims);
      raised.push_back(parts.size() == 1 ? Make(folded, "Unsqueeze", {part, axis})
                                         : Between(folded, "Unsqueeze", {part, axis}));
    }
    if (raised.size() > 1) Make(folded, "Concat", raised, {{"axis", 0}});
  }

  // The states that a call without any begins with, which the module makes.
  bool PutBackZeros(const FoldedTensor& folded) {
    if (!folded.of.empty() || !folded.Calls("zeros")) return false;
    Make(folded, "ConstantOfShape", {AddIntegers(folded, folded.dims)});
    return true;
  }

  // --- One tensor of the module

  bool PutBackOne(const FoldedTensor& folded) {
    using enum Effect;
    const bool is_known = folded.CallsOnly({kElementwise, kWithNumber, kView, kCopies});
    if (folded.CallsOnly({kView, kPart}) && folded.CallsHave(kPart)) return PutBackPart(folded);
    if (folded.others == std::set<std::string_view>{"_to_copy"} && folded.CallsOnlyViews())
      return PutBackCast(folded);
    if (!is_known && !folded.EndsElementwise()) return false;
    if (folded.others.empty() && folded.CallsOnlyViews()) return PutBackView(folded);
    Dims dims = folded.dims;
    if (folded.is_turned()) std::swap(dims[0], dims[1]);
    if (is_known && folded.CallsHave(kCopies) && !LeaveCopiesOut(folded, dims)) return false;
    if (is_known && folded.Calls("repeat") && folded.Calls("transpose") && dims.size() == 3) {
      return WriteTurnedCopies(folded, dims);
    }
    const std::optional<std::string> value = Whole(folded, std::string(folded.of[0]), dims);
    if (!value.has_value()) return false;
    std::vector<const CallRow*> calls = {folded.calls.back()};
    if (is_known) calls = folded.calls;
    std::erase_if(calls, [](const CallRow* row) { return row->effect == kView; });
    WriteCalls(folded, calls, *value);
    return true;
  }

  // self.gamma.view(1, -1, 1, 1), without the dimensions of 1 that views have put in;
  // self.weight.t().
  bool PutBackView(const FoldedTensor& folded) {
    const std::string name(folded.of[0]);
    if (folded.calls.empty() || folded.is_turned() || stored_.contains(name)) return false;
    const Dims& dims = folded.dims;
    if (folded.Calls("t") && dims.size() == 2) {
      AddTensor(name, folded, {dims[1], dims[0]});
      Make(folded, "Transpose", {name});
      AddInts(made_.back(), "perm", {1, 0});
      return true;
    }
    Dims own;
    std::ranges::copy_if(dims, std::back_inserter(own), [](int64_t dim) { return dim != 1; });
    if (own == dims) {
      AddTensor(name, folded, dims);
      renamed_[folded.tensor->name()] = name;
      return true;
    }
    AddTensor(name, folded, own);
    Make(folded, "Reshape", {name, AddIntegers(folded, dims)});
    return true;
  }

  // self.query.weight.unsqueeze(1).repeat(1, n, 1).transpose(0, 1), as DETR has it for the batch.
  bool WriteTurnedCopies(const FoldedTensor& folded, const Dims& dims) {
    const auto value = Whole(folded, std::string(folded.of[0]), {dims[1], dims[0], dims[2]});
    if (!value.has_value()) return false;
    const Dims times = {folded.dims[1] / dims[1], folded.dims[0] / dims[0],
                        folded.dims[2] / dims[2]};
    const std::string copies = Between(folded, "Tile", {*value, AddIntegers(folded, times)});
    Make(folded, "Transpose", {copies});
    AddInts(made_.back(), "perm", {1, 0, 2});
    return true;
  }

  // self.pos[:, :n]: nothing says how large the tensor is, but as large as that.
  bool PutBackPart(const FoldedTensor& folded) {
    const std::string name(folded.of[0]);
    if (stored_.contains(name) || folded.is_turned()) return false;
    AddTensor(name, folded, folded.dims);
    renamed_[folded.tensor->name()] = name;
    parts_.push_back(name);
    return true;
  }

  // self.weight.float(): elements that 16 bits hold say from which type.
  bool PutBackCast(const FoldedTensor& folded) {
    const std::string name(folded.of[0]);
    if (stored_.contains(name) || folded.is_turned()) return false;
    const int32_t to = folded.tensor->data_type();
    const auto from = to == onnx::TensorProto::FLOAT ? NarrowTypeOf(ElementsOf(folded)) : to;
    AddTensor(name, folded, folded.dims);
    graph_.mutable_initializer()->rbegin()->set_data_type(from);
    if (from == to) {
      renamed_[folded.tensor->name()] = name;
    } else {
      Make(folded, "Cast", {name}, {{"to", to}});
    }
    return true;
  }

  // The sizes of what was expanded or repeated.
  bool LeaveCopiesOut(const FoldedTensor& folded, Dims& dims) {
    const auto size = static_cast<size_t>(BitsOf(TypeOf(folded)) / 8);
    if (size == 0) return false;
    if (folded.is_turned()) return false;
    copied_ = CopiedAxes(folded.dims, ElementsOf(folded), size, batch_);
    for (const size_t axis : copied_) dims[axis] = 1;
    return !copied_.empty();
  }

  // "" where they are not in the file, or are others than its type says.
  std::string ElementsOf(const FoldedTensor& folded) const {
    std::string bytes = read_(*folded.tensor);
    const int64_t expected = BytesOf({TypeOf(folded), folded.dims});
    return static_cast<int64_t>(bytes.size()) == expected ? bytes : std::string();
  }

  // The tensor `name` in `dims`: as the file has it, where it does, else as we put it there;
  // nullopt where it has other elements.
  std::optional<std::string> Whole(const FoldedTensor& folded, const std::string& name,
                                   const Dims& dims) {
    const auto stored = stored_.find(name);
    if (stored == stored_.end()) {
      AddTensor(name, folded, dims);
      return name;
    }
    const Dims own = DimsOf(*stored->second);
    if (own == dims) return name;
    if (NumelOrHuge(own) != NumelOrHuge(dims)) return std::nullopt;
    if (own.size() == 2 && dims == Dims{own[1], own[0]}) {
      const std::string turned = Between(folded, "Transpose", {name});
      AddInts(made_.back(), "perm", {1, 0});
      return turned;
    }
    return Between(folded, "Reshape", {name, AddIntegers(folded, dims)});
  }

  // `calls` one behind another, the last of which makes the stored tensor.
  void WriteCalls(const FoldedTensor& folded, const std::vector<const CallRow*>& calls,
                  std::string value) {
    for (size_t i = 0; i < calls.size(); ++i) {
      const bool is_last = i + 1 == calls.size() && !folded.is_turned();
      const char* op_type = calls[i]->op_type;
      if (calls[i]->effect == Effect::kCopies && folded.Calls("clone")) op_type = "Tile";
      const Names inputs = InputsOf(op_type, *calls[i], folded, value);
      value = is_last ? Make(folded, op_type, inputs) : Between(folded, op_type, inputs);
    }
    if (!folded.is_turned()) return;
    Make(folded, "Transpose", {value});
    AddInts(made_.back(), "perm", {1, 0});
  }

  Names InputsOf(std::string_view op_type, const CallRow& row, const FoldedTensor& folded,
                 const std::string& value) {
    Names inputs = {value};
    if (row.effect == Effect::kWithNumber) {
      inputs.push_back(folded.has_numbers ? AddNumber(folded) : value);
    }
    if (row.effect == Effect::kCopies) {
      Dims sizes = folded.dims;  // not turned: LeaveCopiesOut
      for (size_t i = 0; i < sizes.size() && op_type == "Tile"; ++i) {
        if (!std::ranges::count(copied_, i)) sizes[i] = 1;
      }
      inputs.push_back(AddIntegers(folded, sizes));
    }
    return inputs;
  }

  // --- Several tensors of the module

  // torch.cat([self.q.weight, self.k.weight, self.v.weight]), of equal parts as long as nothing
  // says otherwise: their sum is right.
  bool PutBackJoined(const FoldedTensor& folded) {
    if (!folded.Calls("cat") || folded.of.size() < 2 || folded.dims.empty()) return false;
    const bool has_zeros = folded.others.contains("zeros_like") || folded.others.contains("zeros");
    if (folded.others.size() > (has_zeros ? 2U : 1U)) return false;
    Dims dims = folded.dims;
    if (folded.is_turned()) std::swap(dims[0], dims[1]);
    const auto parts = static_cast<int64_t>(folded.of.size()) + (has_zeros ? 1 : 0);
    if (dims[0] % parts != 0) return false;
    dims[0] /= parts;
    Names names;
    for (const std::string_view name : folded.of) {
      const std::optional<std::string> part = Whole(folded, std::string(name), dims);
      if (!part.has_value()) return false;
      names.push_back(*part);
    }
    if (has_zeros) {
      names.push_back(Between(folded, "ConstantOfShape", {AddIntegers(folded, dims)}));
    }
    if (!folded.is_turned()) {
      Make(folded, "Concat", names, {{"axis", 0}});
      return true;
    }
    const std::string joined = Between(folded, "Concat", names);
    AddInt(made_.back(), "axis", 0);
    Make(folded, "Transpose", {joined});
    AddInts(made_.back(), "perm", {1, 0});
    return true;
  }

  // torch.nn.utils' weight_norm, g * v / |v|, by its names for g and v, of dim=0.
  // Source: torch 2.11, nn/utils/weight_norm.py and parametrizations.py.
  bool PutBackNormed(const FoldedTensor& folded) {
    constexpr std::pair<std::string_view, std::string_view> kNames[] = {{"original0", "original1"},
                                                                        {"weight_g", "weight_v"}};
    if (folded.of.size() != 2 || folded.dims.size() < 2 || folded.is_turned()) return false;
    const bool is_named = std::ranges::any_of(kNames, [&](const auto& names) {
      return folded.of[0].ends_with(names.first) && folded.of[1].ends_with(names.second);
    });
    if (!is_named || !folded.others.contains("linalg_vector_norm")) return false;
    const std::string magnitude(folded.of[0]);
    const std::string direction(folded.of[1]);
    Dims rows(folded.dims.size(), 1);
    rows[0] = folded.dims[0];
    AddTensor(magnitude, folded, rows);
    AddTensor(direction, folded, folded.dims);
    Dims axes;
    for (size_t i = 1; i < folded.dims.size(); ++i) axes.push_back(static_cast<int64_t>(i));
    const std::string norm = Between(folded, "ReduceL2", {direction, AddIntegers(folded, axes)});
    const std::string unit = Between(folded, "Div", {direction, norm});
    Make(folded, "Mul", {unit, magnitude});
    return true;
  }

  // self.weight * self.mask.
  bool PutBackMasked(const FoldedTensor& folded) {
    const bool is_product = folded.of.size() == 2 && folded.own_call() == "mul" &&
                            folded.calls.size() == 1 && folded.others.empty();
    if (!is_product) return false;
    const auto first = Whole(folded, std::string(folded.of[0]), folded.dims);
    const auto second = Whole(folded, std::string(folded.of[1]), folded.dims);
    if (!first.has_value() || !second.has_value()) return false;
    Make(folded, "Mul", {*first, *second});
    return true;
  }

  // self.relative_position_bias_table[self.relative_position_index.view(-1)] of a square window of
  // w * w tokens: (2 w - 1)² rows, as Swin and what follows it have them.
  bool PutBackTable(const FoldedTensor& folded) {
    const Dims& dims = folded.dims;
    const bool is_table = folded.of.size() == 2 && folded.Calls("index") && dims.size() == 2;
    if (!is_table) return false;
    const auto window = static_cast<int64_t>(std::llround(std::pow(dims[0], 0.25)));
    if (window < 2 || window * window * window * window != dims[0]) return false;
    const bool is_index_first = folded.of[0].find("index") != std::string_view::npos;
    const std::string index(folded.of[is_index_first ? 0 : 1]);
    const std::string table(folded.of[is_index_first ? 1 : 0]);
    if (index.find("index") == std::string::npos) return false;
    const int64_t rows = 2 * window - 1;
    AddTensor(table, folded, {rows * rows, dims[1]});
    if (!stored_.contains(index)) {
      AddTensor(index, folded, {window * window, window * window});
      graph_.mutable_initializer()->rbegin()->set_data_type(onnx::TensorProto::INT64);
    }
    const std::string flat = Between(folded, "Reshape", {index, AddIntegers(folded, {dims[0]})});
    Make(folded, "Gather", {table, flat}, {{"axis", 0}});
    return true;
  }

  // --- What is written

  static DType TypeOf(const FoldedTensor& folded) {
    return static_cast<DType>(folded.tensor->data_type());
  }

  // A tensor of the module, without contents.
  void AddTensor(const std::string& name, const FoldedTensor& folded, const Dims& dims) {
    if (stored_.contains(name)) return;
    onnx::TensorProto& tensor = *graph_.add_initializer();
    tensor.set_name(name);
    tensor.set_data_type(folded.tensor->data_type());
    for (const int64_t dim : dims) tensor.add_dims(dim);
    stored_[name] = &tensor;
    ++unfolded_;
  }

  std::string NewName(const FoldedTensor& folded, std::string_view what) {
    return fmt::format("{}_{}_{}", folded.tensor->name(), what, ++names_);
  }

  std::string AddIntegers(const FoldedTensor& folded, const Dims& numbers) {
    onnx::TensorProto& tensor = *graph_.add_initializer();
    tensor.set_name(NewName(folded, "sizes"));
    tensor.set_data_type(onnx::TensorProto::INT64);
    tensor.add_dims(static_cast<int64_t>(numbers.size()));
    for (const int64_t number : numbers) tensor.add_int64_data(number);
    return tensor.name();
  }

  std::string AddNumber(const FoldedTensor& folded) {
    onnx::TensorProto& tensor = *graph_.add_initializer();
    tensor.set_name(NewName(folded, "number"));
    tensor.set_data_type(onnx::TensorProto::FLOAT);
    tensor.add_float_data(2);
    return tensor.name();
  }

  static void AddInt(onnx::NodeProto& node, const char* name, int64_t value) {
    onnx::AttributeProto& attribute = *node.add_attribute();
    attribute.set_name(name);
    attribute.set_type(onnx::AttributeProto::INT);
    attribute.set_i(value);
  }

  static void AddInts(onnx::NodeProto& node, const char* name, const Dims& values) {
    onnx::AttributeProto& attribute = *node.add_attribute();
    attribute.set_name(name);
    attribute.set_type(onnx::AttributeProto::INTS);
    for (const int64_t value : values) attribute.add_ints(value);
  }

  // A node in the line of the reader, which most often has both calls; of a recurrent layer, whose
  // line is in torch.nn, only where it is of the same call.
  onnx::NodeProto& AddNode(const FoldedTensor& folded, const char* op_type, const Names& inputs,
                           const std::string& output) {
    onnx::NodeProto& node = made_.emplace_back();
    node.set_op_type(op_type);
    node.set_name("node_" + output);
    for (const std::string& input : inputs) node.add_input(input);
    node.add_output(output);
    const bool is_recurrent = IsRecurrent(ReaderOf(folded));
    if (is_recurrent != is_of_reader_) return node;
    for (const onnx::StringStringEntryProto& entry : ReaderOf(folded).metadata_props()) {
      if (is_of_reader_ || entry.key() != kFxNode) *node.add_metadata_props() = entry;
    }
    return node;
  }

  // What the nodes call it that the file stored: its own name, which a buffer that it was made of
  // may have, too ("index", of self.table[self.index]).
  std::string ResultOf(const FoldedTensor& folded) {
    const std::string& name = folded.tensor->name();
    if (!IsOneOf(name, folded)) return name;
    return renamed_[name] = name + "_made";
  }

  static bool IsOneOf(const std::string& name, const FoldedTensor& folded) {
    return std::ranges::find(folded.of, name) != folded.of.end();
  }

  // The node that makes what the file stored.
  std::string Make(const FoldedTensor& folded, const char* op_type, const Names& inputs,
                   const std::vector<std::pair<const char*, int64_t>>& ints = {}) {
    onnx::NodeProto& node = AddNode(folded, op_type, inputs, ResultOf(folded));
    for (const auto& [name, value] : ints) AddInt(node, name, value);
    return node.output(0);
  }

  std::string Between(const FoldedTensor& folded, const char* op_type, const Names& inputs) {
    return AddNode(folded, op_type, inputs, NewName(folded, "part")).output(0);
  }

  void Rename(onnx::NodeProto& node) const {
    for (std::string& input : *node.mutable_input()) {
      const auto renamed = renamed_.find(input);
      if (renamed != renamed_.end()) input = renamed->second;
    }
  }

  // Each new node in front of the one that reads its result; stored results go.
  void Write() {
    google::protobuf::RepeatedPtrField<onnx::NodeProto> nodes;
    for (int i = 0; i < graph_.node_size(); ++i) {
      for (onnx::NodeProto& made : nodes_[i]) *nodes.Add() = std::move(made);
      Rename(*graph_.mutable_node(i));
      *nodes.Add() = std::move(*graph_.mutable_node(i));
    }
    graph_.mutable_node()->Swap(&nodes);
    google::protobuf::RepeatedPtrField<onnx::TensorProto> kept;
    for (onnx::TensorProto& tensor : *graph_.mutable_initializer()) {
      if (!gone_.contains(&tensor)) *kept.Add() = std::move(tensor);
    }
    graph_.mutable_initializer()->Swap(&kept);
  }

  onnx::GraphProto& graph_;
  const ReadElements& read_;
  int64_t batch_ = 0;
  std::map<std::string, const onnx::TensorProto*> stored_;  // by name, new ones too
  std::map<int, std::vector<onnx::NodeProto>> nodes_;       // by the node that they go before
  std::vector<onnx::NodeProto> made_;
  bool is_of_reader_ = false;                   // the call that is put back
  std::set<const onnx::TensorProto*> gone_;     // what the file stored
  std::map<std::string, std::string> renamed_;  // of it, what is the module's own
  std::vector<size_t> copied_;                  // dimensions of the one that is put back
  Names parts_;                                 // tensors of which a part is known
  int names_ = 0;
  int unfolded_ = 0;  // tensors of the module that are put back
};

}  // namespace

void UnfoldTensors(onnx::ModelProto& model, const ReadElements& read,
                   std::vector<std::string>& notes, Warnings& warnings) {
  for (const onnx::StringStringEntryProto& entry : model.metadata_props()) {
    if (entry.key().starts_with(kEmbedded)) return;
  }
  Unfolder unfolder(*model.mutable_graph(), read);
  const int unfolded = unfolder.Unfold();
  if (unfolded == 0) return;
  notes.push_back(
      fmt::format("{} tensor{} of the module, of which the exporter stored what it "
                  "computed of them, {} put back",
                  unfolded, unfolded == 1 ? "" : "s", unfolded == 1 ? "is" : "are"));
  const std::vector<std::string>& parts = unfolder.parts();
  if (parts.empty()) return;
  warnings.push_back(
      {warning::kUnsizedTensors,
       fmt::format(
           "of {}{} the export has kept the part that the model reads, and that is counted: "
           "{} may be larger (a .pt2 of torch.export.save has {})",
           parts[0], parts.size() == 1 ? "" : fmt::format(" and {} more", parts.size() - 1),
           parts.size() == 1 ? "it" : "they", parts.size() == 1 ? "it" : "them")});
}

}  // namespace onnxfit
