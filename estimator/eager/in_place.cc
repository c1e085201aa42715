#include "estimator/eager/in_place.h"

#include <algorithm>

#include "estimator/eager/call_table.h"
#include "estimator/eager/forward.h"
#include "estimator/eager/machine.h"

namespace onnxfit {
namespace {

bool MayWorkInPlace(const AtenCall& call) {
  const InPlace in_place = FindOpRule(call.op).in_place;
  return in_place == InPlace::kResult || in_place == InPlace::kClone;
}

}  // namespace

std::vector<bool> FindInPlaceCalls(const Program& program, const TrainingSettings& settings) {
  Program trained = program;
  trained.parameters.insert(trained.parameters.end(), program.frozen.begin(), program.frozen.end());
  Trace unread;
  Machine machine(unread);
  CallTable calls(trained, machine, settings);
  Forward forward(calls, settings);
  forward.PlaceModel();
  for (const auto* names : {&trained.inputs, &trained.received}) {
    for (const NameId name : *names) {
      const TensorId input = machine.New(calls.TypeOf(name), calls.NameLabel(name), Kind::kInput);
      machine.Retain(input);  // by the loop, or in a buffer
      forward.Bind(name, input);
    }
  }
  forward.Run(0, trained.calls.size(), /*grad=*/true);
  return forward.overwrote();
}

bool LeavesInPlaceOpen(const Program& program, const TrainingSettings& settings) {
  if (settings.in_place != InPlaceUse::kAuto) return false;
  return std::ranges::any_of(program.calls, [](const AtenCall& call) {
    return MayWorkInPlace(call) && !call.written_in_place.has_value();
  });
}

bool WritesInPlace(const Program& program) {
  return std::ranges::any_of(program.calls, [](const AtenCall& call) {
    return MayWorkInPlace(call) && call.written_in_place == true;
  });
}

}  // namespace onnxfit
