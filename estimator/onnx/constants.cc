#include "estimator/onnx/constants.h"

#include <algorithm>
#include <unordered_map>
#include <utility>

namespace onnxfit {
namespace {

// From here on it pays to wait until somebody asks for the elements.
constexpr int64_t kEagerElements = 4096;
// Evaluations that wait for one another, so that asking cannot exhaust the stack.
constexpr int kMaxNestedCalls = 64;

int DepthOf(const Call& call) {
  int depth = 1;
  for (const auto& input : call.inputs) {
    if (input.has_value()) depth = std::max(depth, input->elements->depth() + 1);
  }
  return depth;
}

class LazyCall final : public LazyElements {
 public:
  LazyCall(const EvaluatorRow& row, Call call)
      : LazyElements(DepthOf(call)), row_(&row), call_(std::move(call)) {}

 private:
  Elements Evaluate() const override { return row_->evaluate(call_).at(0).elements->Get(); }
  void Release() const override { call_ = {}; }
  std::optional<Nonzeros> Foresee(int64_t size) const override {
    return row_->nonzeros == nullptr ? std::nullopt : row_->nonzeros(call_, size);
  }

  const EvaluatorRow* row_;
  mutable Call call_;
};

// Stores a tensor that is the same for each index of axis 0 (a batch) only once.
void FoldAxis0(HostTensor& tensor) {
  if (tensor.stored.size() < 2 || tensor.stored[0] < 2) return;
  const auto fold = [&](const auto& all) -> std::optional<Elements> {
    const auto each = all.size() / static_cast<size_t>(tensor.stored[0]);
    // Repeats with this period exactly where it equals itself, shifted.
    if (!std::equal(all.begin() + static_cast<std::ptrdiff_t>(each), all.end(), all.begin())) {
      return std::nullopt;
    }
    using Vector = std::decay_t<decltype(all)>;
    return Vector(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(each));
  };
  auto folded = std::visit(fold, tensor.elements->Get());
  if (!folded.has_value()) return;
  tensor.stored[0] = 1;
  tensor.elements = std::make_shared<const LazyElements>(*std::move(folded));
}

bool AllKnown(const Call& call) {
  for (int i = 0; i < call.node->input_size(); ++i) {
    if (!call.node->input(i).empty() && !call.has(static_cast<size_t>(i))) return false;
  }
  return true;
}

// Both sides in full, since evaluators of this kind unfold what repeats.  What a row does not
// read may be of any size.
bool Fits(const EvaluatorRow& row, const Call& call) {
  for (const auto& input : call.inputs) {
    if (!row.needs_values) break;
    if (input.has_value() && !HasUpTo(*input, LimitOf(input->dtype))) return false;
  }
  for (const TensorType& type : call.output_types) {
    if (!FitsIn(type, LimitOf(type.dtype))) return false;
  }
  return true;
}

bool Resolved(const Call& call) {
  for (const TensorType& type : call.output_types) {
    if (std::any_of(type.dims.begin(), type.dims.end(), [](int64_t dim) { return dim < 0; })) {
      return false;
    }
  }
  return true;
}

std::vector<HostTensor> EvaluateNow(const EvaluatorRow& row, const Call& call) {
  if (!Fits(row, call)) return {};
  std::vector<HostTensor> outputs = row.evaluate(call);
  for (HostTensor& output : outputs) {
    if (output.elements->depth() == 0) FoldAxis0(output);
  }
  return outputs;
}

HostTensor EvaluateLater(const EvaluatorRow& row, Call call, Dims stored) {
  const TensorType type = call.output_types[0];
  auto lazy = std::make_shared<const LazyCall>(row, std::move(call));
  return {type.dtype, type.dims, std::move(stored), std::move(lazy)};
}

using RowsByName = std::unordered_map<std::string_view, const EvaluatorRow*>;

RowsByName AllRows() {
  RowsByName rows;
  for (const auto family : {ArithmeticRows(), MovementRows(), IndexingRows()}) {
    for (const EvaluatorRow& row : family) rows.emplace(row.op_type, &row);
  }
  return rows;
}

}  // namespace

const onnx::AttributeProto* FindAttribute(const onnx::NodeProto& node, std::string_view name) {
  for (const onnx::AttributeProto& attribute : node.attribute()) {
    if (attribute.name() == name) return &attribute;
  }
  return nullptr;
}

int64_t IntAttribute(const onnx::NodeProto& node, std::string_view name, int64_t absent) {
  const onnx::AttributeProto* attribute = FindAttribute(node, name);
  return attribute == nullptr ? absent : attribute->i();
}

Nonzeros NonzerosOfInput(const Call& call, size_t i, int64_t size) {
  const HostTensor& in = call.in(i);
  return in.elements->NonzerosOf(MatrixSize(in.stored) == size ? size : 0);
}

std::optional<Nonzeros> SpreadNonzeros(const Call& call, size_t i, int64_t size) {
  const Nonzeros own = NonzerosOfInput(call, i, size);
  const bool keeps_matrices = MatrixSize(call.in(i).stored) == size;
  return keeps_matrices || own != Nonzeros::kMixed ? std::optional(own) : std::nullopt;
}

const EvaluatorRow* FindEvaluator(std::string_view op_type) {
  static const RowsByName rows = AllRows();
  const auto found = rows.find(op_type);
  return found == rows.end() ? nullptr : found->second;
}

std::vector<HostTensor> Evaluate(const EvaluatorRow& row, Call call) {
  if (row.needs_values && !AllKnown(call)) return {};
  if (!row.finds_dims && !Resolved(call)) return {};
  if (row.stored == nullptr) return EvaluateNow(row, call);
  const TensorType& type = call.output_types[0];
  std::optional<Dims> stored = row.stored(call);
  if (!stored.has_value() || !FitsIn({type.dtype, *stored}, LimitOf(type.dtype))) return {};
  if (NumelOrHuge(*stored) <= kEagerElements || DepthOf(call) > kMaxNestedCalls) {
    return row.evaluate(call);
  }
  return {EvaluateLater(row, std::move(call), *std::move(stored))};
}

int64_t WorkOf(const EvaluatorRow& row, const Call& call) {
  if (row.stored != nullptr || !Resolved(call) || !Fits(row, call)) return 0;
  int64_t elements = 0;
  for (const auto& input : call.inputs) {
    if (row.needs_values && input.has_value()) elements += Numel(input->dims);
  }
  for (const TensorType& type : call.output_types) elements += Numel(type.dims);
  return elements;
}

}  // namespace onnxfit
