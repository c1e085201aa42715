#include "estimator/onnx/dim_binding.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "estimator/base/expression.h"
#include "estimator/base/index.h"
#include "estimator/base/quote.h"
#include "estimator/base/warnings.h"
#include "estimator/onnx/binding_hints.h"
#include "estimator/onnx/declared_inputs.h"
#include "estimator/onnx/named_sizes.h"

namespace onnxfit {
namespace {

std::string Listed(const std::vector<std::string>& names) {
  std::vector<std::string> quoted;
  for (const std::string& name : names) quoted.push_back(Quote(name));
  return fmt::format("{}", fmt::join(quoted, ", "));
}

std::string HintFor(const std::vector<const FreeDim*>& left) {
  std::vector<std::string> flags;
  for (const FreeDim* free : left) flags.push_back(DimFlag(free->name, 512));
  return fmt::format("{}", fmt::join(flags, " "));
}

class InputBinder {
 public:
  InputBinder(const Graph& graph, const DimBinding& binding)
      : graph_(graph), binding_(binding), declared_(DeclareInputs(graph)) {
    if (const auto* batch = declared_.BatchDim()) written_batch_ = batch->dim_value();
  }

  [[noreturn]] void RefuseUnused(const std::string& name) const {
    const auto dim = binding_.dims.find(name);
    if (dim != binding_.dims.end()) RefuseDim(name, dim->second);
    RefuseInput(name, binding_.inputs.at(name));
  }

  BoundInputs Bind() && {
    BindGiven();
    RefuseFree();
    WriteNumbers();
    bound_.batch_place = std::move(declared_.batch_place);
    for (DeclaredInput& input : declared_.inputs) bound_.types.push_back(std::move(input.type));
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
    SolveComputed();
    BindBatch();
    SolveComputed();
    Compute();
  }

  // --- Dimensions that are computed from others -----------------------------------

  // Where all but one of the others are known, that one follows.
  void SolveComputed() {
    for (size_t before = 0; before != bound_.symbols.size();) {
      before = bound_.symbols.size();
      for (const ComputedDim& computed : declared_.computed) Solve(computed);
    }
  }

  void Solve(const ComputedDim& computed) {
    const auto given = bound_.symbols.find(computed.name);
    if (given == bound_.symbols.end()) return;
    const auto is_open = [&](const std::string& name) { return !bound_.symbols.contains(name); };
    if (std::ranges::count_if(computed.of, is_open) != 1) return;
    const std::string& open = *std::ranges::find_if(computed.of, is_open);
    const auto size = SolveFor(open, computed.name, given->second,
                               {bound_.symbols.begin(), bound_.symbols.end()});
    if (size) bound_.symbols.emplace(open, *size);
  }

  void Compute() {
    for (const ComputedDim& computed : declared_.computed) {
      const auto is_known = [&](const auto& name) { return bound_.symbols.contains(name); };
      if (!std::ranges::all_of(computed.of, is_known)) continue;
      const auto size = Evaluate(computed.name, {bound_.symbols.begin(), bound_.symbols.end()});
      if (!size || *size < 0) RefuseComputed(computed, size);
      const auto [bound, is_new] = bound_.symbols.emplace(computed.name, *size);
      if (!is_new && bound->second != *size) RefuseComputed(computed, size);
    }
  }

  [[noreturn]] void RefuseComputed(const ComputedDim& computed, std::optional<int64_t> size) const {
    std::vector<std::string> parts;
    for (const std::string& name : computed.of) {
      parts.push_back(fmt::format("{} is {}", Quote(name), bound_.symbols.at(name)));
    }
    const auto given = bound_.symbols.find(computed.name);
    const std::string found =
        given == bound_.symbols.end() ? "" : fmt::format(", found {}", given->second);
    Refuse("input " + Quote(computed.input),
           fmt::format("dimension {} {}, where {}{}", Quote(computed.name),
                       size ? fmt::format("is {}", *size) : "is no whole number",
                       fmt::join(parts, ", "), found));
  }

