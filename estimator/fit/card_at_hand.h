// A card of this machine, beside what the table has of it.
#pragma once

#include <optional>
#include <string>

#include "estimator/base/cards.h"
#include "estimator/base/detected_gpu.h"
#include "estimator/fit/target.h"

namespace onnxfit {

struct CardAtHand {
  DetectedGpu gpu;
  const Card* row = nullptr;          // by CUDA's name; null where the table has none
  std::optional<Target> target = {};  // as --gpu auto takes it; nullopt where it is unusable
};

CardAtHand LookUp(DetectedGpu gpu);

// What a row of cards.cc would say of it: {"h200", "H200", "?", "?", 140, 90, 132, 143155, 0,
// 143771}, with "?" for what no card says of itself, the alias and the size sold guessed.  Of a
// card that has a row, that with the sizes seen here.
std::string TableRow(const CardAtHand& card);

}  // namespace onnxfit
