// Views by other names, views of several tensors, and calls that are joins of such views.
// Sources: aten/src/ATen/native/TensorShape.cpp and TensorConversions.cpp, pytorch v2.11.0.
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "estimator/base/index.h"
#include "estimator/pt2/call_rows.h"

namespace onnxfit::pt2 {
namespace {

// --- Several results -----------------------------------------------------------

// Every tensor is seen in the sizes of its result: atleast_2d, broadcast_tensors.
void WriteEachTensor(CallWriter& writer, const Call& call, std::string_view op) {
  const std::vector<NameId> tensors = writer.Tensors(call);
  const std::vector<NameId> results = writer.Results(call);
  if (tensors.empty() || tensors.size() != results.size()) return writer.WriteUnknown(call);
  for (size_t i = 0; i < tensors.size(); ++i) writer.Emit(op, {tensors[i]}, {results[i]});
}

// Parts that are slices one by one: each one's gradient is a tensor of the whole.
void WriteSlices(CallWriter& writer, const Call& call, int64_t axis) {
  const NameId self = writer.TensorAt(call, "self");
  if (self == kNoName) return writer.WriteUnknown(call);
  constexpr int64_t kStep = 1;
  for (const NameId part : writer.Results(call)) {
    writer.Emit("slice", {self}, {part}, {axis, kStep});
  }
}

void WriteTensorSplit(CallWriter& writer, const Call& call, std::string_view) {
  WriteSlices(writer, call, writer.AxisAt(call, "dim", writer.TensorAt(call, "self"), 0));
}

// Of columns, which a vector has along its only dimension.
void WriteHsplit(CallWriter& writer, const Call& call, std::string_view) {
  const bool is_vector = writer.DimsOf(writer.TensorAt(call, "self")).size() == 1;
  WriteSlices(writer, call, is_vector ? 0 : 1);
}

template <int64_t kAxis>
void WriteSplitAlong(CallWriter& writer, const Call& call, std::string_view) {
  WriteSlices(writer, call, kAxis);
}

// Each tensor along a dimension of its own, seen in all: view, then expand.  With "xy" the first
// two change places.
std::vector<NameId> Grids(CallWriter& writer, const Call& call, const Dims& sizes, DType dtype) {
  const std::vector<NameId> tensors = writer.Tensors(call);
  const bool swaps = writer.TextAt(call, "indexing") == "xy" && tensors.size() > 1;
  std::vector<NameId> grids;
  for (size_t i = 0; i < tensors.size() && tensors.size() == sizes.size(); ++i) {
    const size_t axis = swaps && i < 2 ? 1 - i : i;
    Dims own(sizes.size(), 1);
    own[axis] = sizes[axis];
    const std::string name(call.name);
    grids.push_back(writer.NewName(name + ".view", {dtype, own}));
    writer.Emit("view", {tensors[i]}, {grids.back()});
  }
  return grids;
}

void WriteMeshgrid(CallWriter& writer, const Call& call, std::string_view) {
  const TensorType type = writer.TypeOfResult(call);
  const std::vector<NameId> grids = Grids(writer, call, type.dims, type.dtype);
  const std::vector<NameId> results = writer.Results(call);
  if (grids.empty() || grids.size() != results.size()) return writer.WriteUnknown(call);
  for (size_t i = 0; i < grids.size(); ++i) writer.Emit("expand", {grids[i]}, {results[i]});
}

// --- Joins ---------------------------------------------------------------------

NameId See(CallWriter& writer, const Call& call, std::string_view op, NameId tensor, Dims dims) {
  const TensorType& type = writer.program().values[Index(tensor)].type;
  if (type.dims == dims) return tensor;
  const NameId seen =
      writer.NewName(std::string(call.name) + "." + std::string(op), {type.dtype, std::move(dims)});
  writer.Emit(op, {tensor}, {seen});
  return seen;
}

// atleast_1d, _2d and _3d.
Dims AtLeast(size_t rank, Dims dims) {
  if (rank > 1 && dims.size() == 1) dims.insert(dims.begin(), 1);
  if (rank > 1 && dims.empty()) dims = {1, 1};
  while (dims.size() < rank) dims.push_back(1);
  return dims;
}

template <size_t kRank>
void WriteStacked(CallWriter& writer, const Call& call, std::string_view) {
  std::vector<NameId> parts;
  for (const NameId tensor : writer.Tensors(call)) {
    parts.push_back(See(writer, call, "view", tensor, AtLeast(kRank, writer.DimsOf(tensor))));
  }
  if (parts.empty()) return writer.WriteUnknown(call);
  writer.Emit("cat", std::move(parts), {writer.Result(call)});
}

// Vectors are columns.
void WriteColumnStack(CallWriter& writer, const Call& call, std::string_view) {
  std::vector<NameId> parts;
  for (const NameId tensor : writer.Tensors(call)) {
    const Dims& dims = writer.DimsOf(tensor);
    const Dims column = dims.size() < 2 ? Dims{Numel(dims), 1} : dims;
    parts.push_back(See(writer, call, "view", tensor, column));
  }
  if (parts.empty()) return writer.WriteUnknown(call);
  writer.Emit("cat", std::move(parts), {writer.Result(call)});
}

// Every matrix is copied to its place among zeros; its gradient is a part of the incoming one.
void WriteBlockDiag(CallWriter& writer, const Call& call, std::string_view op) {
  std::vector<NameId> parts;
  for (const NameId tensor : writer.Tensors(call)) {
    parts.push_back(See(writer, call, "view", tensor, AtLeast(2, writer.DimsOf(tensor))));
  }
  if (parts.empty()) return writer.WriteUnknown(call);
  writer.Emit(op, std::move(parts), {writer.Result(call)});
}

// Grids of all vectors, flattened (copied where they are expanded) and stacked.
void WriteCartesianProduct(CallWriter& writer, const Call& call, std::string_view op) {
  const std::vector<NameId> tensors = writer.Tensors(call);
  if (tensors.size() < 2) return ReturnFirst(writer, call, op);
  const TensorType type = writer.TypeOfResult(call);
  Dims sizes;
  for (const NameId tensor : tensors) sizes.push_back(Numel(writer.DimsOf(tensor)));
  std::vector<NameId> flat;
  for (const NameId grid : Grids(writer, call, sizes, type.dtype)) {
    flat.push_back(See(writer, call, "expand", grid, sizes));
  }
  for (NameId& part : flat) part = See(writer, call, "view", part, {type.dims[0]});
  for (NameId& part : flat) part = See(writer, call, "view", part, {type.dims[0], 1});
  writer.Emit("cat", std::move(flat), {writer.Result(call)});
}

// --- Diagonals -----------------------------------------------------------------

// ints: the two dimensions.
std::vector<int64_t> DiagonalAxes(CallWriter& writer, const Call& call, NameId of, int64_t first,
                                  int64_t second) {
  return {writer.AxisAt(call, "dim1", of, first), writer.AxisAt(call, "dim2", of, second)};
}

void WriteDiagonal(CallWriter& writer, const Call& call, std::string_view op) {
  const NameId self = writer.TensorAt(call, "self");
  writer.Emit(op, {self}, {writer.Result(call)}, DiagonalAxes(writer, call, self, 0, 1));
}

void WriteDiagEmbed(CallWriter& writer, const Call& call, std::string_view op) {
  const NameId result = writer.Result(call);
  const auto rank = std::ssize(writer.DimsOf(result));
  writer.Emit(op, {writer.TensorAt(call, "self")}, {result},
              DiagonalAxes(writer, call, result, rank - 2, rank - 1));
}

// Of a matrix a copy of its diagonal, of all else the matrix that has it there.
void WriteDiag(CallWriter& writer, const Call& call, std::string_view) {
  const NameId self = writer.TensorAt(call, "self");
  const NameId result = writer.Result(call);
  if (writer.DimsOf(result).size() == 1) {
    const NameId diagonal = writer.NewName(std::string(call.name) + ".diagonal",
                                           writer.program().values[Index(result)].type);
    writer.Emit("diagonal", {self}, {diagonal}, {0, 1});
    return writer.Emit("clone", {diagonal}, {result});
  }
  const NameId vector = See(writer, call, "view", self, {Numel(writer.DimsOf(self))});
  writer.Emit("diag_embed", {vector}, {result}, {0, 1});
}

// --- One result ----------------------------------------------------------------

// A quarter turn flips the second dimension, then both change places; three the first one.
void WriteRot90(CallWriter& writer, const Call& call, std::string_view) {
  const NameId self = writer.TensorAt(call, "self");
  const int64_t turns = ((writer.IntAt(call, "k", 1) % 4) + 4) % 4;
  if (turns == 0) return writer.Emit("clone", {self}, {writer.Result(call)});
  if (turns == 2) return writer.Emit("flip", {self}, {writer.Result(call)});
  std::vector<int64_t> axes = writer.IntsAt(call, "dims");
  const auto rank = std::ssize(writer.DimsOf(self));
  if (axes.size() < 2) axes = {0, 1};
  std::vector<int64_t> order;
  for (int64_t i = 0; i < rank; ++i) order.push_back(i);
  for (int64_t& axis : axes) axis = axis < 0 ? axis + rank : axis;
  std::swap(order[Index(axes[0])], order[Index(axes[1])]);
  const NameId flipped = writer.NewName(std::string(call.name) + ".flipped",
                                        writer.program().values[Index(self)].type);
  writer.Emit("flip", {self}, {flipped});
  writer.Emit("permute", {flipped}, {writer.Result(call)}, std::move(order));
}

bool IsComplex(CallWriter& writer, NameId name) {
  const DType dtype = writer.program().values[Index(name)].type.dtype;
  return dtype == DType::kComplex64 || dtype == DType::kComplex128;
}

// One of each pair of numbers; of those that are not complex the tensor itself.
// Source: real and imag of aten/src/ATen/native/UnaryOps.cpp, pytorch v2.11.0.
void WritePart(CallWriter& writer, const Call& call, std::string_view op) {
  const NameId self = writer.TensorAt(call, "self");
  if (self == kNoName) return writer.WriteUnknown(call);
  if (!IsComplex(writer, self)) return ReturnFirst(writer, call, op);
  const TensorType part = writer.TypeOfResult(call);
  TensorType pairs = part;
  pairs.dims.push_back(2);
  const NameId both = writer.NewName(std::string(call.name) + ".pairs", pairs);
  writer.Emit("view_as_real", {self}, {both});
  writer.Emit("select", {both}, {writer.Result(call)}, {std::ssize(part.dims)});
}

// Of numbers that are not complex the tensor itself.
void WriteOfReals(CallWriter& writer, const Call& call, std::string_view op) {
  const NameId self = writer.TensorAt(call, "self");
  if (self == kNoName) return writer.WriteUnknown(call);
  IsComplex(writer, self) ? writer.WriteUnknown(call) : ReturnFirst(writer, call, op);
}

// at::roll over the dimensions that are given, or all.
void WriteShift(CallWriter& writer, const Call& call, std::string_view op) {
  const NameId self = writer.TensorAt(call, "self");
  const bool is_given = FindArgument(call, "dim") != nullptr;
  const int64_t count =
      is_given ? std::ssize(writer.IntsAt(call, "dim")) : std::ssize(writer.DimsOf(self));
  writer.Emit(op, {self}, {writer.Result(call)}, {count});
}

constexpr CallRow kViewRows[] = {
    // Views by other names.
    {"broadcast_to.default", "expand", WriteUnary},
    {"reshape_as.default", "view", WriteUnary},
    {"ravel.default", "view", WriteUnary},
    {"unsafe_chunk.default", "split", WriteParts},
    {"unsafe_split.Tensor", "split", WriteParts},
    {"unsafe_split_with_sizes.default", "split", WriteParts},

    {"positive.default", "", ReturnFirst},
    {"real.default", "", WritePart},
    {"imag.default", "", WritePart},
    {"view_as_complex.default", "view_as_complex", WriteUnary},
    {"view_as_real.default", "view_as_real", WriteUnary},
    {"conj.default", "", WriteOfReals},
    {"conj_physical.default", "", WriteOfReals},
    {"resolve_conj.default", "", WriteOfReals},
    {"resolve_neg.default", "", WriteOfReals},

    // Several results.
    {"atleast_1d.default", "view", WriteUnary},
    {"atleast_2d.default", "view", WriteUnary},
    {"atleast_3d.default", "view", WriteUnary},
    {"atleast_1d.Sequence", "view", WriteEachTensor},
    {"atleast_2d.Sequence", "view", WriteEachTensor},
    {"atleast_3d.Sequence", "view", WriteEachTensor},
    {"broadcast_tensors.default", "expand", WriteEachTensor},
    {"meshgrid.default", "", WriteMeshgrid},
    {"meshgrid.indexing", "", WriteMeshgrid},
    {"tensor_split.sections", "", WriteTensorSplit},
    {"tensor_split.indices", "", WriteTensorSplit},
    {"hsplit.int", "", WriteHsplit},
    {"hsplit.array", "", WriteHsplit},
    {"vsplit.int", "", WriteSplitAlong<0>},
    {"vsplit.array", "", WriteSplitAlong<0>},
    {"dsplit.int", "", WriteSplitAlong<2>},
    {"dsplit.array", "", WriteSplitAlong<2>},

    // Joins.
    {"hstack.default", "", WriteStacked<1>},
    {"vstack.default", "", WriteStacked<2>},
    {"row_stack.default", "", WriteStacked<2>},
    {"dstack.default", "", WriteStacked<3>},
    {"column_stack.default", "", WriteColumnStack},
    {"block_diag.default", "block_diag", WriteBlockDiag},
    {"cartesian_prod.default", "", WriteCartesianProduct},

    // Diagonals.
    {"diagonal.default", "diagonal", WriteDiagonal},
    {"diag_embed.default", "diag_embed", WriteDiagEmbed},
    {"diag.default", "", WriteDiag},
    {"diagflat.default", "", WriteDiag},

    // Turned around.
    {"fliplr.default", "flip", WriteUnary},
    {"flipud.default", "flip", WriteUnary},
    {"rot90.default", "", WriteRot90},
    {"fft_fftshift.default", "roll", WriteShift},
    {"fft_ifftshift.default", "roll", WriteShift},
};

}  // namespace

std::span<const CallRow> ViewRows() { return kViewRows; }

// Source: gen_composite_view_copy_kernel of torchgen/gen_functionalization_type.py, pytorch
// v2.11.0.
void WriteCopyOfView(CallWriter& writer, const Call& call, std::string_view) {
  const CallRow* view = ViewOfCopy(call.target);
  if (view == nullptr) return writer.WriteUnknown(call);
  view->write(writer, call, view->op);
  writer.CopyResults(call);
}

}  // namespace onnxfit::pt2
