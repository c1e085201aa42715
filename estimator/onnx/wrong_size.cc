#include "estimator/onnx/wrong_size.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <set>

#include "estimator/base/index.h"
#include "estimator/base/quote.h"
#include "estimator/onnx/contrib_operators.h"
#include "estimator/onnx/control_flow.h"
#include "estimator/onnx/dim_binding.h"
#include "estimator/onnx/onnx_model.h"
#include "estimator/onnx/rebind.h"

namespace onnxfit {
namespace {

constexpr int kMostTrials = 32;  // each as long as the run that was refused

// A size that somebody chose, of one dimension or of all that share a name.
struct ChosenSize {
  std::string input;  // the first that has it
  int axis = 0;
  std::string name = {};  // of a free dimension, else ""
  int64_t size = 0;
  std::optional<int64_t> written = {};  // in the file
  bool is_batch = false;                // of the file, changed
};

using Sizes = std::vector<ChosenSize>;

std::string TextOf(const Dims& dims) { return fmt::format("{}", fmt::join(dims, "x")); }

// The sizes of a tensor; nullopt for a list, and where the file names no dimensions.
std::optional<Dims> SizesOf(const onnx::TypeProto& type) {
  if (!type.has_tensor_type() || !type.tensor_type().has_shape()) return std::nullopt;
  Dims dims;
  for (const auto& dim : type.tensor_type().shape().dim()) dims.push_back(dim.dim_value());
  return dims;
}

class Blame {
 public:
  Blame(const Graph& file, const DimBinding& binding, const SizeError& error)
      : file_(file),
        binding_(WithoutMissing(file, binding)),
        error_(error),
        bound_(BindInputs(file, binding_)),
        free_(FreeDims(file)) {
    for (size_t i = 0; i < file.inputs.size(); ++i) {
      const auto sizes = SizesOf(bound_.types[i]);
      const onnx::TypeProto* declared = DeclaredAs(NameOf(i));
      if (sizes.has_value() && declared != nullptr) Collect(NameOf(i), *sizes, *declared);
    }
  }

  Error Tell() const {
    for (const Sizes& group : Groups()) {
      const ChosenSize& first = group.front();
      for (const int64_t other : group.size() == 1 ? OthersFor(first) : Dims()) {
        if (Holds(With(binding_, first, other))) return ErrorFor(first, other);
      }
      if (first.written.has_value() && Holds(AsWritten(group))) return ErrorFor(group);
    }
    const Sizes sizes = ChangedSizes();
    if (sizes.size() > 1 && Holds(AsWritten(sizes))) return ErrorFor(sizes);
    return Error(error_);
  }

 private:
  std::string NameOf(size_t input) const {
    return std::string(file_.values[Index(file_.inputs[input])].name);
  }

  const onnx::TypeProto* DeclaredAs(const std::string& input) const {
    for (const onnx::ValueInfoProto& info : file_.model->proto.graph().input()) {
      if (info.name() == input) return &info.type();
    }
    return nullptr;
  }

  static std::string NameOf(const onnx::TensorShapeProto::Dimension& dim, const std::string& input,
                            int axis) {
    return dim.dim_param().empty() ? fmt::format("{}.{}", input, axis) : dim.dim_param();
  }

  void Collect(const std::string& input, const Dims& sizes, const onnx::TypeProto& declared) {
    const auto& dims = declared.tensor_type().shape().dim();
    for (int axis = 0; axis < std::min<int>(dims.size(), static_cast<int>(sizes.size())); ++axis) {
      ChosenSize chosen = {.input = input, .axis = axis, .size = sizes[Index(axis)]};
      if (dims[axis].has_dim_value()) {
        const bool by_flag = !binding_.inputs.contains(input);  // --batch, of all inputs
        chosen.written = dims[axis].dim_value();
        chosen.is_batch = by_flag || (axis == 0 && dims.size() > 1);
        if (chosen.written == chosen.size || (by_flag && has_batch_)) continue;
        has_batch_ |= by_flag;
        chosen_.push_back(chosen);
      } else {
        chosen.name = NameOf(dims[axis], input, axis);
        const bool is_new =
            std::ranges::find(chosen_, chosen.name, &ChosenSize::name) == chosen_.end();
        const bool is_computed = std::ranges::find(free_, chosen.name) == free_.end();
        if (is_new && !is_computed && IsGiven(chosen)) chosen_.push_back(chosen);
      }
    }
  }

  // Not where it is the batch that nobody has chosen.
  bool IsGiven(const ChosenSize& free) const {
    return binding_.batch.has_value() || binding_.dims.contains(free.name) ||
           binding_.inputs.contains(free.input);
  }

  // --- Trials -------------------------------------------------------------------

