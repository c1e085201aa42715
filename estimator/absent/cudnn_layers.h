// Which convolution a descriptor of cuDNN's backend is about: followed from the tensors on, through
// operation, graph, heuristics and engine, to the plan.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace onnxfit::absent {

using CudnnDescriptor = void*;

struct CudnnTensor {
  int type = 0;  // cudnnDataType_t
  std::vector<int64_t> dims = {};
  std::vector<int64_t> strides = {};
};

struct CudnnLayer {
  const char* pass = "";
  CudnnTensor x = {};
  CudnnTensor w = {};
  CudnnTensor y = {};
  std::vector<int64_t> stride = {};
  std::vector<int64_t> padding = {};
  std::vector<int64_t> dilation = {};
};

// A window of one element: a product of matrices.
bool IsPoint(const CudnnLayer& layer);

// As asked_sizes.h has it: "forward float32 last 4,3,8,8 16,3,3,3 4,16,8,8 1,1 1,1 1,1"; "" of a
// type that the command does not know.
std::string LayerText(const CudnnLayer& layer);

// Notes that the program sets an attribute.
void FollowCudnn(CudnnDescriptor descriptor, int attribute, int64_t count, const void* values);

// Notes that `config` is the `place`th that heuristics have named.
void FollowEngine(CudnnDescriptor heuristics, CudnnDescriptor config, int64_t place);

void ForgetCudnn(CudnnDescriptor descriptor);

// Null where it is about no convolution alone.
std::shared_ptr<const CudnnLayer> LayerOf(CudnnDescriptor descriptor);

// What the plan is made of; null where nothing was set.
CudnnDescriptor ConfigOf(CudnnDescriptor plan);

// Notes that the plan is made.  `bytes`: what its engine says that it works in, where it was not
// compiled.
void NotePlan(CudnnDescriptor plan, std::optional<int64_t> bytes);
std::optional<int64_t> NotedBytes(CudnnDescriptor plan);

// Whether it is the first that was made of what these heuristics named: the one that programs
// take who do not try them all.
bool IsFirstPlan(CudnnDescriptor plan);

}  // namespace onnxfit::absent
