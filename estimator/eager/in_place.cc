#include "estimator/eager/in_place.h"

#include "estimator/eager/call_table.h"
#include "estimator/eager/forward.h"
#include "estimator/eager/machine.h"

namespace onnxfit {

std::vector<bool> FindInPlaceCalls(const Program& program, const TrainingSettings& settings) {
  Program trained = program;
  trained.parameters.insert(trained.parameters.end(), program.frozen.begin(), program.frozen.end());
  Trace unread;
  Machine machine(unread);
  CallTable calls(trained, machine, settings);
  Forward forward(calls, settings);
  forward.PlaceModel();
  for (const NameId name : trained.inputs) {
    const TensorId input = machine.New(calls.TypeOf(name), calls.NameLabel(name), Kind::kInput);
    machine.Retain(input);  // by the loop
    forward.Bind(name, input);
  }
  forward.Run(0, trained.calls.size(), /*grad=*/true);
  return forward.overwrote();
}

}  // namespace onnxfit
