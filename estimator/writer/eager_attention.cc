#include "estimator/writer/eager_attention.h"

#include <fmt/format.h>

#include <algorithm>
#include <initializer_list>
#include <iterator>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "estimator/base/index.h"
#include "estimator/program/modules.h"
#include "estimator/writer/program_writer.h"

namespace onnxfit {
namespace {

constexpr std::string_view kAttention = "scaled_dot_product_attention";

class EagerAttention {
 public:
  EagerAttention(Program& program, const TrainingSettings& settings)
      : program_(program), settings_(settings) {}

  // Those of kEagerAttention and, where all are asked for, all.  How many of these there were.
  int Run(bool all) {
    has_cross_attention_ = std::ranges::any_of(
        program_.calls, [&](const AtenCall& call) { return IsIn(call, "encoder_attn"); });
    int count = 0;
    std::vector<AtenCall> calls = std::exchange(program_.calls, {});
    for (AtenCall& call : calls) {
      if (call.op == kEagerAttention) {
        WriteOut(call);
      } else if (all && call.op == kAttention) {
        WriteOut(call);
        ++count;
      } else {
        program_.calls.push_back(std::move(call));
      }
    }
    HoldRepeated();
    return count;
  }

 private:
  // Whether the innermost module around `call` is a child of that name.
  bool IsIn(const AtenCall& call, std::string_view child) const {
    return ChildOf(program_.modules.NameOf(call.module)) == child;
  }

  size_t DepthOf(const AtenCall& call) const { return program_.modules.DepthOf(call.module); }

  const TensorType& TypeOf(NameId name) const { return program_.values[Index(name)].type; }

  void Emit(const AtenCall& at, std::string_view op, std::vector<NameId> inputs, NameId output,
            std::vector<int64_t> ints = {}) {
    program_.calls.push_back(CallAt(at, op, std::move(inputs), {output}, std::move(ints)));
  }

  NameId Make(const AtenCall& at, std::string_view op, std::vector<NameId> inputs,
              const TensorType& type, std::vector<int64_t> ints = {}) {
    const std::string& result = program_.values[Index(at.outputs[0])].name;
    const NameId made = AddValue(program_, fmt::format("{}.{}", result, op), type);
    Emit(at, op, std::move(inputs), made, std::move(ints));
    return made;
  }

  void WriteOut(const AtenCall& at) {
    const TensorType q = TypeOf(at.inputs[0]);
    const NameId k = RepeatHeads(at, at.inputs[1], q);
    const NameId v = RepeatHeads(at, at.inputs[2], q);
    TensorType transposed = TypeOf(k);
    std::swap(transposed.dims.end()[-1], transposed.dims.end()[-2]);
    const NameId kt = Make(at, "permute", {k}, transposed, SwapLastTwo(transposed.dims.size()));
    TensorType square = q;
    square.dims.back() = transposed.dims.back();
    NameId weights = Make(at, "matmul", {at.inputs[0], kt}, square);
    weights = Make(at, "mul.Scalar", {weights}, square);
    const NameId mask = MaskOf(at, square);
    if (mask != kNoName) weights = Make(at, "add", {weights, mask}, square);
    weights = Softmax(at, weights, square);
    if (at.ints[0] != 0) weights = Make(at, "dropout", {weights}, square);
    Emit(at, "matmul", {weights, v}, at.outputs[0]);
    Hold(program_.calls.back(), {at.inputs[0], at.inputs[1], at.inputs[2]}, weights);
    repeated_[at.outputs[0]] = {k, v};
  }

  // The attention's forward has names for q, k and v; the weights it returns to its layer, which
  // calls them "_". Where the file shows the lines, they tell how far (returned_weights.h).
  void Hold(AtenCall& call, const std::vector<NameId>& qkv, NameId weights) const {
    if (call.module == kOutside) return;
    for (const NameId name : qkv) call.held.push_back({name, DepthOf(call) - 1});
    if (call.frames.empty()) call.held.push_back({weights, LayerOf(call.module)});
  }

