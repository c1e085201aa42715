#include "estimator/workspaces/other_sizes.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <functional>
#include <numeric>
#include <utility>

#include "estimator/base/bytes.h"
#include "estimator/workspaces/workspace_form.h"

namespace onnxfit {
namespace {

// cuDNN's plans ask for some bytes beside what they copy.
constexpr int64_t kMostBesideCopies = 600;
// As many parts of a weight's gradient as any plan was seen to sum up beside copies (64), and some.
constexpr int64_t kMostParts = 70;

enum TensorBits : unsigned { kInput = 1, kWeight = 2, kOutput = 4, kAllTensors = 7 };

// --- Copies --------------------------------------------------------------------------------------

// Each of its tensors as it lies, or with channels that fill 16 bytes; some of them together.
int64_t TensorBytes(const Convolution& c, unsigned which, bool filled) {
  const int64_t width = filled ? 128 / BitsOf(c.dtype) : 1;
  int64_t sum = 0;
  if (which & kInput) sum = FilledBytes(c.dtype, c.input, {1}, width);
  if (which & kWeight) sum = CheckedAdd(sum, FilledBytes(c.dtype, c.weight, {0, 1}, width));
  if (which & kOutput) sum = CheckedAdd(sum, FilledBytes(c.dtype, c.output, {1}, width));
  return sum;
}

// A gradient of the weight for each sample, as products of matrices leave it to be summed up.
int64_t SampleWeightBytes(const Convolution& c) {
  return CheckedMul(c.input[0], BytesOf(TensorType{DType::kFloat32, c.weight}));
}

bool IsSamplesOfPoints(const Convolution& c, int64_t bytes) {
  return c.pass == ConvolutionPass::kWeightGradient && c.groups == 1 && AreaOfWindow(c) == 1 &&
         std::abs(bytes - SampleWeightBytes(c)) <= kMostBesideCopies;
}

// Copies of some of its tensors, or nothing, where that is what `from` asked for.
std::optional<int64_t> CopiesLike(const Convolution& from, int64_t bytes, const Convolution& c) {
  for (const bool filled : {false, true}) {
    for (unsigned which = 0; which <= kAllTensors; ++which) {
      const int64_t beside = bytes - TensorBytes(from, which, filled);
      if (beside < 0 || beside > kMostBesideCopies) continue;
      return CheckedAdd(TensorBytes(c, which, filled), beside);
    }
  }
  return std::nullopt;
}

// Copies of x, y or both, and beside them no more than parts of the weight's gradient, as many.
std::optional<int64_t> CopiesAndPartsLike(const Convolution& from, int64_t bytes,
                                          const Convolution& c) {
  if (IsSamplesOfPoints(from, bytes)) return SampleWeightBytes(c);
  int64_t least = CheckedMul(kMostParts, BytesOf(TensorType{DType::kFloat32, c.weight}));
  std::optional<int64_t> found;
  for (const bool filled : {false, true}) {
    for (const unsigned which : {kInput | kOutput, unsigned{kOutput}, unsigned{kInput}}) {
      const int64_t beside = bytes - TensorBytes(from, which, filled);
      if (beside < 0 || beside > least) continue;
      least = beside;
      found = CheckedAdd(TensorBytes(c, which, filled), beside);
    }
  }
  return found;
}

std::optional<int64_t> CarriedOver(const Convolution& from, int64_t bytes, const Convolution& c) {
  if (const auto copies = CopiesLike(from, bytes, c)) return copies;
  return CopiesAndPartsLike(from, bytes, c);
}

// --- Other batches -------------------------------------------------------------------------------

// The nearest batch first, by ratio.
void SortByDistance(int64_t batch, std::vector<BatchWorkspace>& known) {
  std::ranges::stable_sort(known, {}, [batch](const BatchWorkspace& each) {
    return static_cast<double>(std::max(each.batch, batch)) /
           static_cast<double>(std::min(each.batch, batch));
  });
}

Convolution WithBatch(Convolution convolution, int64_t batch) {
  convolution.input[0] = convolution.output[0] = batch;
  return convolution;
}

// As the nearest of those that ask for copies as a closed form has them.
std::optional<int64_t> CopiesAsFormed(const Convolution& convolution,
                                      const std::vector<BatchWorkspace>& known, int64_t formed) {
  for (const BatchWorkspace& each : known) {
    const auto copies = CopiesLike(WithBatch(convolution, each.batch), each.bytes, convolution);
    const bool is_formed = copies && std::abs(*copies - formed) <= kMostBesideCopies;
    if (is_formed && *copies > 0) return copies;
  }
  return std::nullopt;
}

// On the line through both; one through the origin where both lie on the same side of it.
int64_t OnLine(const BatchWorkspace& near, const BatchWorkspace& far, int64_t batch) {
  const bool is_between = (near.batch < batch) != (far.batch < batch);
  const BatchWorkspace from = is_between ? far : BatchWorkspace{};
  const int64_t rise = CheckedMul(near.bytes - from.bytes, batch - from.batch);
  return from.bytes + rise / (near.batch - from.batch);
}

}  // namespace

int64_t AtBatch(const Convolution& convolution, std::vector<BatchWorkspace> known,
                std::optional<int64_t> formed) {
  const int64_t batch = convolution.input[0];
  SortByDistance(batch, known);
  const BatchWorkspace& near = known.front();
  if (near.batch == batch) return near.bytes;
  const auto as_formed = formed ? CopiesAsFormed(convolution, known, *formed) : std::nullopt;
  if (as_formed) return *as_formed;
  const auto carried = CarriedOver(WithBatch(convolution, near.batch), near.bytes, convolution);
  if (carried) return *carried;
  if (known.size() == 1) return OnLine(near, near, batch);
  const auto copies =
      CopiesLike(WithBatch(convolution, known[1].batch), known[1].bytes, convolution);
  return copies && *copies > 0 ? *copies : OnLine(near, known[1], batch);
}

// --- Other sizes ---------------------------------------------------------------------------------

namespace {

int64_t ElementsOf(const Dims& sizes, int64_t batch) {
  return std::accumulate(sizes.begin(), sizes.end(), batch, CheckedMul);
}

struct KnownSize {
  const SizedLayer* layer = nullptr;
  BatchWorkspace at = {};
  int64_t elements = 0;  // of the output but for channels
};

// As std::max(a, b) / std::min(a, b) orders them, whose elements are nearer to `elements`.
bool IsNearer(const KnownSize& a, const KnownSize& b, int64_t elements) {
  const auto distance = [elements](const KnownSize& each) {
    return static_cast<double>(std::max(each.elements, elements)) /
           static_cast<double>(std::min(each.elements, elements));
  };
  return distance(a) < distance(b);
}

std::optional<KnownSize> NearestSize(const std::vector<SizedLayer>& known, int64_t elements) {
  std::optional<KnownSize> nearest;
  for (const SizedLayer& layer : known) {
    for (const BatchWorkspace& at : layer.batches) {
      const KnownSize each = {&layer, at, ElementsOf(layer.output, at.batch)};
      if (!nearest || IsNearer(each, *nearest, elements)) nearest = each;
    }
  }
  return nearest;
}

Convolution WithSizes(const Convolution& convolution, const KnownSize& size) {
  Convolution sized = WithBatch(convolution, size.at.batch);
  std::ranges::copy(size.layer->input, sized.input.begin() + 2);
  std::ranges::copy(size.layer->output, sized.output.begin() + 2);
  return sized;
}

}  // namespace

std::optional<int64_t> AtSize(const Convolution& convolution,
                              const std::vector<SizedLayer>& known) {
  const Dims sizes(convolution.output.begin() + 2, convolution.output.end());
  const int64_t elements = ElementsOf(sizes, convolution.output[0]);
  const std::optional<KnownSize> nearest = NearestSize(known, elements);
  if (!nearest) return std::nullopt;
  const Convolution from = WithSizes(convolution, *nearest);
  const auto carried = CarriedOver(from, nearest->at.bytes, convolution);
  if (carried || convolution.groups > 1) return carried;
  const double share = static_cast<double>(elements) / static_cast<double>(nearest->elements);
  return static_cast<int64_t>(static_cast<double>(nearest->at.bytes) * share);
}

}  // namespace onnxfit
