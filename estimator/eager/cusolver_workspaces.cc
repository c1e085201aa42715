#include "estimator/eager/cusolver_workspaces.h"

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

}  // namespace

int64_t EighWorkspaceBytes(int64_t n) {
  if (n >= kFirstTiled && n <= kLastTiled) return TiledBytes(n);
  const int64_t small = 12 * n * n + 3072 * n + 262540;
  return n < kFirstTiled ? small : std::max(small, 16 * n * n + 508 * n + 131980);
}

int64_t QrWorkspaceBytes(int64_t n) { return 4096 * std::max<int64_t>(n + 512, 768) + 128; }

}  // namespace onnxfit
