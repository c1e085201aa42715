#include "estimator/recover/masks.h"

#include <cstdint>

#include "estimator/base/index.h"

namespace onnxfit {
namespace {

// Masks hide with -inf, with the least number of a type, or with -10000, as BERT once did.
constexpr double kHides = -9999;

enum class Kept : uint8_t { kAll, kTriangle, kOther };

// torch.ones(…).tril() == 0, of which the numbers are not computed.
bool IsBehindTriangle(const BoundGraph& bound, ValueId condition) {
  const NodeId equal = bound.Maker(condition, "Equal");
  if (equal == kNoNode || bound.NumberOf(bound.At(equal).inputs[1]) != 0) return false;
  const NodeId trilu = bound.Maker(bound.At(equal).inputs[0], "Trilu");
  if (trilu == kNoNode || IntAttribute(bound.At(trilu), "upper", 1) != 0) return false;
  const std::vector<ValueId>& inputs = bound.At(trilu).inputs;
  if (inputs.size() > 1 && inputs[1] != kNoValue) return false;  // another diagonal
  const NodeId expand = bound.Maker(inputs[0], "Expand");
  return expand != kNoNode && bound.NumberOf(bound.At(expand).inputs[0]) == 1;
}

// What a condition keeps, being `shown` there.
Kept WhatIsKept(const BoundGraph& bound, ValueId condition, bool shown) {
  if (!shown && IsBehindTriangle(bound, condition)) return Kept::kTriangle;
  const KnownTensor* known = bound.Known(condition);
  if (known == nullptr) return Kept::kOther;
  const Nonzeros nonzeros = known->nonzeros();
  if (nonzeros == (shown ? Nonzeros::kAll : Nonzeros::kNone)) return Kept::kAll;
  const bool is_triangle = nonzeros == (shown ? Nonzeros::kLower : Nonzeros::kUpper);
  return is_triangle ? Kept::kTriangle : Kept::kOther;
}

bool Hides(const BoundGraph& bound, ValueId value) { return bound.NumberOf(value) < kHides; }

bool IsZero(const BoundGraph& bound, ValueId value) {
  return bound.IsNumber(value) && bound.NumberOf(value) == 0;
}

}  // namespace

AttentionMask ReadMask(const BoundGraph& bound, ValueId value) {
  const NodeId where = bound.Maker(value, "Where");
  if (where == kNoNode) return {.tensor = value};
  const std::vector<ValueId>& inputs = bound.At(where).inputs;
  const bool shown = !Hides(bound, inputs[1]);  // what the condition is where nothing is hidden
  if (shown && !Hides(bound, inputs[2])) return {.tensor = value};
  const ValueId bias = IsZero(bound, inputs[shown ? 1 : 2]) ? kNoValue : inputs[shown ? 1 : 2];
  switch (WhatIsKept(bound, inputs[0], shown)) {
    case Kept::kAll:
      return bias == kNoValue ? AttentionMask() : ReadMask(bound, bias);
    case Kept::kTriangle:
      return {.tensor = bias, .causal = true};
    case Kept::kOther:
      break;
  }
  return {.tensor = bias == kNoValue && shown ? inputs[0] : value};
}

}  // namespace onnxfit
