#include "estimator/onnx/schemas.h"

#include <fmt/format.h>
#include <onnx/defs/operator_sets.h>
#include <onnx/defs/schema.h>
#include <onnx/defs/shape_inference.h>
#include <onnx/onnx_pb.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <limits>
#include <map>
#include <memory>
#include <mutex>
#include <utility>

#include "estimator/base/error.h"
#include "estimator/base/tensor_type.h"
#include "estimator/onnx/onnx_model.h"

namespace onnxfit {
namespace {

struct SchemaRow {
  std::string_view name;
  int64_t since = 0;
  onnx::OpSchema (*make)() = nullptr;
};

// One row for each operator and each opset that changed it, from ONNX's operator_sets.h
// (written when the build is configured).
#define ONNXFIT_SCHEMA_ROW(version, name) \
  SchemaRow{#name, version,               \
            &onnx::GetOpSchema<onnx::ONNX_OPERATOR_SET_SCHEMA_CLASS_NAME(Onnx, version, name)>},
const SchemaRow kSchemaRows[] = {
#include "onnx_schema_rows.inc"
};
#undef ONNXFIT_SCHEMA_ROW

bool ByNameThenVersion(const SchemaRow* a, const SchemaRow* b) {
  return a->name != b->name ? a->name < b->name : a->since < b->since;
}

std::vector<const SchemaRow*> SortedRows() {
  std::vector<const SchemaRow*> rows;
  for (const SchemaRow& row : kSchemaRows) rows.push_back(&row);
  std::sort(rows.begin(), rows.end(), ByNameThenVersion);
  return rows;
}

const std::vector<const SchemaRow*>& Rows() {
  static const std::vector<const SchemaRow*> rows = SortedRows();
  return rows;
}

// The newest row of `op_type` that is not newer than `opset`, or null.
const SchemaRow* FindRow(std::string_view op_type, int64_t opset) {
  const SchemaRow wanted{op_type, opset, nullptr};
  const auto after = std::upper_bound(Rows().begin(), Rows().end(), &wanted, ByNameThenVersion);
  if (after == Rows().begin() || after[-1]->name != op_type) return nullptr;
  return after[-1];
}

// The oldest row of `op_type`, or null.
const SchemaRow* FirstRow(std::string_view op_type) {
  const SchemaRow wanted{op_type, 0, nullptr};
  const auto first = std::lower_bound(Rows().begin(), Rows().end(), &wanted, ByNameThenVersion);
  return first == Rows().end() || (*first)->name != op_type ? nullptr : *first;
}

// Inputs that list as many numbers as a tensor has dimensions: inference makes so many of them,
// whether the list is known or not.
struct ListInput {
  std::string_view op_type;
  size_t input;
  int64_t for_each = 1;  // so many for each dimension
};

constexpr ListInput kListInputs[] = {
    {"AffineGrid", 1},      {"CenterCropPad", 1}, {"Col2Im", 1}, {"Col2Im", 2},
    {"ConstantOfShape", 0}, {"Expand", 1},        {"Pad", 1, 2}, {"Resize", 3},
    {"Reshape", 1},         {"Squeeze", 1},       {"Tile", 1},   {"Unsqueeze", 1},
    {"Upsample", 1},
};

void CheckRank(int64_t rank) {
  if (rank <= kMaxRank) return;
  throw Error(
      {.text = fmt::format("at most {} dimensions were expected, found {}", kMaxRank, rank)});
}

void CheckList(const onnx::TypeProto* list, int64_t for_each) {
  if (list == nullptr || !list->tensor_type().has_shape()) return;
  const auto& dims = list->tensor_type().shape().dim();
  if (!dims.empty()) CheckRank(dims[0].dim_value() / for_each);
}

// Has a budget of dimensions, also in bodies of other operators.
onnx::InferenceFunction WithBudget(std::string_view op_type, onnx::InferenceFunction infer) {
  return [op_type, infer = std::move(infer)](onnx::InferenceContext& context) {
    for (const ListInput& list : kListInputs) {
      if (list.op_type != op_type || list.input >= context.getNumInputs()) continue;
      CheckList(context.getInputType(list.input), list.for_each);
    }
    infer(context);
    for (size_t i = 0; i < context.getNumOutputs(); ++i) {
      CheckRank(context.getOutputType(i)->tensor_type().shape().dim_size());
    }
  };
}

// A schema with a body in place of an inference function is finished (its body gets the
// names of its inputs); the others are used as they are made.
std::unique_ptr<const onnx::OpSchema> MakeSchema(const SchemaRow& row) {
  auto schema = std::make_unique<onnx::OpSchema>(row.make());
  if (schema->has_type_and_shape_inference_function()) {
    schema->TypeAndShapeInferenceFunction(
        WithBudget(row.name, schema->GetTypeAndShapeInferenceFunction()));
  } else {
    schema->Finalize();
  }
  return schema;
}

const onnx::OpSchema* SchemaOf(const SchemaRow& row) {
  static std::mutex mutex;
  static std::map<const SchemaRow*, std::unique_ptr<const onnx::OpSchema>> made;
  const std::scoped_lock lock(mutex);
  std::unique_ptr<const onnx::OpSchema>& schema = made[&row];
  if (schema == nullptr) schema = MakeSchema(row);
  return schema.get();
}

class OnDemandRegistry final : public onnx::ISchemaRegistry {
 public:
  // NOLINTNEXTLINE(google-default-arguments): ONNX's interface has the default.
  const onnx::OpSchema* GetSchema(const std::string& op_type, int opset,
                                  const std::string& domain = onnx::ONNX_DOMAIN) const override {
    return FindSchema(domain, op_type, opset);
  }
};

}  // namespace

const onnx::OpSchema* FindSchema(std::string_view domain, std::string_view op_type, int64_t opset) {
  if (!domain.empty() && domain != onnx::AI_ONNX_DOMAIN) return nullptr;
  const SchemaRow* row = FindRow(op_type, opset);
  return row == nullptr ? nullptr : SchemaOf(*row);
}

const onnx::OpSchema* NearestSchema(std::string_view op_type, int64_t opset) {
  const SchemaRow* row = FindRow(op_type, opset);
  if (row == nullptr) row = FirstRow(op_type);
  return row == nullptr ? nullptr : SchemaOf(*row);
}

const onnx::ISchemaRegistry& SchemasOnDemand() {
  static const OnDemandRegistry registry;
  return registry;
}

// --- How many inputs and outputs, and of what kind -----------------------------

namespace {

using Parameters = std::vector<onnx::OpSchema::FormalParameter>;

constexpr size_t kAnyNumber = std::numeric_limits<size_t>::max();
constexpr int64_t kNewest = std::numeric_limits<int64_t>::max();

bool IsVariadic(const onnx::OpSchema::FormalParameter& parameter) {
  return parameter.GetOption() == onnx::OpSchema::Variadic;
}

// How many there have to be of it.
size_t LeastOf(const onnx::OpSchema::FormalParameter& parameter) {
  if (IsVariadic(parameter)) return static_cast<size_t>(std::max(parameter.GetMinArity(), 0));
  return parameter.GetOption() == onnx::OpSchema::Single ? 1 : 0;
}

size_t LeastOf(const Parameters& parameters) {
  size_t least = 0;
  for (size_t i = 0; i < parameters.size(); ++i) {
    if (LeastOf(parameters[i]) > 0) least = i + LeastOf(parameters[i]);
  }
  return least;
}

size_t MostOf(const Parameters& parameters) {
  const bool is_open = !parameters.empty() && IsVariadic(parameters.back());
  return is_open ? kAnyNumber : parameters.size();
}

// The first that has to be there and is not, else kAnyNumber.
size_t FindMissing(const Node& node, const Parameters& parameters) {
  for (size_t i = 0; i < parameters.size(); ++i) {
    for (size_t k = i; k < i + LeastOf(parameters[i]); ++k) {
      if (k >= node.inputs.size() || node.inputs[k] == kNoValue) return k;
    }
  }
  return kAnyNumber;
}

// An input more than at its opset, axes of a reduction, is what later ones take.
std::string WrongInputs(const Node& node, const Parameters& parameters) {
  const size_t missing = FindMissing(node, parameters);
  if (missing != kAnyNumber) {
    return fmt::format("expected {} inputs at least, input {} is missing", LeastOf(parameters),
                       missing);
  }
  if (node.inputs.size() <= MostOf(parameters)) return "";
  const size_t most =
      std::max(MostOf(parameters), MostOf(NearestSchema(node.op_type, kNewest)->inputs()));
  if (node.inputs.size() <= most) return "";
  return fmt::format("expected {} inputs at most, found {}", most, node.inputs.size());
}

std::string WrongOutputs(const Node& node, const Parameters& parameters) {
  const size_t least = std::min<size_t>(LeastOf(parameters), 1);  // further ones may be left out
  const size_t most = MostOf(parameters);
  if (node.outputs.size() < least) return "expected an output, found none";
  if (node.outputs.size() <= most) return "";
  return fmt::format("expected {} outputs at most, found {}", most, node.outputs.size());
}

// --- Kinds ----------------------------------------------------------------------

enum Kind : unsigned {
  kFloatKind = 1U << 0,
  kIntegerKind = 1U << 1,
  kBoolKind = 1U << 2,
  kStringKind = 1U << 3,
  kComplexKind = 1U << 4,
  kListKind = 1U << 5,
};
constexpr std::string_view kKindNames[] = {"floats",  "integers",        "bools",
                                           "strings", "complex numbers", "lists"};

struct KindRow {
  std::string_view begins;  // of a type as schemas write it
  Kind kind = kFloatKind;
};

constexpr KindRow kKindRows[] = {
    {"tensor(float", kFloatKind},   {"tensor(double", kFloatKind},    {"tensor(bfloat", kFloatKind},
    {"tensor(int", kIntegerKind},   {"tensor(uint", kIntegerKind},    {"tensor(bool", kBoolKind},
    {"tensor(string", kStringKind}, {"tensor(complex", kComplexKind}, {"seq(", kListKind},
};

unsigned KindOf(std::string_view type) {
  const auto* row = std::ranges::find_if(
      kKindRows, [type](const KindRow& known) { return type.starts_with(known.begins); });
  return row == std::end(kKindRows) ? 0U : row->kind;
}

// `type` is one ("tensor(int64)"), or the name of a constraint that lists some.
unsigned KindsOf(const onnx::OpSchema& schema, const std::string& type) {
  unsigned kinds = KindOf(type);
  for (const auto& constraint : schema.typeConstraintParams()) {
    if (constraint.type_param_str != type) continue;
    for (const std::string& listed : constraint.allowed_type_strs) kinds |= KindOf(listed);
  }
  return kinds;
}

// 0: not known.
unsigned KindOf(const onnx::TypeProto& type) {
  if (type.has_sequence_type()) return kListKind;
  const auto dtype = static_cast<DType>(type.tensor_type().elem_type());
  if (IsFloat(dtype)) return kFloatKind;
  if (IsInteger(dtype)) return kIntegerKind;
  if (dtype == DType::kBool) return kBoolKind;
  if (dtype == DType::kString) return kStringKind;
  return dtype == DType::kComplex64 || dtype == DType::kComplex128 ? kComplexKind : 0U;
}

std::string KindNames(unsigned kinds) {
  std::vector<std::string_view> names;
  for (size_t i = 0; i < std::size(kKindNames); ++i) {
    if ((kinds >> i & 1U) != 0) names.push_back(kKindNames[i]);
  }
  return fmt::format("{}", fmt::join(names, " or "));
}

}  // namespace

std::string WrongSignature(const Node& node, int64_t opset) {
  const onnx::OpSchema* schema = node.domain.empty() ? NearestSchema(node.op_type, opset) : nullptr;
  if (schema == nullptr || schema->Deprecated()) return "";
  const std::string wrong = WrongInputs(node, schema->inputs());
  return wrong.empty() ? WrongOutputs(node, schema->outputs()) : wrong;
}

InputKinds::InputKinds(std::string_view op_type, int64_t opset) {
  for (const int64_t version : {opset, kNewest}) {
    const onnx::OpSchema* schema = NearestSchema(op_type, version);
    if (schema == nullptr) return;
    const Parameters& parameters = schema->inputs();
    taken_.resize(std::max(taken_.size(), parameters.size()));
    for (size_t i = 0; i < parameters.size(); ++i) {
      taken_[i] |= KindsOf(*schema, parameters[i].GetTypeStr());
    }
    is_open_ = is_open_ || MostOf(parameters) == kAnyNumber;
  }
}

std::string InputKinds::Wrong(size_t i, const onnx::TypeProto& type) const {
  if (taken_.empty() || (i >= taken_.size() && !is_open_)) return "";
  const unsigned taken = taken_[std::min(i, taken_.size() - 1)];
  unsigned kind = KindOf(type);
  if ((kind & (kIntegerKind | kBoolKind)) != 0) {
    kind = kIntegerKind | kBoolKind | (taken_.size() == 1 ? kFloatKind : 0U);
  }
  if (taken == 0 || kind == 0 || (taken & kind) != 0) return "";
  const std::string_view found =
      kind == kListKind ? "a list" : Name(static_cast<DType>(type.tensor_type().elem_type()));
  return fmt::format("expected {} as input {}, found {}", KindNames(taken), i, found);
}

}  // namespace onnxfit
