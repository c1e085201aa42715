#include "estimator/operators/kernel_scratch.h"

#include <algorithm>
#include <bit>
#include <limits>
#include <span>

#include "estimator/base/bytes.h"

namespace onnxfit {

// --- Sums ----------------------------------------------------------------------

namespace {

constexpr int64_t kThreads = 512;  // max_reduce_threads
constexpr int64_t kWarp = 32;
constexpr int64_t kLoad = 4;              // vt0, elements
constexpr int64_t kMinToVectorize = 128;  // elements, along the input
constexpr int64_t kMinPerThread = 16;     // values, before a block splits its work
constexpr int64_t kMaxPerThread = 256;    // values, before blocks share it

// The largest power of two that is not above `n`, nor above the power of two `limit`.
int64_t PowerOfTwo(int64_t n, int64_t limit) {
  const auto floor = std::bit_floor(static_cast<uint64_t>(std::max<int64_t>(n, 1)));
  return std::min(static_cast<int64_t>(floor), limit);
}

// get_output_vec_size: results that one thread makes side by side, which is what one load
// takes.  `kept` dimensions that lie in memory as one count as one.
int64_t SideBySide(const Dims& dims, const Dims& strides, uint64_t kept) {
  int64_t run = 1;
  for (bool longer = true; longer;) {
    longer = false;
    for (size_t i = 0; i < dims.size(); ++i) {
      if (dims[i] < 2 || (kept >> i & 1) == 0 || strides[i] != run) continue;
      run *= dims[i];
      longer = true;
    }
  }
  int64_t results = kLoad;
  while (run % results != 0) results /= 2;
  for (size_t i = 0; i < dims.size(); ++i) {
    while (dims[i] > 1 && strides[i] >= run && strides[i] % results != 0) results /= 2;
  }
  return results;
}

// How the kernel is laid out: threads in x and y, results and summands that they share.
struct Layout {
  int64_t width = 1;
  int64_t threads = 1;
  int64_t step_results = 1;
  int64_t step_summands = 1;
  bool splits_y = false;  // rows of the block share the summands
};

Layout LayOut(const SumShape& sum) {
  const int64_t per_thread = sum.side_by_side;
  int64_t fast = sum.along_fastest ? sum.summands : sum.results / per_thread;
  const int64_t slow = sum.along_fastest ? sum.results : sum.summands;
  if (sum.along_fastest && sum.results == 1 && fast > kMinToVectorize) fast /= kLoad;
  const int64_t limit = kThreads / per_thread;
  const int64_t width_limit = PowerOfTwo(fast, limit);
  const int64_t height = std::min(PowerOfTwo(slow, limit), limit / std::min(width_limit, kWarp));
  Layout layout;
  layout.width = std::min(width_limit, limit / height);
  layout.threads = layout.width * height;
  (sum.along_fastest ? layout.step_summands : layout.step_results) = layout.width;
  const int64_t values = DivideUp(sum.summands, layout.step_summands);
  layout.splits_y = values >= height * kMinPerThread || values >= kMaxPerThread;
  (layout.splits_y ? layout.step_summands : layout.step_results) *= height;
  return layout;
}

}  // namespace

SumShape SumOver(DType dtype, const Dims& dims, const Dims& strides, uint64_t kept) {
  constexpr int64_t kNone = std::numeric_limits<int64_t>::max();
  SumShape sum = {.accumulator_bytes = BitsOf(dtype) > 32 ? 8 : 4};
  int64_t nearest_kept = kNone;
  int64_t nearest_summed = kNone;
  for (size_t i = 0; i < dims.size(); ++i) {
    const bool is_kept = (kept >> i & 1) != 0;
    (is_kept ? sum.results : sum.summands) *= dims[i];
    int64_t& nearest = is_kept ? nearest_kept : nearest_summed;
    if (dims[i] > 1) nearest = std::min(nearest, strides[i]);
  }
  sum.along_fastest = nearest_kept == kNone || nearest_summed < nearest_kept;
  if (!sum.along_fastest) sum.side_by_side = SideBySide(dims, strides, kept);
  return sum;
}

SumScratch ScratchOf(const SumShape& sum, const DeviceProfile& device) {
  if (sum.results == 0 || sum.summands <= 1) return {};
  const int64_t per_thread = sum.side_by_side;
  const Layout layout = LayOut(sum);
  const int64_t grid = DivideUp(sum.results / per_thread, layout.step_results);
  const int64_t wanted_grid =
      device.multiprocessors * (device.threads_per_multiprocessor / layout.threads);
  const int64_t values = DivideUp(sum.summands, layout.step_summands);
  if (!layout.splits_y || values < kMaxPerThread || grid > wanted_grid) return {};
  const int64_t blocks =
      std::max(std::min(DivideUp(wanted_grid, grid), DivideUp(values, kMinPerThread)),
               DivideUp(values, kMaxPerThread));
  if (blocks <= 1) return {};
  int64_t partial = CheckedMul(CheckedMul(sum.accumulator_bytes, sum.results), blocks);
  if (!sum.along_fastest) partial = CheckedMul(partial, layout.width * per_thread);
  return {.partial_bytes = partial, .semaphore_bytes = 4 * grid};
}

SumScratch ScratchOfChannels(int64_t rows, int64_t channels, int64_t sums,
                             int64_t accumulator_bytes) {
  constexpr int64_t kThreads = 512;
  constexpr int64_t kWidest = 32;
  constexpr int64_t kRowsOfThread = 16;
  constexpr int64_t kMostBlocks = 128;
  constexpr int64_t kFewestBlocks = 8;
  if (rows <= 0 || channels <= 0) return {};
  const auto power = [](int64_t n) {
    return static_cast<int64_t>(std::bit_floor(static_cast<uint64_t>(n)));
  };
  int64_t width = std::min(power(channels), kWidest);
  const int64_t height = std::min(power(DivideUp(rows, kRowsOfThread)), kThreads / width);
  if (width * height != kThreads) width = std::min(power(channels), kThreads / height);
  const int64_t blocks = std::min(DivideUp(rows, height * kRowsOfThread), kMostBlocks);
  if (blocks < kFewestBlocks) return {};
  return {.partial_bytes = CheckedMul(CheckedMul(sums * accumulator_bytes, channels), blocks),
          .semaphore_bytes = 4 * DivideUp(channels, width)};
}

}  // namespace onnxfit
