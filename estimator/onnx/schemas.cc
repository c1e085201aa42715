#include "estimator/onnx/schemas.h"

#include <fmt/format.h>
#include <onnx/defs/operator_sets.h>
#include <onnx/defs/shape_inference.h>

#include <algorithm>
#include <array>
#include <map>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "estimator/base/error.h"
#include "estimator/onnx/validate.h"

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

}  // namespace onnxfit
