// Small tensors whose elements follow from shapes and constants, and the operators that
// compute them.  Internal to the room onnx/.
//
// A tensor that repeats along an axis is stored once along it: a mask expanded over the
// batch costs what one sample costs, so that what is known does not depend on the batch.
//
//   Expand([[1, 2]], [3, 2])   dims [3, 2]   stored [1, 2]   elements 1 2
#pragma once

#include <onnx/onnx_pb.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "estimator/base/strided_loops.h"
#include "estimator/base/tensor_type.h"
#include "estimator/onnx/shapes.h"

namespace onnxfit {

// More stored elements than this are not evaluated: masks of 1024 x 1024 are, weights
// are not.  Floats are evaluated only where sizes are computed in them.
inline constexpr int64_t kMaxIntegers = 1 << 20;
inline constexpr int64_t kMaxFloats = 1024;
// Of all tensors together.  GPT-2, whose masks are 1024 x 1024, takes 1.5 million.
inline constexpr int64_t kMaxHeldElements = int64_t{1} << 26;

using Integers = std::vector<int64_t>;  // also bool: 0 or 1
using Floats = std::vector<double>;     // rounded to the tensor's type
using Elements = std::variant<Integers, Floats>;

// --- Tensors on the host (host_tensor.cc) --------------------------------------

// Elements now, or how to get them when somebody asks.
class LazyElements {
 public:
  explicit LazyElements(Elements elements);
  virtual ~LazyElements();
  LazyElements(const LazyElements&) = delete;
  LazyElements& operator=(const LazyElements&) = delete;

  // Evaluates at the first call.  Not thread-safe.  Throws Error, as the constructor does, where
  // all that are held exceed kMaxHeldElements.
  const Elements& Get() const;
  // How many evaluations Get would nest; 0 once it is done.
  int depth() const { return elements_.has_value() ? 0 : depth_; }
  // As NonzerosAmong says, looked for once.  Evaluates only where it cannot be told otherwise.
  Nonzeros NonzerosOf(int64_t size) const;

 protected:
  explicit LazyElements(int depth) : depth_(depth) {}
  virtual Elements Evaluate() const { return {}; }
  virtual void Release() const {}
  // The same before evaluation, where it can be told.
  virtual std::optional<Nonzeros> Foresee(int64_t /*size*/) const { return std::nullopt; }

 private:
  mutable std::optional<Elements> elements_;
  mutable std::optional<std::pair<int64_t, Nonzeros>> nonzeros_;  // and the size asked for
  int depth_ = 0;
};

struct HostTensor {
  DType dtype = DType::kUndefined;
  Dims dims;
  Dims stored;  // each dimension as in `dims`, or 1 where the elements repeat
  std::shared_ptr<const LazyElements> elements;  // row-major over `stored`

