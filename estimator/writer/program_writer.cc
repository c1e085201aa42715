#include "estimator/writer/program_writer.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "estimator/base/bytes.h"
#include "estimator/base/index.h"
#include "estimator/base/text.h"
#include "estimator/base/warnings.h"
#include "estimator/libraries/libraries.h"
#include "estimator/program/cached_functions.h"
#include "estimator/program/call_operands.h"
#include "estimator/program/module_tensors.h"
#include "estimator/program/recurrent_layers.h"
#include "estimator/writer/eager_attention.h"
#include "estimator/writer/fast_paths.h"
#include "estimator/writer/kept_casts.h"
#include "estimator/writer/loops_loss.h"
#include "estimator/writer/loss.h"
#include "estimator/writer/traced_solves.h"

namespace onnxfit {

ProgramWriter::ProgramWriter(const TrainingSettings& settings, std::string path)
    : settings_(settings), keeps_types_(settings.keeps_types), path_(std::move(path)) {}

NameId ProgramWriter::NewName(std::string name, const TensorType& type) {
  (void)BytesOf(type);  // refuses what 64 bits do not hold
  program_.values.push_back({std::move(name), {type, {}}});
  return static_cast<NameId>(program_.values.size() - 1);
}

void ProgramWriter::ListParameters(const std::vector<NameId>& parameters,
                                   const std::vector<bool>& is_frozen) {
  std::vector<std::string> names;
  for (const NameId name : parameters) names.push_back(program_.values[Index(name)].name);
  const std::vector<bool> picked =
      PickNames(names, settings_.freeze, {"--freeze", "parameters", path()});
  for (size_t i = 0; i < parameters.size(); ++i) {
    const bool is_out =
        picked[i] || settings_.lora.rank > 0 || (!is_frozen.empty() && is_frozen[i]);
    (is_out ? program_.frozen : program_.parameters).push_back(parameters[i]);
  }
}

void ProgramWriter::PlaceModule(const std::vector<std::string>& modules) {
  std::vector<std::string> names;
  for (const ProgramValue& value : program_.values) names.push_back(value.name);
  for (const size_t i : PlacementOrder(names, modules)) {
    program_.placement.push_back(static_cast<NameId>(i));
  }
  for (const size_t i : CopyOrder(names, modules)) {
    program_.copy_order.push_back(static_cast<NameId>(i));
  }
}

// As `op`, unless its operands are not what that takes.
std::string_view ProgramWriter::Checked(const CallPlace& place, std::string_view op,
                                        const std::vector<NameId>& inputs,
                                        const std::vector<NameId>& outputs,
                                        const std::vector<int64_t>& ints) {
  CallOperands operands = {.op = op, .ints = ints};
  std::vector<std::string> found;
  for (const NameId name : inputs) operands.inputs.push_back(DimsOf(name));
  for (const NameId name : outputs) operands.outputs.push_back(DimsOf(name));
  if (FitsRule(operands)) return op;
  for (const NameId name : inputs) {
    found.push_back(name == kNoName ? "none" : ToString(program_.values[Index(name)].type));
  }
  misfits_.try_emplace(std::string(op), place.where, fmt::format("{}", fmt::join(found, ", ")));
  return "?";
}

const Dims* ProgramWriter::DimsOf(NameId name) const {
  return name == kNoName ? nullptr : &program_.values[Index(name)].type.dims;
}

void ProgramWriter::Emit(const CallPlace& place, std::string_view op, std::vector<NameId> inputs,
                         std::vector<NameId> outputs, std::vector<int64_t> ints) {
  const std::string_view fitting = Checked(place, op, inputs, outputs, ints);
  program_.calls.push_back({.op = fitting,
                            .where = place.where,
                            .inputs = std::move(inputs),
                            .outputs = std::move(outputs),
                            .ints = std::move(ints),
                            .module = place.module,
                            .written_in_place = place.written_in_place,
                            .writes_over_first = place.writes_over_first,
                            .returns_first = place.returns_first,
                            .leaves_autocast = place.leaves_autocast,
                            .enters_autocast = place.enters_autocast,
                            .behind_autocast = place.behind_autocast,
                            .leaves_autograd = place.leaves_autograd,
                            .function = place.function,
                            .checkpoint = place.checkpoint,
                            .made_once = place.is_made_once,
                            .frames = place.frames});
}

void ProgramWriter::EmitUnknown(const CallPlace& place, std::string_view op,
                                std::vector<NameId> inputs, std::vector<NameId> outputs) {
  ++unknown_.emplace(op, 0).first->second;
  Emit(place, "?", std::move(inputs), std::move(outputs));
}

TensorType ProgramWriter::WithPrecision(TensorType type) const {
  if (!keeps_types_ && IsFloat(type.dtype) && BitsOf(type.dtype) >= 16)
    type.dtype = ParameterType(settings_.precision);
  return type;
}

void ProgramWriter::WarnOfUnknown(std::string_view unit) {
  for (const auto& [op, count] : unknown_) {
    program_.warnings.push_back(
        {warning::kUnknownOperator,
         fmt::format("no rule for {} ({} {}{}): {}, which may be too much or too little", op, count,
                     unit, count == 1 ? "" : "s",
                     trains() ? "all its inputs and outputs are kept until backward"
                              : "its results are taken as new tensors, and nothing beside them")});
  }
  WarnOfMisfits();
}

void ProgramWriter::WarnOfMisfits() {
  for (const auto& [op, found] : misfits_) {
    program_.warnings.push_back(
        {warning::kUnknownOperator,
         fmt::format("{} at {} was given {}, which PyTorch's does not take: all its inputs and "
                     "outputs are kept until backward, which may be too much or too little",
                     op, found.first, found.second)});
  }
}

namespace {

// Leaves out calls whose results nobody reads, of those that `may_go`.
// What a call reads that goes may have had the name that its statement binds.
void NoteRebindings(const AtenCall& call, int64_t behind, Program& program) {
  if (call.frames.empty() || call.frames.back() == kNoStatement) return;
  for (const NameId name : call.inputs) {
    if (name != kNoName)
      program.rebindings.push_back({name, behind, call.frames.back(), call.module});
  }
}

void DropUnread(Program& program, const std::function<bool(const AtenCall&)>& may_go) {
  std::vector<bool> read(program.values.size());
  for (const NameId name : program.outputs) read[Index(name)] = true;
  if (program.loss != kNoName) read[Index(program.loss)] = true;
  std::vector<AtenCall> kept;
  for (size_t i = program.calls.size(); i-- > 0;) {
    AtenCall& call = program.calls[i];
    const bool is_read = std::ranges::any_of(
        call.outputs, [&](NameId name) { return name != kNoName && read[Index(name)]; });
    if (!is_read && may_go(call)) {
      NoteRebindings(call, -static_cast<int64_t>(kept.size()), program);
      continue;
    }
    for (const NameId name : call.inputs) {
      if (name != kNoName) read[Index(name)] = true;
    }
    kept.push_back(std::move(call));
  }
  std::ranges::reverse(kept);
  program.calls = std::move(kept);
  for (Rebinding& rebinding : program.rebindings) {
    rebinding.behind += static_cast<int64_t>(program.calls.size()) - 1;
  }
}

// Before what else was assumed, as the first thing that is decided.
void SayFrozen(Program& program, const TrainingSettings& settings) {
  const bool is_told = settings.lora.rank > 0;  // with the adapters
  if (program.frozen.empty() || settings.mode == Mode::kEval || is_told) return;
  const bool has_batch_norm = std::ranges::any_of(
      program.calls, [](const AtenCall& call) { return call.op == "batch_norm"; });
  program.assumptions.insert(
      program.assumptions.begin(),
      fmt::format(
          "{} of {} parameters are frozen{}", program.frozen.size(),
          program.frozen.size() + program.parameters.size(),
          has_batch_norm ? "; batch norms among their layers still run in training mode" : ""));
}

void WarnOfUnrolled(Program& program) {
  const std::vector<std::string> layers = UnrolledLayers(program);
  if (layers.empty()) return;
  const std::string more =
      layers.size() == 1 ? " is" : fmt::format(" and {} more are", layers.size() - 1);
  program.warnings.push_back(
      {warning::kLostAnswers,
       fmt::format("{}{} taken apart step by step, and counted so: on a card cuDNN runs such a "
                   "layer as one call, which takes more or less (try: the module from Python, or "
                   "torch.export.save without run_decompositions())",
                   layers[0].empty() ? "the model" : layers[0], more)});
}

void WarnOfUnreached(Program& program, const TrainingSettings& settings) {
  if (settings.mode == Mode::kEval || program.loss == kNoName) return;
  const size_t unreached = UnreachedParameters(program).size();
  if (unreached == 0) return;
  // Reducer::ensure_prior_reduction_finished, torch/csrc/distributed/c10d/reducer.cpp, v2.11.0.
  const Strategy strategy = settings.ranks.strategy;
  const bool waits = strategy == Strategy::kDdp || strategy == Strategy::kZeroRedundancy;
  program.warnings.push_back(
      {warning::kNotTrainable,
       fmt::format("{} of {} parameters are not on the way to the loss: they get no gradient and "
                   "no optimizer state (--loss-output names another output){}",
                   unreached, program.parameters.size(),
                   waits ? "; without find_unused_parameters=True DistributedDataParallel waits "
                           "for them, and raises in the second step"
                         : "")});
}

void FindMadeOnce(Program& program, const TrainingSettings& settings) {
  if (program.is_as_watched) return;
  for (AtenCall& call : program.calls) {
    const bool indexes = call.op == "index" || call.op == "embedding";
    call.made_once = call.made_once || (indexes && settings.mode == Mode::kEval &&
                                        IsIndexedOnce(program.values[Index(call.inputs[0])].name));
  }
  for (const CachedRun& run : FindCachedRuns(program)) {
    for (int64_t i = run.first; i <= run.last && run.is_kept; ++i) {
      program.calls[Index(i)].made_once = true;
    }
  }
}

}  // namespace

void LibraryModel::LookIn(std::span<const std::string_view> classes) {
  for (size_t i = 0; i < classes.size() && !is_known(); ++i) {
    if (!classes[i].starts_with("transformers.models.")) continue;
    class_name = classes[i];
    level = i;
  }
}

void FinishProgram(ProgramWriter& writer, NameId loss_output, const LibraryModel& model,
                   const std::function<bool(const AtenCall&)>& is_leftover) {
  Program& program = writer.program();
  const TrainingSettings& settings = writer.settings();
  AppendLoopsLoss(writer, loss_output, model);
  WriteAttentionOut(program, settings);
  PutSolvesBack(program);
  DropUnread(program, is_leftover);
  TakeFastPaths(program, settings);
  FindMadeOnce(program, settings);
  KeepCastsOfBuffers(program);
  SayFrozen(program, settings);
  WarnOfUnreached(program, settings);
  WarnOfUnrolled(program);
}

NameId AddValue(Program& program, std::string name, const TensorType& type) {
  program.values.push_back({std::move(name), {type, {}}});
  return static_cast<NameId>(program.values.size()) - 1;
}

AtenCall CallAt(const AtenCall& at, std::string_view op, std::vector<NameId> inputs,
                std::vector<NameId> outputs, std::vector<int64_t> ints) {
  AtenCall call = at;
  call.op = op;
  call.inputs = std::move(inputs);
  call.outputs = std::move(outputs);
  call.ints = std::move(ints);
  return call;
}

}  // namespace onnxfit
