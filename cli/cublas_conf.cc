#include <cstdint>
#include <limits>
#include <string>
#include <string_view>

#include "cli/values.h"
#include "estimator/base/bytes.h"

namespace onnxfit {
namespace {

constexpr char kSizesAndCounts[] = "sizes in KiB and counts such as :4096:8";
constexpr int64_t kMostOfConfig =
    std::numeric_limits<int32_t>::max();  // PyTorch reads them by std::stoi

// The number behind the colon that `text` begins with, which is cut off it.
int64_t TakeNumber(const Typed& typed, std::string_view& text) {
  if (!text.starts_with(':')) Refuse(typed, kSizesAndCounts);
  text.remove_prefix(1);
  const std::string_view digits = text.substr(0, text.find(':'));
  text.remove_prefix(digits.size());
  if (digits.empty()) Refuse(typed, kSizesAndCounts);
  return ParseWhole({typed.place, std::string(digits)}, 0, kMostOfConfig);
}

}  // namespace

CublasConf ParseCublasConf(const Typed& typed) {
  CublasConf config = {.text = typed.text};
  std::string_view rest = typed.text;
  do {
    const int64_t kib = TakeNumber(typed, rest);
    const int64_t count = TakeNumber(typed, rest);
    config.bytes = CheckedAdd(config.bytes, CheckedMul(CheckedMul(kib, kKiB), count));
  } while (!rest.empty());
  return config;
}

}  // namespace onnxfit
