// Recurrent layers of cuDNN: what they take is the command's (asks.h); where their weights lie in
// one space is told here, as programs make views of it.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <mutex>
#include <numeric>
#include <string>
#include <vector>

#include "estimator/absent/asks.h"
#include "estimator/absent/current.h"
#include "estimator/absent/events.h"
#include "estimator/absent/status.h"

namespace onnxfit::absent {
namespace {

// As cudnnSetRNNDescriptor_v8 has it (cudnn_adv.h, 9.19.0).
struct Layers {
  int algorithm = 0;
  int mode = 0;  // 0 and 1: RNN, 2: LSTM, 3: GRU
  bool has_biases = true;
  int directions = 1;
  int type = 0;
  int64_t input = 0;
  int64_t hidden = 0;
  int64_t projected = 0;  // 0: not
  int64_t layers = 1;
  void* dropout = nullptr;
  bool is_packed = false;

  int64_t gates() const { return mode == 2 ? 4 : mode == 3 ? 3 : 1; }
  int64_t state() const { return projected == 0 ? hidden : projected; }
  int64_t input_of(int64_t layer) const { return layer == 0 ? input : directions * state(); }
  // Numbers of a layer's matrices in one direction.
  int64_t matrices_of(int64_t layer) const {
    return gates() * hidden * (input_of(layer) + state()) + projected * hidden;
  }
};

struct Steps {
  int64_t steps = 0;
  int64_t batch = 0;
  int64_t rows = 0;  // of all steps
};

struct TensorShape {
  int type = 0;
  std::vector<int> dims = {};
};

struct Known {
  std::mutex mutex;
  std::map<void*, Layers> layers;
  std::map<void*, Steps> steps;
  std::map<void*, float> dropouts;
  std::map<void*, TensorShape> tensors;
};

Known& Recurrent() {
  static auto* const known = new Known;  // outlives destructors
  return *known;
}

int64_t BytesOfType(int type) { return type == 1 ? 8 : type == 2 || type == 9 ? 2 : 4; }

const char* TypeWord(int type) {
  return type == 0 ? "float32" : type == 1 ? "float64" : type == 2 ? "float16" : "bfloat16";
}

// What the command says of layers: of their weights, of the reserve, in training, in inference.
struct Spaces {
  long long weights = 0;
  long long reserve = 0;
  long long training = 0;
  long long inference = 0;
};

Spaces SpacesOf(const Layers& layers, const Steps& steps, const char* function) {
  const auto dropout = Recurrent().dropouts.find(layers.dropout);
  const bool drops_out = dropout != Recurrent().dropouts.end() && dropout->second > 0;
  const int64_t sizes[] = {CurrentCard().place, layers.algorithm, layers.gates(), layers.input,
                           layers.hidden,       layers.projected, layers.layers,  layers.directions,
                           drops_out,           layers.is_packed, steps.steps,    steps.batch,
                           steps.rows};
  std::string question = "recurrent " + std::string(TypeWord(layers.type));
  for (const int64_t size : sizes) question += " " + std::to_string(size);
  Spaces spaces;
  const auto answer = AskCommand(question);
  const bool is_known =
      answer && std::sscanf(answer->c_str(), "%lld %lld %lld %lld", &spaces.weights,
                            &spaces.reserve, &spaces.training, &spaces.inference) == 4;
  if (!is_known) WriteUnknownSize(function);
  return spaces;
}

void SetShape(void* tensor, int type, std::vector<int> dims) {
  if (tensor != nullptr) Recurrent().tensors[tensor] = {type, std::move(dims)};
}

}  // namespace

ABSENT_API Status cudnnSetRNNDescriptor_v8(void* descriptor, int algorithm, int mode, int biases,
                                           int direction, int /*input_mode*/, int type,
                                           int /*precision*/, int /*math*/, int input, int hidden,
                                           int projected, int layers, void* dropout,
                                           unsigned flags) {
  const std::lock_guard lock(Recurrent().mutex);
  Recurrent().layers[descriptor] = {.algorithm = algorithm,
                                    .mode = mode,
                                    .has_biases = biases != 0,
                                    .directions = direction + 1,
                                    .type = type,
                                    .input = input,
                                    .hidden = hidden,
                                    .projected = projected == hidden ? 0 : projected,
                                    .layers = layers,
                                    .dropout = dropout,
                                    .is_packed = (flags & 1U) == 0};
  return kSuccess;
}

ABSENT_API Status cudnnSetRNNDataDescriptor(void* descriptor, int, int, int steps, int batch, int,
                                            const int* lengths, void*) {
  const std::lock_guard lock(Recurrent().mutex);
  const int64_t rows = lengths == nullptr ? int64_t{steps} * batch
                                          : std::accumulate(lengths, lengths + batch, int64_t{0});
  Recurrent().steps[descriptor] = {steps, batch, rows};
  return kSuccess;
}

ABSENT_API Status cudnnSetDropoutDescriptor(void* descriptor, void*, float probability, void*,
                                            size_t, unsigned long long) {
  const std::lock_guard lock(Recurrent().mutex);
  Recurrent().dropouts[descriptor] = probability;
  return kSuccess;
}
ABSENT_API Status cudnnRestoreDropoutDescriptor(void* descriptor, void* handle, float probability,
                                                void* states, size_t bytes,
                                                unsigned long long seed) {
  return cudnnSetDropoutDescriptor(descriptor, handle, probability, states, bytes, seed);
}

ABSENT_API Status cudnnDropoutGetStatesSize(void*, size_t* bytes) {
  const auto answer = AskCommand("dropout-states " + std::to_string(CurrentCard().place));
  *bytes = answer ? std::strtoull(answer->c_str(), nullptr, 10) : 0;
  if (!answer) WriteUnknownSize("cudnnDropoutGetStatesSize");
  return kSuccess;
}

ABSENT_API Status cudnnGetRNNWeightSpaceSize(void*, void* descriptor, size_t* bytes) {
  const std::lock_guard lock(Recurrent().mutex);
  *bytes = static_cast<size_t>(SpacesOf(Recurrent().layers[descriptor], {}, __func__).weights);
  return kSuccess;
}

ABSENT_API Status cudnnGetRNNTempSpaceSizes(void*, void* descriptor, int in_training, void* x,
                                            size_t* workspace, size_t* reserve) {
  const std::lock_guard lock(Recurrent().mutex);
  const Spaces spaces = SpacesOf(Recurrent().layers[descriptor], Recurrent().steps[x], __func__);
  if (workspace != nullptr)
    *workspace = static_cast<size_t>(in_training != 0 ? spaces.training : spaces.inference);
  if (reserve != nullptr) *reserve = static_cast<size_t>(in_training != 0 ? spaces.reserve : 0);
  return kSuccess;
}

// All matrices, then all biases; of a layer those of the input, of the state, of the projection.
ABSENT_API Status cudnnGetRNNWeightParams(void*, void* descriptor, int32_t pseudo_layer, size_t,
                                          char* space, int32_t id, void* matrix, void** matrix_at,
                                          void* bias, void** bias_at) {
  const std::lock_guard lock(Recurrent().mutex);
  const Layers& layers = Recurrent().layers[descriptor];
  const int64_t gates = layers.gates();
  int64_t before = 0;
  int64_t all = 0;
  for (int64_t i = 0; i < layers.layers * layers.directions; ++i) {
    if (i < pseudo_layer) before += layers.matrices_of(i / layers.directions);
    all += layers.matrices_of(i / layers.directions);
  }
  const int64_t input = layers.input_of(pseudo_layer / layers.directions);
  const bool is_input = id < gates;
  const bool is_projection = id >= 2 * gates;
  const int64_t rows = is_projection ? layers.projected : layers.hidden;
  const int64_t columns = is_input ? input : is_projection ? layers.hidden : layers.state();
  if (is_input) {
    before += id * rows * columns;
  } else {
    before += gates * layers.hidden * input + (id - gates) * layers.hidden * layers.state();
  }
  const int64_t bytes = BytesOfType(layers.type);
  const int64_t biases = all + (pseudo_layer * 2 * gates + id) * layers.hidden;
  const bool has_bias = layers.has_biases && !is_projection;
  if (matrix_at != nullptr) *matrix_at = space + before * bytes;
  if (bias_at != nullptr) *bias_at = has_bias ? space + biases * bytes : nullptr;
  SetShape(matrix, layers.type, {1, static_cast<int>(rows), static_cast<int>(columns)});
  SetShape(bias, layers.type,
           has_bias ? std::vector<int>{1, static_cast<int>(rows), 1} : std::vector<int>{});
  return kSuccess;
}

ABSENT_API Status cudnnSetTensorNdDescriptor(void* tensor, int type, int count, const int* dims,
                                             const int*) {
  const std::lock_guard lock(Recurrent().mutex);
  SetShape(tensor, type, {dims, dims + count});
  return kSuccess;
}

ABSENT_API Status cudnnGetTensorNdDescriptor(void* tensor, int most, int* type, int* count,
                                             int* dims, int* strides) {
  const std::lock_guard lock(Recurrent().mutex);
  const TensorShape& shape = Recurrent().tensors[tensor];
  if (type != nullptr) *type = shape.type;
  if (count != nullptr) *count = static_cast<int>(shape.dims.size());
  int stride = 1;
  for (size_t i = shape.dims.size(); i-- > 0;) {
    if (static_cast<int>(i) < most && dims != nullptr) dims[i] = shape.dims[i];
    if (static_cast<int>(i) < most && strides != nullptr) strides[i] = stride;
    stride *= shape.dims[i];
  }
  return kSuccess;
}

ABSENT_API Status cudnnDestroyTensorDescriptor(void* tensor) {
  const std::lock_guard lock(Recurrent().mutex);
  Recurrent().tensors.erase(tensor);
  return kSuccess;
}
ABSENT_API Status cudnnDestroyRNNDescriptor(void* descriptor) {
  const std::lock_guard lock(Recurrent().mutex);
  Recurrent().layers.erase(descriptor);
  return kSuccess;
}
ABSENT_API Status cudnnDestroyRNNDataDescriptor(void* descriptor) {
  const std::lock_guard lock(Recurrent().mutex);
  Recurrent().steps.erase(descriptor);
  return kSuccess;
}

}  // namespace onnxfit::absent
