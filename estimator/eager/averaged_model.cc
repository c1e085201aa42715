#include "estimator/eager/averaged_model.h"

#include <set>
#include <utility>

#include "estimator/base/index.h"

namespace onnxfit {

// A buffer's copy gets its own storage and, until that is set, one of a single element.
void AveragedModel::Construct() {
  const Program& program = calls_.program();
  const std::set<NameId> buffers(program.buffers.begin(), program.buffers.end());
  for (const NameId name : program.copy_order) {
    const ProgramValue& value = program.values[Index(name)];
    const LabelId label = machine_.AddLabel(value.name + ".ema");
    machine_.New(value.type, label, Kind::kBuffer);
    if (buffers.contains(name)) machine_.Release(machine_.New({value.type.dtype, {}}, label));
  }
}

void AveragedModel::Update() {
  if (!std::exchange(updated_, true)) return;
  machine_.Release(machine_.New({DType::kInt64, {}}, machine_.AddLabel("ema.n_averaged")));
}

}  // namespace onnxfit
