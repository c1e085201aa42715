#include "estimator/writer/loops_loss.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "estimator/base/error.h"
#include "estimator/base/index.h"
#include "estimator/libraries/libraries.h"
#include "estimator/writer/loss.h"
#include "estimator/writer/smoothed_losses.h"

namespace onnxfit {
namespace {

constexpr const char* kLoss = "loss";
constexpr std::string_view kDecoderInputs = "decoder_input_ids";

TensorType TypeIn(ProgramWriter& writer, NameId name) {
  return writer.program().values[Index(name)].type;
}

// convert_outputs_to_fp32(model.forward): what autocast has left in 16 bits, of `further`, too,
// unless that is kNoName, which no other caller sees.  Returns what becomes of `taken`.
NameId CastOutputs(ProgramWriter& writer, NameId taken, NameId further) {
  Program& program = writer.program();
  std::vector<NameId> given;
  std::vector<NameId> outputs = program.outputs;
  if (further != kNoName) outputs.push_back(further);
  for (NameId& output : outputs) {
    TensorType type = TypeIn(writer, output);
    if (!IsFloat(type.dtype)) continue;
    type.dtype = DType::kFloat32;
    given.push_back(output);
    const NameId cast = writer.NewName(program.values[Index(output)].name + ".float", type);
    writer.Emit({.where = "outputs", .behind_autocast = true}, "to", {output}, {cast});
    output = cast;
    if (given.back() == taken) taken = cast;
  }
  if (!given.empty()) HoldUntilLast(program, given);
  outputs.resize(program.outputs.size());
  program.outputs = std::move(outputs);
  return taken;
}

bool CastsOutputs(const TrainingSettings& settings) {
  return AutocastType(settings.precision) != DType::kUndefined &&
         DoesLoop(settings.loop.library, LoopFact::kCastsOutputs);
}

// Where the model takes their number.
void CountLabels(ProgramWriter& writer, NameId labels, uint8_t does) {
  if ((does & ModelLoss::kTakesNoCount) != 0) return;
  LabelCount& counted = writer.program().label_count;
  counted.count = writer.NewName("num_items_in_batch", {DType::kInt64, {}});
  counted.labels = labels;
  counted.is_shifted = (does & ModelLoss::kShiftsLabels) != 0;
}

// --- In the model's forward -----------------------------------------------------------------

class LossInModel {
 public:
  LossInModel(ProgramWriter& writer, const LibraryModel& model)
      : writer_(writer),
        program_(writer.program()),
        does_(LossOfModel(model.class_name).does),
        level_(model.level),
        place_({.where = kLoss, .module = InForwardOf(model)}) {}

  void Append(NameId output, NameId labels) {
    CountLabels(writer_, labels, does_);
    if ((does_ & ModelLoss::kShiftsInputs) != 0) MakeDecoderInputs();
    if ((does_ & ModelLoss::kShiftsLabels) != 0) {
      output = InFp32(output);
      labels = Shifted(labels);
    }
    const bool adds = (does_ & ModelLoss::kAddsAuxiliary) != 0;
    const NameId auxiliary = adds ? LogitsOfAuxiliary(output) : kNoName;
    AppendLoss(writer_, place_, output, labels, Loss::kCrossEntropy);
    if ((does_ & ModelLoss::kDivides) != 0) Divide();
    if (auxiliary != kNoName) AddAuxiliary(auxiliary, labels);
    HoldUntilLast(program_, locals_);
  }

  // What the model returns beside its logits: the last state of an encoder (Seq2SeqLMOutput), else
  // kNoName.
  NameId StateOfEncoder() const {
    if ((does_ & ModelLoss::kShiftsInputs) == 0) return kNoName;
    for (size_t i = program_.calls.size(); i-- > 0;) {
      const AtenCall& call = program_.calls[i];
      const bool is_inside = program_.modules.DepthOf(call.module) > level_ + 1;
      if (is_inside && ChildOf(program_.modules.NameAt(call.module, level_ + 1)) == "encoder")
        return call.outputs[0];
    }
    return kNoName;
  }