  // Height and width of an image are chosen at once.
  std::vector<Sizes> Groups() const {
    std::vector<Sizes> groups;
    for (const ChosenSize& size : chosen_) {
      const auto goes_with = [&](const Sizes& group) {
        const ChosenSize& other = group.front();
        return size.written.has_value() && !size.is_batch && !other.is_batch &&
               other.input == size.input && other.written == size.written &&
               other.size == size.size;
      };
      const auto group = std::ranges::find_if(groups, goes_with);
      if (group == groups.end()) {
        groups.push_back({size});
      } else {
        group->push_back(size);
      }
    }
    return groups;
  }

  // Whether it is one of the sizes that contradict each other, and no sum or share of it.
  bool IsDirect(const ChosenSize& size) const {
    return size.size == error_.conflict().found || size.size == error_.conflict().expected;
  }

  // Sizes other than the file's that the dimension may be meant to have.
  Dims OthersFor(const ChosenSize& size) const {
    const SizeConflict& conflict = error_.conflict();
    Dims others;
    if (size.written.has_value() && !IsDirect(size)) return others;
    for (const int64_t less :
         {conflict.found - conflict.expected, conflict.expected - conflict.found}) {
      const int64_t other = size.size - less;
      if (less != 0 && other > 0 && other != size.written) others.push_back(other);
    }
    return others;
  }

  // What else is bound where `size` is `other`.
  DimBinding With(DimBinding binding, const ChosenSize& size, int64_t other) const {
    bool is_set = false;
    for (auto& [input, dims] : binding.inputs) {
      const auto& declared = DeclaredAs(input)->tensor_type().shape().dim();
      for (size_t axis = 0; axis < std::min(dims.size(), Index(declared.size())); ++axis) {
        const auto& dim = declared[static_cast<int>(axis)];
        const bool is_named = !size.name.empty() && !dim.has_dim_value() &&
                              NameOf(dim, input, static_cast<int>(axis)) == size.name;
        const bool is_it = size.name.empty() && input == size.input && Index(size.axis) == axis;
        if (!is_named && !is_it) continue;
        dims[axis] = other;
        is_set = true;
      }
    }
    const auto named = binding.dims.find(size.name);
    if (named != binding.dims.end()) named->second = other;
    if (!is_set && named == binding.dims.end()) binding.batch = other;
    return binding;
  }

  // The node that refuses `binding`, "" where none does.
  std::string RefusedBy(DimBinding binding) const {
    Warnings ignored;
    try {
      Graph graph = Rebind(InlineControlFlow(file_, binding, ignored), binding, ignored);
      BindShapes(TakeFusedApart(std::move(graph), binding), binding);
      return "";
    } catch (const Error& error) {
      return error.parts().where;
    }
  }

  // Also where another node refuses it that refuses the sizes of the file, too.
  bool Holds(const DimBinding& binding) const {
    if (++trials_ > kMostTrials) return false;
    const std::string node = RefusedBy(binding);
    if (node.empty() || node == error_.parts().where) return node.empty();
    if (!refused_as_written_) refused_as_written_ = RefusedBy(AsWritten(ChangedSizes()));
    return node == *refused_as_written_;
  }

  // Those that the file fixes, but for batches.
  Sizes ChangedSizes() const {
    Sizes sizes;
    for (const ChosenSize& size : chosen_) {
      if (size.written.has_value() && !size.is_batch) sizes.push_back(size);
    }
    return sizes;
  }

  DimBinding AsWritten(const Sizes& sizes) const {
    DimBinding binding = binding_;
    for (const ChosenSize& size : sizes) binding = With(binding, size, *size.written);
    return binding;
  }

  // The dimensions of other inputs that the file gives the same size, in the new one.
  DimBinding WithOthersAlike(const ChosenSize& size) const {
    DimBinding binding = binding_;
    for (size_t i = 0; i < file_.inputs.size(); ++i) {
      const auto sizes = SizesOf(bound_.types[i]);
      const onnx::TypeProto* type = DeclaredAs(NameOf(i));
      if (!sizes.has_value() || type == nullptr || binding_.inputs.contains(NameOf(i))) continue;
      const auto& declared = type->tensor_type().shape().dim();
      Dims dims = *sizes;
      for (size_t axis = 1; axis < std::min(dims.size(), Index(declared.size())); ++axis) {
        const auto& dim = declared[static_cast<int>(axis)];
        if (dim.has_dim_value() && dim.dim_value() == size.written) dims[axis] = size.size;
      }
      if (dims != *sizes) binding.inputs[NameOf(i)] = dims;
    }
    return binding;
  }

  // --- What is said -------------------------------------------------------------

  Error Told(const std::string& input, const std::string& text, const std::string& hint) const {
    Error::Parts parts = error_.parts();
    parts.text = fmt::format("{}: {}: {}", text, parts.where, error_.conflict().text);
    parts.where = "input " + Quote(input);
    parts.hint = hint;
    return Error(parts);
  }

