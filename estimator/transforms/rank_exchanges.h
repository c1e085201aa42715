// What ranks that share layers send each other, as calls beside their products.  Internal to the
// room transforms/.
#pragma once

#include <cstdint>

#include "estimator/program/program.h"
#include "estimator/transforms/shared_layers.h"
#include "estimator/transforms/shared_tokens.h"

namespace onnxfit {

// Columns are given the same on all ranks, whose gradients are summed up, unless tokens were put
// together for all of them; what rows make is summed up, and what a gathered layer makes is put
// together.  `tokens` has nothing where ranks do not share those.
// REQUIRES: values have their ranks' parts; those that are sent are narrowed here.
void WriteExchanges(Program& program, const SharedLayers& layers, const SharedTokens& tokens,
                    int64_t ranks);

}  // namespace onnxfit