 private:
  // auxiliary_loss = loss_fct(auxiliary_logits, labels); loss += weight * auxiliary_loss
  void AddAuxiliary(NameId logits, NameId labels) {
    const NameId loss = program_.loss;
    AppendLoss(writer_, place_, logits, labels, Loss::kCrossEntropy);
    const TensorType type = TypeIn(writer_, loss);
    locals_.push_back(program_.loss);
    const NameId weighted = Make("mul.Scalar", program_.loss, "auxiliary_loss * weight", type);
    program_.loss = writer_.NewName("loss + auxiliary", type);
    writer_.Emit(place_, "add", {loss, weighted}, {program_.loss});
  }

  // What else the model's own forward makes that is of the type of its logits, its last; kNoName
  // where it has none.
  NameId LogitsOfAuxiliary(NameId output) const {
    for (size_t i = program_.calls.size(); i-- > 0;) {
      const AtenCall& call = program_.calls[i];
      const bool is_own = call.module == place_.module && call.outputs.size() == 1;
      if (!is_own || call.outputs[0] == output || call.outputs[0] == kNoName) continue;
      if (TypeIn(writer_, call.outputs[0]) == TypeIn(writer_, output)) return call.outputs[0];
    }
    return kNoName;
  }

  // The module that calls what the last call is in; outside of all where no class is known.
  ModuleId InForwardOf(const LibraryModel& model) const {
    if (!model.is_known()) return kOutside;
    for (size_t i = program_.calls.size(); i-- > 0;) {
      const ModuleId module = program_.calls[i].module;
      if (program_.modules.DepthOf(module) > model.level)
        return program_.modules.AtLevel(module, model.level);
    }
    return kOutside;
  }

  // decoder_input_ids = self._shift_right(labels), when the decoder is about to read them: a new
  // tensor, that the forward's name holds.
  void MakeDecoderInputs() {
    std::vector<NameId>& inputs = program_.inputs;
    const auto input = std::ranges::find_if(
        inputs, [&](NameId name) { return program_.values[Index(name)].name == kDecoderInputs; });
    if (input == inputs.end()) return;
    const NameId ids = *input;
    inputs.erase(input);
    std::vector<AtenCall>& calls = program_.calls;
    const auto reader = std::ranges::find_if(calls, [&](const AtenCall& call) {
      return std::ranges::find(call.inputs, ids) != call.inputs.end();
    });
    const auto at = reader - calls.begin();
    writer_.Emit(place_, "constant", {}, {ids});
    calls.back().held.push_back({ids, level_});
    std::rotate(calls.begin() + at, calls.end() - 1, calls.end());
  }

  NameId Make(std::string_view op, NameId input, const char* name, const TensorType& type) {
    const NameId made = writer_.NewName(name, type);
    writer_.Emit(place_, op, {input}, {made});
    return made;
  }

  NameId InFp32(NameId logits) {
    TensorType type = TypeIn(writer_, logits);
    type.dtype = DType::kFloat32;
    locals_.push_back(Make("to", logits, "logits.float", type));
    return locals_.back();
  }

  // labels = pad(labels, (0, 1)); shift_labels = labels[..., 1:].contiguous()
  NameId Shifted(NameId labels) {
    const TensorType type = TypeIn(writer_, labels);
    if (type.dims.empty()) return labels;
    TensorType longer = type;
    ++longer.dims.back();
    const NameId padded = Make("pad", labels, "labels.padded", longer);
    const NameId part = Make("slice", padded, "labels[..., 1:]", type);
    const NameId shifted = Make("contiguous", part, "shift_labels", type);
    locals_.insert(locals_.end(), {padded, shifted});
    return shifted;
  }

  // loss = loss / num_items_in_batch
  void Divide() {
    const NameId sum = std::exchange(
        program_.loss, writer_.NewName("loss / items", TypeIn(writer_, program_.loss)));
    writer_.Emit(place_, "div", {sum, program_.label_count.count}, {program_.loss});
  }

