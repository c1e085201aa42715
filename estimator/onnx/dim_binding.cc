#include "estimator/onnx/dim_binding.h"

#include <fmt/format.h>

#include <algorithm>
#include <unordered_set>
#include <utility>

#include "estimator/base/index.h"
#include "estimator/base/quote.h"
#include "estimator/base/text.h"
#include "estimator/base/warnings.h"
#include "estimator/onnx/named_sizes.h"
#include "estimator/onnx/onnx_model.h"

namespace onnxfit {
namespace {

// One input as the file declares it; `dims` points into a copy of its type.
struct DeclaredInput {
  std::string name;
  onnx::TypeProto* type = nullptr;
  bool given_whole = false;  // by --shape
};

struct FreeDim {
  std::string name;
  std::string input;
  int axis = 0;             // of the input
  bool is_made_up = false;  // nobody chose the name
};

// The tensor inside a sequence or an optional.
onnx::TypeProto& InnermostOf(onnx::TypeProto& type) {
  if (type.has_sequence_type())
    return InnermostOf(*type.mutable_sequence_type()->mutable_elem_type());
  if (type.has_optional_type())
    return InnermostOf(*type.mutable_optional_type()->mutable_elem_type());
  return type;
}

// A named dimension goes by its name, another free one by its place: "ids.1".
std::string NameOf(const onnx::TensorShapeProto::Dimension& dim, std::string_view input, int axis) {
  return dim.dim_param().empty() ? fmt::format("{}.{}", input, axis) : dim.dim_param();
}

std::string DeclaredShape(const onnx::TensorShapeProto& shape) {
  std::vector<std::string> dims;
  for (const auto& dim : shape.dim()) {
    const std::string name = dim.dim_param().empty() ? "?" : dim.dim_param();
    dims.push_back(dim.has_dim_value() ? std::to_string(dim.dim_value()) : name);
  }
  return fmt::format("[{}]", fmt::join(dims, ", "));
}

std::string TimesJoined(const Dims& dims) { return fmt::format("{}", fmt::join(dims, "x")); }

class InputBinder {
 public:
  InputBinder(const Graph& graph, const DimBinding& binding) : graph_(graph), binding_(binding) {
    bound_.types.reserve(graph.inputs.size());
    for (const onnx::ValueInfoProto* info : graph.model->inputs) Declare(*info);
    CollectFree();
    FindBatch();
    if (const auto* batch = BatchDim()) written_batch_ = batch->dim_value();
  }

  std::vector<std::string> FreeNames() const {
    std::vector<std::string> names;
    for (const FreeDim& free : free_) names.push_back(free.name);
    return names;
  }

  int place_axis() const { return place_axis_; }

  [[noreturn]] void RefuseUnused(const std::string& name) const {
    const auto dim = binding_.dims.find(name);
    if (dim != binding_.dims.end()) RefuseDim(name, dim->second);
    RefuseInput(name, binding_.inputs.at(name));
  }

  BoundInputs Bind() && {
    BindGiven();
    RefuseFree();
    WriteNumbers();
    return std::move(bound_);
  }

 private:
  [[noreturn]] void Refuse(std::string where, std::string text, std::string hint = {}) const {
    throw Error({graph_.path, std::move(where), std::move(text), std::move(hint)});
  }

  void BindGiven() {
    CheckPositive();
    BindWholeInputs();
    BindNamedDims();
    BindBatch();
  }

  // --- What to try ------------------------------------------------------------------------

  // Another binding, and what to type for it instead of the flag that is wrong.
  struct Suggestion {
    std::string flag;
    DimBinding binding;
  };

  // The flags of the first of `suggestions` that binds, with those for the dimensions that it
  // leaves free; "" where none does.
  std::string HintOf(const std::vector<Suggestion>& suggestions) const {
    for (const Suggestion& suggestion : suggestions) {
      InputBinder other(graph_, suggestion.binding);
      other.is_tried_ = true;
      try {
        other.BindGiven();
      } catch (const Error&) {
        continue;
      }
      const std::string rest = HintFor(other.Left());
      return rest.empty() ? suggestion.flag : suggestion.flag + " " + rest;
    }
    return "";
  }

