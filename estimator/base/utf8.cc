#include "estimator/base/utf8.h"

#include <cstdint>
#include <cstring>

namespace onnxfit {
namespace {

// What the lead byte of a sequence says.  Source: RFC 3629, section 4.
struct Lead {
  uint8_t mask;
  uint8_t bits;  // of the byte under `mask`
  size_t bytes;
  uint32_t smallest;  // anything below has a shorter form
};
constexpr Lead kLeads[] = {
    {0x80, 0x00, 1, 0}, {0xe0, 0xc0, 2, 0x80}, {0xf0, 0xe0, 3, 0x800}, {0xf8, 0xf0, 4, 0x10000}};

// Bytes of the sequence that `text` begins with, 0 where it is none.
size_t SequenceSize(std::string_view text) {
  const auto first = static_cast<uint8_t>(text[0]);
  for (const Lead& lead : kLeads) {
    if ((first & lead.mask) != lead.bits) continue;
    if (text.size() < lead.bytes) return 0;
    uint32_t code = first & static_cast<uint8_t>(~lead.mask);
    for (size_t i = 1; i < lead.bytes; ++i) {
      const auto byte = static_cast<uint8_t>(text[i]);
      if ((byte & 0xc0) != 0x80) return 0;
      code = code << 6 | (byte & 0x3f);
    }
    const bool surrogate = code >= 0xd800 && code <= 0xdfff;
    return code < lead.smallest || code > 0x10ffff || surrogate ? 0 : lead.bytes;
  }
  return 0;
}

bool StartsWithEightAscii(std::string_view text) {
  uint64_t word = 0;
  if (text.size() < sizeof(word)) return false;
  std::memcpy(&word, text.data(), sizeof(word));
  return (word & 0x8080808080808080) == 0;
}

}  // namespace

bool IsUtf8(std::string_view text) {
  while (!text.empty()) {
    const size_t size = StartsWithEightAscii(text) ? 8 : SequenceSize(text);
    if (size == 0) return false;
    text.remove_prefix(size);
  }
  return true;
}

}  // namespace onnxfit
