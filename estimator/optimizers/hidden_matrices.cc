#include "estimator/optimizers/hidden_matrices.h"

#include <unordered_map>
#include <unordered_set>

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

std::vector<bool> AreEmbeddingTables(const Program& program) {
  std::unordered_set<NameId> tables;
  for (const AtenCall& call : program.calls) {
    if (call.op == "embedding") tables.insert(call.inputs.begin(), call.inputs.end());
  }
  std::vector<bool> are(program.parameters.size());
  for (size_t i = 0; i < are.size(); ++i) are[i] = tables.contains(program.parameters[i]);
  return are;
}

}  // namespace onnxfit