  // As exporters and people call it.
  static bool IsBatchName(const std::string& name) {
    constexpr std::string_view kBatchNames[] = {"b", "bs", "n", "batch", "batch_size", "batchsize"};
    return std::any_of(std::begin(kBatchNames), std::end(kBatchNames),
                       [&](std::string_view batch) { return EditDistance(batch, name) == 0; });
  }

  // The name that `typed` is meant to be, where more of its letters are right than wrong: "seq" is
  // no "s10".
  static std::string Misspelt(const std::string& typed, const std::vector<std::string>& names) {
    const std::vector<std::string_view> views(names.begin(), names.end());
    const std::string nearest(Nearest(typed, views));
    return 2 * EditDistance(typed, nearest) < typed.size() ? nearest : "";
  }

  // --dim `name` is nothing here: the dimensions that may be meant, the likeliest first.
  std::vector<Suggestion> InsteadOfDim(const std::string& name, int64_t size) const {
    DimBinding without = binding_;
    without.dims.erase(name);
    std::vector<Suggestion> suggestions;
    const auto add = [&](const std::string& other) {
      if (other.empty() || binding_.dims.contains(other)) return;
      DimBinding changed = without;
      changed.dims[other] = size;
      suggestions.push_back({DimFlag(other, size), std::move(changed)});
    };
    const std::vector<std::string> names = FreeNames();
    add(Misspelt(name, names));
    if (IsBatchName(name) && !binding_.batch) {
      DimBinding changed = without;
      changed.batch = size;
      suggestions.push_back({fmt::format("--batch {}", size), std::move(changed)});
    }
    const size_t first = batch_is_written_ ? 0 : 1;  // the one before it is the batch
    for (size_t i = first; i < names.size(); ++i) add(names[i]);
    return suggestions;
  }

  // --shape `name` is nothing here: an input that it may mean, of that shape or of its own.
  std::vector<Suggestion> InsteadOfShape(const std::string& name, const Dims& dims) const {
    std::vector<std::string> names;
    for (const DeclaredInput& input : inputs_) names.push_back(input.name);
    const std::string meant = NearestOrFirst(name, names);
    std::vector<Suggestion> suggestions;
    for (const Dims& shape : {dims, ExampleOf(meant)}) {
      DimBinding changed = binding_;
      changed.inputs.erase(name);
      changed.inputs[meant] = shape;
      suggestions.push_back(
          {"--shape " + ShellWord(fmt::format("{}={}", meant, TimesJoined(shape))), changed});
    }
    return suggestions;
  }

  // The shape that the file gives an input, 1 for what it leaves free.
  Dims ExampleOf(const std::string& name) const {
    Dims dims;
    for (const DeclaredInput& input : inputs_) {
      if (input.name != name || !input.type->tensor_type().has_shape()) continue;
      for (const auto& dim : ShapeOf(input).dim()) {
        dims.push_back(dim.has_dim_value() ? dim.dim_value() : 1);
      }
    }
    return dims;
  }

  static std::string DimFlag(const std::string& name, int64_t size) {
    return "--dim " + ShellWord(fmt::format("{}={}", name, size));
  }

  // "ids is [1, 512], mask is [1, 512]": what of the inputs the file fixes.
  std::string FixedText() const {
    constexpr size_t kShown = 3;
    std::vector<std::string> texts;
    for (const DeclaredInput& input : inputs_) {
      if (!input.type->tensor_type().has_shape()) continue;
      texts.push_back(fmt::format("{} is {}", Quote(input.name), DeclaredShape(ShapeOf(input))));
    }
    const size_t left_out = texts.size() - std::min(texts.size(), kShown);
    texts.resize(texts.size() - left_out);
    return fmt::format("{}{}", fmt::join(texts, ", "),
                       left_out > 0 ? fmt::format(" and {} more", left_out) : "");
  }

