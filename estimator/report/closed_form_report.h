// A closed form as a report for people, and as JSON.
#pragma once

#include <string>

#include "estimator/fit/closed_form.h"
#include "estimator/report/json.h"
#include "estimator/report/text.h"

namespace onnxfit {

// That it is a formula and no replay, and how many cards would hold it, on the first lines; then
// the products.
std::string ToText(const ClosedForm& form, const TextOptions& options = {});

// One object: "closed_form": true, the numbers, a breakdown with its products, the cards.
std::string ToJson(const ClosedForm& form, const JsonOptions& options = {});

}  // namespace onnxfit
