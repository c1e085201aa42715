#include "estimator/writer/fast_paths.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "estimator/base/index.h"
#include "estimator/program/module_runs.h"
#include "estimator/writer/program_writer.h"

namespace onnxfit {
namespace {

// What torch.nn's forwards return the results of (2.11): C++ functions.
constexpr const char* kAttentionFunction = "torch._native_multi_head_attention";
constexpr const char* kLayerFunction = "torch._transformer_encoder_layer_fwd";

class FastPaths {
 public:
  explicit FastPaths(Program& program) : program_(program) {}

  // How many modules take theirs.
  int Run() {
    const std::vector<AtenCall>& calls = program_.calls;
    const ModuleRuns runs(program_);
    const auto count = static_cast<int64_t>(calls.size());
    int taken = 0;
    for (int64_t i = 0; i < count; ++i) {
      const int64_t last = Write(runs, i);
      if (last < i) {
        written_.push_back(calls[Index(i)]);
        continue;
      }
      ++taken;
      i = last;
    }
    if (taken > 0) program_.calls = std::move(written_);
    return taken;
  }

  // Whether any has a mask of padding.
  bool has_row_mask() const { return has_row_mask_; }

 private:
  // The last call of the module that begins at call `i` and was written; i - 1 where none was.
  int64_t Write(const ModuleRuns& runs, int64_t i) {
    const std::vector<AtenCall>& calls = program_.calls;
    const ModuleTree& modules = program_.modules;
    const ModuleId module = calls[Index(i)].module;
    const size_t open = i == 0 ? 0 : modules.Shared(calls[Index(i) - 1].module, module);
    for (size_t level = open; level < modules.DepthOf(module); ++level) {
      if (const auto layer = FindEncoderLayer(program_, runs, i, level);
          layer && !layer->attention.needs_weights && IsTaken(layer->attention)) {
        WriteLayer(*layer);
        return layer->last;
      }
      if (const auto attention = FindSelfAttention(program_, runs, i, level);
          attention && (!attention->has_mask || attention->has_row_mask)) {
        place_ = At(calls[Index(i)], level, kAttentionFunction);
        WriteAttention(*attention, attention->input, attention->result);
        return attention->last;
      }
    }
    return i - 1;
  }

  static bool IsTaken(const SelfAttention& attention) {
    return !attention.has_padding_mask || attention.has_row_mask;
  }

  // A call of the C++ function that the module's forward returns the result of.
  AtenCall At(const AtenCall& call, size_t level, const char* function) {
    AtenCall place = {.op = "", .where = call.where, .frames = call.frames};
    place.module = program_.modules.AtLevel(call.module, level);
    place.frames.resize(std::min(place.frames.size(), level));
    if (place.frames.size() == level) {
      place.frames.push_back(
          program_.source.PutBack({.line = 1, .returns = true, .callee = function}));
    }
    return place;
  }

  void WriteLayer(const EncoderLayer& layer) {
    function_ = At(program_.calls[Index(layer.first)], layer.level, kLayerFunction);
    const NameId attended = WriteAttentionHalf(layer);
    WriteFeedForwardHalf(layer, attended);
  }

  // Calls that follow are of the module of `call`, a child of the layer's, or of the layer's own.
  void Enter(const AtenCall& call) {
    place_ = function_;
    place_.where = call.where;
    const size_t depth = DepthOf(place_);
    if (DepthOf(call) <= depth) return;
    place_.module =
        program_.modules.Enter(place_.module, program_.modules.NameAt(call.module, depth));
    if (!place_.frames.empty()) place_.frames.push_back(place_.frames.back());
  }

  // x + attention(x), normed before or behind.
  NameId WriteAttentionHalf(const EncoderLayer& layer) {
    const NameId x = layer.norm_first ? Normed(*layer.norm1, layer.input) : layer.input;
    Enter(program_.calls[Index(layer.attention.first)]);
    const NameId attended =
        WriteAttention(layer.attention, x, NewName(TypeOf(layer.input), "self_attn"));
    Enter(*layer.norm1);
    const NameId sum = Make("add_", {attended, layer.input}, TypeOf(layer.input));
    return layer.norm_first ? sum : Normed(*layer.norm1, sum);
  }