  // How to export with that dimension free: of an image its height, else what follows the batch.
  std::string ExportHint(const std::string& name) const {
    const std::vector<ChangedDim> dims = DimsToFree(name);
    if (dims.empty()) return "an export whose sizes are free";
    return fmt::format("an export with {}, for TorchScript {}", DynamicShapes(graph_, dims),
                       DynamicAxes(graph_, dims));
  }

  // That of the first input that has one, and of the others that are alike.
  std::vector<ChangedDim> DimsToFree(const std::string& name) const {
    std::vector<ChangedDim> dims;
    for (const DeclaredInput& input : inputs_) {
      if (!input.type->tensor_type().has_shape() || ShapeOf(input).dim_size() < 2) continue;
      const int axis = ShapeOf(input).dim_size() > 3 ? 2 : 1;
      const int64_t size = ShapeOf(input).dim(axis).dim_value();
      if (!dims.empty() && (dims[0].axis != axis || dims[0].from != size)) continue;
      dims.push_back({.input = input.name, .axis = axis, .from = size, .to = 0, .name = name});
    }
    return dims;
  }

  // --- What is given ----------------------------------------------------------------------

  onnx::TensorShapeProto& ShapeOf(const DeclaredInput& input) const {
    return *input.type->mutable_tensor_type()->mutable_shape();
  }

  void Declare(const onnx::ValueInfoProto& info) {
    bound_.types.push_back(info.type());
    inputs_.push_back({info.name(), &InnermostOf(bound_.types.back())});
  }

  void CollectFree() {
    std::unordered_set<std::string> listed;
    for (const DeclaredInput& input : inputs_) {
      if (!input.type->tensor_type().has_shape()) continue;
      for (int axis = 0; axis < ShapeOf(input).dim_size(); ++axis) {
        const auto& dim = ShapeOf(input).dim(axis);
        if (dim.has_dim_value()) continue;
        std::string name = NameOf(dim, input.name, axis);
        const bool is_made_up = IsMadeUp(dim.dim_param());
        if (listed.insert(name).second)
          free_.push_back({std::move(name), input.name, axis, is_made_up});
      }
    }
  }

  // The first input's first dimension, unless a recurrent layer reads another one as the batch:
  // the free one of that place comes first.
  void FindBatch() {
    const std::optional<InputAxis> found = FindRecurrentBatch(graph_);
    if (!found.has_value()) return FindFreeBatch();
    const std::string_view name = graph_.values[Index(found->input)].name;
    const auto input = std::find_if(inputs_.begin(), inputs_.end(),
                                    [&](const DeclaredInput& i) { return i.name == name; });
    if (input == inputs_.end() || !input->type->has_tensor_type() ||
        !input->type->tensor_type().has_shape() || ShapeOf(*input).dim_size() <= found->axis) {
      return;
    }
    batch_axis_ = found->axis;
    batch_input_ = input->name;
    const std::string batch = NameOf(ShapeOf(*input).dim(batch_axis_), batch_input_, batch_axis_);
    const auto free = std::find_if(free_.begin(), free_.end(),
                                   [&](const FreeDim& dim) { return dim.name == batch; });
    batch_is_written_ = free == free_.end();
    if (!batch_is_written_) std::rotate(free_.begin(), free, free + 1);
    SayPlace(batch_input_, batch_axis_, fmt::format(", as its {} reads it", found->layer));
  }

  // What nobody expects: that the batch is not the first dimension.
  void SayPlace(const std::string& input, int axis, std::string_view why = "") {
    place_axis_ = axis;
    if (axis > 0) bound_.batch_place = fmt::format("dimension {} of {}{}", axis, input, why);
  }

