// Calls that run as a product of views.
#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "estimator/base/index.h"
#include "estimator/pt2/call_rows.h"

namespace onnxfit::pt2 {
namespace {

NameId MakePart(CallWriter& writer, const Call& call, std::string_view op,
                std::vector<NameId> inputs, Dims dims, std::vector<int64_t> ints = {}) {
  const DType dtype = writer.program().values[Index(inputs[0])].type.dtype;
  const NameId made =
      writer.NewName(std::string(call.name) + "." + std::string(op), {dtype, std::move(dims)});
  writer.Emit(op, std::move(inputs), {made}, std::move(ints));
  return made;
}

int64_t Product(const Dims& dims, const std::vector<int64_t>& axes) {
  int64_t product = 1;
  for (const int64_t axis : axes) product *= dims[Index(axis)];
  return product;
}

// Dimensions of a tensor that are summed up, and the others.
struct Summed {
  std::vector<int64_t> axes;
  std::vector<int64_t> kept;
};

Summed SummedOf(const Dims& dims, std::vector<int64_t> axes) {
  Summed summed;
  for (int64_t& axis : axes) {
    if (axis < 0) axis += std::ssize(dims);
  }
  for (int64_t i = 0; i < std::ssize(dims); ++i) {
    if (std::ranges::find(axes, i) == axes.end()) summed.kept.push_back(i);
  }
  summed.axes = std::move(axes);
  return summed;
}

NameId AsMatrix(CallWriter& writer, const Call& call, NameId name, std::vector<int64_t> rows,
                const std::vector<int64_t>& columns) {
  const Dims dims = writer.DimsOf(name);
  const Dims matrix = {Product(dims, rows), Product(dims, columns)};
  rows.insert(rows.end(), columns.begin(), columns.end());
  Dims permuted;
  for (const int64_t axis : rows) permuted.push_back(dims[Index(axis)]);
  const NameId turned = MakePart(writer, call, "permute", {name}, permuted, rows);
  return MakePart(writer, call, "view", {turned}, matrix);
}

}  // namespace

void WriteOuter(CallWriter& writer, const Call& call, std::string_view op) {
  const std::vector<NameId> tensors = writer.Tensors(call);
  if (tensors.size() != 2) return writer.WriteUnknown(call);
  const NameId column =
      MakePart(writer, call, "view", {tensors[0]}, {Numel(writer.DimsOf(tensors[0])), 1});
  writer.Emit(op, {column, tensors[1]}, {writer.Result(call)});
}

void WriteKron(CallWriter& writer, const Call& call, std::string_view op) {
  const std::vector<NameId> tensors = writer.Tensors(call);
  if (tensors.size() != 2) return writer.WriteUnknown(call);
  Dims first = writer.DimsOf(tensors[0]);
  Dims second = writer.DimsOf(tensors[1]);
  const size_t rank = std::max(first.size(), second.size());
  first.insert(first.begin(), rank - first.size(), 1);
  second.insert(second.begin(), rank - second.size(), 1);
  Dims left;
  Dims right;
  Dims all;
  for (size_t i = 0; i < rank; ++i) {
    left.insert(left.end(), {first[i], 1});
    right.insert(right.end(), {1, second[i]});
    all.insert(all.end(), {first[i], second[i]});
  }
  const NameId a = MakePart(writer, call, "view", {tensors[0]}, left);
  const NameId b = MakePart(writer, call, "view", {tensors[1]}, right);
  const NameId product = MakePart(writer, call, op, {a, b}, all);
  writer.Emit("view", {product}, {writer.Result(call)});
}

void WriteTensordot(CallWriter& writer, const Call& call, std::string_view op) {
  const std::vector<NameId> tensors = writer.Tensors(call);
  if (tensors.size() != 2) return writer.WriteUnknown(call);
  const Summed a = SummedOf(writer.DimsOf(tensors[0]), writer.IntsAt(call, "dims_self"));
  const Summed b = SummedOf(writer.DimsOf(tensors[1]), writer.IntsAt(call, "dims_other"));
  const NameId left = AsMatrix(writer, call, tensors[0], a.kept, a.axes);
  const NameId right = AsMatrix(writer, call, tensors[1], b.axes, b.kept);
  const Dims dims = {writer.DimsOf(left)[0], writer.DimsOf(right)[1]};
  const NameId product = MakePart(writer, call, op, {left, right}, dims);
  writer.Emit("view", {product}, {writer.Result(call)});
}

// Rows of all but the last dimension; then the bias.
void WriteBilinear(CallWriter& writer, const Call& call, std::string_view op) {
  const auto rows = [&](const char* name) {
    const NameId x = writer.TensorAt(call, name);
    const Dims dims = writer.DimsOf(x);
    if (x == kNoName || dims.size() == 2 || dims.empty() || dims.back() == 0) return x;
    return MakePart(writer, call, "view", {x}, {Numel(dims) / dims.back(), dims.back()});
  };
  const NameId x1 = rows("input1");
  const NameId x2 = rows("input2");
  const NameId weight = writer.TensorAt(call, "weight");
  const NameId bias = writer.TensorAt(call, "bias");
  const bool is_known = writer.DimsOf(x1).size() == 2 && writer.DimsOf(x2).size() == 2 &&
                        writer.DimsOf(weight).size() == 3;
  if (!is_known) return writer.WriteUnknown(call);
  const Dims dims = {writer.DimsOf(x1)[0], writer.DimsOf(weight)[0]};
  const bool is_flat = writer.TypeOfResult(call).dims.size() == 2;
  if (is_flat && bias == kNoName) return writer.Emit(op, {x1, weight, x2}, {writer.Result(call)});
  NameId sum = MakePart(writer, call, op, {x1, weight, x2}, dims);
  if (is_flat) return writer.Emit("add", {sum, bias}, {writer.Result(call)});
  if (bias != kNoName) sum = MakePart(writer, call, "add", {sum, bias}, dims);
  writer.Emit("view", {sum}, {writer.Result(call)});
}

}  // namespace onnxfit::pt2