  // key_states and value_states, until eager_attention_forward returns
  // attn_output.transpose(1, 2).contiguous().
  void HoldRepeated() {
    const auto goes_on = [&](size_t i, std::initializer_list<std::string_view> ops) {
      if (i + 1 >= program_.calls.size()) return false;
      const AtenCall& next = program_.calls[i + 1];
      return std::ranges::find(ops, next.op) != ops.end() && !next.inputs.empty() &&
             next.inputs[0] == program_.calls[i].outputs[0];
    };
    for (size_t i = 0; i < program_.calls.size(); ++i) {
      const std::vector<NameId>& outputs = program_.calls[i].outputs;
      const auto found = outputs.empty() ? repeated_.end() : repeated_.find(outputs[0]);
      if (found == repeated_.end()) continue;
      size_t last = i;
      // ONNX has no contiguous(): its reshape, behind it, copies in its place.
      if (goes_on(last, {"permute"})) ++last;
      if (last > i && goes_on(last, {"contiguous", "clone", "view"})) ++last;
      AtenCall& call = program_.calls[last];
      for (const NameId name : found->second) call.held.push_back({name, DepthOf(call)});
    }
  }

  // The level of the innermost module that is a number in a list, else that of the outermost.
  size_t LayerOf(ModuleId module) const {
    for (; module != kOutside; module = program_.modules.CallerOf(module)) {
      const std::string& name = program_.modules.NameOf(module);
      const bool is_numbered = name.find_last_not_of("0123456789") != name.size() - 1;
      if (is_numbered) return program_.modules.DepthOf(module) - 1;
    }
    return 0;
  }

  ModuleId CallerOfLayer(ModuleId module) const {
    if (module == kOutside) return kOutside;
    return program_.modules.CallerOf(program_.modules.AtLevel(module, LayerOf(module)));
  }

  NameId Softmax(const AtenCall& at, NameId weights, const TensorType& type) {
    if (LeavesSoftmaxToAutocast(at)) {
      const NameId softmax = Make(at, "softmax", {weights}, type);
      const bool casts = at.op == kEagerAttention && at.ints[2] == kLeftAndCast;
      return casts ? Make(at, "type_as", {softmax, at.inputs[2]}, type) : softmax;
    }
    TensorType in_fp32 = type;
    in_fp32.dtype = BitsOf(type.dtype) < 32 ? DType::kFloat32 : type.dtype;
    // Its kernel reads fp16 (softmax of aten/src/ATen/native/SoftMax.cpp, pytorch v2.11.0).
    const bool reads_half = settings_.precision == Precision::kAmpFp16;
    const NameId cast = reads_half ? weights : Make(at, "to", {weights}, in_fp32);
    const NameId softmax = Make(at, "softmax", {cast}, in_fp32);
    const NameId result = Make(at, "type_as", {softmax, at.inputs[0]}, type);
    program_.calls.back().held.push_back({weights, DepthOf(at)});  // one statement
    return result;
  }

  // As BERT and BART do, and what was made after them: 60 of the 80 models with a module "self"
  // or "encoder_attn".
  bool LeavesSoftmaxToAutocast(const AtenCall& at) const {
    if (at.op == kEagerAttention) return at.ints[2] != kInFp32;
    return has_cross_attention_ || IsIn(at, "self");
  }

  static std::vector<int64_t> SwapLastTwo(size_t rank) {
    std::vector<int64_t> order;
    for (size_t i = 0; i < rank; ++i) order.push_back(static_cast<int64_t>(i));
    std::swap(order.end()[-1], order.end()[-2]);
    return order;
  }

  // repeat_kv: x[:, :, None].expand(…).reshape(…).
  NameId RepeatHeads(const AtenCall& at, NameId name, const TensorType& q) {
    TensorType type = TypeOf(name);
    if (type.dims.size() != 4 || type.dims[1] == q.dims[1]) return name;
    const TensorType whole = {type.dtype, {type.dims[0], q.dims[1], type.dims[2], type.dims[3]}};
    type.dims.insert(type.dims.begin() + 2, 1);
    const NameId apart = Make(at, "view", {name}, type);
    type.dims[2] = q.dims[1] / type.dims[1];
    const NameId expanded = Make(at, "expand", {apart}, type);
    return Make(at, "view", {expanded}, whole);  // a reshape: it copies
  }

