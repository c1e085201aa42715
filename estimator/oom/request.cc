// What asked: from the size that did not fit to the tensor that may have it.
#include <fmt/format.h>

#include <algorithm>

#include "estimator/base/bytes.h"
#include "estimator/oom/explanation.h"
#include "estimator/oom/formats.h"
#include "estimator/oom/likely_shapes.h"

namespace onnxfit {
namespace {

bool HasSegments(OomFamily family) { return family == OomFamily::kPyTorch; }

bool Prints(const PrintedBytes& tried, int64_t bytes) {
  return std::abs(tried.bytes - bytes) <= tried.error && tried.error < kMiB;
}

// What a tensor asks for is what PyTorch asks the card for, but for small ones and rounding.
void ReadSegment(const PrintedBytes& tried, OomRequest& request) {
  const int64_t small = 2 * kMiB;
  if (Prints(tried, small)) {
    request.low_bytes = 1;
    request.high_bytes = kMiB;
    request.notes.push_back(
        "2.00 MiB is what PyTorch asks for when a tensor of at most 1 MiB finds no place: such "
        "tensors share segments of 2 MiB.");
  } else if (Prints(tried, 20 * kMiB)) {
    request.low_bytes = kMiB + 1;
    request.high_bytes = 20 * kMiB;
    request.notes.push_back(
        "20.00 MiB is what PyTorch asks for when a tensor above 1 and below 10 MiB finds no "
        "place: such tensors share segments of 20 MiB. (One of 18 to 20 MiB asks for as much.)");
  } else {
    const bool is_multiple = RoundUp(tried.bytes - std::min(tried.bytes, tried.error), small) <=
                             tried.bytes + tried.error;
    request.low_bytes =
        std::max<int64_t>(1, tried.bytes - tried.error - (is_multiple ? small - 1 : 0));
    request.high_bytes = tried.bytes + tried.error;
  }
}

std::string Count(double number) {
  if (number >= 1e9) return fmt::format("{:.2f} billion", number / 1e9);
  if (number >= 1e6) return fmt::format("{:.2f} million", number / 1e6);
  return fmt::format("{:.0f}", number);
}

// "[N, 2000] with N = 1173063, [S, S] with S = 48437 …": what a formula has to give.
std::string Solved(int64_t bytes) {
  return fmt::format(
      "As float32 it has {} elements: [N, 1024] with N = {}, [N, 2000] with N = {}, [S, S] with S "
      "= {}, [8, 16, S, S] with S = {}.",
      Count(static_cast<double>(bytes) / 4), RootOf(bytes, 4 * 1024, 1), RootOf(bytes, 4 * 2000, 1),
      RootOf(bytes, 4, 2), RootOf(bytes, 4 * 8 * 16, 2));
}

constexpr size_t kShapes = 4;
constexpr int64_t kWorthSolving = 64 * kMiB;

}  // namespace

OomRequest RequestOf(const OomMessage& message) {
  OomRequest request;
  const PrintedBytes tried = message.Size(OomField::kTried).value_or(PrintedBytes{});
  if (HasSegments(message.format->family)) {
    ReadSegment(tried, request);
  } else {
    request.low_bytes = std::max<int64_t>(1, tried.bytes - tried.error);
    request.high_bytes = tried.bytes + tried.error;
  }
  const auto& temporaries = message.Size(OomField::kTemporaries);
  if (temporaries && temporaries->bytes > 0 && temporaries->Prints(tried.bytes)) {
    request.notes.push_back(
        "This is the one block in which XLA keeps all temporaries of the program, not a tensor.");
  }
  if (!request.notes.empty()) return request;
  if (message.tensor.dtype != DType::kUndefined) {
    request.notes.push_back(fmt::format("{}{}", ToString(message.tensor),
                                        message.node.empty() ? "" : ", made by " + message.node));
    return request;
  }
  if (!message.node.empty()) request.notes.push_back("Asked for by " + message.node + ".");
  if (tried.error == 0) request.factors = FactorText(tried.bytes);
  request.shapes = LikelyShapes(request.low_bytes, request.high_bytes, kShapes);
  if (tried.bytes >= kWorthSolving) request.notes.push_back(Solved(tried.bytes));
  return request;
}

}  // namespace onnxfit
