#include "estimator/operators/cudnn_recurrent.h"

#include <algorithm>
#include <initializer_list>

#include "estimator/base/bytes.h"

namespace onnxfit {
namespace {

// --- Which algorithm -----------------------------------------------------------

// use_rnn_persist_small_h
bool IsSmall(const RecurrentLayers& layers, bool is_forward) {
  const bool is_simple = layers.gates == 1;
  if (is_forward) return layers.hidden <= (is_simple ? 384 : 192);
  return layers.hidden <= (is_simple ? 256 : 128);
}

// use_persist_common_heuristics
bool FitsPersistent(const RecurrentLayers& layers) {
  return layers.layers == 1 && layers.directions == 1 && layers.hidden <= 1024 &&
         layers.hidden % 128 == 0 && layers.input % 128 == 0;
}

// use_persist_device_heuristics, from Turing on, which it leaves out.
bool IsPersistentFast(const RecurrentRun& run, const DeviceProfile& device) {
  const bool is_large = device.compute_capability >= 80 && device.multiprocessors >= 98;
  if (!is_large || device.compute_capability % 10 == 6 || run.layers.gates == 3) return false;
  if (run.batch % 8 != 0 || run.batch > 128) return false;
  return run.layers.is_lstm() || run.batch < 96 || run.layers.hidden < 896;
}

}  // namespace

RecurrentAlgorithm ChooseRecurrentAlgorithm(const RecurrentRun& run, const DeviceProfile& device,
                                            bool is_forward) {
  if (run.layers.projected > 0 || run.layers.packed_steps > 0) return RecurrentAlgorithm::kStandard;
  if (run.dtype != DType::kFloat64 && IsSmall(run.layers, is_forward)) {
    return RecurrentAlgorithm::kPersistStaticSmallH;
  }
  if (run.dtype == DType::kFloat16 && FitsPersistent(run.layers) && IsPersistentFast(run, device)) {
    return RecurrentAlgorithm::kPersistStatic;
  }
  return RecurrentAlgorithm::kStandard;
}

// --- How much -------------------------------------------------------------------

namespace {

constexpr int64_t kPartAlignment = 32;              // of each part
constexpr int64_t kHead = 256;                      // before all parts
constexpr int64_t kCublasBytes = int64_t{8} << 20;  // of each stream
constexpr int64_t kGatedSteps = 256;                // whose gates are computed at once
constexpr int64_t kPersistentRows = 2432;           // that its backward has at least

int64_t PartBytes(int64_t bytes) { return RoundUp(bytes, kPartAlignment); }

// A space as it grows by parts.
class Space {
 public:
  explicit Space(DType dtype) : element_bits_(BitsOf(dtype)) {}

  int64_t bytes() const { return bytes_; }
  void AddBytes(int64_t bytes) { bytes_ = CheckedAdd(bytes_, bytes); }
  // Parts of so many times `numel`; of 0 there is none.
  void Add(int64_t numel, std::initializer_list<int64_t> parts) {
    for (const int64_t part : parts) {
      AddBytes(PartBytes(CheckedMul(CheckedMul(numel, part), element_bits_) / 8));
    }
  }

 private:
  int64_t element_bits_;
  int64_t bytes_ = 0;
};

// Of one layer in all its directions, which reads `input` numbers a step.
int64_t MatrixNumel(const RecurrentLayers& layers, int64_t input) {
  const int64_t row = CheckedAdd(input, layers.state());
  const int64_t gates = CheckedMul(CheckedMul(layers.gates, layers.hidden), row);
  const int64_t projection = layers.projected == 0 ? 0 : layers.projected * layers.hidden;
  return CheckedMul(layers.directions, CheckedAdd(gates, projection));
}

int64_t MatrixNumel(const RecurrentLayers& layers) {
  const int64_t inner = MatrixNumel(layers, layers.directions * layers.state());
  return CheckedAdd(MatrixNumel(layers, layers.input), CheckedMul(layers.layers - 1, inner));
}

// What the parts of a workspace are multiples of.
struct Sizes {
  explicit Sizes(const RecurrentRun& run)
      : layers(run.layers),
        two(layers.directions == 2),
        is_lstm(layers.is_lstm()),
        is_projected(layers.projected > 0),
        pads(layers.packed_steps == 0),
        inputs(CheckedMul(run.rows, layers.input)),
        hidden(CheckedMul(run.rows, layers.hidden)),
        outputs(CheckedMul(run.rows, layers.state())),
        states(CheckedMul(run.batch, layers.hidden) * layers.layers * layers.directions),
        shown_states(CheckedMul(run.batch, layers.state()) * layers.layers * layers.directions) {}

