#include "estimator/workspaces/cusolver_workspaces.h"

#include <algorithm>

#include "estimator/base/bytes.h"

namespace onnxfit {
namespace {

// Matrices from the first to the last of these are taken by another kernel, in tiles.
constexpr int64_t kFirstTiled = 32;
constexpr int64_t kLastTiled = 512;
constexpr int64_t kTile = 32;

int64_t TiledBytes(int64_t n) {
  const int64_t tiles = DivideUp(n, kTile);
  return 4 * n * n + 4 * n + 16 * tiles * tiles + 4100 * tiles + 4096;
}

// Each piece of a workspace begins at such an address.
constexpr int64_t kPieceAlignment = 128;

int64_t PieceBytes(int64_t bytes) { return DivideUp(bytes, kPieceAlignment) * kPieceAlignment; }

int64_t SquareSvdBytes(int64_t n) {
  const int64_t tiles = DivideUp(n, kTile);
  if (tiles == 1) return 3968;
  const int64_t scales = PieceBytes(4 * n + 4 * tiles + 16 * tiles * tiles);
  return PieceBytes(8 * n * n) + scales + 8192 * tiles + 4096;
}

// The triangle of a taller matrix is decomposed: its factorization before that, or the product
// behind it may ask for more.
int64_t TallSvdBytes(int64_t m, int64_t n) {
  const int64_t triangle = PieceBytes(4 * n * n);
  const int64_t factors = PieceBytes(4 * m * n) + triangle + 2 * PieceBytes(4 * n);
  return std::max({QrWorkspaceBytes(n) + PieceBytes(4 * n), SquareSvdBytes(n) + triangle,
                   factors + 1024 * m + 2048 * n + 263168});
}

}  // namespace

int64_t EighWorkspaceBytes(int64_t n) {
  if (n >= kFirstTiled && n <= kLastTiled) return TiledBytes(n);
  const int64_t small = 12 * n * n + 3072 * n + 262540;
  return n < kFirstTiled ? small : std::max(small, 16 * n * n + 508 * n + 131980);
}

int64_t QrWorkspaceBytes(int64_t n) { return 4096 * std::max<int64_t>(n + 512, 768) + 128; }

int64_t SvdWorkspaceBytes(int64_t m, int64_t n) {
  if (m == n) return SquareSvdBytes(n);
  return m > n ? TallSvdBytes(m, n) : TallSvdBytes(n, m) + PieceBytes(4 * m * n);
}

}  // namespace onnxfit
