// From units to ATen calls.  Internal to the room recover/.
#pragma once

#include "estimator/recover/unit_writer.h"
#include "estimator/recover/units.h"

namespace onnxfit {

// Writes the calls of a unit: by its kind, at the writer's place.
void LowerUnit(UnitWriter& writer, const Unit& unit);

}  // namespace onnxfit
