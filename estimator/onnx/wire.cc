#include "estimator/onnx/wire.h"

#include <fmt/format.h>

#include <utility>

#include "estimator/base/error.h"

namespace onnxfit {
namespace {

constexpr int kMaxVarintBytes = 10;
constexpr uint64_t kMaxFieldNumber = (1u << 29) - 1;

}  // namespace

bool WireReader::Next(WireField& field) {
  if (at_ >= end_) return false;
  field.tag = at_;
  const uint64_t tag = ReadVarint();
  const uint64_t number = tag >> 3;
  if (number == 0 || number > kMaxFieldNumber) {
    FailAt(field.tag, fmt::format("a field of {} was expected, found number {}", message_, number));
  }
  field.number = static_cast<uint32_t>(number);
  field.type = static_cast<WireType>(tag & 7);
  switch (field.type) {
    case WireType::kVarint:
      field.begin = at_;
      ReadVarint();
      field.end = at_;
      return true;
    case WireType::kFixed32:
      Take(field, 4);
      return true;
    case WireType::kFixed64:
      Take(field, 8);
      return true;
    case WireType::kLength:
      Take(field, ReadVarint());
      return true;
  }
  FailAt(field.tag,
         fmt::format("a field of {} was expected, found wire type {}", message_, tag & 7));
}

uint64_t WireReader::Varint(const WireField& field) {
  at_ = field.begin;
  return ReadVarint();
}

uint64_t WireReader::ReadVarint() {
  const uint64_t start = at_;
  uint64_t value = 0;
  for (int i = 0; i < kMaxVarintBytes; ++i) {
    if (at_ >= end_) FailAt(start, fmt::format("{} ends in the middle of a number", message_));
    const auto byte = static_cast<uint8_t>(file_[at_++]);
    value |= static_cast<uint64_t>(byte & 0x7f) << (7 * i);
    if (byte < 0x80) return value;
  }
  FailAt(start, fmt::format("a number of {} was expected, found one of more than {} bytes",
                            message_, kMaxVarintBytes));
}

void WireReader::Take(WireField& field, uint64_t bytes) {
  const uint64_t left = end_ - at_;
  if (bytes > left) {
    FailAt(field.tag, fmt::format("field {} of {} should have {} bytes, {} are left", field.number,
                                  message_, bytes, left));
  }
  field.begin = at_;
  at_ += bytes;
  field.end = at_;
}

void WireReader::FailAt(uint64_t at, std::string text) const {
  throw Error({.file = {},
               .where = fmt::format("byte {}", at),
               .text = std::move(text),
               .hint = "copy or export it again, it is damaged or cut off"});
}

void AppendVarint(std::string& out, uint64_t value) {
  for (; value >= 0x80; value >>= 7) out += static_cast<char>(value | 0x80);
  out += static_cast<char>(value);
}

int VarintSize(uint64_t value) {
  int bytes = 1;
  for (; value >= 0x80; value >>= 7) ++bytes;
  return bytes;
}

}  // namespace onnxfit