  // The flags of the first of `hints` that binds, with those for the dimensions that it leaves
  // free; "" where none does.
  std::string HintOf(const std::vector<BindingHint>& hints) const {
    for (const BindingHint& hint : hints) {
      InputBinder other(graph_, hint.binding);
      other.is_tried_ = true;
      try {
        other.BindGiven();
      } catch (const Error&) {
        continue;
      }
      const std::string rest = HintFor(other.Left());
      return rest.empty() ? hint.flag : hint.flag + " " + rest;
    }
    return "";
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

  void BindWholeInputs() {
    for (const auto& [name, dims] : binding_.inputs) {
      const auto found = std::ranges::find(declared_.inputs, name, &DeclaredInput::name);
      if (found != declared_.inputs.end()) {
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
    for (const DeclaredInput& input : declared_.inputs) names.push_back(input.name);
    if (names.empty()) Refuse("--shape " + name, "the model has no inputs");
    const std::string text = fmt::format("no input has this name, the model has {}", Listed(names));
    Refuse("--shape " + name, text,
           is_tried_ ? "" : HintOf(InsteadOfShape(declared_, binding_, name, dims)));
  }

  void BindWhole(DeclaredInput& input, const Dims& dims) {
    const std::string flag = fmt::format("--shape {}={}", input.name, TimesJoined(dims));
    const auto rank = static_cast<int>(dims.size());
    if (!input.IsTensor()) Refuse(flag, "the input is not a tensor");
    const bool declared = input.HasShape();
    onnx::TensorShapeProto& shape = input.MutableShape();
    if (declared && shape.dim_size() != rank) {
      Refuse(flag, fmt::format("expected {} dimensions as in {}, found {}", shape.dim_size(),
                               DeclaredShape(shape), rank));
    }
    for (int axis = 0; axis < rank; ++axis) {
      auto& dim = declared ? *shape.mutable_dim(axis) : *shape.add_dim();
      const int64_t size = dims[Index(axis)];
      if (declared && !dim.has_dim_value()) BindSymbol(DimName(dim, input.name, axis), size, flag);
      dim.set_dim_value(size);
    }
    input.given_whole = true;
  }

  void BindNamedDims() {
    for (const auto& [name, size] : binding_.dims) {
      const bool known =
          std::ranges::find(declared_.free, name, &FreeDim::name) != declared_.free.end() ||
          declared_.FindComputed(name) != nullptr;
      if (!known && MayNameSize(graph_, name)) {
        bound_.inner_dims[name] = size;
        continue;
      }
      if (!known) RefuseDim(name, size);
      BindSymbol(name, size, fmt::format("--dim {}={}", name, size));
    }
  }

  [[noreturn]] void RefuseDim(const std::string& name, int64_t size) const {
    const std::vector<std::string> names = declared_.FreeNames();
    const std::string flag = fmt::format("--dim {}={}", name, size);
    const std::string hint = is_tried_ ? "" : HintOf(InsteadOfDim(declared_, binding_, name, size));
    std::string text = "the model leaves no dimension free";
    if (!names.empty()) {
      text = fmt::format("no free dimension has this name, the model has {}", Listed(names));
    }
    if (!hint.empty() || is_tried_) Refuse(flag, text, hint);
    if (IsBatchName(name) && binding_.batch) {
      Refuse(flag, fmt::format("{}; the batch is {} already, by --batch", text, *binding_.batch));
    }
    Refuse(flag, fmt::format("{}: the file fixes the others, {}", text, FixedText(declared_)),
           ExportHint(graph_, declared_, name));
  }

  void BindBatch() {
    if (declared_.free.empty() || declared_.batch_is_written) {
      BindFixedBatch();
      return;
    }
    const std::string& name = declared_.free.front().name;
    if (binding_.batch.has_value()) {
      BindSymbol(name, *binding_.batch, fmt::format("--batch {}", *binding_.batch));
    }
    bound_.batch = bound_.symbols.emplace(name, 1).first->second;
    ShareBatch();
  }

  // The first dimensions of other inputs whose names nobody chose.  A .pt2 has the sizes of the
  // export, by which it tells (make_program.h).
  void ShareBatch() {
    if (declared_.free.front().axis > 0 || graph_.exported != nullptr) return;
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
                     Quote(declared_.free.front().name), fmt::join(places, ", "),
                     fmt::join(flags, " "))});
  }

