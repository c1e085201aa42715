#include "estimator/operators/packed_products.h"

#include <algorithm>

namespace onnxfit {
namespace {

constexpr int64_t kValuesOfScale = 64;     // blocksize
constexpr int64_t kFewestRows = 4;         // _GEMM_4BIT_CUSTOM_FLOOR_M
constexpr int64_t kMostRows = 1536;        // _gemm_4bit_custom_max_m
constexpr int64_t kMostRowsOfLarge = 512;  // of all but small weights
constexpr int64_t kRowsOfMma = 8;          // from here on, on cards that have it
constexpr int64_t kSmallWeight = 4 * 1024 * 1024;
constexpr int64_t kOutputsInBlock = 64;

// A product on a card: how many blocks of the kernel there are, against multiprocessors.
struct Shape {
  int64_t rows = 0;
  int64_t n = 0;
  int64_t k = 0;
  int64_t blocks = 0;
  int64_t processors = 0;
  int capability = 0;

  // Whether the blocks are at least `times` / `of` of a wave.
  bool HasWaves(int64_t times, int64_t of = 1) const { return blocks * of >= processors * times; }
  bool HasHalf() const { return blocks >= processors / 2; }
  bool Is(int number) const { return capability == number; }
  bool IsHopper() const { return capability / 10 == 9; }
  bool HasHbm() const { return Is(80) || IsHopper(); }
  bool IsTall() const { return k > n * 2; }
};

// --- Small weights --------------------------------------------------------------------------

int64_t MostOfShortK(const Shape& s) {
  if (s.HasHbm()) {
    const bool is_low = !s.HasWaves(1, 3);
    if (s.Is(80)) return is_low ? 1536 : 512;
    return is_low ? 512 : 320;
  }
  if (s.Is(75)) {
    if (s.HasWaves(3)) return 320;
    return s.k >= 1024 ? 64 : s.k >= 704 ? 96 : 320;
  }
  if (s.HasWaves(1)) return 320;
  return s.blocks * s.k > s.processors * 320 ? 192 : 320;
}

int64_t MostOfSmall(const Shape& s) {
  if (s.k * 2 < s.n) return MostOfShortK(s);
  const bool is_quarter = s.blocks * 4 <= s.processors;
  if (s.Is(80) && is_quarter) {
    if (s.k < s.n) return 384;
    return s.blocks * 8 <= s.processors ? 32 : 128;
  }
  if (s.Is(75) && !s.HasWaves(1) && s.rows > 8) return 64;
  if (is_quarter) return s.k < s.n || s.HasHbm() ? 32 : 23;
  return s.blocks * 2 <= s.processors ? 16 : 0;
}

// --- Others, by card ------------------------------------------------------------------------

// Fewer rows than the tensor cores' kernel takes.
bool ReadsFewRows(const Shape& s) {
  const bool is_asked = s.HasHbm() && s.rows >= 6 && s.blocks >= (s.IsHopper() ? 36 : 48);
  if (!is_asked) return true;
  const bool is_below_75 = !s.HasWaves(3, 4);
  const bool is_below_60 = !s.HasWaves(3, 5);
  if (s.k > s.n) return !is_below_75;
  if (s.k < s.n) return true;
  if (s.Is(80)) return !is_below_60;
  return !is_below_75 || is_below_60;
}

int64_t MostOnTuring(const Shape& s) {
  if (s.HasWaves(3)) return s.k < s.n ? 128 : 64;
  return s.HasHalf() ? 64 : 32;
}

int64_t MostOnA100(const Shape& s) {
  if (s.HasWaves(3)) return 128;
  if (s.HasWaves(1)) return s.k < s.n ? 64 : 32;
  if (s.k >= s.n * 3 && s.blocks * 4 > s.processors) return 0;
  if (s.k == s.n && s.blocks >= 48 && !s.HasWaves(3, 5)) return 0;
  if (!s.HasWaves(1, 2)) {
    if (s.k <= s.n) return 128;
    if (s.HasWaves(1, 3)) return 0;
  }
  return s.HasHalf() && s.k < s.n ? 128 : 16;
}

int64_t MostOn86(const Shape& s) { return s.HasWaves(1) ? 128 : s.HasHalf() ? 64 : 16; }

int64_t MostOnHopper(const Shape& s) {
  if (s.HasWaves(3)) return 64;
  if (s.HasWaves(2)) return 48;
  if (s.HasWaves(1)) return 32;
  if (!s.HasHalf() || (s.k >= s.n && !s.HasWaves(3, 4))) return 0;
  return 16;
}

int64_t MostOnB200(const Shape& s) {
  if (s.HasWaves(3)) return 32;
  return s.HasWaves(1) && s.k < s.n ? 8 : 0;
}

int64_t MostOn120(const Shape& s) {
  if (s.HasWaves(3)) return 256;
  if (s.HasWaves(2)) return 128;
  if (s.HasWaves(4, 5)) return s.k >= s.n ? 96 : 64;
  if (s.HasHalf()) return s.k * 2 >= s.n && s.blocks >= 128 ? 64 : 8;
  return s.IsTall() && s.blocks > 64 ? 16 : 8;
}

int64_t MostBelowHalf(const Shape& s) {
  if (s.k > s.n && s.blocks <= 48) return s.k >= s.n * 3 ? 12 : 10;
  return s.IsTall() || s.blocks < 48 ? 16 : 8;
}

// Ada, and what is not known.
int64_t MostElsewhere(const Shape& s) {
  if (s.HasWaves(3)) return 256;
  if (s.HasWaves(2)) return 128;
  if (s.HasWaves(4, 5)) {
    if (s.IsTall() || s.blocks >= 200) return 128;
    if (s.k < s.n) return 64;
    return s.processors >= 60 ? 128 : 32;
  }
  if (!s.HasHalf()) return MostBelowHalf(s);
  return s.IsTall() ? 64 : s.blocks >= 64 ? 8 : 32;
}

int64_t MostOfLarge(const Shape& s) {
  if (s.Is(75)) return MostOnTuring(s);
  if (s.Is(80)) return MostOnA100(s);
  if (s.Is(86)) return MostOn86(s);
  if (s.IsHopper()) return MostOnHopper(s);
  if (s.Is(121) && s.HasWaves(1)) return 256;
  return s.Is(120) ? MostOn120(s) : MostElsewhere(s);
}

bool HasNoMma(const PackedProduct& product, const Shape& s) {
  if (product.type == DType::kFloat32 || s.capability < 75) return true;
  return s.capability < 80 && product.type != DType::kFloat16;
}

}  // namespace

bool ReadsPacked(const PackedProduct& product, const DeviceProfile& device) {
  if (product.rows > kMostRows || product.inputs % kValuesOfScale != 0) return false;
  if (product.rows <= kFewestRows) return true;
  const Shape s = {.rows = product.rows,
                   .n = product.outputs,
                   .k = product.inputs,
                   .blocks = (product.outputs + kOutputsInBlock - 1) / kOutputsInBlock,
                   .processors = device.multiprocessors,
                   .capability = device.compute_capability};
  if (HasNoMma(product, s)) return s.rows < kRowsOfMma;
  if (s.Is(87) || s.capability / 10 == 11) return false;  // not measured there
  if (s.capability / 10 == 10) return s.rows <= MostOnB200(s);
  if (s.n * s.k < kSmallWeight) return s.rows <= MostOfSmall(s);
  if (s.rows > kMostRowsOfLarge) return false;
  return s.rows < kRowsOfMma ? ReadsFewRows(s) : s.rows <= MostOfLarge(s);
}

}  // namespace onnxfit