  ProgramWriter& writer_;
  Program& program_;
  const uint8_t does_;
  const size_t level_;  // of the model's forward
  const CallPlace place_;
  std::vector<NameId> locals_;  // of the function that computes it
};

// The loss that was asked for where it is none of logits and classes.
bool IsTheModels(const TrainingSettings& settings, Loss loss) {
  return IsOfClasses(loss) && !settings.label_smoothing &&
         DoesLoop(settings.loop.library, LoopFact::kModelTakesLabels);
}

// A loss behind the model: smoothed labels are the library's own to take, where it has a formula.
void AppendBehind(ProgramWriter& writer, bool casts, NameId output, NameId labels, Loss loss,
                  const LibraryModel& model) {
  const TrainingSettings& settings = writer.settings();
  const CallPlace place = {.where = kLoss, .behind_autocast = casts};
  if (loss == Loss::kNone) return AppendLoss(writer, place, output, labels, loss);
  const LoopLibrary library = settings.loop.library;
  if (settings.label_smoothing && DoesLoop(library, LoopFact::kModelTakesLabels)) {
    const uint8_t does = LossOfModel(model.class_name).does;
    CountLabels(writer, labels, does);
    return AppendTrainerSmoothing(writer, place, output, labels,
                                  {.shifts = (does & ModelLoss::kIsCausalLm) != 0,
                                   .count = writer.program().label_count.count,
                                   .outputs = writer.program().outputs});
  }
  if (settings.mixup) return AppendTimmSoftTargets(writer, place, output, labels);
  if (settings.label_smoothing && DoesLoop(library, LoopFact::kSmoothsLabels))
    return AppendTimmSmoothing(writer, place, output, labels);
  AppendLoss(writer, place, output, labels, loss);
}

// A library's other losses are not known.
void CheckTellsClasses(ProgramWriter& writer, NameId output) {
  const TrainingSettings& settings = writer.settings();
  const bool is_asked = DoesLoop(settings.loop.library, LoopFact::kTellsClasses) &&
                        settings.loss == Loss::kCrossEntropy;
  const size_t dims = TypeIn(writer, output).dims.size();
  if (!is_asked || dims == 2) return;
  throw Error({.where = "--loop",
               .text = fmt::format(
                   "expected a model that tells classes with {}, found an output of {} dimensions: "
                   "losses of detection, masks and keypoints, which match predictions with the "
                   "boxes of data, are not known here",
                   ToString(settings.loop.library), dims),
               .hint = "--loss mse, or none, without what such a loss takes"});
}

}  // namespace

void AppendLoopsLoss(ProgramWriter& writer, NameId output, const LibraryModel& model) {
  const TrainingSettings& settings = writer.settings();
  const bool has_loss = output != kNoName;
  if (has_loss) CheckTellsClasses(writer, output);
  const Loss loss_kind = has_loss ? LossOf(settings.loss, TypeIn(writer, output)) : settings.loss;
  const bool in_model = has_loss && IsTheModels(settings, loss_kind) && TakesLoss(settings);
  const NameId labels = has_loss ? AddLabels(writer, output, loss_kind, settings.labels) : kNoName;
  if (settings.mixup && labels != kNoName) {
    TensorType& targets = writer.program().values[Index(labels)].type;
    targets = TypeIn(writer, output);
    targets.dtype = DType::kFloat32;
  }
  NameId state = kNoName;
  if (in_model) {
    LossInModel loss(writer, model);
    state = loss.StateOfEncoder();
    loss.Append(output, labels);
    // Evaluation keeps all that the model returns.
    if (settings.is_evaluation && state != kNoName)
      writer.program().outputs.push_back(std::exchange(state, kNoName));
  }
  const bool casts = CastsOutputs(settings);
  if (casts) output = CastOutputs(writer, output, state);
  if (!has_loss || in_model || !TakesLoss(settings)) return;
  AppendBehind(writer, casts, output, labels, loss_kind, model);
}

}  // namespace onnxfit
