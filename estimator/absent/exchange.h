// What ranks tell one another: small values, as files of the run's folder.
#pragma once

#include <cstddef>
#include <optional>
#include <string>

namespace onnxfit::absent {

// Of one rank in one call.  Larger ones are gradients and weights, which nobody decides by.
inline constexpr size_t kMostExchanged = size_t{64} << 10;

// Whole or not at all, under a name that is used once in a run.  What nobody knows is told as that.
void Publish(const std::string& name, const std::optional<std::string>& bytes);

// Waits until a rank has published it, as a collective would: at most a minute, in case it never
// does. False then; `bytes` is empty where nobody knows them.
bool Await(const std::string& name, std::optional<std::string>& bytes);

void Withdraw(const std::string& name);

}  // namespace onnxfit::absent