  // A free dimension that is an input's first, or is called a batch; where height and width alone
  // are free, the file fixes the batch.
  void FindFreeBatch() {
    if (free_.empty()) return;
    const auto free = std::ranges::find_if(
        free_, [](const FreeDim& dim) { return dim.axis == 0 || IsBatchName(dim.name); });
    batch_is_written_ = free == free_.end();
    if (batch_is_written_) return;
    SayPlace(free->input, free->axis);
    std::rotate(free_.begin(), free, free + 1);
  }

  void CheckPositive() const {
    const auto check = [&](std::string where, int64_t size) {
      if (size > 0) return;
      Refuse(std::move(where), fmt::format("expected a positive number, found {}", size));
    };
    if (binding_.batch.has_value()) check("--batch", *binding_.batch);
    for (const auto& [name, size] : binding_.dims) check("--dim " + name, size);
    for (const auto& [name, dims] : binding_.inputs) {
      for (const int64_t dim : dims) check("--shape " + name, dim);
    }
  }

  void BindSymbol(const std::string& name, int64_t size, const std::string& flag) {
    const auto [bound, is_new] = bound_.symbols.emplace(name, size);
    if (is_new || bound->second == size) return;
    Refuse(flag,
           fmt::format("dimension {} is {} already, found {}", Quote(name), bound->second, size));
  }

  // "did you mean", or else the first of those there are.
  std::string NearestOrFirst(const std::string& typed,
                             const std::vector<std::string>& names) const {
    const std::vector<std::string_view> views(names.begin(), names.end());
    const std::string_view nearest = Nearest(typed, views);
    return nearest.empty() ? names.front() : std::string(nearest);
  }

  std::string Listed(const std::vector<std::string>& names) const {
    std::vector<std::string> quoted;
    for (const std::string& name : names) quoted.push_back(Quote(name));
    return fmt::format("{}", fmt::join(quoted, ", "));
  }

  void BindWholeInputs() {
    for (const auto& [name, dims] : binding_.inputs) {
      const auto found =
          std::find_if(inputs_.begin(), inputs_.end(),
                       [&wanted = name](const DeclaredInput& i) { return i.name == wanted; });
      if (found != inputs_.end()) {
        BindWhole(*found, dims);
      } else if (MayNameSize(graph_, name)) {
        bound_.inner_shapes[name] = dims;
      } else {
        RefuseInput(name, dims);
      }
    }
  }

  [[noreturn]] void RefuseInput(const std::string& name, const Dims& dims) const {
    std::vector<std::string> names;
    for (const DeclaredInput& input : inputs_) names.push_back(input.name);
    if (names.empty()) Refuse("--shape " + name, "the model has no inputs");
    const std::string text = fmt::format("no input has this name, the model has {}", Listed(names));
    Refuse("--shape " + name, text, is_tried_ ? "" : HintOf(InsteadOfShape(name, dims)));
  }

  void BindWhole(DeclaredInput& input, const Dims& dims) {
    const std::string flag = fmt::format("--shape {}={}", input.name, TimesJoined(dims));
    const auto rank = static_cast<int>(dims.size());
    if (!input.type->has_tensor_type()) Refuse(flag, "the input is not a tensor");
    const bool declared = input.type->tensor_type().has_shape();
    onnx::TensorShapeProto& shape = ShapeOf(input);
    if (declared && shape.dim_size() != rank) {
      Refuse(flag, fmt::format("expected {} dimensions as in {}, found {}", shape.dim_size(),
                               DeclaredShape(shape), rank));
    }
    for (int axis = 0; axis < rank; ++axis) {
      auto& dim = declared ? *shape.mutable_dim(axis) : *shape.add_dim();
      const int64_t size = dims[Index(axis)];
      if (declared && !dim.has_dim_value()) BindSymbol(NameOf(dim, input.name, axis), size, flag);
      dim.set_dim_value(size);
    }
    input.given_whole = true;
  }

  void BindNamedDims() {
    for (const auto& [name, size] : binding_.dims) {
      const bool known =
          std::any_of(free_.begin(), free_.end(),
                      [&wanted = name](const FreeDim& free) { return free.name == wanted; });
      if (!known && MayNameSize(graph_, name)) {
        bound_.inner_dims[name] = size;
        continue;
      }
      if (!known) RefuseDim(name, size);
      BindSymbol(name, size, fmt::format("--dim {}={}", name, size));
    }
  }