  bool is_float() const { return IsFloat(dtype); }
  // REQUIRES: not is_float().
  const Integers& integers() const { return std::get<Integers>(elements->Get()); }
  // REQUIRES: is_float().
  const Floats& floats() const { return std::get<Floats>(elements->Get()); }
};

HostTensor MakeIntegers(DType dtype, Dims dims, Integers elements);
HostTensor MakeFloats(DType dtype, Dims dims, Floats elements);

// `tensor` with other elements: `change` maps a vector of either kind to one of its own.
template <typename Change>
HostTensor WithElements(const HostTensor& tensor, Dims dims, Dims stored, Change change) {
  Elements changed =
      std::visit([&](const auto& from) { return Elements(change(from)); }, tensor.elements->Get());
  return {tensor.dtype, std::move(dims), std::move(stored),
          std::make_shared<const LazyElements>(std::move(changed))};
}

// `tensor` stored over `stored`, each dimension of which is that of its stored or dims.
HostTensor StoredAs(const HostTensor& tensor, const Dims& stored);

// `tensor` with stored == dims.  O(elements): ask HasUpTo first where the file decides
// over the dimensions.
HostTensor InFull(const HostTensor& tensor);

// Of what sizes the matrices of `stored` are, 0 where they are not square or too small to tell.
int64_t MatrixSize(const Dims& stored);

// True where the product of `dims` is not above `limit`.
bool HasUpTo(const HostTensor& tensor, int64_t limit);

// The elements of a tensor in the file, decoded when they are first asked for.  nullopt:
// not kept, too many, or of a type that no shape depends on.
std::optional<HostTensor> FromProto(const onnx::TensorProto& tensor,
                                    std::shared_ptr<const void> owner);

// For ONNX's inference functions.
onnx::TensorProto ToProto(const HostTensor& tensor);

// Up to how many elements tensors of `dtype` are evaluated.
int64_t LimitOf(DType dtype);

// True where elements of the type are known at all, and there are not more than `limit`.
bool FitsIn(const TensorType& type, int64_t limit);

// What is not 0 where `a` is 0.
Nonzeros InverseOf(Nonzeros a);

// Of elements that depend on whether their column is before their row's number, is that, or is
// behind it.
Nonzeros NonzerosBySide(bool before, bool on, bool behind);

// Axis in [0, rank), counted from the end where negative.
inline size_t AxisOf(int64_t axis, size_t rank) {
  return static_cast<size_t>(axis < 0 ? axis + static_cast<int64_t>(rank) : axis);
}

// --- Operators (constants.cc) --------------------------------------------------

// One node to evaluate.  Types are those that inference gave.
struct Call {
  const onnx::NodeProto* node = nullptr;
  int64_t opset = 0;
  std::vector<std::optional<HostTensor>> inputs;  // nullopt: left out
  std::vector<TensorType> input_types;
  std::vector<TensorType> output_types;  // a dimension that is not known yet is -1
  std::shared_ptr<const void> owner;     // keeps `node`

  bool has(size_t input) const { return input < inputs.size() && inputs[input].has_value(); }
  const HostTensor& in(size_t input) const { return *inputs[input]; }
};

// The attribute called `name`, or null.
const onnx::AttributeProto* FindAttribute(const onnx::NodeProto& node, std::string_view name);
int64_t IntAttribute(const onnx::NodeProto& node, std::string_view name, int64_t absent);

inline const TensorType& OutputType(const Call& call) { return call.output_types[0]; }
inline std::optional<Dims> FirstStored(const Call& call) { return call.in(0).stored; }

// Which elements of input `i` are not 0, for a result with matrices of `size`: of its own matrices
// where they are of that size, else of all that it has.
Nonzeros NonzerosOfInput(const Call& call, size_t i, int64_t size);

// The same of a result with the elements of input `i`, each perhaps several times, whose matrices
// are the input's where these are of that size.
std::optional<Nonzeros> SpreadNonzeros(const Call& call, size_t i, int64_t size);

// One tensor for each output; none where the node cannot be evaluated.
using Evaluator = std::vector<HostTensor> (*)(const Call&);

struct EvaluatorRow {
  std::string_view op_type;
  Evaluator evaluate = nullptr;
  // Which `stored` the only output will have.  A row that knows it beforehand always
  // succeeds, so that its evaluation can wait until somebody asks for the elements.
  // nullopt: this node cannot be evaluated.
  std::optional<Dims> (*stored)(const Call&) = nullptr;
  bool needs_values = true;  // false: the types of the inputs are enough (Shape)
  bool finds_dims = false;   // true: the elements decide over the dimensions (NonZero)
  // What can be told of the elements in matrices of a size by the inputs' alone.
  std::optional<Nonzeros> (*nonzeros)(const Call&, int64_t size) = nullptr;
};

// The row of `op_type` in ONNX's own domain, or null.
const EvaluatorRow* FindEvaluator(std::string_view op_type);

// The rows by family, one file each.
std::span<const EvaluatorRow> ArithmeticRows();  // constants_arithmetic.cc
std::span<const EvaluatorRow> MovementRows();    // constants_movement.cc
std::span<const EvaluatorRow> IndexingRows();    // constants_indexing.cc

// The outputs of `call` by `row`; none where they are unknown or too big.  Elements of
// big tensors are computed when they are first asked for.
// REQUIRES: `call` has the inputs that its operator cannot do without.
std::vector<HostTensor> Evaluate(const EvaluatorRow& row, Call call);

// How many elements Evaluate would read and make at once; 0 where it would wait, or not evaluate.
int64_t WorkOf(const EvaluatorRow& row, const Call& call);

}  // namespace onnxfit
