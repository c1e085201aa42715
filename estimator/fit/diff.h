// The answer to "what grew": one run of two models, or two runs of one.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "estimator/fit/compare.h"
#include "estimator/fit/judged_target.h"

namespace onnxfit {

struct Diff {
  Comparison comparison;
  std::vector<JudgedTarget> before = {};  // the request's cards, where both sides are models
  std::vector<JudgedTarget> after = {};
  std::optional<Allowance> fail_above = {};
  std::vector<std::string> taken = {};  // flags of the report that the model was asked with, too

  // More than fail_above allows.
  bool grew_too_much() const {
    return fail_above &&
           comparison.increase() > fail_above->BytesOf(comparison.before.device_bytes);
  }
};

}  // namespace onnxfit