  // The same of linear2(activation(linear1(x))), the activation in the product's epilogue.
  void WriteFeedForwardHalf(const EncoderLayer& layer, NameId x) {
    const NameId normed = layer.norm_first ? Normed(*layer.norm2, x) : x;
    const NameId hidden = Linear(*layer.linear1, normed);
    const NameId out = Linear(*layer.linear2, hidden);
    written_.back().held.push_back({normed, DepthOf(place_)});  // x = ffn(x)
    Enter(*layer.norm2);
    if (layer.norm_first) return Emit("add_", {out, x}, {layer.result});
    const NameId sum = Make("add_", {out, x}, TypeOf(x));
    const AtenCall& norm = *layer.norm2;
    Emit("layer_norm", {sum, norm.inputs[1], norm.inputs[2]}, {layer.result}, norm.ints);
  }

  NameId Normed(const AtenCall& norm, NameId x) {
    Enter(norm);
    Emit("layer_norm", {x, norm.inputs[1], norm.inputs[2]}, {norm.outputs[0]}, norm.ints);
    return norm.outputs[0];
  }

  NameId Linear(const AtenCall& linear, NameId x) {
    Enter(linear);
    Emit("linear", {x, linear.inputs[1], linear.inputs[2]}, {linear.outputs[0]});
    return linear.outputs[0];
  }

  // Makes `result`, at the place that is set.
  NameId WriteAttention(const SelfAttention& attention, NameId x, NameId result) {
    const bool is_fused = !attention.has_mask && !attention.needs_weights;
    const NameId context = is_fused ? Fused(attention, x) : WrittenOut(attention, x);
    Emit("linear",
         {context, attention.out_projection->inputs[1], attention.out_projection->inputs[2]},
         {result});
    if (attention.needs_weights) WriteWeights(attention);
    return result;
  }

  // scaled_dot_product_attention of what one product has made: [B, T, D].
  NameId Fused(const SelfAttention& attention, NameId x) {
    const AtenCall& in = *attention.in_projection;
    const TensorType type = TypeOf(x);
    TensorType packed = type;
    packed.dims.back() *= 3;
    const NameId qkv = Make("linear", {x, in.inputs[1], in.inputs[2]}, packed);
    Hold(qkv);
    const std::vector<NameId> chunks = {NewName(type, "q"), NewName(type, "k"), NewName(type, "v")};
    Emit("split", {qkv}, chunks);
    std::vector<NameId> heads;
    for (const NameId chunk : chunks) {
      const NameId apart = Make("view", {chunk}, RowsFirst(type, attention.heads));
      heads.push_back(Make("permute", {apart}, HeadsFirst(type, attention.heads), {0, 2, 1, 3}));
    }
    const NameId y =
        Make("scaled_dot_product_attention", heads, HeadsFirst(type, attention.heads), {0, 0});
    const NameId back = Make("permute", {y}, RowsFirst(type, attention.heads), {0, 2, 1, 3});
    return Make("view", {back}, type);
  }

