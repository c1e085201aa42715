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
constexpr char kGuessed = 'g';
constexpr char kUnknown = 'u';

char MarkOf(const std::optional<Value>& value) {
  if (!value) return kUnknown;
  return value->basis == Basis::kKnown ? kKnown : kGuessed;
}

std::string PathOf(const std::string& name) { return Machine().folder + "/exchange-" + name; }

}  // namespace

void Publish(const std::string& name, const std::optional<Value>& value) {
  const std::string path = PathOf(name);
  const std::string part = path + ".part";
  {
    std::ofstream file(part, std::ios::binary);
    file << MarkOf(value) << (value ? value->bytes : "");
  }
  std::rename(part.c_str(), path.c_str());
}

bool Await(const std::string& name, std::optional<Value>& value) {
  const std::string path = PathOf(name);
  for (int i = 0; access(path.c_str(), R_OK) != 0; ++i) {
    if (i == kMostWaits) return false;
    usleep(kWaitMicroseconds);
  }
  std::ifstream file(path, std::ios::binary);
  const int mark = file.get();
  const std::string read{std::istreambuf_iterator<char>(file), {}};
  const Basis basis = mark == kKnown ? Basis::kKnown : Basis::kGuess;
  value = mark == kUnknown ? std::nullopt : std::optional(Value{read, basis});
  return true;
}

void Withdraw(const std::string& name) { unlink(PathOf(name).c_str()); }

}  // namespace onnxfit::absent