  [[noreturn]] void RefuseDim(const std::string& name, int64_t size) const {
    const std::vector<std::string> names = FreeNames();
    const std::string flag = fmt::format("--dim {}={}", name, size);
    const std::string hint = is_tried_ ? "" : HintOf(InsteadOfDim(name, size));
    std::string text = "the model leaves no dimension free";
    if (!names.empty()) {
      text = fmt::format("no free dimension has this name, the model has {}", Listed(names));
    }
    if (!hint.empty() || is_tried_) Refuse(flag, text, hint);
    if (IsBatchName(name) && binding_.batch) {
      Refuse(flag, fmt::format("{}; the batch is {} already, by --batch", text, *binding_.batch));
    }
    Refuse(flag, fmt::format("{}: the file fixes the others, {}", text, FixedText()),
           ExportHint(name));
  }

  void BindBatch() {
    if (free_.empty() || batch_is_written_) {
      BindFixedBatch();
      return;
    }
    const std::string& name = free_.front().name;
    if (binding_.batch.has_value()) {
      BindSymbol(name, *binding_.batch, fmt::format("--batch {}", *binding_.batch));
    }
    bound_.batch = bound_.symbols.emplace(name, 1).first->second;
    ShareBatch();
  }

  // The first dimensions of other inputs whose names nobody chose.  A .pt2 has the sizes of the
  // export, by which it tells (make_program.h).
  void ShareBatch() {
    if (free_.front().axis > 0 || graph_.exported != nullptr) return;
    std::vector<std::string> places;
    std::vector<std::string> flags;
    for (const FreeDim* free : Left()) {
      if (free->axis > 0 || !free->is_made_up) continue;
      bound_.symbols.emplace(free->name, bound_.batch);
      places.push_back(fmt::format("{} of {}", Quote(free->name), Quote(free->input)));
      flags.push_back(DimFlag(free->name, bound_.batch));
    }
    if (places.empty()) return;
    bound_.warnings.push_back(
        {warning::kSharedBatch,
         fmt::format("first dimensions that are free beside {}, the batch, are taken to be as "
                     "large: {} ({} says so, or another size)",
                     Quote(free_.front().name), fmt::join(places, ", "), fmt::join(flags, " "))});
  }

  // Dimension 0 of the first input is the batch, or which a recurrent layer reads so, and that of
  // the others of its size.
  void BindFixedBatch() {
    const auto* batch = BatchDim();
    const int64_t asked = batch == nullptr ? 1 : batch->dim_value();
    bound_.batch = binding_.batch.value_or(asked);
    if (batch == nullptr || bound_.batch == written_batch_) return;
    for (const DeclaredInput& input : inputs_) Rebind(input);
    bound_.rebound = Rebound{written_batch_, bound_.batch};
    bound_.warnings.push_back(
        {warning::kReboundBatch,
         fmt::format("the batch of {} that is written in the file was changed to {}",
                     written_batch_, bound_.batch)});
  }

  const onnx::TensorShapeProto::Dimension* BatchDim() const {
    for (const DeclaredInput& input : inputs_) {
      if (!batch_input_.empty() && input.name != batch_input_) continue;
      if (input.type->tensor_type().has_shape() && ShapeOf(input).dim_size() > batch_axis_) {
        return &ShapeOf(input).dim(batch_axis_);
      }
    }
    return nullptr;
  }

  void Rebind(const DeclaredInput& input) {
    if (input.given_whole || !input.type->tensor_type().has_shape()) return;
    onnx::TensorShapeProto& shape = ShapeOf(input);
    if (shape.dim_size() <= batch_axis_) return;
    if (shape.dim(batch_axis_).dim_value() != written_batch_) return;
    shape.mutable_dim(batch_axis_)->set_dim_value(bound_.batch);
  }