  static std::string DimText(const ChosenSize& size) {
    return size.name.empty() ? fmt::format("dimension {}", size.axis)
                             : fmt::format("dimension {} ({})", size.axis, Quote(size.name));
  }

  Error ErrorFor(const ChosenSize& size, int64_t other) const {
    const auto holds = [&](int64_t near) { return near > 0 && Holds(With(binding_, size, near)); };
    const bool is_most = holds(other - 1) && (other + 1 == size.size || !holds(other + 1));
    std::string expected = fmt::format("{} would hold", other);
    if (is_most || IsDirect(size)) {
      expected = fmt::format("expected {}{}", is_most ? "at most " : "", other);
    }
    return Told(size.input, fmt::format("{} is {}, {}", DimText(size), size.size, expected),
                FlagsOf(With(binding_, size, other)));
  }

  // Of what is left where all other sizes are the file's.
  Error ErrorOfBatch() const {
    Warnings ignored;
    DimBinding binding = AsWritten(ChangedSizes());
    try {
      Rebind(InlineControlFlow(file_, binding, ignored), binding, ignored);
    } catch (const Error& error) {
      return error;
    }
    return Error(error_);
  }

  // The file's sizes hold.
  Error ErrorFor(const Sizes& sizes) const {
    if (sizes[0].is_batch) return ErrorOfBatch();
    std::vector<int> axes;
    Dims found;
    Dims expected;
    for (const ChosenSize& size : sizes) {
      if (size.input != sizes[0].input) continue;
      axes.push_back(size.axis);
      found.push_back(size.size);
      expected.push_back(*size.written);
    }
    const bool is_one = axes.size() == 1;
    return Told(sizes[0].input,
                fmt::format("dimension{} {} {} {}, expected {} as the file fixes {}",
                            is_one ? "" : "s", fmt::join(axes, ", "), is_one ? "is" : "are",
                            TextOf(found), TextOf(expected), is_one ? "it" : "them"),
                HintFor(sizes));
  }

  // The same size for other inputs, or the file's, or, but for a weight's, another export.
  std::string HintFor(const Sizes& sizes) const {
    const DimBinding alike = WithOthersAlike(sizes[0]);
    if (sizes.size() == 1 && alike.inputs != binding_.inputs && Holds(alike)) return FlagsOf(alike);
    const std::string flags = FlagsOf(AsWritten(sizes));
    if (error_.conflict().by_weight) return flags;
    return fmt::format("{}, or {}", flags, ExportLine(file_, DimsToFree(sizes)));
  }

  // Those of other inputs, too, that are as many at the same place: masks of tokens.
  std::vector<ChangedDim> DimsToFree(const Sizes& sizes) const {
    std::vector<ChangedDim> dims;
    for (const ChosenSize& size : sizes) {
      const int rank = DeclaredAs(size.input)->tensor_type().shape().dim_size();
      for (const onnx::ValueInfoProto& info : file_.model->proto.graph().input()) {
        const auto& shape = info.type().tensor_type().shape();
        const bool is_alike = shape.dim_size() == rank && shape.dim(size.axis).has_dim_value() &&
                              shape.dim(size.axis).dim_value() == size.written;
        if (is_alike) dims.push_back({info.name(), size.axis, *size.written, size.size});
      }
    }
    return dims;
  }

  // The flags of `binding` that others have to take the place of.
  std::string FlagsOf(const DimBinding& binding) const {
    std::vector<std::string> flags;
    if (binding.batch != binding_.batch) flags.push_back(fmt::format("--batch {}", *binding.batch));
    for (const auto& [name, size] : binding.dims) {
      if (binding_.dims.at(name) == size) continue;
      flags.push_back("--dim " + ShellWord(fmt::format("{}={}", name, size)));
    }
    for (const auto& [name, dims] : binding.inputs) {
      const auto before = binding_.inputs.find(name);
      if (before != binding_.inputs.end() && before->second == dims) continue;
      flags.push_back("--shape " + ShellWord(fmt::format("{}={}", name, TextOf(dims))));
    }
    return fmt::format("{}", fmt::join(flags, " "));
  }

  const Graph& file_;
  const DimBinding binding_;
  const SizeError& error_;
  const BoundInputs bound_;
  const std::vector<std::string> free_;  // names
  Sizes chosen_;
  mutable int trials_ = 0;
  mutable std::optional<std::string> refused_as_written_;  // RefusedBy, once asked
  bool has_batch_ = false;                                 // chosen_ has that of --batch
};

}  // namespace

Error WrongSize(const Graph& file, const DimBinding& binding, const SizeError& error) {
  return Blame(file, binding, error).Tell();
}

}  // namespace onnxfit