  const RecurrentLayers& layers;
  const bool two;
  const bool is_lstm;
  const bool is_projected;
  const bool pads;             // steps are sorted and padded, so that x, y and states are copied
  const int64_t inputs;        // of all steps
  const int64_t hidden;        // the same, of one direction
  const int64_t outputs;       // the same, as they are shown
  const int64_t states;        // of all layers and directions
  const int64_t shown_states;  // the same, as they are shown
};

// Unidirectional stacks have no streams on Ampere and Ada.
int64_t Streams(const RecurrentLayers& layers, const DeviceProfile& device) {
  const bool is_ampere = device.compute_capability >= 80 && device.compute_capability < 90;
  const bool is_plain = layers.directions == 1 && layers.layers > 1;
  return is_ampere && is_plain ? 0 : layers.layers * layers.directions;
}

// How many steps a layer goes ahead of the next one in backward.
int64_t StepsAhead(const RecurrentRun& run, const DeviceProfile& device) {
  if (run.batch == 1) return 32;
  if (run.batch <= 8) return 16;
  if (run.batch <= 16 || (run.steps >= 128 && device.compute_capability >= 80)) return 8;
  return run.batch <= 96 ? 4 : 2;
}

int64_t RowsOf(const RecurrentRun& run, int64_t steps) {
  return std::min(run.rows, CheckedMul(run.batch, steps));
}

// What both directions of a pass have.
Space Common(const RecurrentRun& run, const DeviceProfile& device) {
  Space space(run.dtype);
  space.AddBytes(kHead + Streams(run.layers, device) * kCublasBytes);
  space.Add(MatrixNumel(run.layers), {1});
  if (run.layers.packed_steps == 0) space.AddBytes(PartBytes(CheckedMul(run.batch, 8)));
  return space;
}

int64_t ForwardBytes(const RecurrentRun& run, const DeviceProfile& device, bool is_persistent) {
  const Sizes sizes(run);
  const RecurrentLayers& layers = run.layers;
  const bool is_whole = sizes.two || is_persistent;
  Space space = Common(run, device);
  space.Add((is_whole ? run.rows : RowsOf(run, kGatedSteps)) * layers.hidden,
            {layers.gates * layers.directions});
  space.Add(sizes.hidden,
            {sizes.two ? 4 : 0, layers.drops_out && !sizes.two,
             is_persistent ? 4 * layers.gates : 0, sizes.is_projected ? layers.directions : 0});
  space.Add(sizes.states, {is_persistent ? 2 : layers.gates,
                           sizes.two ? (is_persistent ? 1 : 2) : 0, sizes.is_lstm ? 2 : 0});
  if (!sizes.pads) return space.bytes();
  space.Add(sizes.inputs, {1});
  space.Add(sizes.outputs, {layers.directions});
  space.Add(sizes.shown_states, {1, 1});
  if (sizes.is_lstm) space.Add(sizes.states, {1, 1});
  return space.bytes();
}

int64_t BackwardBytes(const RecurrentRun& run, const DeviceProfile& device,
                      RecurrentAlgorithm algorithm, bool is_persistent) {
  const Sizes sizes(run);
  const RecurrentLayers& layers = run.layers;
  const int64_t stacked = layers.layers > 1 ? 2 : 1;
  Space space = Common(run, device);
  space.Add(CheckedMul(run.rows, std::max(layers.input, layers.hidden)), {sizes.two ? 4 : 1});
  space.Add(sizes.hidden, {sizes.two       ? 2 * stacked
                           : is_persistent ? stacked
                                           : 0,
                           sizes.is_projected ? layers.directions : 0});
  if (is_persistent) {
    const bool is_static = algorithm == RecurrentAlgorithm::kPersistStatic;
    const int64_t least = is_static ? (kPersistentRows + run.batch) * layers.hidden : 0;
    space.Add(sizes.hidden, {layers.gates == 3 ? 6 : layers.gates});
    space.Add(std::max(CheckedMul(sizes.hidden, 8), least), {1});
  } else if (!sizes.two) {
    const int64_t ahead = StepsAhead(run, device);
    const int64_t steps =
        layers.layers > 1 ? ahead * layers.layers + std::max<int64_t>(ahead, 8) : run.steps;
    space.Add(RowsOf(run, std::min(run.steps, steps)) * layers.hidden, {1});
  }
  space.Add(sizes.states, {is_persistent ? 2 : 1, sizes.two ? (is_persistent ? 1 : 2) : 0,
                           sizes.is_lstm ? 2 : 0});
  if (!sizes.pads) return space.bytes();
  space.Add(sizes.inputs, {1, 1});
  space.Add(sizes.outputs, {layers.directions, layers.directions});
  space.Add(sizes.shown_states, {1, 1, 1, 1});
  if (sizes.is_lstm) space.Add(sizes.states, {1, 1, 1, 1});
  return space.bytes();
}

// The persistent kernels are none of bfloat16, the static ones none of Blackwell.
bool IsPersistent(const RecurrentRun& run, const DeviceProfile& device,
                  RecurrentAlgorithm algorithm) {
  if (algorithm == RecurrentAlgorithm::kPersistStatic) return device.compute_capability < 100;
  return algorithm == RecurrentAlgorithm::kPersistStaticSmallH && run.dtype != DType::kBFloat16;
}

}  // namespace

int64_t WeightSpaceNumel(const RecurrentLayers& layers) {
  const int64_t biases = 2 * layers.layers * layers.directions;
  return CheckedAdd(MatrixNumel(layers), CheckedMul(biases, layers.gates * layers.hidden));
}

int64_t ReserveBytes(const RecurrentRun& run) {
  const Sizes sizes(run);
  const RecurrentLayers& layers = run.layers;
  const int64_t all = CheckedMul(sizes.hidden, layers.layers * layers.directions);
  const int64_t inner = (layers.layers - 1) * layers.directions;
  Space space(run.dtype);
  space.AddBytes(kHead);
  space.Add(all, {layers.gates == 3 ? 6 : layers.gates, sizes.is_lstm, sizes.is_projected});
  space.Add(CheckedMul(sizes.hidden, inner), {1});
  if (sizes.is_projected) {
    space.Add(CheckedMul(sizes.outputs, layers.layers * layers.directions), {1});
  }
  if (layers.drops_out) {  // a bit for each number, of padded steps, too
    const int64_t padded = CheckedMul(run.steps, run.batch);
    const int64_t bits = CheckedMul(padded, layers.state() * layers.directions);
    space.AddBytes(CheckedMul(inner, PartBytes(DivideUp(bits, 8))));
  }
  return space.bytes();
}

int64_t RecurrentWorkspaceBytes(const RecurrentRun& run, const DeviceProfile& device,
                                RecurrentAlgorithm algorithm, bool in_training) {
  const bool is_persistent = IsPersistent(run, device, algorithm);
  const int64_t forward = ForwardBytes(run, device, is_persistent);
  if (!in_training) return forward;
  return std::max(forward, BackwardBytes(run, device, algorithm, is_persistent));
}

// 48 bytes for each of half as many threads as fit, in blocks of 256.
int64_t DropoutStatesBytes(const DeviceProfile& device) {
  constexpr int64_t kBlock = 256;
  const int64_t fit = CheckedMul(device.multiprocessors, device.threads_per_multiprocessor);
  return std::max<int64_t>(fit / (2 * kBlock), 1) * kBlock * 48;
}

}  // namespace onnxfit
