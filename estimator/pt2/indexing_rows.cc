// What is written at indices, masks and parts of a tensor.
// Source: aten/src/ATen/native/TensorAdvancedIndexing.cpp, pytorch v2.11.0.
#include <algorithm>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "estimator/base/index.h"
#include "estimator/program/call_operands.h"
#include "estimator/pt2/call_rows.h"

namespace onnxfit::pt2 {
namespace {

// Whether any of `names` has a gradient.
bool AreTracked(const CallWriter& writer, const std::vector<NameId>& names) {
  return std::ranges::any_of(names, [&](NameId name) { return writer.IsTracked(name); });
}

// In place nothing is made, unless a gradient flows.
void WriteOver(CallWriter& writer, const Call& call, std::string_view op,
               std::vector<NameId> operands, std::vector<int64_t> ints = {}) {
  if (operands.empty() || operands[0] == kNoName) return writer.WriteUnknown(call);
  if (WritesInPlace(call.target) && !(writer.trains() && AreTracked(writer, operands))) {
    return writer.ReturnSame(call, operands[0]);
  }
  writer.Emit(op, std::move(operands), {writer.Result(call)}, std::move(ints));
}

void WriteAllOver(CallWriter& writer, const Call& call, std::string_view op) {
  WriteOver(writer, call, op, writer.Tensors(call));
}

// A factor makes one more tensor in backward.
void WriteIndexAdd(CallWriter& writer, const Call& call, std::string_view op) {
  const bool has_factor =
      writer.RealAt(call, "alpha", 1) != 1 || writer.IntAt(call, "alpha", 1) != 1;
  WriteAllOver(writer, call, has_factor ? "index_add.alpha" : op);
}

// A value without a gradient is as a number; the gradient of one is summed up over places.
void WriteIndexFill(CallWriter& writer, const Call& call, std::string_view op) {
  std::vector<NameId> operands = writer.Tensors(call);
  const NameId value = writer.TensorAt(call, "value");
  if (value != kNoName && writer.IsTracked(value)) {
    return WriteOver(writer, call, "index_fill.Tensor", std::move(operands));
  }
  std::erase(operands, value);
  WriteOver(writer, call, op, std::move(operands));
}

void WriteMaskedFill(CallWriter& writer, const Call& call, std::string_view op) {
  const NameId value = writer.TensorAt(call, "value");
  const bool is_tracked = value != kNoName && writer.IsTracked(value);
  std::vector<NameId> operands = {writer.TensorAt(call, "self"), writer.TensorAt(call, "mask")};
  if (is_tracked) operands.push_back(value);
  writer.Emit(is_tracked ? "masked_fill.Tensor" : op, std::move(operands), {writer.Result(call)});
}

void WritePut(CallWriter& writer, const Call& call, std::string_view op) {
  const bool adds = writer.IntAt(call, "accumulate", 0) != 0;
  WriteAllOver(writer, call, adds ? "put.accumulate" : op);
}

// Whether what is written through a mask says how many places that names: a row for each.
bool SaysCount(CallWriter& writer, const std::vector<NameId>& operands) {
  if (operands.size() != 3 || operands[1] == kNoName) return false;
  const size_t masked = writer.DimsOf(operands[2]).size();
  const size_t rank = writer.DimsOf(operands[0]).size();
  return masked <= rank && writer.DimsOf(operands[1]).size() == rank - masked + 1;
}

// x, values, indices.  How many places a mask names depends on data.
void WriteIndexPut(CallWriter& writer, const Call& call, std::string_view op) {
  std::vector<NameId> operands = {writer.TensorAt(call, "self"), writer.TensorAt(call, "values")};
  const Argument* indices = FindArgument(call, "indices");
  bool has_mask = false;
  for (const Argument& item : indices == nullptr ? std::vector<Argument>() : indices->items) {
    const NameId index = writer.TensorOf(item);
    if (index == kNoName) continue;
    has_mask |= writer.program().values[Index(index)].type.dtype == DType::kBool;
    operands.push_back(index);
  }
  const bool has_gradients = writer.trains() && AreTracked(writer, operands);
  if (has_mask && has_gradients && !SaysCount(writer, operands)) return writer.WriteUnknown(call);
  const bool adds = writer.IntAt(call, "accumulate", 0) != 0;
  WriteOver(writer, call, adds ? "index_put.accumulate" : op, std::move(operands));
}

// ints: how, and whether x is reduced with the others.
void WriteReduced(CallWriter& writer, const Call& call, std::string_view op) {
  const auto how = static_cast<int64_t>(ReductionOf(writer.TextAt(call, "reduce")));
  WriteOver(writer, call, op, writer.Tensors(call), {how, writer.IntAt(call, "include_self", 1)});
}

// The dimension goes along: the gradient of what is written is a part of the result's.
void WriteSelectScatter(CallWriter& writer, const Call& call, std::string_view op) {
  const NameId self = writer.TensorAt(call, "self");
  writer.Emit(op, writer.Tensors(call), {writer.Result(call)},
              {writer.AxisAt(call, "dim", self, 0)});
}

void WriteSliceScatter(CallWriter& writer, const Call& call, std::string_view op) {
  const NameId self = writer.TensorAt(call, "self");
  writer.Emit(op, writer.Tensors(call), {writer.Result(call)},
              {writer.AxisAt(call, "dim", self, 0), writer.IntAt(call, "step", 1)});
}

void WriteDiagonalScatter(CallWriter& writer, const Call& call, std::string_view op) {
  const NameId self = writer.TensorAt(call, "self");
  writer.Emit(op, writer.Tensors(call), {writer.Result(call)},
              {writer.AxisAt(call, "dim1", self, 0), writer.AxisAt(call, "dim2", self, 1)});
}

NameId MakeBroadcast(CallWriter& writer, const Call& call, NameId tensor, const Dims& dims,
                     std::string_view name) {
  const DType dtype = writer.program().values[Index(tensor)].type.dtype;
  const NameId made =
      writer.NewName(std::string(call.name) + "." + std::string(name), {dtype, dims});
  writer.Emit("expand", {tensor}, {made});
  return made;
}

// Along a dimension, gather of what broadcasts, by indices that are counted from the start: a
// tensor more of them (torch 2.11 events); else of both as vectors.
void WriteTakeAlong(CallWriter& writer, const Call& call, std::string_view op) {
  const NameId self = writer.TensorAt(call, "self");
  const NameId indices = writer.TensorAt(call, "indices");
  if (self == kNoName || indices == kNoName) return writer.WriteUnknown(call);
  if (FindArgument(call, "dim") == nullptr) {
    return writer.Emit(op, {self, indices}, {writer.Result(call)});
  }
  const size_t axis = Index(writer.AxisAt(call, "dim", self, 0));
  const TensorType type = writer.TypeOfResult(call);
  Dims source = type.dims;
  if (axis >= source.size()) return writer.WriteUnknown(call);
  source[axis] = writer.DimsOf(self)[axis];
  const NameId counted = writer.NewName(std::string(call.name) + ".indices",
                                        writer.program().values[Index(indices)].type);
  writer.Emit("remainder", {indices}, {counted});
  writer.Emit(op,
              {MakeBroadcast(writer, call, self, source, "self"),
               MakeBroadcast(writer, call, counted, type.dims, "broadcast")},
              {writer.Result(call)});
}

// ints: the mode.
void WriteEmbeddingBag(CallWriter& writer, const Call& call, std::string_view op) {
  std::vector<NameId> operands;
  for (const char* name : {"weight", "indices", "offsets", "per_sample_weights"}) {
    operands.push_back(writer.TensorAt(call, name));
  }
  const bool is_known = operands[0] != kNoName && operands[1] != kNoName &&
                        operands[2] != kNoName && writer.IntAt(call, "scale_grad_by_freq", 0) == 0;
  if (!is_known) return writer.WriteUnknown(call);
  const bool is_sparse = writer.IntAt(call, "sparse", 0) != 0 && operands.back() == kNoName;
  if (is_sparse) op = "embedding_bag.sparse";
  if (operands.back() == kNoName) operands.pop_back();
  writer.Emit(op, std::move(operands), {writer.Result(call)}, {writer.IntAt(call, "mode", 0)});
}

// torch.where(x): where x is not 0, dimension by dimension.
void WriteWherePlaces(CallWriter& writer, const Call& call, std::string_view op) {
  const NameId self = writer.TensorAt(call, "self");
  const std::vector<NameId> results = writer.Results(call);
  if (self == kNoName || results.empty() || results[0] == kNoName) return writer.WriteUnknown(call);
  Dims dims = writer.DimsOf(results[0]);
  dims.push_back(std::ssize(results));
  const NameId places = writer.NewName(std::string(call.name) + ".places", {DType::kInt64, dims});
  writer.Emit(op, {self}, {places});
  writer.Emit("unbind", {places}, results, {1});
}

// x [mask]: of where the mask is true.
// Source: masked_select_out_cuda_impl of aten/src/ATen/native/cuda/IndexKernel.cpp, pytorch
// v2.11.0.
void WriteMaskedSelect(CallWriter& writer, const Call& call, std::string_view op) {
  writer.Emit(op, {writer.TensorAt(call, "self"), writer.TensorAt(call, "mask")},
              {writer.Result(call)});
}

// ints: whether inverse and counts are asked for.
void WriteUnique(CallWriter& writer, const Call& call, std::string_view op) {
  const NameId self = writer.TensorAt(call, "self");
  if (self == kNoName || FindArgument(call, "dim") != nullptr) return writer.WriteUnknown(call);
  const bool is_bool = writer.program().values[Index(self)].type.dtype == DType::kBool;
  writer.Emit(is_bool && op == "unique" ? "unique.bool" : op, {self}, writer.Results(call),
              {writer.IntAt(call, "return_inverse", 0), writer.IntAt(call, "return_counts", 0)});
}

// ints: whether what is drawn is put back.
void WriteMultinomial(CallWriter& writer, const Call& call, std::string_view op) {
  writer.Emit(op, {writer.TensorAt(call, "self")}, {writer.Result(call)},
              {writer.IntAt(call, "replacement", 0)});
}

// ints: the dimension.  Long rows are sorted one by one, in memory that is not known here.
void WriteMode(CallWriter& writer, const Call& call, std::string_view op) {
  constexpr int64_t kMostInBlock = 2048;
  const NameId self = writer.TensorAt(call, "self");
  const Dims& dims = writer.DimsOf(self);
  if (dims.empty()) return writer.WriteUnknown(call);
  const int64_t axis = writer.AxisAt(call, "dim", self, -1);
  if (dims[Index(axis)] > kMostInBlock) return writer.WriteUnknown(call);
  writer.Emit(op, {self}, writer.Results(call), {axis});
}

// ints: the dimension.
void WriteSafeSoftmax(CallWriter& writer, const Call& call, std::string_view op) {
  const NameId self = writer.TensorAt(call, "self");
  writer.Emit(op, {self}, {writer.Result(call)}, {writer.AxisAt(call, "dim", self, -1)});
}

constexpr CallRow kIndexingRows[] = {
    {"index_add.default", "index_add", WriteIndexAdd},
    {"index_copy.default", "index_copy", WriteAllOver},
    {"index_fill.int_Scalar", "index_fill", WriteAllOver},
    {"index_fill.int_Tensor", "index_fill", WriteIndexFill},
    {"index_put.default", "index_put", WriteIndexPut},
    {"_unsafe_index_put.default", "index_put", WriteIndexPut},
    {"index_reduce.default", "index_reduce", WriteReduced},
    {"scatter.src", "scatter", WriteAllOver},
    {"scatter.value", "scatter", WriteAllOver},
    {"scatter_add.default", "scatter_add", WriteAllOver},
    {"scatter_reduce.two", "scatter_reduce", WriteReduced},
    {"masked_fill.Tensor", "masked_fill", WriteMaskedFill},
    {"masked_scatter.default", "masked_scatter", WriteAll},
    {"put.default", "put", WritePut},
    {"take.default", "take", WriteAll},
    {"embedding_bag.padding_idx", "embedding_bag", WriteEmbeddingBag},
    {"embedding_bag.default", "embedding_bag", WriteEmbeddingBag},
    {"nonzero.default", "nonzero.self", WriteUnary},
    {"where.default", "nonzero.self", WriteWherePlaces},
    {"masked_select.default", "masked_select", WriteMaskedSelect},
    {"multinomial.default", "multinomial", WriteMultinomial},
    {"mode.default", "mode", WriteMode},
    {"unique_consecutive.default", "unique_consecutive", WriteUnique},
    {"_unique2.default", "unique", WriteUnique},
    {"take_along_dim.default", "gather", WriteTakeAlong},
    {"select_scatter.default", "select_scatter", WriteSelectScatter},
    {"slice_scatter.default", "select_scatter", WriteSliceScatter},
    {"diagonal_scatter.default", "diagonal_scatter", WriteDiagonalScatter},
    {"as_strided_scatter.default", "as_strided_scatter", WriteAll},

    // Elementwise: their gradient is zeros, or reads more than x.
    {"fill.Scalar", "fill", WriteUnary},
    {"bernoulli.default", "bernoulli.self", WriteUnary},
    {"copysign.Tensor", "copysign", WriteAll},
    {"native_dropout_backward.default", "native_dropout_backward", WriteAll},
    {"_safe_softmax.default", "_safe_softmax", WriteSafeSoftmax},
};

}  // namespace

std::span<const CallRow> IndexingRows() { return kIndexingRows; }

}  // namespace onnxfit::pt2
