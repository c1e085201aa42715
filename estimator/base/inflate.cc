#include "estimator/base/inflate.h"

#include <zlib.h>

#include <algorithm>

namespace onnxfit {
namespace {

constexpr size_t kMaxRatio = 1032;  // by which deflate can shrink a text (zlib's algorithm.txt)

}  // namespace

// Its length is not known before: room for four times as much each time.
std::optional<std::string> Inflate(std::string_view packed, size_t most) {
  most = std::min(most, packed.size() * kMaxRatio);
  for (size_t room = packed.size() * 16; room / 4 < most; room *= 4) {
    std::string text(std::min(room, most), '\0');
    uLongf size = text.size();
    const int status = uncompress(reinterpret_cast<Bytef*>(text.data()), &size,
                                  reinterpret_cast<const Bytef*>(packed.data()), packed.size());
    text.resize(size);
    if (status == Z_OK) return text;
    if (status != Z_BUF_ERROR) break;
  }
  return std::nullopt;
}

}  // namespace onnxfit