  std::vector<const FreeDim*> Left() const {
    std::vector<const FreeDim*> left;
    for (const FreeDim& free : free_) {
      if (!bound_.symbols.contains(free.name)) left.push_back(&free);
    }
    return left;
  }

  void RefuseFree() const {
    RefuseShapeless();
    const std::vector<const FreeDim*> left = Left();
    if (left.empty()) return;
    if (left.size() == 1) {
      Refuse("input " + Quote(left[0]->input),
             fmt::format("dimension {} is free", Quote(left[0]->name)), HintFor(left));
    }
    std::vector<std::string> places;
    for (const FreeDim* free : left) {
      places.push_back(fmt::format("{} of input {}", Quote(free->name), Quote(free->input)));
    }
    Refuse("", fmt::format("dimensions {} are free", fmt::join(places, ", ")), HintFor(left));
  }

  std::string HintFor(const std::vector<const FreeDim*>& left) const {
    std::vector<std::string> flags;
    for (const FreeDim* free : left) flags.push_back(DimFlag(free->name, 512));
    return fmt::format("{}", fmt::join(flags, " "));
  }

  void RefuseShapeless() const {
    for (const DeclaredInput& input : inputs_) {
      if (input.given_whole || !input.type->has_tensor_type()) continue;
      if (input.type->tensor_type().has_shape()) continue;
      Refuse("input " + Quote(input.name), "the file does not say how many dimensions it has",
             "--shape " + ShellWord(input.name + "=1x3x224x224"));
    }
  }

  void WriteNumbers() {
    for (const DeclaredInput& input : inputs_) {
      if (!input.type->tensor_type().has_shape()) continue;
      for (int axis = 0; axis < ShapeOf(input).dim_size(); ++axis) {
        auto& dim = *ShapeOf(input).mutable_dim(axis);
        if (dim.has_dim_value()) continue;
        dim.set_dim_value(bound_.symbols.at(NameOf(dim, input.name, axis)));
      }
    }
  }

  const Graph& graph_;
  const DimBinding& binding_;
  BoundInputs bound_;
  std::vector<DeclaredInput> inputs_;
  bool is_tried_ = false;         // for a hint: what it throws is not told
  std::string batch_input_ = {};  // which a recurrent layer reads, else ""
  int batch_axis_ = 0;
  int place_axis_ = 0;             // the same, or that of the free dimension that is the batch
  bool batch_is_written_ = false;  // though other dimensions are free
  int64_t written_batch_ = 1;      // in a file that fixes it
  std::vector<FreeDim> free_;      // in the order of inputs and their dimensions
};

}  // namespace

BoundInputs BindInputs(const Graph& graph, const DimBinding& binding) {
  return InputBinder(graph, WithoutMissing(graph, binding)).Bind();
}

void RefuseUnused(const Graph& graph, const DimBinding& binding, const std::string& name) {
  InputBinder(graph, binding).RefuseUnused(name);
}

int BatchAxis(const Graph& graph) { return InputBinder(graph, {}).place_axis(); }

std::vector<std::string> FreeDims(const Graph& graph) { return InputBinder(graph, {}).FreeNames(); }

std::vector<std::string> InputNames(const Graph& graph) {
  std::vector<std::string> names;
  for (const ValueId id : graph.inputs) names.emplace_back(graph.values[Index(id)].name);
  return names;
}

DimBinding WithoutMissing(const Graph& graph, DimBinding binding) {
  if (binding.optional.empty()) return binding;
  const auto drop = [&](auto& sizes, const std::vector<std::string>& names) {
    std::erase_if(sizes, [&](const auto& size) {
      return binding.optional.contains(size.first) &&
             std::ranges::find(names, size.first) == names.end() && !MayNameSize(graph, size.first);
    });
  };
  drop(binding.dims, FreeDims(graph));
  drop(binding.inputs, InputNames(graph));
  return binding;
}

}  // namespace onnxfit
