// Views, copies, joins and reads of tensors by places.
#include <algorithm>
#include <numeric>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "estimator/base/index.h"
#include "estimator/pt2/call_rows.h"

namespace onnxfit::pt2 {
namespace {

void WriteTranspose(CallWriter& writer, const Call& call, std::string_view op) {
  const NameId self = writer.TensorAt(call, "self");
  const size_t rank = writer.DimsOf(self).size();
  std::vector<int64_t> order(rank);
  std::iota(order.begin(), order.end(), int64_t{0});
  const bool has_axes = FindArgument(call, "axis0") != nullptr;
  const bool names_axes = has_axes || FindArgument(call, "dim0") != nullptr;
  const int64_t last = static_cast<int64_t>(rank) - 1;
  const int64_t a =
      names_axes ? writer.AxisAt(call, has_axes ? "axis0" : "dim0", self, 0) : last - 1;
  const int64_t b = names_axes ? writer.AxisAt(call, has_axes ? "axis1" : "dim1", self, 0) : last;
  if (a < 0 || b < 0 || a > last || b > last) return ReturnFirst(writer, call, op);  // a vector
  std::swap(order[Index(a)], order[Index(b)]);
  writer.Emit(op, {self}, {writer.Result(call)}, std::move(order));
}

void WritePermute(CallWriter& writer, const Call& call, std::string_view op) {
  const NameId self = writer.TensorAt(call, "self");
  std::vector<int64_t> order = writer.IntsAt(call, "dims");
  for (int64_t& axis : order) {
    if (axis < 0) axis += std::ssize(writer.DimsOf(self));
  }
  writer.Emit(op, {self}, {writer.Result(call)}, std::move(order));
}

// x.movedim(a, b): what is moved comes to its places, the others keep their order.
void WriteMovedim(CallWriter& writer, const Call& call, std::string_view op) {
  const NameId self = writer.TensorAt(call, "self");
  const std::vector<int64_t> from = writer.IntsAt(call, "source");
  const std::vector<int64_t> to = writer.IntsAt(call, "destination");
  const auto rank = std::ssize(writer.DimsOf(self));
  std::vector<int64_t> order(Index(rank), -1);
  std::vector<bool> moves(Index(rank));
  for (size_t i = 0; i < std::min(from.size(), to.size()); ++i) {
    const int64_t source = from[i] < 0 ? from[i] + rank : from[i];
    const int64_t place = to[i] < 0 ? to[i] + rank : to[i];
    if (std::min(source, place) < 0 || std::max(source, place) >= rank) {
      return writer.WriteUnknown(call);
    }
    order[Index(place)] = source;
    moves[Index(source)] = true;
  }
  size_t next = 0;
  for (int64_t& axis : order) {
    if (axis >= 0) continue;
    while (next < moves.size() && moves[next]) ++next;
    if (next == moves.size()) return writer.WriteUnknown(call);
    axis = static_cast<int64_t>(next++);
  }
  writer.Emit(op, {self}, {writer.Result(call)}, std::move(order));
}

void WriteRoll(CallWriter& writer, const Call& call, std::string_view op) {
  const auto count = static_cast<int64_t>(writer.IntsAt(call, "shifts").size());
  writer.Emit(op, {writer.TensorAt(call, "self")}, {writer.Result(call)}, {count});
}

// The axis and the step go along where the step is not 1.  All of x, "x[:, a:b]", is an alias (a
// node that passes its gradient on): THPVariable_getitem of torch/csrc/autograd/
// python_variable_indexing.cpp, pytorch v2.11.0.
void WriteSlice(CallWriter& writer, const Call& call, std::string_view op) {
  const NameId self = writer.TensorAt(call, "self");
  const int64_t step = writer.IntAt(call, "step", 1);
  const Dims taken = writer.TypeOfResult(call).dims;  // as the export counts them
  const Dims& dims = writer.DimsOf(self);
  const auto axis = writer.AxisAt(call, "dim", self, 0);
  const bool has_axis = axis >= 0 && axis < std::ssize(dims) && taken.size() == dims.size();
  if (has_axis && taken[Index(axis)] > dims[Index(axis)]) {
    const std::string_view result = call.results[0].text;
    writer.RefuseRows(call, "self", result, taken[Index(axis)], dims[Index(axis)]);
  }
  std::vector<int64_t> ints;
  if (step != 1) ints = {writer.AxisAt(call, "dim", self, 0), step};
  const bool is_whole = taken == dims && step == 1 && writer.EndsIndexing(call);
  writer.Emit(is_whole ? "expand" : op, {self}, {writer.Result(call)}, std::move(ints));
}

void WriteSelect(CallWriter& writer, const Call& call, std::string_view op) {
  const NameId self = writer.TensorAt(call, "self");
  writer.Emit(op, {self}, {writer.Result(call)}, {writer.AxisAt(call, "dim", self, 0)});
}

// Windows of one dimension, a view.
void WriteUnfold(CallWriter& writer, const Call& call, std::string_view op) {
  const NameId self = writer.TensorAt(call, "self");
  writer.Emit(op, {self}, {writer.Result(call)},
              {writer.AxisAt(call, "dimension", self, 0), writer.IntAt(call, "size", 1),
               writer.IntAt(call, "step", 1)});
}

// Its strides go along.
void WriteAsStrided(CallWriter& writer, const Call& call, std::string_view op) {
  writer.Emit(op, {writer.TensorAt(call, "self")}, {writer.Result(call)},
              writer.IntsAt(call, "stride"));
}

void WriteUnbind(CallWriter& writer, const Call& call, std::string_view op) {
  const NameId self = writer.TensorAt(call, "self");
  writer.Emit(op, {self}, writer.Results(call), {writer.AxisAt(call, "dim", self, 0)});
}

// ints: 1 of a copy that is asked to be dense; else it keeps the order of dimensions.
void WriteClone(CallWriter& writer, const Call& call, std::string_view op) {
  const bool is_dense = writer.TextAt(call, "memory_format") == "contiguous_format";
  const NameId self = writer.TensorAt(call, "self");
  if (self == kNoName) return writer.WriteUnknown(call);
  writer.Emit(op, {self}, {writer.Result(call)},
              is_dense ? std::vector<int64_t>{1} : std::vector<int64_t>());
}

// Of views with one dimension more.
// Source: stack of aten/src/ATen/native/TensorShape.cpp, pytorch v2.11.0.
void WriteStack(CallWriter& writer, const Call& call, std::string_view) {
  const TensorType type = writer.TypeOfResult(call);
  const std::vector<NameId> tensors = writer.Tensors(call);
  if (tensors.empty()) return writer.WriteUnknown(call);
  int64_t axis = writer.IntAt(call, "dim", 0);
  if (axis < 0) axis += std::ssize(type.dims);
  TensorType part = type;
  if (axis >= 0 && axis < std::ssize(part.dims)) part.dims[Index(axis)] = 1;
  std::vector<NameId> views;
  for (const NameId tensor : tensors) {
    views.push_back(writer.NewName(std::string(call.name) + ".unsqueezed", part));
    writer.Emit("view", {tensor}, {views.back()});
  }
  writer.Emit("cat", std::move(views), {writer.Result(call)});
}

// A vector of no elements joins whatever the others are, and is left out: a cache that is empty
// yet. Source: cat_should_skip_tensor of aten/src/ATen/native/TensorShape.h, pytorch v2.11.0.
void WriteCat(CallWriter& writer, const Call& call, std::string_view op) {
  std::vector<NameId> tensors = writer.Tensors(call);
  const auto is_empty = [&](NameId name) { return writer.DimsOf(name) == Dims{0}; };
  if (!std::ranges::all_of(tensors, is_empty)) std::erase_if(tensors, is_empty);
  writer.Emit(op, std::move(tensors), {writer.Result(call)});
}

// What `count` differences are taken of: `self` between what is put before and behind it.
NameId WithEnds(CallWriter& writer, const Call& call, NameId self, int64_t count) {
  std::vector<NameId> parts;
  TensorType whole = writer.TypeOfResult(call);
  whole.dtype = writer.program().values[Index(self)].type.dtype;
  for (const NameId part :
       {writer.TensorAt(call, "prepend"), self, writer.TensorAt(call, "append")})
    if (part != kNoName) parts.push_back(part);
  const int64_t axis = writer.AxisAt(call, "dim", self, -1);
  if (parts.size() == 1 || axis < 0 || axis >= std::ssize(whole.dims)) return self;
  whole.dims[Index(axis)] += count;
  const NameId made = writer.NewName(std::string(call.name) + ".cat", whole);
  writer.Emit("cat", std::move(parts), {made});
  return made;
}

// x[1:] - x[:-1], so often; of bools, which differ.  None is a copy, of `self` alone.
// Source: diff and diff_helper of aten/src/ATen/native/ReduceOps.cpp, pytorch v2.11.0.
void WriteDiff(CallWriter& writer, const Call& call, std::string_view) {
  NameId self = writer.TensorAt(call, "self");
  if (self == kNoName) return writer.WriteUnknown(call);
  const int64_t axis = writer.AxisAt(call, "dim", self, -1);
  const Dims& dims = writer.DimsOf(self);
  if (axis < 0 || axis >= std::ssize(dims)) return writer.WriteUnknown(call);
  const int64_t count = std::clamp<int64_t>(writer.IntAt(call, "n", 1), 0, dims[Index(axis)]);
  if (count == 0) return writer.Emit("clone", {self}, {writer.Result(call)});
  self = WithEnds(writer, call, self, count);
  TensorType part = writer.TypeOfResult(call);
  part.dtype = writer.program().values[Index(self)].type.dtype;
  if (axis >= std::ssize(part.dims)) return writer.WriteUnknown(call);
  for (int64_t left = count; left-- > 0;) {
    TensorType type = part;
    type.dims[Index(axis)] += left;
    std::vector<NameId> parts;
    for (const char* name : {".after", ".before"}) {
      parts.push_back(writer.NewName(std::string(call.name) + name, type));
      writer.Emit("slice", {self}, {parts.back()});
    }
    self = left == 0 ? writer.Result(call) : writer.NewName(std::string(call.name) + ".less", type);
    writer.Emit(IsFloat(part.dtype) ? "sub" : "logical_xor", std::move(parts), {self});
  }
}

// Rows of a table by indices, which are known where they are positions.
void WriteEmbedding(CallWriter& writer, const Call& call, std::string_view op) {
  const Known* indices = writer.KnownAt(call, "indices");
  const Dims& table = writer.DimsOf(writer.TensorAt(call, "weight"));
  if (indices != nullptr && !indices->elements.empty() && !table.empty()) {
    const int64_t asked = *std::ranges::max_element(indices->elements) + 1;
    const std::string_view counted = FindArgument(call, "indices")->text;
    if (asked > table[0]) writer.RefuseRows(call, "weight", counted, asked, table[0]);
  }
  WriteAll(writer, call, writer.IntAt(call, "sparse", 0) != 0 ? "embedding.sparse" : op);
}

// x[:, i]: the tensors among a list of indices.
// Indices on the host are copied to the device each time.
void WriteIndex(CallWriter& writer, const Call& call, std::string_view op) {
  const NameId self = writer.TensorAt(call, "self");
  const Argument* indices = FindArgument(call, "indices");
  std::vector<NameId> operands = {self};
  int64_t on_host = 0;
  if (indices != nullptr) {
    for (const Argument& item : indices->items) {
      const NameId index = writer.TensorOf(item);
      index != kNoName ? operands.push_back(index) : void(on_host += writer.NumelOf(item));
    }
  }
  if (operands.size() < 2 && on_host > 0 && self != kNoName) {
    return writer.Emit("index.host", {self}, {writer.Result(call)}, {on_host});
  }
  if (operands.size() < 2) return writer.WriteUnknown(call);
  writer.Emit(op, std::move(operands), {writer.Result(call)});
}

void WritePad(CallWriter& writer, const Call& call, std::string_view op) {
  const std::string_view mode = writer.TextAt(call, "mode");
  if (mode == "circular") {
    return writer.Emit("pad.circular", {writer.TensorAt(call, "self")}, {writer.Result(call)},
                       writer.IntsAt(call, "pad"));
  }
  if (mode == "reflect") op = "pad.reflect";
  if (mode == "replicate") op = "pad.copies";
  WriteUnary(writer, call, op);
}

// ints: whether it is of the kind that cuDNN knows: bilinear, zeros outside, aligned corners.
void WriteGridSampler(CallWriter& writer, const Call& call, std::string_view op) {
  const bool is_plain = writer.IntAt(call, "interpolation_mode", 0) == 0 &&
                        writer.IntAt(call, "padding_mode", 0) == 0;
  const bool is_known = is_plain && writer.IntAt(call, "align_corners", 0) != 0;
  writer.Emit(op, {writer.TensorAt(call, "input"), writer.TensorAt(call, "grid")},
              {writer.Result(call)}, {is_known ? 1 : 0});
}

void WriteDetach(CallWriter& writer, const Call& call, std::string_view op) {
  const NameId self = writer.TensorAt(call, "self");
  if (!writer.IsTracked(self)) return ReturnFirst(writer, call, op);
  writer.ReturnDetached(call, self);
}

constexpr CallRow kMovementRows[] = {
    // Views, copies and joins.
    {"view.default", "view", WriteUnary},
    {"reshape.default", "view", WriteUnary},
    {"_unsafe_view.default", "view", WriteUnary},
    {"view_as.default", "view", WriteUnary},
    {"unsqueeze.default", "view", WriteUnary},
    {"squeeze.default", "view", WriteUnary},
    {"squeeze.dim", "view", WriteUnary},
    {"squeeze.dims", "view", WriteUnary},
    {"flatten.using_ints", "view", WriteUnary},
    {"unflatten.int", "view", WriteUnary},
    {"as_strided.default", "as_strided", WriteAsStrided},
    {"unfold.default", "unfold", WriteUnfold},
    {"alias.default", "expand", WriteUnary},
    {"detach.default", "", WriteDetach},
    {"t.default", "permute", WriteTranspose},
    {"transpose.int", "permute", WriteTranspose},
    {"numpy_T.default", "permute", WriteTranspose},
    {"mT.default", "permute", WriteTranspose},
    {"mH.default", "permute", WriteTranspose},
    {"adjoint.default", "permute", WriteTranspose},
    {"matrix_H.default", "permute", WriteTranspose},
    {"swapaxes.default", "permute", WriteTranspose},
    {"swapdims.default", "permute", WriteTranspose},
    {"movedim.int", "permute", WriteMovedim},
    {"movedim.intlist", "permute", WriteMovedim},
    {"permute.default", "permute", WritePermute},
    {"expand.default", "expand", WriteUnary},
    {"expand_as.default", "expand", WriteUnary},
    {"select.int", "select", WriteSelect},
    {"slice.Tensor", "slice", WriteSlice},
    {"narrow.default", "slice", WriteSlice},
    {"split.Tensor", "split", WriteParts},
    {"split_with_sizes.default", "split", WriteParts},
    {"chunk.default", "split", WriteParts},
    {"unbind.int", "unbind", WriteUnbind},
    {"contiguous.default", "contiguous", WriteUnary},
    {"clone.default", "clone", WriteClone},
    {"cat.default", "cat", WriteCat},
    {"concat.default", "cat", WriteCat},
    {"concatenate.default", "cat", WriteCat},
    {"stack.default", "", WriteStack},
    {"diff.default", "", WriteDiff},
    {"pad.default", "pad", WritePad},
    {"constant_pad_nd.default", "pad", WriteUnary},
    {"pixel_shuffle.default", "pixel_shuffle", WriteUnary},
    {"pixel_unshuffle.default", "pixel_unshuffle", WriteUnary},
    {"channel_shuffle.default", "channel_shuffle", WriteUnary},
    {"im2col.default", "im2col", WriteUnary},
    {"col2im.default", "col2im", WriteUnary},
    {"grid_sampler.default", "grid_sampler", WriteGridSampler},
    {"grid_sampler_2d.default", "grid_sampler", WriteGridSampler},
    {"grid_sampler_3d.default", "grid_sampler", WriteGridSampler},
    {"linalg_diagonal.default", "linalg_diagonal", WriteUnary},
    {"flip.default", "flip", WriteUnary},
    {"roll.default", "roll", WriteRoll},
    {"repeat.default", "repeat", WriteUnary},
    {"tile.default", "tile", WriteUnary},
    {"repeat_interleave.self_int", "repeat_interleave", WriteUnary},
    {"upsample_nearest1d.vec", "upsample_nearest1d", WriteUnary},
    {"upsample_linear1d.vec", "upsample_linear1d", WriteUnary},
    {"upsample_nearest3d.vec", "upsample_nearest3d", WriteUnary},
    {"upsample_trilinear3d.vec", "upsample_trilinear3d", WriteUnary},
    {"upsample_nearest2d.vec", "upsample_nearest2d", WriteUnary},
    {"upsample_bilinear2d.vec", "upsample_bilinear2d", WriteUnary},
    {"upsample_bicubic2d.vec", "upsample_bicubic2d", WriteUnary},
    {"_upsample_nearest_exact1d.vec", "_upsample_nearest_exact1d", WriteUnary},
    {"_upsample_nearest_exact2d.vec", "_upsample_nearest_exact2d", WriteUnary},
    {"_upsample_nearest_exact3d.vec", "_upsample_nearest_exact3d", WriteUnary},
    {"_upsample_bilinear2d_aa.vec", "_upsample_bilinear2d_aa", WriteUnary},
    {"_upsample_bicubic2d_aa.vec", "_upsample_bicubic2d_aa", WriteUnary},
    {"embedding.default", "embedding", WriteEmbedding},
    {"index.Tensor", "index", WriteIndex},
    {"index_select.default", "index_select", WriteAll},
    {"gather.default", "gather", WriteAll},
};

}  // namespace

std::span<const CallRow> MovementRows() { return kMovementRows; }

}  // namespace onnxfit::pt2
