#include "estimator/program/hidden_matrices.h"

#include <unordered_map>

#include "estimator/base/index.h"

namespace onnxfit {

std::vector<bool> AreHiddenMatrices(const Program& program) {
  std::vector<bool> are(program.parameters.size());
  std::unordered_map<NameId, size_t> matrices;
  for (size_t i = 0; i < are.size(); ++i) {
    const NameId name = program.parameters[i];
    are[i] = program.values[Index(name)].type.dims.size() == 2;
    if (are[i]) matrices.emplace(name, i);
  }
  auto last = matrices.end();
  for (const AtenCall& call : program.calls) {
    for (const NameId input : call.inputs) {
      const auto found = matrices.find(input);
      if (found == matrices.end()) continue;
      last = found;
      if (call.op == "embedding") are[found->second] = false;
    }
  }
  if (last != matrices.end()) are[last->second] = false;
  return are;
}

}  // namespace onnxfit
