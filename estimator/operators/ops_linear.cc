// Linear layers: matrix products and convolutions.  Sources: pytorch v2.6.0 derivatives.yaml,
// aten/src/ATen/native/Linear.cpp and LinearAlgebra.cpp (_matmul_impl); order of gradients and of
// workspaces from recorded events, torch 2.11.
#include <algorithm>
#include <string_view>
#include <utility>

#include "estimator/operators/dispatcher.h"
#include "estimator/operators/kernel_scratch.h"
#include "estimator/operators/op_rule.h"
#include "estimator/operators/strides.h"

namespace onnxfit {
namespace {

// x.view({-1, x.size(-1)})
NameId AsMatrix(Dispatcher& dispatcher, NameId name) {
  const Dims& dims = dispatcher.TypeOf(name).dims;
  const int64_t columns = dims.back();
  return dispatcher.Reshape(name, {columns == 0 ? 0 : Numel(dims) / columns, columns});
}

// weight.t(); some exporters have transposed what they stored.
NameId TransposedWeight(Dispatcher& dispatcher, NameId weight, int64_t inputs) {
  const bool is_stored_so = dispatcher.TypeOf(weight).dims[1] != inputs;
  return dispatcher.Permute(weight,
                            is_stored_so ? std::vector<int64_t>{0, 1} : std::vector<int64_t>{1, 0});
}

// How a linear layer adds its bias: in the product of matrices, or behind one of a tensor with
// gaps.
struct BiasOps {
  std::string_view in_product;
  std::string_view behind;
};

// torch.nn.functional.linear: x [..., K], weight [N, K], bias [N].
void TakeLinearApart(Dispatcher& dispatcher, const AtenCall& call, const BiasOps& ops) {
  const NameId x = call.inputs[0];
  const NameId bias = call.inputs.size() > 2 ? call.inputs[2] : kNoName;
  const StridedType type = dispatcher.TypeOf(x);
  if (dispatcher.shares_parameters()) {
    const bool is_one_kernel = type.dims.size() == 2 && bias != kNoName;
    return dispatcher.MakeResult(is_one_kernel ? "zero3_addmm" : "zero3_linear", call.inputs);
  }
  const auto weight = [&] {
    return TransposedWeight(dispatcher, call.inputs[1], type.dims.back());
  };
  if (bias == kNoName) return (void)MatMul(dispatcher, x, weight(), Ends::kCall);
  if (type.dims.size() == 2) return dispatcher.MakeResult(ops.in_product, {bias, x, weight()});
  if (IsContiguous(type)) {
    const NameId rows = AsMatrix(dispatcher, x);
    const NameId transposed = weight();
    const Dims dims = {dispatcher.TypeOf(rows).dims[0], dispatcher.TypeOf(transposed).dims[1]};
    const NameId product =
        dispatcher.Make(ops.in_product, {bias, rows, transposed}, {type.dtype, dims});
    return dispatcher.MakeResult("view", {product});
  }
  const NameId product = MatMul(dispatcher, x, weight(), Ends::kLocal);
  dispatcher.MakeResult(ops.behind, {product, bias});
}

void TakeLinearApart(Dispatcher& dispatcher, const AtenCall& call) {
  TakeLinearApart(dispatcher, call, {"addmm", "add_"});
}

// Of DTensors, to which no bias is added in place (isTensorSubclassLike in Linear.cpp).
void TakeLinearOfColumnsApart(Dispatcher& dispatcher, const AtenCall& call) {
  TakeLinearApart(dispatcher, call, {"addmm", "add"});
}

// The same of ranks' products, whose sum has the bias.
void TakeLinearOfRowsApart(Dispatcher& dispatcher, const AtenCall& call) {
  TakeLinearApart(dispatcher, call, {"addmm_of_rows", "add"});
}

void TakeMatMulApart(Dispatcher& dispatcher, const AtenCall& call) {
  MatMul(dispatcher, call.inputs[0], call.inputs[1], Ends::kCall);
}

// The sum of products along the last dimension.
// Source: linalg_vecdot of aten/src/ATen/native/LinearAlgebra.cpp, pytorch v2.11.0.
void TakeVecdotApart(Dispatcher& dispatcher, const AtenCall& call) {
  const StridedType left = dispatcher.TypeOf(call.inputs[0]);
  if (left.dims.size() == 1 && dispatcher.TypeOf(call.inputs[1]).dims.size() == 1) {
    return dispatcher.MakeResult("vdot", call.inputs);
  }
  const NameId product = dispatcher.Make("mul", call.inputs, left);
  dispatcher.MakeResult("sum", {product});
}

Dims BatchOf(const StridedType& type) { return {type.dims.begin(), type.dims.end() - 2}; }

// --- Systems of linear equations ---
// Sources: aten/src/ATen/native/cuda/linalg/BatchLinearAlgebra.cpp and
// BatchLinearAlgebraLib.cpp, pytorch v2.11.0; torch 2.11 events of 1 to 64 matrices of 3 to 600
// rows.

TensorType InfoOfMatrices(const CallTypes& call) { return {DType::kInt32, BatchOf(call.in(0))}; }
TensorType PivotsOfMatrices(const CallTypes& call) {
  return {DType::kInt32, {call.in(0).dims.begin(), call.in(0).dims.end() - 1}};
}
TensorType PointersOfMatrices(const CallTypes& call) {
  return {DType::kInt64, BatchOf(call.in(0))};
}
TensorType OneBool(const CallTypes&) { return {DType::kBool, {}}; }

// Column after column: linalg_solve_triangular_out of aten/src/ATen/native/BatchLinearAlgebra.cpp.
Dims ColumnMajor(const CallTypes& call) {
  Dims dims = call.out(0).dims;
  std::swap(dims.end()[-1], dims.end()[-2]);
  Dims strides = ContiguousStrides(dims);
  std::swap(strides.end()[-1], strides.end()[-2]);
  return strides;
}

// Of up to eight matrices of 64 rows or more each is solved alone.
TensorType PointersToSolve(const CallTypes& call) {
  const bool is_each_alone = Numel(BatchOf(call.in(0))) <= 8 && call.in(0).dims.back() >= 64;
  return is_each_alone ? TensorType() : PointersOfMatrices(call);
}

Dims Broadcast(Dims a, Dims b) {
  if (a.size() < b.size()) std::swap(a, b);
  for (size_t i = 0; i < b.size(); ++i) {
    int64_t& dim = a[a.size() - b.size() + i];
    if (dim == 1) dim = b[i];
  }
  return a;
}

// name.expand(batch + matrix).reshape({-1} + matrix)
NameId AsBatch(Dispatcher& dispatcher, NameId name, const Dims& batch) {
  const StridedType type = dispatcher.TypeOf(name);
  const Dims matrix = {type.dims.end()[-2], type.dims.end()[-1]};
  Dims expanded = batch;
  expanded.insert(expanded.end(), matrix.begin(), matrix.end());
  if (expanded != type.dims) name = dispatcher.Make("expand", {name}, {type.dtype, expanded});
  return dispatcher.Reshape(name, {Numel(batch), matrix[0], matrix[1]});
}

// should_fold: many rows of `a` against one matrix `b`.  It does not ask whether gradients are on.
bool Folds(const Dispatcher& dispatcher, NameId a, NameId b) {
  const StridedType& left = dispatcher.TypeOf(a);
  if (left.dims.size() < 3 || dispatcher.TypeOf(b).dims.size() > 2) return false;
  if (dispatcher.RequiresGrad(b)) return true;
  for (size_t i = 0; i + 2 < left.dims.size(); ++i) {
    if (left.strides[i] != left.strides[i + 1] * left.dims[i + 1]) return false;
  }
  return true;
}

// A matrix, or a batch of them, whose rows and columns both have gaps, or overlap, is copied for
// each product (prepare_matrix_for_cublas and prepare_batch_matrix_for_cublas,
// aten/src/ATen/native/cuda/Blas.cpp, pytorch v2.11.0).
TensorType CopyForProduct(const StridedType& type) {
  const size_t rank = type.dims.size();
  if (rank < 2 || type.strides.size() != rank) return {};
  const int64_t rows = type.strides[rank - 2];
  const int64_t columns = type.strides[rank - 1];
  const bool is_by_rows = columns == 1 && rows >= type.dims[rank - 1];
  const bool is_by_columns = rows == 1 && columns >= type.dims[rank - 2];
  const bool is_contiguous = rank == 3 && rows != 0 && columns != 0 && IsContiguous(type);
  if (is_by_rows || is_by_columns || is_contiguous) return {};
  return {type.dtype, type.dims};
}
template <size_t kInput>
TensorType Factor(const CallTypes& call) {
  return CopyForProduct(call.in(kInput));
}
TensorType GradientAsFactor(const CallTypes& call) {
  return CopyForProduct(call.incoming_gradient());
}

// --- x1 [N, d1], weight [O, d1, d2], x2 [N, d2]: a sum over d1 and d2 for each of O, each of which
// makes the same on the way ---

TensorType TrilinearOf(const CallTypes& call, Dims dims) {
  return {call.out(0).dtype, std::move(dims)};
}
TensorType TrilinearRows(const CallTypes& call) { return TrilinearOf(call, {call.in(0).dims[0]}); }
TensorType TrilinearPairs(const CallTypes& call) {
  return TrilinearOf(call, {call.in(0).dims[0], call.in(0).dims[1], call.in(2).dims[1]});
}
TensorType TrilinearPart(const CallTypes& call) {
  return TrilinearOf(call, {call.in(0).dims[1], call.in(2).dims[1]});
}

// One formula for each operand: a^T · grad and grad · b^T, of which the second factor is copied
// first.  Products without bias make the second one's first.
constexpr BackwardSteps kSecondFirst = {MakeGrad(1),
                                        ScratchWith(1, GradientAsFactor),
                                        ScratchWith(1, Factor<0>),
                                        Uses(Workspace::kCublas),
                                        DropScratch(),
                                        MakeGrad(0),
                                        ScratchWith(0, Factor<1>),
                                        ScratchWith(0, GradientAsFactor),
                                        Uses(Workspace::kCublas)};
// The same of what is added to the product.
constexpr BackwardSteps kFirstFirst = {MakeGrad(1),
                                       ScratchWith(1, Factor<2>),
                                       ScratchWith(1, GradientAsFactor),
                                       Uses(Workspace::kCublas),
                                       DropScratch(),
                                       MakeGrad(2),
                                       ScratchWith(2, GradientAsFactor),
                                       ScratchWith(2, Factor<1>),
                                       Uses(Workspace::kCublas),
                                       MakeGrad(0)};

// What summing up the gradient of rows to that of a bias takes.
SumScratch ScratchOfBias(const CallTypes& call) {
  const StridedType& gradient = call.incoming_gradient();
  const uint64_t last = uint64_t{1} << (gradient.dims.size() - 1);
  return ScratchOf(SumOver(gradient.dtype, gradient.dims, gradient.strides, last), call.device());
}
TensorType PartialsOfBias(const CallTypes& call) {
  return ScratchBytes(ScratchOfBias(call).partial_bytes);
}
TensorType SemaphoresOfBias(const CallTypes& call) {
  return ScratchBytes(ScratchOfBias(call).semaphore_bytes);
}

// The gradient of factor `i`, a product of `first` and `second`, which it may have to copy; times
// alpha, where the call has one (ints): maybe_multiply of FunctionsManual.cpp, pytorch v2.11.0.
// Returns the copies.
std::vector<int> BatchedGradient(Kernel& kernel, int i, const TensorType& first,
                                 const TensorType& second) {
  if (!kernel.IsWanted(i)) return {};
  const bool has_factor = !kernel.types().ints().empty();
  int product = -1;
  if (has_factor) product = kernel.Take(kernel.types().in(static_cast<size_t>(i)));
  if (!has_factor) kernel.MakeGrad(i);
  const int first_copy = kernel.Take(first);
  const int second_copy = kernel.Take(second);
  kernel.Use(Workspace::kCublas);
  if (has_factor) kernel.MakeGrad(i);
  if (has_factor) kernel.Free(product);
  return {first_copy, second_copy};
}

void BatchedSumBackward(Kernel& kernel) {
  const CallTypes& call = kernel.types();
  for (const int copy : BatchedGradient(kernel, 1, Factor<2>(call), GradientAsFactor(call))) {
    kernel.Free(copy);
  }
  BatchedGradient(kernel, 2, GradientAsFactor(call), Factor<1>(call));
  kernel.MakeGrad(0);
}

constexpr Slots kAllOfLinear = In(0) | In(1) | In(2);
constexpr BackwardSteps kInOrder = {MakeGrad(0),
                                    Uses(Workspace::kCublas),
                                    MakeGrad(1),
                                    Uses(Workspace::kCublas),
                                    MakeGrad(2),
                                    ScratchWith(2, PartialsOfBias),
                                    ScratchWith(2, SemaphoresOfBias)};

constexpr OpRule kLinearRules[] = {
    {.name = "linear", .take_apart = TakeLinearApart, .autocast = AutocastPolicy::kLower},
    {.name = "linear_of_columns",
     .take_apart = TakeLinearOfColumnsApart,
     .autocast = AutocastPolicy::kLower},
    {.name = "linear_of_rows",
     .take_apart = TakeLinearOfRowsApart,
     .autocast = AutocastPolicy::kLower},
    // DeepSpeed's in the place of linear, which saves no view of the weight, but all that it is
    // given, whichever gradient is wanted: of two dimensions with a bias, and others.  Source:
    // LinearFunctionForZeroStage3 of deepspeed/runtime/zero/linear.py, DeepSpeed 0.19.8
    // (memory_efficient_linear, as by default).
    {.name = "zero3_addmm",
     .saves_behind = true,
     .gradients = {Reads(kAllOfLinear), Reads(kAllOfLinear), Reads(kAllOfLinear)},
     .forward = {MakeOut(0), Uses(Workspace::kCublasLt)},
     .backward = kInOrder},
    {.name = "zero3_linear",
     .saves_behind = true,
     .gradients = {Reads(kAllOfLinear), Reads(kAllOfLinear), Reads(kAllOfLinear)},
     .forward = {MakeOut(0), Uses(Workspace::kCublas)},
     .backward = kInOrder},
    {.name = "matmul", .take_apart = TakeMatMulApart, .autocast = AutocastPolicy::kLower},
    // bias [n], x [m, k], w [k, n].  A bias takes cublasLt's way in forward, if that takes the
    // product; its gradient is the incoming one, summed up by the engine.
    {.name = "addmm",
     .autocast = AutocastPolicy::kLower,
     .gradients = {PassThrough(), ReadsForMatrix(In(2)), ReadsForMatrix(In(1))},
     .forward = {MakeOut(0), Scratch(Factor<2>), Scratch(Factor<1>), Uses(Workspace::kCublasLt)},
     .backward = kFirstFirst},
    // The same of a rank, which adds its part of the bias (Replicate to Partial).  Source:
    // Partial._partition_value of torch/distributed/tensor/placement_types.py, pytorch v2.11.0.
    {.name = "addmm_of_rows",
     .autocast = AutocastPolicy::kLower,
     .gradients = {PassThrough(), ReadsForMatrix(In(2)), ReadsForMatrix(In(1))},
     .forward = {Scratch(LikeInput), MakeOut(0), Scratch(Factor<2>), Scratch(Factor<1>),
                 Uses(Workspace::kCublasLt)},
     .backward = kFirstFirst},
    {.name = "mm",
     .autocast = AutocastPolicy::kLower,
     .gradients = {ReadsForMatrix(In(1)), ReadsForMatrix(In(0))},
     .forward = {MakeOut(0), Scratch(Factor<1>), Scratch(Factor<0>), Uses(Workspace::kCublas)},
     .backward = kSecondFirst},
    {.name = "bmm",
     .autocast = AutocastPolicy::kLower,
     .gradients = {Reads(In(1)), Reads(In(0))},
     .forward = {MakeOut(0), Scratch(Factor<1>), Scratch(Factor<0>), Uses(Workspace::kCublas)},
     .backward = kSecondFirst},
    // Rows [n, k] in groups, a matrix [k, m] for each group, where groups end.  Source:
    // _grouped_mm_mat1_backward and _mat2_, FunctionsManual.cpp, pytorch v2.11.0.
    {.name = "_grouped_mm",
     .gradients = {ReadsAsInput(In(1) | In(2)), ReadsAsInput(In(0) | In(2))},
     .backward = kSecondFirst},
    // x [b, m, n], to which the product of [b, m, k] and [b, k, n] is added.
    {.name = "baddbmm",
     .autocast = AutocastPolicy::kLower,
     .gradients = {PassThrough(), Reads(In(2)), Reads(In(1))},
     .forward = {MakeOut(0), Scratch(Factor<2>), Scratch(Factor<1>), Uses(Workspace::kCublas)},
     .run_backward = BatchedSumBackward},
    // x [n, m], to which the sum of products of [b, n, k] and [b, k, m] is added.
    {.name = "addbmm",
     .autocast = AutocastPolicy::kLower,
     .gradients = {PassThrough(), Reads(In(2)), Reads(In(1))},
     .forward = {MakeOut(0), Uses(Workspace::kCublas)},
     .backward = {MakeGrad(1), Uses(Workspace::kCublas), MakeGrad(2), Uses(Workspace::kCublas),
                  MakeGrad(0)}},
    // Source: _trilinear and sumproduct_pair of aten/src/ATen/native/Linear.cpp, pytorch v2.11.0.
    {.name = "_trilinear",
     .gradients = {Reads(In(1) | In(2)), Reads(In(0) | In(2)), Reads(In(0) | In(1))},
     .forward = {MakeOut(0), Scratch(LikeThird), Uses(Workspace::kCublas), Scratch(TrilinearRows)},
     .backward = {MakeGrad(0), ScratchWith(0, TrilinearPairs), ScratchWith(0, LikeInput),
                  Uses(Workspace::kCublas), DropScratch(), MakeGrad(1), ScratchWith(1, LikeInput),
                  ScratchWith(1, TrilinearPart), DropScratch(), MakeGrad(2),
                  ScratchWith(2, LikeThird), ScratchWith(2, LikeThird)}},
    // Of vectors: the gradient of the matrix is an outer product, without a workspace.
    {.name = "mv",
     .autocast = AutocastPolicy::kLower,
     .gradients = {Reads(In(1)), Reads(In(0))},
     .forward = {MakeOut(0), Uses(Workspace::kCublas)},
     .backward = {MakeGrad(0), MakeGrad(1), Uses(Workspace::kCublas)}},
    {.name = "addmv",
     .autocast = AutocastPolicy::kLower,
     .gradients = {PassThrough(), Reads(In(2)), Reads(In(1))},
     .forward = {MakeOut(0), Uses(Workspace::kCublas)},
     .backward = {MakeGrad(1), MakeGrad(2), Uses(Workspace::kCublas), MakeGrad(0)}},
    {.name = "addr",  // x + outer product
     .autocast = AutocastPolicy::kLower,
     .gradients = {PassThrough(), Reads(In(2)), Reads(In(1))},
     .backward = {MakeGrad(1), Uses(Workspace::kCublas), MakeGrad(2), Uses(Workspace::kCublas),
                  MakeGrad(0)}},
    {.name = "dot",
     .autocast = AutocastPolicy::kWidest,
     .gradients = {Reads(In(1)), Reads(In(0))},
     .forward = {MakeOut(0), Uses(Workspace::kCublas)}},
    {.name = "vdot",
     .autocast = AutocastPolicy::kWidest,
     .gradients = {Reads(In(1)), Reads(In(0))},
     .forward = {MakeOut(0), Uses(Workspace::kCublas)},
     .backward = {MakeGrad(1), MakeGrad(0)}},
    {.name = "linalg_vecdot", .take_apart = TakeVecdotApart, .autocast = AutocastPolicy::kLower},
    // Several matrices of at most 16 rows, by cuBLAS: info, LU and its pivots, pointers to
    // matrices; a bool says whether all went well.  -result^H (grad result^H)
    {.name = "linalg_inv",
     .gradients = {Reads(Out(0))},
     .forward = {MakeOut(0), Scratch(InfoOfMatrices), Scratch(LikeInput), Scratch(PivotsOfMatrices),
                 Scratch(PointersOfMatrices), Uses(Workspace::kCublas), DropScratch(3, 1),
                 Scratch(PointersOfMatrices), Scratch(PointersOfMatrices), DropScratch(1, 5),
                 Passing(OneBool)},
     .backward = {Scratch(LikeInput), Scratch(LikeInput), MakeGrad(0), Uses(Workspace::kCublas)}},
    // A, B: of B's gradient A's is the negative product with the result, and its triangle.
    {.name = "linalg_solve_triangular",
     .strides = ColumnMajor,
     .gradients = {Reads(In(0) | Out(0)), Reads(In(0) | Out(0))},
     .forward = {MakeOut(0), Scratch(PointersToSolve), Scratch(PointersToSolve),
                 Uses(Workspace::kCublas)},
     .backward = {MakeGrad(1), Scratch(PointersToSolve), Scratch(PointersToSolve),
                  Uses(Workspace::kCublas), DropScratch(0, 2), ScratchWith(0, LikeInput),
                  ScratchWith(0, LikeInput), DropScratch(2, 1), MakeGrad(0)}},
    {.name = "add_", .in_place = InPlace::kAlways, .gradients = {PassThrough(), PassThrough()}},
};

}  // namespace

NameId MatMul(Dispatcher& dispatcher, NameId a, NameId b, Ends ends) {
  const size_t locals = dispatcher.local_count();
  const auto finish = [&](std::string_view op, std::vector<NameId> inputs, const Dims& dims) {
    if (ends == Ends::kCall) {
      dispatcher.MakeResult(op, std::move(inputs));
      return kNoName;
    }
    const NameId made = dispatcher.Make(op, std::move(inputs), {dispatcher.TypeOf(a).dtype, dims});
    dispatcher.DropBeyond(locals, made);
    return made;
  };
  const StridedType left = dispatcher.TypeOf(a);
  const StridedType right = dispatcher.TypeOf(b);
  if (left.dims.size() < 2 && right.dims.size() < 2) return finish("dot", {a, b}, {});
  if (left.dims.size() == 1 && right.dims.size() == 2) {
    const NameId row = dispatcher.Reshape(a, {1, left.dims[0]});
    const NameId product = dispatcher.Make("mm", {row, b}, {left.dtype, {1, right.dims[1]}});
    return finish("view", {product}, {right.dims[1]});
  }
  if (left.dims.size() < 2 || right.dims.size() < 2) return finish("mv", {a, b}, {});
  const int64_t columns = right.dims.back();
  if (left.dims.size() == 2 && right.dims.size() == 2) {
    return finish("mm", {a, b}, {left.dims[0], columns});
  }
  Dims result = Broadcast(BatchOf(left), BatchOf(right));
  if (Folds(dispatcher, a, b)) {
    const NameId rows = AsMatrix(dispatcher, a);
    const Dims dims = {dispatcher.TypeOf(rows).dims[0], columns};
    const NameId product = dispatcher.Make("mm", {rows, b}, {left.dtype, dims});
    result.insert(result.end(), {left.dims.end()[-2], columns});
    return finish("view", {product}, result);
  }
  const NameId first = AsBatch(dispatcher, a, result);
  const NameId second = AsBatch(dispatcher, b, result);
  const Dims dims = {Numel(result), left.dims.end()[-2], columns};
  const NameId product = dispatcher.Make("bmm", {first, second}, {left.dtype, dims});
  result.insert(result.end(), {left.dims.end()[-2], columns});
  return finish("view", {product}, result);
}

std::span<const OpRule> LinearRules() { return kLinearRules; }

}  // namespace onnxfit
