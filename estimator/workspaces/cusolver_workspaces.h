// What cuSOLVER asks for beside the results of torch.linalg, in bytes, of matrices in fp32.
// Source: allocations of torch 2.11.0 (CUDA 13.0) on an H200, of 46 sizes from 1 to 8192, and by
// svd of 72 shapes up to 50257 x 768; formulas that give them to the byte, those of eigh and qr but
// for alignment within one block of PyTorch's allocator.
#pragma once

#include <cstdint>

namespace onnxfit {

// torch.linalg.eigh of `n` rows.
int64_t EighWorkspaceBytes(int64_t n);

// torch.linalg.qr of `n` rows: its factorization.  What makes Q of it asks for less.
int64_t QrWorkspaceBytes(int64_t n);

// torch.linalg.svd of `m` rows and `n` columns, with full_matrices=False.
int64_t SvdWorkspaceBytes(int64_t m, int64_t n);

}  // namespace onnxfit
