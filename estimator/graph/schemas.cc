#include "estimator/graph/schemas.h"

#include <onnx/defs/operator_sets.h>

#include <algorithm>
#include <array>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

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

// The newest row of `op_type` that is not newer than `opset`, or null.
const SchemaRow* FindRow(std::string_view op_type, int64_t opset) {
  static const std::vector<const SchemaRow*> rows = SortedRows();
  const SchemaRow wanted{op_type, opset, nullptr};
  const auto after = std::upper_bound(rows.begin(), rows.end(), &wanted, ByNameThenVersion);
  if (after == rows.begin() || after[-1]->name != op_type) return nullptr;
  return after[-1];
}

// A schema with a body in place of an inference function is finished (its body gets the
// names of its inputs); the others are used as they are made.
std::unique_ptr<const onnx::OpSchema> MakeSchema(const SchemaRow& row) {
  auto schema = std::make_unique<onnx::OpSchema>(row.make());
  if (!schema->has_type_and_shape_inference_function()) schema->Finalize();
  return schema;
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
  if (row == nullptr) return nullptr;
  static std::mutex mutex;
  static std::map<const SchemaRow*, std::unique_ptr<const onnx::OpSchema>> made;
  const std::scoped_lock lock(mutex);
  std::unique_ptr<const onnx::OpSchema>& schema = made[row];
  if (schema == nullptr) schema = MakeSchema(*row);
  return schema.get();
}

const onnx::ISchemaRegistry& SchemasOnDemand() {
  static const OnDemandRegistry registry;
  return registry;
}

}  // namespace onnxfit
