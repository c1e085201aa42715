// What cuDNN takes for recurrent layers: the space of their weights, what it keeps for backward
// (the reserve) and what it works in.  cuDNN does not say how it lays them out.  These forms give
// what cuDNN 9.19.0 answers (cudnnGetRNNWeightSpaceSize, cudnnGetRNNTempSpaceSizes) to the byte
// wherever it was asked: benchmarks/recurrent/sizes.csv, tests/cudnn_recurrent_test.cc.
#pragma once

#include <cstdint>

#include "estimator/base/device.h"
#include "estimator/base/tensor_type.h"
#include "estimator/program/recurrent_layers.h"

namespace onnxfit {

// cudnnRNNAlgo_t, as far as PyTorch asks for them.
enum class RecurrentAlgorithm : uint8_t { kStandard, kPersistStatic, kPersistStaticSmallH };

// What the layers are run on.
struct RecurrentRun {
  RecurrentLayers layers;
  int64_t steps = 0;
  int64_t batch = 0;
  int64_t rows = 0;  // samples of all steps: fewer than steps * batch where they are packed
  DType dtype = DType::kFloat32;
};

// get_algo of native/cudnn/RNN.cpp, pytorch v2.11.0.
RecurrentAlgorithm ChooseRecurrentAlgorithm(const RecurrentRun& run, const DeviceProfile& device,
                                            bool is_forward);

// In elements: all matrices, and both biases where the module has none, too.
int64_t WeightSpaceNumel(const RecurrentLayers& layers);

// In bytes.
int64_t ReserveBytes(const RecurrentRun& run);
// Of a call in training, which has room for forward and backward, or in inference.
int64_t RecurrentWorkspaceBytes(const RecurrentRun& run, const DeviceProfile& device,
                                RecurrentAlgorithm algorithm, bool in_training);

// cudnnDropoutGetStatesSize: the generators of a card, which PyTorch keeps once they are needed.
int64_t DropoutStatesBytes(const DeviceProfile& device);

}  // namespace onnxfit