  // The same of products and a softmax, the context written over the queries: [B, T, D].
  NameId WrittenOut(const SelfAttention& attention, NameId x) {
    const AtenCall& in = *attention.in_projection;
    const TensorType type = TypeOf(x);
    const TensorType head = HeadsFirst(type, attention.heads);
    TensorType packed = type;
    packed.dims.back() *= 3;
    const NameId product = Make("linear", {x, in.inputs[1]}, packed);
    TensorType three = head;
    three.dims.insert(three.dims.begin(), 3);
    const NameId qkv = Make("_transform_bias_rescale_qkv", {product, in.inputs[2]}, three);
    Hold(qkv);
    std::vector<NameId> parts;
    for (int i = 0; i < 3; ++i) parts.push_back(Make("select", {qkv}, head, {0}));
    TensorType transposed = head;
    std::swap(transposed.dims[2], transposed.dims[3]);
    const NameId kt = Make("permute", {parts[1]}, transposed, {0, 1, 3, 2});
    TensorType square = head;
    square.dims[3] = square.dims[2];
    weights_ = Make("matmul", {parts[0], kt}, square);
    has_row_mask_ |= attention.has_row_mask;
    const char* const softmax = attention.has_row_mask ? "_masked_softmax.rows"
                                : attention.has_mask   ? "_masked_softmax"
                                                       : "softmax_";
    weights_ = Make(softmax, {weights_}, square);
    const NameId context = Make("bmm_", {parts[0], weights_, parts[2]}, head);
    const NameId back = Make("permute", {context}, RowsFirst(type, attention.heads), {0, 2, 1, 3});
    return Make("view", {back}, type);
  }

  // Averaged over the heads; the caller's name has them, mostly "_".
  void WriteWeights(const SelfAttention& attention) {
    TensorType mean = TypeOf(weights_);
    mean.dims.erase(mean.dims.begin() + 1);
    const NameId averaged = Make("mean", {weights_}, mean);
    const size_t level = attention.level;
    if (level > 0) written_.back().held.push_back({averaged, level - 1});
  }

  // A local of the function, until that returns.
  void Hold(NameId name) { written_.back().held.push_back({name, DepthOf(place_) - 1}); }

  static TensorType RowsFirst(const TensorType& type, int64_t heads) {
    const Dims& dims = type.dims;
    return {type.dtype, {dims[0], dims[1], heads, dims[2] / heads}};
  }
  static TensorType HeadsFirst(const TensorType& type, int64_t heads) {
    const Dims& dims = type.dims;
    return {type.dtype, {dims[0], heads, dims[1], dims[2] / heads}};
  }

  size_t DepthOf(const AtenCall& call) const { return program_.modules.DepthOf(call.module); }

  TensorType TypeOf(NameId name) const { return program_.values[Index(name)].type; }

  NameId NewName(const TensorType& type, std::string_view op) {
    return AddValue(program_, fmt::format("{}.{}", place_.where, op), type);
  }

  void Emit(std::string_view op, std::vector<NameId> inputs, std::vector<NameId> outputs,
            std::vector<int64_t> ints = {}) {
    written_.push_back(CallAt(place_, op, std::move(inputs), std::move(outputs), std::move(ints)));
  }

  NameId Make(std::string_view op, std::vector<NameId> inputs, const TensorType& type,
              std::vector<int64_t> ints = {}) {
    const NameId made = NewName(type, op);
    Emit(op, std::move(inputs), {made}, std::move(ints));
    return made;
  }

  Program& program_;
  std::vector<AtenCall> written_;
  AtenCall place_;     // of the calls that follow
  AtenCall function_;  // of the layer that is written
  NameId weights_ = kNoName;
  bool has_row_mask_ = false;
};

}  // namespace

void TakeFastPaths(Program& program, const TrainingSettings& settings) {
  const bool has_one = settings.mode == Mode::kEval &&
                       AutocastType(settings.precision) == DType::kUndefined &&
                       settings.attention == AttentionUse::kSdpa;
  if (!has_one) return;
  FastPaths paths(program);
  const int count = paths.Run();
  if (count == 0) return;
  program.assumptions.push_back(fmt::format(
      "{} module{} of torch.nn take{} PyTorch's fast path of inference, under torch.no_grad()",
      count, count == 1 ? "" : "s", count == 1 ? "s" : ""));
  if (paths.has_row_mask()) {
    program.assumptions.emplace_back(
        "padded rows are computed in full: nn.TransformerEncoder leaves out padding behind a row "
        "(nested tensors), which takes less");
  }
}

}  // namespace onnxfit