  // What is added to `scores`, kNoName for nothing.
  NameId MaskOf(const AtenCall& at, const TensorType& scores) {
    constexpr size_t kMaskInput = 3;
    const NameId given = at.inputs.size() > kMaskInput ? at.inputs[kMaskInput] : kNoName;
    if (given != kNoName && IsFloat(TypeOf(given).dtype)) return given;
    const bool is_causal = at.ints[1] != 0;
    if (given == kNoName && !is_causal) return kNoName;
    const TensorType type = {ParameterType(settings_.precision),
                             {scores.dims[0], 1, scores.dims.end()[-2], scores.dims.back()}};
    const auto [mask, is_new] = masks_.emplace(std::pair(given, type.dims), kNoName);
    if (is_new) mask->second = MakeMask(at, given, type);
    return mask->second;
  }

  // torch.where(mask, 0.0, lowest), made by the model's forward before its layers, and before
  // the rotary embedding that all of them share.
  NameId MakeMask(const AtenCall& at, NameId given, const TensorType& type) {
    std::vector<AtenCall> layers = TakeCallsFrom(at);
    AtenCall forward = at;
    forward.frames.clear();
    forward.module = CallerOfLayer(at.module);
    const Dims rows = {type.dims.end()[-2], type.dims.back()};
    if (given == kNoName) given = Make(forward, "constant", {}, {DType::kBool, rows});
    const NameId zero = Make(forward, "constant", {}, {type.dtype, {}});
    const NameId lowest = Make(forward, "constant", {}, {type.dtype, {}});
    const NameId mask = Make(forward, "where", {given, zero, lowest}, type);
    if (forward.module != kOutside) {
      program_.calls.back().held.push_back({mask, DepthOf(forward) - 1});
    }
    std::ranges::move(layers, std::back_inserter(program_.calls));
    return mask;
  }

  // The calls, already written, of the layer of `at` and of the rotary embedding before it.
  std::vector<AtenCall> TakeCallsFrom(const AtenCall& at) {
    if (at.module == kOutside) return {};
    const ModuleTree& modules = program_.modules;
    const size_t level = LayerOf(at.module);
    const auto is_behind = [&](const AtenCall& call) {
      if (DepthOf(call) <= level || modules.Shared(call.module, at.module) < level) return false;
      const std::string& module = modules.NameAt(call.module, level);
      return module == modules.NameAt(at.module, level) ||
             module.find("rotary") != std::string::npos;
    };
    auto& calls = program_.calls;
    const auto first = std::find_if(calls.begin(), calls.end(), is_behind);
    std::vector<AtenCall> taken(std::make_move_iterator(first),
                                std::make_move_iterator(calls.end()));
    calls.erase(first, calls.end());
    return taken;
  }

  Program& program_;
  const TrainingSettings& settings_;
  bool has_cross_attention_ = false;
  std::map<NameId, std::vector<NameId>> repeated_;   // by attention's result: k and v
  std::map<std::pair<NameId, Dims>, NameId> masks_;  // by what was given and their size
};

}  // namespace

void WriteAttentionOut(Program& program, const TrainingSettings& settings) {
  const bool has_written = !program.is_as_watched && GatherWrittenAttention(program);
  const bool all = settings.attention == AttentionUse::kEager;
  if (!all && !has_written) return;
  const int count = EagerAttention(program, settings).Run(all);
  if (!all) return;
  program.assumptions.push_back(
      count == 0 ? "the file holds no scaled_dot_product_attention to be written out"
                 : fmt::format("{} attention{} run as transformers' eager attention does", count,
                               count == 1 ? "" : "s"));
}

}  // namespace onnxfit
