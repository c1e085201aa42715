// Systems that a library solves, but writes out while torch.export traces.  Internal to the room
// writer/.
#pragma once

#include "estimator/program/program.h"

namespace onnxfit {

// Not all targets of torch.export know torch.linalg.solve_triangular, so that transformers builds
// the inverse row by row for it (SolvesTriangular in libraries.h):
//
//   a = -a.tril(-1)
//   for i in range(1, n): a[…, i, :i] = a[…, i, :i] + (a[…, i, :i, None] * a[…, :i, :i]).sum(-2)
//   a = a + torch.eye(n)
//   x, y = a @ b, a @ c
//
// Puts back what runs: x, y = solve_triangular(a, b), solve_triangular(a, c).  O(calls).
void PutSolvesBack(Program& program);

}  // namespace onnxfit