  // Dimension 0 of the first input is the batch, or which a recurrent layer reads so, and that of
  // the others of its size.
  void BindFixedBatch() {
    const auto* batch = declared_.BatchDim();
    const int64_t asked = batch == nullptr ? 1 : batch->dim_value();
    bound_.batch = binding_.batch.value_or(asked);
    if (batch == nullptr || bound_.batch == written_batch_) return;
    for (DeclaredInput& input : declared_.inputs) Rebind(input);
    bound_.rebound = Rebound{written_batch_, bound_.batch};
    bound_.warnings.push_back(
        {warning::kReboundBatch,
         fmt::format("the batch of {} that is written in the file was changed to {}",
                     written_batch_, bound_.batch)});
  }

  void Rebind(DeclaredInput& input) {
    if (input.given_whole || !input.HasShape()) return;
    onnx::TensorShapeProto& shape = input.MutableShape();
    if (shape.dim_size() <= declared_.batch_axis) return;
    if (shape.dim(declared_.batch_axis).dim_value() != written_batch_) return;
    shape.mutable_dim(declared_.batch_axis)->set_dim_value(bound_.batch);
  }

  std::vector<const FreeDim*> Left() const {
    std::vector<const FreeDim*> left;
    for (const FreeDim& free : declared_.free) {
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

  void RefuseShapeless() const {
    for (const DeclaredInput& input : declared_.inputs) {
      if (input.given_whole || !input.IsTensor()) continue;
      if (input.HasShape()) continue;
      Refuse("input " + Quote(input.name), "the file does not say how many dimensions it has",
             "--shape " + ShellWord(input.name + "=1x3x224x224"));
    }
  }

  void WriteNumbers() {
    for (DeclaredInput& input : declared_.inputs) {
      if (!input.HasShape()) continue;
      for (int axis = 0; axis < input.Shape().dim_size(); ++axis) {
        auto& dim = *input.MutableShape().mutable_dim(axis);
        if (dim.has_dim_value()) continue;
        dim.set_dim_value(bound_.symbols.at(DimName(dim, input.name, axis)));
      }
    }
  }

  const Graph& graph_;
  const DimBinding& binding_;
  BoundInputs bound_;
  DeclaredInputs declared_;    // with what is bound
  bool is_tried_ = false;      // for a hint: what it throws is not told
  int64_t written_batch_ = 1;  // in a file that fixes it
};

}  // namespace

BoundInputs BindInputs(const Graph& graph, const DimBinding& binding) {
  return InputBinder(graph, WithoutMissing(graph, binding)).Bind();
}

void RefuseUnused(const Graph& graph, const DimBinding& binding, const std::string& name) {
  InputBinder(graph, binding).RefuseUnused(name);
}

int BatchAxis(const Graph& graph) { return DeclareInputs(graph).place_axis; }

std::vector<std::string> FreeDims(const Graph& graph) { return DeclareInputs(graph).FreeNames(); }

std::vector<std::string> FreeDimsBesideBatch(const Graph& graph) {
  const DeclaredInputs declared = DeclareInputs(graph);
  std::vector<std::string> names = declared.FreeNames();
  if (!declared.batch_is_written && !names.empty()) names.erase(names.begin());
  return names;
}

ImageDims ImageDimsOf(const Graph& graph) {
  constexpr int kOfImages = 4;  // samples, channels, height, width
  ImageDims found;
  for (const DeclaredInput& input : DeclareInputs(graph).inputs) {
    if (!input.HasShape() || input.Shape().dim_size() != kOfImages) continue;
    for (const int axis : {kOfImages - 2, kOfImages - 1}) {
      const auto& dim = input.Shape().dim(axis);
      const std::string name = DimName(dim, input.name, axis);
      if (dim.has_dim_value()) {
        const bool is_height = axis == kOfImages - 2;
        found.fixed.push_back(
            {input.name, axis, dim.dim_value(), 0, is_height ? "height" : "width"});
      } else if (std::ranges::find(found.free, name) == found.free.end()) {
        found.free.push_back(name);
      }
    }
  }
  return found;
}

std::vector<std::string> NamedDims(const Graph& graph) {
  const DeclaredInputs declared = DeclareInputs(graph);
  std::vector<std::string> names = declared.FreeNames();
  for (const ComputedDim& computed : declared.computed) names.push_back(computed.name);
  return names;
}

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
  drop(binding.dims, NamedDims(graph));
  drop(binding.inputs, InputNames(graph));
  return binding;
}

}  // namespace onnxfit
