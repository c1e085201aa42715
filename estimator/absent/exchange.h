// What ranks tell one another: small values, as files of the run's folder.
#pragma once

#include <cstddef>
#include <optional>
#include <string>

#include "estimator/absent/contents.h"

namespace onnxfit::absent {

// Of one rank in one call.  Larger ones are gradients and weights, which nobody decides by.
inline constexpr size_t kMostExchanged = size_t{64} << 10;

// Whole or not at all, under a name that is used once in a run.  What nobody knows is told as that,
// and a guess as a guess.
void Publish(const std::string& name, const std::optional<Value>& value);

// Waits until a rank has published it, as a collective would: at most a minute, in case it never
// does. False then; `value` is empty where nobody knows it.
bool Await(const std::string& name, std::optional<Value>& value);

void Withdraw(const std::string& name);

}  // namespace onnxfit::absent
