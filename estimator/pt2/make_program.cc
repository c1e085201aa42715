#include "estimator/pt2/make_program.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "estimator/base/error.h"
#include "estimator/base/expression.h"
#include "estimator/base/index.h"
#include "estimator/base/warnings.h"
#include "estimator/names/lifetimes.h"
#include "estimator/onnx/named_sizes.h"
#include "estimator/program/stored_type.h"
#include "estimator/program/ties.h"
#include "estimator/pt2/call_writer.h"
#include "estimator/pt2/own_types.h"
#include "estimator/pt2/read_program.h"
#include "estimator/pt2/schema.h"
#include "estimator/pt2/sizes_of_data.h"
#include "estimator/pt2/ties_apart.h"
#include "estimator/writer/loss.h"

namespace onnxfit::pt2 {
namespace {

// The one symbol in `expression`; "" where it has none, or several.
std::string_view SymbolIn(std::string_view expression) {
  constexpr std::string_view kLetters =
      "_0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";
  std::string_view symbol;
  size_t end = 0;
  while ((end = expression.find_first_of(kLetters, end)) != expression.npos) {
    const size_t begin = end;
    end = std::min(expression.find_first_not_of(kLetters, begin), expression.size());
    const std::string_view word = expression.substr(begin, end - begin);
    const bool is_function = end < expression.size() && expression[end] == '(';
    if (is_function || (word[0] >= '0' && word[0] <= '9') || word == symbol) continue;
    if (!symbol.empty()) return "";
    symbol = word;
  }
  return symbol;
}

bool IsSymbol(std::string_view expression) {
  return !expression.empty() && SymbolIn(expression) == expression;
}

// Symbols that are no input's size alone: H = 32*s0.
void SolveSymbols(const ExportedProgram& exported, const onnxfit::Graph& file, const Shapes& shapes,
                  SymbolValues& symbols) {
  const auto inputs = InputsOf(exported);
  for (size_t i = 0; i < inputs.size() && i < file.inputs.size(); ++i) {
    const Dims& dims = shapes.types[Index(file.inputs[i])].tensor.dims;
    for (size_t axis = 0; axis < dims.size(); ++axis) {
      const std::string_view expression = inputs[i].second->sizes[axis].expression;
      const std::string_view symbol = SymbolIn(expression);
      if (symbol.empty() || symbols.contains(symbol)) continue;
      const std::optional<int64_t> value = SolveFor(symbol, expression, dims[axis]);
      if (value.has_value()) {
        symbols.emplace(symbol, *value);
        continue;
      }
      throw Error({.file = file.path,
                   .where = fmt::format("input '{}'", inputs[i].first),
                   .text = fmt::format("dimension {} is {} in the export, found {}, which it "
                                       "cannot be",
                                       axis, expression, dims[axis]),
                   .hint = ""});
    }
  }
}

SymbolValues SymbolsOf(const ExportedProgram& exported, const onnxfit::Graph& file,
                       const Shapes& shapes) {
  SymbolValues symbols;
  const auto inputs = InputsOf(exported);
  for (size_t i = 0; i < inputs.size() && i < file.inputs.size(); ++i) {
    const Dims& dims = shapes.types[Index(file.inputs[i])].tensor.dims;
    for (size_t axis = 0; axis < dims.size(); ++axis) {
      const std::string_view symbol = inputs[i].second->sizes[axis].expression;
      if (IsSymbol(symbol)) symbols.emplace(symbol, dims[axis]);
    }
  }
  SolveSymbols(exported, file, shapes, symbols);
  return symbols;
}

// torch.export's argument that frees what is wanted otherwise and what is free, an entry for each
// argument of forward: a dict would need all of their names.
std::string DynamicShapesOf(const ExportedProgram& exported, const onnxfit::Graph& file,
                            const Shapes& shapes) {
  std::vector<std::vector<std::string>> free;
  const auto inputs = InputsOf(exported);
  for (size_t i = 0; i < inputs.size() && i < file.inputs.size(); ++i) {
    const Dims& dims = shapes.types[Index(file.inputs[i])].tensor.dims;
    std::vector<std::string>& axes = free.emplace_back();
    for (size_t axis = 0; axis < dims.size(); ++axis) {
      const Size& size = inputs[i].second->sizes[axis];
      if (size.expression.empty() && size.number == dims[axis]) continue;
      axes.push_back(fmt::format("{}: torch.export.Dim.DYNAMIC", axis));
    }
  }
  return DynamicShapes(free);
}

// A .pt2 computes with the numbers that were written at the export.
void RefuseOtherSizes(const ExportedProgram& exported, const onnxfit::Graph& file,
                      const Shapes& shapes) {
  const auto inputs = InputsOf(exported);
  for (size_t i = 0; i < inputs.size() && i < file.inputs.size(); ++i) {
    const auto& [name, tensor] = inputs[i];
    const Dims& dims = shapes.types[Index(file.inputs[i])].tensor.dims;
    for (size_t axis = 0; axis < dims.size(); ++axis) {
      const Size& size = tensor->sizes[axis];
      if (!size.expression.empty() || size.number == dims[axis]) continue;
      throw Error({.file = file.path,
                   .where = fmt::format("input '{}'", name),
                   .text = fmt::format("dimension {} is {} in the export, which has it fixed, "
                                       "found {}",
                                       axis, size.number, dims[axis]),
                   .hint = fmt::format("export it with {}{}",
                                       size.number == 1 ? "2 or more there, and " : "",
                                       DynamicShapesOf(exported, file, shapes))});
    }
  }
}

// Exports at one size are specialized to it where code branches on it: sizes outside of the range
// run as the others do, as far as the calls say.
void SayRanges(const ExportedProgram& exported, const SymbolValues& symbols, Program& program) {
  for (const auto& [symbol, value] : symbols) {
    const auto range = exported.ranges.find(symbol);
    if (range == exported.ranges.end()) continue;
    const bool is_below = range->second.low && value < *range->second.low;
    const bool is_above = range->second.high && value > *range->second.high;
    if (!is_below && !is_above) continue;
    program.assumptions.push_back(fmt::format(
        "{} is {}, which the export does not allow (from {}{}): its calls are taken to be the same",
        symbol, value, range->second.low.value_or(0),
        range->second.high ? fmt::format(" to {}", *range->second.high) : ""));
  }
}

// Whether calls that tell modes apart were exported in training; nullopt where there is none.
std::optional<bool> ExportedInTraining(const ExportedProgram& exported) {
  for (const Call& call : exported.graph.calls) {
    for (const auto& [name, argument] : call.arguments) {
      const bool tells = name == "train" || name == "training";
      if (tells && argument.kind == Argument::Kind::kBool) return argument.number != 0;
    }
  }
  return std::nullopt;
}

void WarnOfMode(const ExportedProgram& exported, const TrainingSettings& settings,
                Program& program) {
  const std::optional<bool> trained = ExportedInTraining(exported);
  const bool trains = settings.mode == Mode::kTrain;
  if (!trained.has_value() || *trained == trains || IsWholeStep(program)) return;
  program.warnings.push_back(
      {warning::kOtherMode,
       fmt::format("exported in {} mode: dropouts and batch norms are run as in {}, but what else "
                   "the model does there is not in the file (try: model.{}() before "
                   "torch.export.export)",
                   *trained ? "training" : "eval", trains ? "training" : "eval",
                   trains ? "train" : "eval")});
}

void TellTypes(const ExportedProgram& exported, const TrainingSettings& settings,
               Program& program) {
  const std::vector<TensorType> floats = FloatsOf(exported);
  const auto told = settings.keeps_types ? TellKeptTypes(floats, settings.precision)
                                         : TellCastTypes(floats, settings.precision);
  if (told.has_value()) program.assumptions.push_back(*told);
}

// Nullptr where no free dimension is said to be the batch.
const Size* ToldBatch(const ExportedProgram& exported) {
  const std::optional<BatchPlace> place = ParseBatchPlace(exported.batch_place);
  if (!place.has_value()) return nullptr;
  const auto axis = static_cast<size_t>(place->axis);
  for (const auto& [name, tensor] : InputsOf(exported)) {
    if (name != place->input || axis >= tensor->sizes.size()) continue;
    return IsSymbol(tensor->sizes[axis].expression) ? &tensor->sizes[axis] : nullptr;
  }
  return nullptr;
}

// All free dimensions that were as large at the export.
void ShareToldBatch(const ExportedProgram& exported, const Size& batch,
                    std::vector<DeclaredTensor>& inputs) {
  size_t i = 0;
  for (const auto& [name, tensor] : InputsOf(exported)) {
    DeclaredTensor& input = inputs[i++];
    for (size_t axis = 0; axis < tensor->sizes.size(); ++axis) {
      const Size& size = tensor->sizes[axis];
      if (!IsSymbol(size.expression) || !size.hint.has_value() || size.hint != batch.hint) continue;
      input.dims[axis].name = batch.expression;
    }
  }
}

// Inputs whose first dimensions are free, each under a symbol of its own, and were of one size at
// the export, have one batch: torch.export leaves open what no call compares.
void ShareBatch(const ExportedProgram& exported, std::vector<DeclaredTensor>& inputs) {
  if (const Size* const told = ToldBatch(exported)) return ShareToldBatch(exported, *told, inputs);
  const Size* batch = nullptr;
  size_t i = 0;
  for (const auto& [name, tensor] : InputsOf(exported)) {
    DeclaredTensor& input = inputs[i++];
    if (tensor->sizes.empty() || !IsSymbol(tensor->sizes[0].expression)) continue;
    const Size& size = tensor->sizes[0];
    if (batch == nullptr) batch = &size;
    if (size.hint.has_value() && size.hint == batch->hint) {
      input.dims[0].name = batch->expression;
    }
  }
}

// Sizes that follow from others are what they were: the calls are written at what they follow to.
void FixDerived(const ExportedProgram& exported, std::vector<DeclaredTensor>& inputs) {
  SymbolValues hints;
  for (const auto& [name, tensor] : InputsOf(exported)) {
    for (const Size& size : tensor->sizes) {
      if (IsSymbol(size.expression)) hints.emplace(size.expression, size.hint.value_or(1));
    }
  }
  size_t i = 0;
  for (const auto& [name, tensor] : InputsOf(exported)) {
    DeclaredTensor& input = inputs[i++];
    for (size_t axis = 0; axis < tensor->sizes.size(); ++axis) {
      const Size& size = tensor->sizes[axis];
      const std::optional<int64_t> value = Evaluate(size.expression, hints);
      const bool is_derived = !size.expression.empty() && !IsSymbol(size.expression);
      if (is_derived && value.value_or(-1) >= 0) input.dims[axis] = {*value, ""};
    }
  }
}

LibraryModel ModelOf(const ExportedProgram& exported) {
  LibraryModel model;
  for (const Call& call : exported.graph.calls) {
    std::vector<std::string_view> classes;
    for (const ModuleFrame& module : call.modules) classes.push_back(module.type);
    model.LookIn(classes);
    if (model.is_known()) break;
  }
  return model;
}

NameId LossOutput(CallWriter& writer, const TrainingSettings& settings) {
  std::vector<NamedOutput> outputs;
  if (IsWholeStep(writer.program())) return kNoName;  // it goes backward itself
  for (const auto& [name, value] : writer.named_outputs()) {
    outputs.push_back({name, writer.program().values[Index(value)].type.dtype});
  }
  const auto found = FindLossOutput(writer.path(), outputs, settings.loss_output);
  return found ? writer.named_outputs()[*found].second : kNoName;
}

}  // namespace

onnxfit::Graph InputGraph(ExportedProgram exported) {
  std::vector<DeclaredTensor> inputs;
  for (const auto& [name, tensor] : InputsOf(exported)) {
    DeclaredTensor input = {.name = std::string(name), .dtype = tensor->dtype, .dims = {}};
    for (const Size& size : tensor->sizes) {
      input.dims.push_back({size.number, std::string(size.expression)});
    }
    inputs.push_back(std::move(input));
  }
  ShareBatch(exported, inputs);
  FixDerived(exported, inputs);
  onnxfit::Graph graph = GraphOfInputs(exported.path, inputs);
  graph.digest = exported.digest;
  graph.notes = exported.notes;
  graph.torch = exported.torch.empty()
                    ? TorchOfSchema({exported.schema_major, exported.schema_minor})
                    : exported.torch;
  for (const std::string_view symbol : SizesOfData(exported)) {
    graph.metadata.emplace_back(kSizeOfData, symbol);
  }
  graph.exported = std::make_shared<const ExportedProgram>(std::move(exported));
  if (!graph.exported->batch_place.empty()) {
    graph.metadata.emplace_back(kBatchPlace, graph.exported->batch_place);
  }
  return graph;
}

MadeProgram MakeProgram(const onnxfit::Graph& file, const Shapes& shapes,
                        const TrainingSettings& settings,
                        const std::map<std::string, int64_t>& sizes_of_data) {
  const ExportedProgram& exported = *file.exported;
  RefuseOtherSizes(exported, file, shapes);
  SymbolValues symbols = SymbolsOf(exported, file, shapes);
  BindSizesOfData(file, sizes_of_data, symbols);
  std::optional<ExportedProgram> apart;
  if (KeepsTiesApart(settings)) apart = WithTiesApart(exported);
  CallWriter writer(apart ? *apart : exported, symbols, settings);
  writer.WriteForward();
  const std::vector<NameId> inputs = writer.program().inputs;
  FinishProgram(writer, LossOutput(writer, settings), ModelOf(exported),
                [&](const AtenCall& call) { return writer.IsLeftover(call); });
  if (exported.watching) {
    PlaceObservedDeaths(writer.program(), settings, writer.LivesAsWatched());
  } else {
    PlaceDeaths(writer.program(), settings, exported.is_as_written);
  }
  MadeProgram made = {writer.TakeProgram(), writer.TakeTensors()};
  made.program.name_of.assign(file.values.size(), kNoName);
  for (size_t i = 0; i < std::min(file.inputs.size(), inputs.size()); ++i) {
    made.program.name_of[Index(file.inputs[i])] = inputs[i];
  }
  made.program.assumptions.insert(made.program.assumptions.begin(), exported.assumptions.begin(),
                                  exported.assumptions.end());
  TellTypes(exported, settings, made.program);
  SayRanges(exported, symbols, made.program);
  WarnOfMode(exported, settings, made.program);
  return made;
}

}  // namespace onnxfit::pt2
