#include "estimator/workspaces/layer_rows.h"

#include <span>
#include <vector>

#include "estimator/base/error.h"

namespace onnxfit {
namespace {

void Append(int64_t number, std::string& key) {
  auto left = static_cast<uint64_t>(number);
  for (; left >= 0x80; left >>= 7) key += static_cast<char>(left | 0x80);
  key += static_cast<char>(left);
}

void Append(std::span<const int64_t> numbers, std::string& key) {
  for (const int64_t number : numbers) Append(number, key);
}

int64_t CodeOf(DType dtype) { return dtype == DType::kFloat32 ? 0 : 1; }

}  // namespace

std::string KinKey(const Convolution& c) {
  std::string key;
  Append(static_cast<int64_t>(c.pass), key);
  Append(CodeOf(c.dtype), key);
  Append(c.is_channels_last ? 1 : 0, key);
  Append(c.is_transposed ? 1 : 0, key);
  Append(c.groups, key);
  Append(static_cast<int64_t>(c.weight.size()), key);
  Append(c.input[1], key);
  Append(c.output[1], key);
  for (const auto* each : {&c.weight, &c.stride, &c.padding, &c.dilation}) Append(*each, key);
  return key;
}

std::string LayerKey(const Convolution& c) {
  std::string key = KinKey(c);
  Append(std::span(c.input).subspan(2), key);
  Append(std::span(c.output).subspan(2), key);
  return key;
}

int64_t RowReader::Number() {
  uint64_t number = 0;
  for (int shift = 0; shift < 63; shift += 7) {
    const auto byte = static_cast<unsigned char>(Take(1)[0]);
    number |= uint64_t{byte & 0x7Fu} << shift;
    if (byte < 0x80) return static_cast<int64_t>(number);
  }
  throw Error({.where = "rows of layers", .text = "expected a number, found more than 63 bits"});
}

std::string_view RowReader::Take(size_t size) {
  if (size > text_.size()) {
    throw Error({.where = "rows of layers", .text = "expected a row, found the end"});
  }
  const std::string_view taken = text_.substr(0, size);
  text_.remove_prefix(size);
  return taken;
}

}  // namespace onnxfit
