#include "estimator/program/call_copies.h"

#include <utility>

namespace onnxfit {

NameId AddValue(Program& program, std::string name, const TensorType& type) {
  program.values.push_back({std::move(name), {type, {}}});
  return static_cast<NameId>(program.values.size()) - 1;
}

AtenCall CallAt(const AtenCall& at, std::string_view op, std::vector<NameId> inputs,
                std::vector<NameId> outputs, std::vector<int64_t> ints) {
  AtenCall call = at;
  call.op = op;
  call.inputs = std::move(inputs);
  call.outputs = std::move(outputs);
  call.ints = std::move(ints);
  return call;
}

}  // namespace onnxfit
