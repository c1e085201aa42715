// Ranks that share layers: columns of one linear layer's matrix, rows of the next one's.
#pragma once

#include <string>

#include "estimator/base/settings.h"
#include "estimator/program/program.h"

namespace onnxfit {

// Throws Error for what is not known here beside ranks that share layers.
void CheckTensorParallel(const TrainingSettings& settings);

// What the first of tensor_parallel ranks runs under parallelize_module with ColwiseParallel and
// RowwiseParallel (torch.distributed.tensor.parallel): of the linear layers that plans name
// (ParallelStyleOf) those whose results reach rows through calls that each rank can run with its
// own part alone (shard_rules.h).  Matrices, columns' biases and all values between them have 1 /
// ranks of their elements; backward adds up the gradient of what columns are given, forward what
// rows make, each in a new tensor.  With shares_head the output embedding's columns are shared,
// too, and what they make is gathered; with shares_tokens values between rows and columns have 1 /
// ranks of the tokens (shared_tokens.h).  FSDP2 over another dimension of the mesh shards what is
// left.  Layers that plans name and that stay whole are told as a warning, with why.  Sources:
// style.py, _api.py, placement_types.py of torch/distributed/tensor, pytorch v2.11.0; torch 2.11
// events.  Throws Error where no layer can be shared, or tokens cannot.  O(calls × layers at worst,
// calls × depth usually).  REQUIRES: names have their deaths; no layer is packed, none has an
// adapter.
void ShareLayers(Program& program, const RankSettings& settings, const std::string& path);

}  // namespace onnxfit
