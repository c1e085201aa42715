#include "estimator/training/pipeline.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <utility>

#include "estimator/base/bytes.h"
#include "estimator/base/error.h"
#include "estimator/base/index.h"
#include "estimator/operators/strides.h"

namespace onnxfit {
namespace {

constexpr char kStrategyFlag[] = "--strategy";

[[noreturn]] void RefusePipeline(std::string text, std::string hint = "") {
  throw Error({.where = kStrategyFlag, .text = std::move(text), .hint = std::move(hint)});
}

}  // namespace

void CheckPipeline(const TrainingSettings& settings) {
  const int64_t stages = settings.ranks.world;
  const int64_t micro_batches = settings.loop.accumulate;
  if (settings.loop.library != LoopLibrary::kPlain)
    RefusePipeline("pipeline: expected the plain loop", "--loop plain");
  if (settings.precision == Precision::kAmpFp16)
    RefusePipeline("pipeline: expected no -p amp-fp16, whose losses are scaled", "-p amp-bf16");
  if (settings.optimizer_in_backward)
    RefusePipeline(
        "pipeline: expected no --optimizer-in-backward, as gradients of all "
        "micro-batches add up");
  if (settings.evaluation.batch > 0)
    RefusePipeline("pipeline: expected no --eval-batch, as no stage evaluates alone");
  if (settings.loop.hold_outputs)
    RefusePipeline("pipeline: expected no --hold-outputs: the schedule keeps them",
                   "--drop-outputs where it does not");
  if (settings.ranks.pipeline.schedule == Schedule::k1F1B && micro_batches < stages) {
    throw Error({.where = "--accumulate",
                 .text = fmt::format("expected at least {} micro-batches, as many as stages, which "
                                     "Schedule1F1B asks for, found {}",
                                     stages, micro_batches),
                 .hint = fmt::format("--accumulate {}, or --schedule gpipe", 2 * stages)});
  }
}

Pipeline::Pipeline(CallTable& calls, Forward& forward, LoopBatches& batches,
                   ParameterGradients& gradients, const BackwardHooks& hooks)
    : calls_(calls),
      machine_(calls.machine()),
      forward_(forward),
      batches_(batches),
      gradients_(gradients),
      hooks_(hooks),
      outputs_(FindOutputs(calls.program())),
      micro_batches_(Index(calls.settings().loop.accumulate)) {
  batches_.HandOver([this](TensorType type) {
    if (!type.dims.empty())
      type.dims[0] = CheckedMul(type.dims[0], static_cast<int64_t>(micro_batches_));
    return type;
  });
  FindLocals();
}

// What no name of the caller's, no module and not torch.autocast holds when the model has returned.
void Pipeline::FindLocals() {
  std::set<NameId> held(program().cached_casts.begin(), program().cached_casts.end());
  if (is_last()) held.insert(outputs_.names.begin(), outputs_.names.end());
  const std::set<NameId> received(program().received.begin(), program().received.end());
  locals_ = program().received;
  for (size_t i = 0; i < outputs_.model_end; ++i) {
    const AtenCall& call = program().calls[i];
    if (call.is_autocasts && received.contains(call.inputs[0]) && held.contains(call.outputs[0]))
      casts_.push_back(call.outputs[0]);
    for (const NameId name : call.outputs) {
      if (name != kNoName && !call.made_once && !held.contains(name)) locals_.push_back(name);
    }
  }
}

void Pipeline::Step(int32_t step) {
  batch_.clear();
  for (const NameId name : program().inputs) batch_.push_back(forward_.Lookup(name));
  Drop(chunks_);
  forward_.BeginPasses();
  if (buffers_.empty()) Initialize();
  passes_.assign(micro_batches_, {});
  settings().schedule == Schedule::kGPipe ? RunAllForward(step) : RunInTurns(step);
  std::vector<TensorId> losses;
  for (const Pass& pass : passes_) {
    if (pass.loss != kNoTensor) losses.push_back(pass.loss);
  }
  Drop(losses_);
  losses_ = std::move(losses);
  for (auto* name : {&output_, &sends_, &back_sends_}) Drop(*name);
  Merge();
  Drop(kept_casts_);
}

// schedule._initialize_stage, in the first step: two numbers that neighbours are sent, what a run
// without gradients makes, which tells what is sent; then the buffers.
void Pipeline::Initialize() {
  const LabelId label = machine_.AddLabel("first message to the neighbours");
  std::vector<TensorId> numbers;
  for (int i = 0; i < 2; ++i) numbers.push_back(machine_.New({DType::kFloat32, {}}, label));
  InferShapes();
  for (size_t i = 0; i < micro_batches_; ++i) {
    Buffers& buffers = buffers_.emplace_back();
    for (size_t j = 0; j < program().received.size(); ++j) buffers.given.push_back(NewLeaf(j));
  }
  for (Buffers& buffers : buffers_) {
    for (const NameId name : program().sent) {
      const TensorType& type = calls_.TypeOf(name);
      buffers.gradients.push_back(
          machine_.New(type, calls_.GradientLabel(name), Kind::kActivation));
    }
  }
  Drop(numbers);
}

// stage._shape_inference
void Pipeline::InferShapes() {
  const auto bind_zeros = [&](NameId name) {
    forward_.Bind(name, machine_.New(calls_.TypeOf(name), calls_.NameLabel(name)));
  };
  const size_t labels = is_last() && HasLabels(program()) ? 1 : 0;
  for (size_t i = 0; i + labels < program().inputs.size(); ++i) bind_zeros(program().inputs[i]);
  for (const NameId name : program().received) bind_zeros(name);
  forward_.Run(0, outputs_.model_end, /*grad=*/false);
  DropLocals();
  for (const NameId name : outputs_.names) forward_.Unbind(name);
  for (const NameId name : casts_) forward_.Unbind(name);
}

// The buffer of what is received, a leaf that asks for gradients.
TensorId Pipeline::NewLeaf(size_t number) {
  const NameId name = program().received[number];
  const TensorId buffer =
      machine_.New(calls_.TypeOf(name), calls_.NameLabel(name), Kind::kActivation);
  const TensorId leaf = machine_.Detach(buffer);
  const GradNodeId node = machine_.NewNode({.call = GradNode::kArgument,
                                            .parameter = static_cast<int32_t>(number),
                                            .next = {},
                                            .saved = {},
                                            .arguments = {buffer}});
  machine_.SetGradFn(leaf, {node, 0});
  return leaf;
}

// Views of the whole batch (torch.tensor_split), and what is received.
void Pipeline::BindInputs(size_t micro) {
  for (size_t i = 0; i < program().inputs.size(); ++i) {
    const NameId name = program().inputs[i];
    const TensorType& type = calls_.TypeOf(name);
    forward_.Bind(name, machine_.View(batch_[i], type.dims, ContiguousStrides(type.dims)));
  }
  for (size_t i = 0; i < program().received.size(); ++i) {
    const TensorId given = buffers_[micro].given[i];
    machine_.Retain(given);
    forward_.Bind(program().received[i], given);
  }
}

void Pipeline::DropLocals() {
  for (const NameId name : locals_) {
    if (forward_.Lookup(name) != kNoTensor) forward_.Unbind(name);
  }
}

// stage.forward_one_chunk
void Pipeline::RunForward(size_t micro) {
  BindInputs(micro);
  forward_.Run(0, outputs_.model_end, /*grad=*/true);
  std::vector<TensorId> made_here;
  for (const NameId name : made()) {
    if (const TensorId tensor = forward_.Lookup(name); tensor != kNoTensor)
      made_here.push_back(tensor);
  }
  Hold(passes_[micro].outputs, made_here);
  DropLocals();
  for (const NameId name : casts_) kept_casts_.push_back(forward_.Take(name));
  if (KeepsOutputs()) {
    for (const TensorId tensor : made_here) machine_.Retain(tensor);
    chunks_.insert(chunks_.end(), made_here.begin(), made_here.end());
  }
  Hold(output_, made_here);
}

// schedule._maybe_compute_loss
void Pipeline::ComputeLoss(size_t micro) {
  if (program().loss == kNoName) return;
  forward_.Run(outputs_.model_end, program().calls.size(), /*grad=*/true);
  passes_[micro].loss = forward_.Take(program().loss);
  for (const NameId name : outputs_.names) forward_.Unbind(name);
}

// Where backward begins, and with which gradients: those that were received, or a one.
std::vector<std::pair<Edge, TensorId>> Pipeline::RootsOf(size_t micro, TensorId& ones) {
  std::vector<std::pair<Edge, TensorId>> roots;
  const auto add = [&](TensorId tensor, TensorId gradient) {
    const Edge edge = machine_.tensor(tensor).grad_fn;
    if (edge.node != kNoGradNode) roots.emplace_back(edge, gradient);
  };
  const Pass& pass = passes_[micro];
  if (pass.loss != kNoTensor) {
    const TensorType type = machine_.tensor(pass.loss);
    ones = machine_.New(type, machine_.AddLabel("loss.grad"));
    add(pass.loss, ones);
    return roots;
  }
  for (size_t i = 0; i < program().sent.size(); ++i) {
    add(pass.outputs[i], buffers_[micro].gradients[i]);
  }
  return roots;
}

// stage.backward_one_chunk, and the list of gradients that are sent.
void Pipeline::RunBackward(size_t micro) {
  TensorId ones = kNoTensor;
  const auto roots = RootsOf(micro, ones);
  std::vector<TensorId> made;
  if (!roots.empty()) {
    made = RunNestedBackward(calls_, roots, program().received.size(), gradients_, hooks_);
  }
  if (ones != kNoTensor) machine_.Release(ones);
  std::erase(made, kNoTensor);
  if (is_last() && !is_first()) {
    for (const TensorId tensor : passes_[micro].outputs) {
      if (!machine_.tensor(tensor).is_view) machine_.DropGradFn(tensor);
    }
  }
  Drop(passes_[micro].outputs);
  Drop(back_sends_);
  back_sends_ = std::move(made);
}

// Schedule1F1B: the last stage goes backward at once, the one before it a micro-batch later, …
void Pipeline::RunInTurns(int32_t step) {
  const auto& ranks = calls_.settings().ranks;
  const size_t behind = Index(ranks.world - ranks.pipeline.stage.value_or(0));
  size_t forward = 0;
  const auto run_forward = [&] {
    RunForward(forward);
    if (!is_last()) Hold(sends_, passes_[forward].outputs);
    ComputeLoss(forward);
    ++forward;
  };
  while (forward < std::min(behind, micro_batches_)) run_forward();
  machine_.EnterPhase(step, Phase::kBackward);
  for (size_t backward = 0; backward < micro_batches_; ++backward) {
    RunBackward(backward);
    if (forward < micro_batches_) run_forward();
  }
}

// ScheduleGPipe: all passes forward, then all of them backward.
void Pipeline::RunAllForward(int32_t step) {
  for (size_t i = 0; i < micro_batches_; ++i) {
    RunForward(i);
    ComputeLoss(i);
  }
  machine_.EnterPhase(step, Phase::kBackward);
  for (size_t i = 0; i < micro_batches_; ++i) {
    Drop(back_sends_);  // the name is bound to what is received for the next
    RunBackward(i);
  }
}

bool Pipeline::KeepsOutputs() const { return is_last() && !settings().drops_outputs; }

// schedule._merge_outputs: all micro-batches' together, which the loop holds.
void Pipeline::Merge() {
  if (!KeepsOutputs()) return;
  std::vector<TensorId> merged;
  for (size_t i = 0; i < outputs_.names.size() && i < chunks_.size(); ++i) {
    TensorType type = machine_.tensor(chunks_[i]);
    if (type.dims.empty()) continue;
    type.dims[0] = CheckedMul(type.dims[0], static_cast<int64_t>(micro_batches_));
    merged.push_back(machine_.New(type, calls_.NameLabel(outputs_.names[i]), Kind::kActivation));
  }
  Drop(merged_);
  merged_ = std::move(merged);
}

// A name holds `tensors` from now on.
void Pipeline::Hold(std::vector<TensorId>& name, const std::vector<TensorId>& tensors) {
  for (const TensorId tensor : tensors) machine_.Retain(tensor);
  Drop(name);
  name = tensors;
}

void Pipeline::Drop(std::vector<TensorId>& name) {
  for (const TensorId tensor : std::exchange(name, {})) machine_.Release(tensor);
}

}  // namespace onnxfit
