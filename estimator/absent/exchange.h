// What ranks tell one another: small values, as files of the run's folder.
#pragma once

#include <cstddef>
#include <optional>
#include <string>

namespace onnxfit::absent {

// Of one rank in one call.  Larger ones are gradients and weights, which nobody decides by.
inline constexpr size_t kMostExchanged = size_t{64} << 10;

// What a rank tells in one call.
struct Told {
  std::optional<std::string> bytes = {};  // where it knows them
  int read = 0;  // it has read what others told in all calls before this one
};

// Whole or not at all, under a name that is used once in a run.
void Publish(const std::string& name, const Told& told);

// Waits until a rank has published it, as a collective would: at most a minute, in case it never
// does. False then.
bool Await(const std::string& name, Told& told);

void Withdraw(const std::string& name);

}  // namespace onnxfit::absent
