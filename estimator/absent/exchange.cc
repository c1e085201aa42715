#include "estimator/absent/exchange.h"

#include <unistd.h>

#include <cstdio>
#include <fstream>
#include <iterator>

#include "estimator/absent/card.h"

namespace onnxfit::absent {
namespace {

constexpr int kWaitMicroseconds = 500;
constexpr int kMostWaits = 60 * 1000000 / kWaitMicroseconds;
constexpr char kKnown = 'k';
constexpr char kUnknown = 'u';

std::string PathOf(const std::string& name) { return Machine().folder + "/exchange-" + name; }

}  // namespace

void Publish(const std::string& name, const Told& told) {
  const std::string path = PathOf(name);
  const std::string part = path + ".part";
  {
    std::ofstream file(part, std::ios::binary);
    file << told.read << (told.bytes ? kKnown : kUnknown) << told.bytes.value_or("");
  }
  std::rename(part.c_str(), path.c_str());
}

bool Await(const std::string& name, Told& told) {
  const std::string path = PathOf(name);
  for (int i = 0; access(path.c_str(), R_OK) != 0; ++i) {
    if (i == kMostWaits) return false;
    usleep(kWaitMicroseconds);
  }
  std::ifstream file(path, std::ios::binary);
  file >> told.read;
  const bool is_known = file.get() == kKnown;
  const std::string bytes{std::istreambuf_iterator<char>(file), {}};
  told.bytes = is_known ? std::optional(bytes) : std::nullopt;
  return true;
}

void Withdraw(const std::string& name) { unlink(PathOf(name).c_str()); }

}  // namespace onnxfit::absent
