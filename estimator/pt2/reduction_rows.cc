// Reductions, sorts, sums along a dimension and distances.
#include <algorithm>
#include <cmath>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "estimator/base/index.h"
#include "estimator/base/strided_loops.h"
#include "estimator/pt2/call_rows.h"

namespace onnxfit::pt2 {
namespace {

// Values and places; where nobody reads these, they are an auxiliary result.
void WriteWithPlaces(CallWriter& writer, const Call& call, std::string_view op) {
  const NameId self = writer.TensorAt(call, "self");
  std::vector<NameId> results = writer.Results(call);
  if (self == kNoName || results.empty()) return writer.WriteUnknown(call);
  if (results.size() > 1 && writer.IsRead(call.results[1].text)) {
    return writer.Emit("topk", {self}, std::move(results));
  }
  writer.Emit(op, {self}, {results[0]});
}

// By the power: 2, 1, infinity (either sign), or another.  That of zero counts, and is unknown.
void WriteNorm(CallWriter& writer, const Call& call, std::string_view op) {
  const double power = writer.RealAt(call, "ord", writer.RealAt(call, "p", 2));
  if (power == 0) return writer.WriteUnknown(call);
  const bool is_other = power != 2;
  WriteUnary(writer, call,
             !is_other           ? op
             : std::isinf(power) ? "norm.largest"
             : power == 1        ? "norm.one"
                                 : "norm.power");
}

// Of all elements, the root of the sum of squares, or that of rows, x.norm (ord, dim=-1): norms of
// matrices by another order are unknown calls.
// Source: linalg_norm and linalg_matrix_norm of aten/src/ATen/native/LinearAlgebra.cpp, pytorch
// v2.11.0.
void WriteMatrixNorm(CallWriter& writer, const Call& call, std::string_view op) {
  const bool is_named = call.target.find("str") != std::string_view::npos;
  if (!is_named && writer.IntsAt(call, "dim").size() == 1) return WriteNorm(writer, call, op);
  const bool is_plain =
      is_named ? writer.TextAt(call, "ord") == "fro" : FindArgument(call, "ord") == nullptr;
  is_plain ? WriteUnary(writer, call, op) : writer.WriteUnknown(call);
}

// Other powers than 2 have gradients of their own.
void WriteDistance(CallWriter& writer, const Call& call, std::string_view op) {
  writer.RealAt(call, "p", 2) == 2 ? WriteAll(writer, call, op) : writer.WriteUnknown(call);
}

// ints: the power where it is not 2; 0 stands for infinity, -1 for any but 1.
void WritePairwiseDistance(CallWriter& writer, const Call& call, std::string_view op) {
  const double power = writer.RealAt(call, "p", 2);
  if (power == 0) return writer.WriteUnknown(call);
  std::vector<int64_t> ints;
  if (power != 2) ints = {power == 1 ? 1 : std::isinf(power) ? 0 : -1};
  writer.Emit(op, {writer.TensorAt(call, "x1"), writer.TensorAt(call, "x2")}, {writer.Result(call)},
              std::move(ints));
}

// `rows` [N, D] for each of `batch`, made dense for products.
NameId BroadcastRows(CallWriter& writer, const Call& call, NameId rows, const Dims& batch,
                     bool is_dense) {
  TensorType type = writer.program().values[Index(rows)].type;
  Dims dims = batch;
  dims.insert(dims.end(), type.dims.end() - 2, type.dims.end());
  if (dims == type.dims) return rows;
  type.dims = dims;
  const std::string name = writer.program().values[Index(rows)].name;
  const NameId seen = writer.NewName(name + ".expanded", type);
  writer.Emit("expand", {rows}, {seen});
  if (!is_dense) return seen;
  const NameId dense = writer.NewName(std::string(call.name) + "." + name, type);
  writer.Emit("contiguous", {seen}, {dense});
  return dense;
}

// Of more than 25 rows, and of the power 2, by products.
// Source: cdist of aten/src/ATen/native/Distance.cpp, pytorch v2.11.0.
void WritePairDistances(CallWriter& writer, const Call& call, std::string_view op) {
  NameId x1 = writer.TensorAt(call, "x1");
  NameId x2 = writer.TensorAt(call, "x2");
  const Dims first = writer.DimsOf(x1);
  const Dims second = writer.DimsOf(x2);
  if (first.size() < 2 || second.size() < 2) return writer.WriteUnknown(call);
  constexpr int64_t kFewRows = 25;
  const double power = writer.RealAt(call, "p", 2);
  const int64_t mode = writer.IntAt(call, "compute_mode", 0);
  const bool is_large = first.end()[-2] > kFewRows || second.end()[-2] > kFewRows;
  const bool by_products = power == 2 && (mode == 1 || (mode == 0 && is_large));
  const Dims batch =
      BroadcastDims(Dims(first.begin(), first.end() - 2), Dims(second.begin(), second.end() - 2));
  x2 = BroadcastRows(writer, call, x2, batch, by_products);
  x1 = BroadcastRows(writer, call, x1, batch, by_products);
  writer.Emit(by_products ? "_euclidean_dist" : op, {x1, x2}, {writer.Result(call)},
              {power == 0 ? 1 : 0});
}

// Along a dimension, the last one where none is named.
void WriteAlong(CallWriter& writer, const Call& call, std::string_view op) {
  const NameId self = writer.TensorAt(call, "self");
  if (self == kNoName) return writer.WriteUnknown(call);
  const int64_t rank = std::ssize(writer.DimsOf(self));
  std::vector<int64_t> ints;
  if (rank > 0) ints = {writer.AxisAt(call, "dim", self, rank - 1)};
  writer.Emit(op, {self}, writer.Results(call), std::move(ints));
}

// ints: the dimension, and whether what is found is sorted; {} of rows that one block takes
// whatever their number.
void WriteTopk(CallWriter& writer, const Call& call, std::string_view op) {
  const NameId self = writer.TensorAt(call, "self");
  if (self == kNoName) return writer.WriteUnknown(call);
  constexpr int64_t kLeastOfSeveral = 400;
  std::vector<int64_t> ints;
  const Dims& dims = writer.DimsOf(self);
  const int64_t axis = dims.empty() ? 0 : writer.AxisAt(call, "dim", self, -1);
  if (!dims.empty() && dims[Index(axis)] >= kLeastOfSeveral) {
    ints = {axis, writer.IntAt(call, "sorted", 1)};
  }
  writer.Emit(op, {self}, writer.Results(call), std::move(ints));
}

// ints: 0 where the range of bins is not given, else {}.
void WriteBins(CallWriter& writer, const Call& call, std::string_view op) {
  const auto at = [&](const char* name) {
    return writer.RealAt(call, name, static_cast<double>(writer.IntAt(call, name, 0)));
  };
  const bool is_given = at("min") != at("max");
  writer.Emit(op, {writer.TensorAt(call, "self")}, {writer.Result(call)},
              is_given ? std::vector<int64_t>() : std::vector<int64_t>{0});
}

// at::searchsorted (boundaries, x)
void WriteBuckets(CallWriter& writer, const Call& call, std::string_view op) {
  writer.Emit(op, {writer.TensorAt(call, "boundaries"), writer.TensorAt(call, "self")},
              {writer.Result(call)});
}

// x != 0, then the sum of that.
// Source: count_nonzero of aten/src/ATen/native/TensorAdvancedIndexing.cpp, pytorch v2.11.0.
void WriteCountNonzero(CallWriter& writer, const Call& call, std::string_view) {
  const NameId self = writer.TensorAt(call, "self");
  if (self == kNoName) return writer.WriteUnknown(call);
  const NameId is_other =
      writer.NewName(std::string(call.name) + ".ne", {DType::kBool, writer.DimsOf(self)});
  writer.Emit("ne", {self}, {is_other});
  writer.Emit("sum", {is_other}, {writer.Result(call)});
}

void WriteSortOfFirst(CallWriter& writer, const Call& call, std::string_view op) {
  const NameId self = writer.TensorAt(call, "self");
  TensorType places = writer.TypeOfResult(call);
  places.dtype = DType::kInt64;
  const NameId indices = writer.NewName(std::string(call.name) + ".indices", places);
  writer.Emit(op, {self}, {writer.Result(call), indices}, {0});
}

void WriteGammas(CallWriter& writer, const Call& call, std::string_view op) {
  writer.Emit(op, {writer.TensorAt(call, "self")}, {writer.Result(call)},
              {writer.IntAt(call, "p", 1)});
}

// The sum of what are numbers, by their count.
// Source: nanmean of aten/src/ATen/native/ReduceOps.cpp, pytorch v2.11.0.
void WriteMeanOfNumbers(CallWriter& writer, const Call& call, std::string_view op) {
  const NameId self = writer.TensorAt(call, "self");
  const TensorType type = writer.TypeOfResult(call);
  const std::string name(call.name);
  const NameId is_none = writer.NewName(name + ".isnan", {DType::kBool, writer.DimsOf(self)});
  const NameId count = writer.NewName(name + ".count", {DType::kInt64, type.dims});
  const NameId sum = writer.NewName(name + ".sum", type);
  writer.Emit("isnan", {self}, {is_none});
  writer.Emit("sum", {is_none}, {count});
  writer.Emit(op, {self}, {sum});
  writer.Emit("div", {sum, count}, {writer.Result(call)});
}

// sum(x, dtype=torch.float32), whose kernel reads 16 bits.
void WriteSum(CallWriter& writer, const Call& call, std::string_view op) {
  TensorType type = writer.TypeOfResult(call);
  const std::vector<NameId> tensors = writer.Tensors(call);
  const bool is_given = FindArgument(call, "dtype") != nullptr && !tensors.empty();
  if (is_given && writer.RunsAsExported() && IsFloat(type.dtype)) {
    const DType from = writer.program().values[Index(tensors[0])].type.dtype;
    const bool is_same = from == type.dtype || !IsFloat(from);
    return writer.Emit(is_same ? op : "sum.dtype", {tensors[0]}, {writer.Result(call)});
  }
  if (!is_given || !SpellsFloat32(call) || !IsFloat(type.dtype) || BitsOf(type.dtype) != 16)
    return WriteUnary(writer, call, op);
  type.dtype = DType::kFloat32;
  writer.Emit("sum.dtype", {tensors[0]}, {writer.Result(call, type)});
}

void WriteSumToSize(CallWriter& writer, const Call& call, std::string_view op) {
  const bool is_same =
      writer.DimsOf(writer.TensorAt(call, "self")) == writer.TypeOfResult(call).dims;
  is_same ? ReturnFirst(writer, call, op) : WriteUnary(writer, call, op);
}
constexpr CallRow kReductionRows[] = {
    {"mean.default", "mean", WriteUnary},
    {"mean.dim", "mean", WriteUnary},
    {"sum.default", "sum", WriteSum},
    {"sum.dim_IntList", "sum", WriteSum},
    {"nansum.default", "nansum", WriteUnary},
    {"nanmean.default", "nansum", WriteMeanOfNumbers},
    {"sum_to_size.default", "sum", WriteSumToSize},
    {"trace.default", "trace", WriteUnary},
    {"prod.default", "prod", WriteUnary},
    {"prod.dim_int", "prod", WriteAlong},
    {"cumprod.default", "cumprod", WriteUnary},
    {"logcumsumexp.default", "logcumsumexp", WriteUnary},
    {"mvlgamma.default", "mvlgamma", WriteGammas},
    {"max.default", "max", WriteUnary},
    {"min.default", "min", WriteUnary},
    {"median.default", "median", WriteUnary},
    {"nanmedian.default", "nanmedian", WriteUnary},
    {"median.dim", "kthvalue", WriteParts},
    {"nanmedian.dim", "kthvalue", WriteParts},
    {"kthvalue.default", "kthvalue", WriteParts},
    {"cummax.default", "cummax", WriteParts},
    {"cummin.default", "cummin", WriteParts},
    {"max.dim", "max.dim", WriteWithPlaces},
    {"min.dim", "min.dim", WriteWithPlaces},
    {"amax.default", "amax", WriteUnary},
    {"any.default", "any", WriteUnary},
    {"any.dim", "any", WriteUnary},
    {"any.dims", "any", WriteUnary},
    {"all.default", "all", WriteUnary},
    {"all.dim", "all", WriteUnary},
    {"all.dims", "all", WriteUnary},
    {"amin.default", "amin", WriteUnary},
    {"argmax.default", "argmax", WriteUnary},
    {"argmin.default", "argmin", WriteUnary},
    {"one_hot.default", "one_hot", WriteUnary},
    {"var.default", "var", WriteUnary},
    {"std.default", "std", WriteUnary},
    {"var_mean.default", "var_mean", WriteParts},
    {"var_mean.dim", "var_mean", WriteParts},
    {"var_mean.correction", "var_mean", WriteParts},
    {"std_mean.default", "std_mean", WriteParts},
    {"std_mean.dim", "std_mean", WriteParts},
    {"std_mean.correction", "std_mean", WriteParts},
    {"var.dim", "var", WriteUnary},
    {"var.correction", "var", WriteUnary},
    {"std.dim", "std", WriteUnary},
    {"std.correction", "std", WriteUnary},
    {"topk.default", "topk", WriteTopk},
    {"sort.default", "sort", WriteAlong},
    {"sort.stable", "sort", WriteAlong},
    {"msort.default", "sort", WriteSortOfFirst},
    {"argsort.default", "argsort", WriteAlong},
    {"argsort.stable", "argsort", WriteAlong},
    {"logsumexp.default", "logsumexp", WriteUnary},
    {"linalg_vector_norm.default", "linalg_vector_norm", WriteNorm},
    {"linalg_norm.default", "linalg_vector_norm", WriteMatrixNorm},
    {"linalg_norm.ord_str", "linalg_vector_norm", WriteMatrixNorm},
    {"linalg_matrix_norm.str_ord", "linalg_vector_norm", WriteMatrixNorm},
    {"norm.Scalar", "norm", WriteNorm},
    {"norm.ScalarOpt_dim", "norm", WriteNorm},
    {"dist.default", "dist", WriteDistance},
    {"cdist.default", "cdist", WritePairDistances},
    {"pairwise_distance.default", "pairwise_distance", WritePairwiseDistance},
    {"cross.default", "cross", WriteAll},
    {"linalg_cross.default", "linalg_cross", WriteAll},
    {"cumsum.default", "cumsum", WriteUnary},
    {"histc.default", "histc", WriteBins},
    {"count_nonzero.default", "", WriteCountNonzero},
    {"count_nonzero.dim_IntList", "", WriteCountNonzero},
    {"searchsorted.Tensor", "searchsorted", WriteAll},
    {"bucketize.Tensor", "searchsorted", WriteBuckets},
};

}  // namespace

std::span<const CallRow> ReductionRows() { return kReductionRows; }

}  // namespace onnxfit::pt2
