// Contexts and branches.
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "estimator/base/bytes.h"
#include "estimator/base/expression.h"
#include "estimator/base/index.h"
#include "estimator/base/warnings.h"
#include "estimator/pt2/call_rows.h"
#include "estimator/pt2/call_writer.h"
#include "estimator/pt2/schema.h"

namespace onnxfit::pt2 {
namespace {

using Kind = Argument::Kind;

constexpr std::string_view kHigherOrder = "torch.ops.higher_order.";
constexpr std::string_view kCheckpointFile = "torch/utils/checkpoint.py";

// Of wrap_with_autocast (device, dtype, enabled, cache_enabled, body, …) and
// wrap_with_set_grad_enabled (enabled, body, …), by position.
bool IsEnabled(const Call& call) {
  for (const auto& [name, argument] : call.arguments) {
    if (argument.kind == Kind::kBool) return argument.number != 0;
  }
  return true;
}

// What autocast on CUDA casts to: fp16, unless another is given.
DType DTypeOfAutocast(const Call& call) {
  if (call.arguments.size() < 2 || call.arguments[1].second.kind != Kind::kText)
    return DType::kFloat16;
  return ScalarTypeOf(call.arguments[1].second.text);
}

// use_reentrant=False begins with a tensor of its own, which torch.export writes down: "return
// torch.empty((0,))" of _NoopSaveInputs (torch/utils/checkpoint.py, pytorch v2.11.0).
bool BeginsCheckpoint(const Call& call) {
  return !call.lines.empty() && call.lines.back().file.ends_with(kCheckpointFile) &&
         call.target.starts_with("torch.ops.aten.empty");
}

// Where checkpoint_sequential runs its modules, those of the last segment under no checkpoint:
// "input = functions[j](input)".
bool IsOfSequence(const SourceLine& line) {
  return line.text.find("functions[j]") != std::string_view::npos;
}

// Under how many reentrant checkpoints the calls of `body` are: use_reentrant=True runs what it is
// given under no_grad, and once more in backward.
int64_t CheckpointsAround(const Graph& body) {
  int64_t most = 0;
  for (const Call& call : body.calls) {
    if (BeginsCheckpoint(call)) continue;
    const auto around = std::ranges::count_if(call.lines, [](const SourceLine& line) {
      return line.file.ends_with(kCheckpointFile) && !IsOfSequence(line);
    });
    most = std::max<int64_t>(most, around);
  }
  return most;
}

}  // namespace

std::vector<const Argument*> BodiesOf(const Call& call) {
  std::vector<const Argument*> bodies;
  for (const auto& [name, argument] : call.arguments) {
    if (argument.kind == Kind::kGraph && argument.graph != nullptr) bodies.push_back(&argument);
  }
  return bodies;
}

std::vector<const std::vector<Argument>*> ListsOf(const Call& call) {
  std::vector<const std::vector<Argument>*> lists;
  for (const auto& [name, argument] : call.arguments) {
    if (argument.kind == Kind::kList) lists.push_back(&argument.items);
  }
  return lists;
}

std::vector<Argument> ResultsOf(const Call& call) {
  std::vector<Argument> results;
  for (const Argument& result : call.results) {
    if (result.kind != Kind::kList) results.push_back(result);
    results.insert(results.end(), result.items.begin(), result.items.end());
  }
  return results;
}

struct HigherOrderRow {
  std::string_view name;
  void (CallWriter::*write)(const Call& call);

  static const HigherOrderRow* Find(std::string_view target) {
    static constexpr HigherOrderRow kRows[] = {
        {"wrap_with_autocast", &CallWriter::WriteInline},
        {"wrap_with_set_grad_enabled", &CallWriter::WriteInline},
        {"tag_activation_checkpoint", &CallWriter::WriteInline},
        {"wrap_activation_checkpoint", &CallWriter::WriteInline},
        {"wrap", &CallWriter::WriteInline},
        {"hints_wrapper", &CallWriter::WriteInline},
        {"invoke_subgraph", &CallWriter::WriteInline},
        {"strict_mode", &CallWriter::WriteInline},
        {"cond", &CallWriter::WriteCond},
        {"while_loop", &CallWriter::WriteWhile},
        {"scan", &CallWriter::WriteScan},
        {"map_impl", &CallWriter::WriteMap},
    };
    if (!target.starts_with(kHigherOrder)) return nullptr;
    const auto* const row =
        std::ranges::find(kRows, target.substr(kHigherOrder.size()), &HigherOrderRow::name);
    return row == std::end(kRows) ? nullptr : row;
  }
};

bool HasBodies(const Call& call) { return !BodiesOf(call).empty(); }

void CallWriter::WriteBodies(const Call& call) {
  const HigherOrderRow* const row = HigherOrderRow::Find(call.target);
  row == nullptr ? WriteUnknown(call) : (this->*row->write)(call);
}

namespace {

// Of its inputs, and of what its calls read and make.
std::set<std::string_view> NamesIn(const Graph& body) {
  std::set<std::string_view> names;
  for (const Argument& input : body.inputs) AddNames(input, names);
  for (const Call& call : body.calls) {
    for (const auto& [name, argument] : call.arguments) AddNames(argument, names);
    for (const Argument& result : call.results) AddNames(result, names);
  }
  return names;
}

}  // namespace

// --- Bodies ------------------------------------------------------------------------------------

std::vector<NameId> CallWriter::Run(const Graph& body, const std::vector<NameId>& operands) {
  std::map<std::string_view, NameId> outer;
  for (const std::string_view name : NamesIn(body)) {
    const auto found = names_.find(name);
    outer[name] = found == names_.end() ? kNoName : found->second;
  }
  size_t next = 0;
  for (const Argument& input : body.inputs) {
    if (input.kind == Kind::kTensor && next < operands.size())
      names_[input.text] = operands[next++];
  }
  graphs_.push_back(&body);
  WriteCalls(body);
  std::vector<NameId> results;
  for (const Argument& output : body.outputs) results.push_back(TensorOf(output));
  graphs_.pop_back();
  for (const auto& [name, before] : outer) {
    if (before == kNoName) {
      names_.erase(name);
    } else {
      names_[name] = before;
    }
  }
  return results;
}

std::vector<NameId> CallWriter::RunApart(const Graph& body, const std::vector<NameId>& operands) {
  const auto casts = std::exchange(spelled_casts_, {});
  ++loops_;
  std::vector<NameId> results = Run(body, operands);
  --loops_;
  spelled_casts_ = casts;
  return results;
}

void CallWriter::Bind(const Call& call, const std::vector<NameId>& results) {
  const std::vector<Argument> given = ResultsOf(call);
  for (size_t i = 0; i < std::min(given.size(), results.size()); ++i) {
    if (given[i].kind == Kind::kTensor) names_[given[i].text] = results[i];
  }
}

// --- Contexts ----------------------------------------------------------------------------------

// Where PyTorch sees no GPU, it turns a block for one off, and the file says no more than that: of
// a block with a type of its own, which none needs that is off, that is likely.
void CallWriter::SayDisabled(const Call& call) {
  if (IsEnabled(call) || DTypeOfAutocast(call) == DType::kFloat16) return;
  const std::string text = fmt::format(
      "torch.autocast(dtype=torch.{}) is off in the file, as it is where torch.export sees no GPU: "
      "taken so (try: an export on a machine with one)",
      Name(DTypeOfAutocast(call)));
  const auto is_said = [&](const Warning& warning) { return warning.text == text; };
  if (std::ranges::none_of(program_.warnings, is_said)) {
    program_.warnings.push_back({warning::kLostAnswers, text});
  }
}

// A block for the device that the model was exported on, "device_type=x.device.type", is one for
// the GPU in a run.
bool CallWriter::IsForRun(const Call& call) const {
  const std::string_view device = call.arguments[0].second.text;
  return device.starts_with("cuda") || device == device_;
}

void CallWriter::EnterBody(const Call& call) {
  if (call.target.ends_with("activation_checkpoint")) EnterCheckpoint(/*is_reentrant=*/false);
  if (call.target.ends_with("set_grad_enabled")) EnterGradMode(call);
  if (!call.target.ends_with("wrap_with_autocast") || !IsForRun(call)) return;
  SayDisabled(call);
  place_.leaves_autocast = !IsEnabled(call);
  place_.enters_autocast = IsEnabled(call) ? DTypeOfAutocast(call) : DType::kUndefined;
}

// The calls inside, with the operands that follow the body under the body's own names.
void CallWriter::WriteInline(const Call& call) {
  const Argument& body = *BodiesOf(call)[0];
  std::vector<NameId> operands;
  bool is_behind = false;
  for (const auto& [name, argument] : call.arguments) {
    if (is_behind && argument.kind == Kind::kTensor) operands.push_back(TensorOf(argument));
    for (const Argument& item : argument.items) {
      if (is_behind && item.kind == Kind::kTensor) operands.push_back(TensorOf(item));
    }
    is_behind = is_behind || &argument == &body;
  }
  const bool left_autocast = place_.leaves_autocast;
  const DType entered_autocast = place_.enters_autocast;
  const bool left_autograd = place_.leaves_autograd;
  const int32_t checkpoint = place_.checkpoint;
  EnterBody(call);
  const std::vector<NameId> results = Run(*body.graph, operands);
  place_.leaves_autocast = left_autocast;
  place_.enters_autocast = entered_autocast;
  place_.leaves_autograd = left_autograd;
  place_.checkpoint = checkpoint;
  Bind(call, results);
}

// --- torch.utils.checkpoint --------------------------------------------------------------------

// torch.no_grad() inside a torch.autograd.Function, whose own no_grad the file does not show, puts
// that back when it ends: torch.export writes down another block without gradients, of what runs
// behind it up to the next change, be it nothing.  A reentrant checkpoint is such a function; and
// around the tensor that begins a nested one, the outer looks at what it saves so
// (_checkpoint_hook's pack_hook, torch/utils/checkpoint.py, pytorch v2.11.0), in blocks of nothing.
void CallWriter::EnterGradMode(const Call& call) {
  const Graph& body = *BodiesOf(call)[0]->graph;
  const bool is_enabled = IsEnabled(call);
  if (is_enabled) {
    place_.leaves_autograd = false;
  } else if (const int64_t around = CheckpointsAround(body); around > 0) {
    place_.leaves_autograd = false;
    blocks_put_back_ = around;
    has_nested_ = has_nested_ || around > 1;
    EnterCheckpoint(/*is_reentrant=*/true);
  } else if (has_just_begun_ && body.calls.empty()) {
    has_nested_ = true;
    blocks_put_back_ = 1;
  } else if (blocks_put_back_ > 0) {
    --blocks_put_back_;
  } else {
    place_.leaves_autograd = true;
  }
}

void CallWriter::EnterCheckpoint(bool is_reentrant) {
  has_nested_ = has_nested_ || place_.checkpoint >= 0;
  place_.checkpoint = checkpoints_++;
  (is_reentrant ? has_reentrant_ : has_others_) = true;
}

// What runs under it has the lines around it, and more, and is noted where the file notes it: of
// checkpoint_sequential, what follows has the same lines.
bool CallWriter::LeavesCheckpoint(const Call& call) const {
  return (is_noted_ && !call.is_checkpointed) || call.lines.size() <= checkpoint_lines_.size() ||
         !std::equal(checkpoint_lines_.begin(), checkpoint_lines_.end(), call.lines.begin(),
                     [](const SourceLine& a, const SourceLine& b) {
                       return a.line == b.line && a.file == b.file;
                     });
}

void CallWriter::NoteCheckpoint(const Call& call) {
  if (!HasBodies(call)) has_just_begun_ = BeginsCheckpoint(call);
  if (!checkpoint_lines_.empty() && LeavesCheckpoint(call)) {
    checkpoint_lines_.clear();
    place_.checkpoint = -1;
  }
  if (!BeginsCheckpoint(call)) return;
  checkpoint_lines_.assign(call.lines.begin(), call.lines.end() - 1);
  is_noted_ = call.is_checkpointed;
  EnterCheckpoint(/*is_reentrant=*/false);
}

void CallWriter::EnterAsWatched(const WatchedCall& watched) {
  place_.is_made_once = watched.is_made_once;
  place_.leaves_autograd = watched.leaves_autograd || (watched.is_in_function && HasFunctions());
  place_.function = watched.is_in_backward ? FunctionPart::kBackward : FunctionPart::kNone;
  place_.leaves_autocast = watched.leaves_autocast;
  place_.enters_autocast = watched.enters_autocast;
  place_.checkpoint = static_cast<int32_t>(watched.checkpoint);
  checkpoints_ = std::max(checkpoints_, place_.checkpoint + 1);
  if (place_.checkpoint < 0) return;
  (watched.is_reentrant ? has_reentrant_ : has_others_) = true;
  has_nested_ = has_nested_ || watched.is_nested;
}

// Of both kinds, and of one inside another, none is run again: what they save is kept.
void CallWriter::ForgetCheckpoints() {
  const bool has_both = has_reentrant_ && has_others_;
  program_.has_reentrant_checkpoints = has_reentrant_ && !has_both && !has_nested_;
  const bool is_told = trains() && settings().checkpoint.empty();
  if (!has_both && !has_nested_) {
    if (is_told && checkpoints_ > 0) SayCheckpoints();
    return;
  }
  for (AtenCall& call : program_.calls) call.checkpoint = -1;
  if (!is_told) return;
  program_.warnings.push_back(
      {warning::kUpperBound,
       fmt::format("torch.utils.checkpoint, {}: what it computes anew in backward is kept until "
                   "then, which is an upper bound",
                   has_both ? "with use_reentrant=True and without" : "one inside another")});
}

void CallWriter::SayCheckpoints() {
  program_.assumptions.push_back(
      fmt::format("the file's own checkpoints are computed again: {} part{} of the forward pass, "
                  "with use_reentrant={} (--checkpoint puts others in their place)",
                  checkpoints_, checkpoints_ == 1 ? "" : "s", has_reentrant_ ? "True" : "False"));
}

// --- Branches ----------------------------------------------------------------------------------

std::optional<bool> CallWriter::PredicateOf(const Argument& predicate) const {
  if (predicate.kind == Kind::kBool) return predicate.number != 0;
  if (predicate.kind != Kind::kSymbol) return std::nullopt;
  for (auto graph = graphs_.rbegin(); graph != graphs_.rend(); ++graph) {
    const auto found = (*graph)->truths.find(predicate.text);
    if (found == (*graph)->truths.end()) continue;
    const Size& truth = found->second;
    if (truth.expression.empty()) return truth.number != 0;
    const std::optional<int64_t> value = Evaluate(truth.expression, symbols_);
    return value.has_value() ? std::optional(*value != 0) : std::nullopt;
  }
  return std::nullopt;
}

// What all calls of a body make.
int64_t CallWriter::BytesMadeBy(const Graph& body) const {
  int64_t bytes = 0;
  for (const Call& call : body.calls) {
    for (const Argument& result : ResultsOf(call)) {
      const auto tensor = body.tensors.find(result.text);
      if (tensor != body.tensors.end()) bytes += BytesOf(WithPrecision(TypeOf(tensor->second)));
    }
    for (const Argument* inner : BodiesOf(call)) bytes += BytesMadeBy(*inner->graph);
  }
  return bytes;
}

void CallWriter::WarnOfCopies(const Call& call) {
  if (!trains() || place_.leaves_autograd) return;
  program_.warnings.push_back(
      {warning::kUnknownOperator,
       fmt::format("{} at {}: its calls are counted as if they were written out, but in training "
                   "PyTorch keeps copies beside them, so that this may be too little",
                   call.target, call.name)});
}

// Of (predicate, then, otherwise, operands): the branch that runs, and where data says which, the
// one that makes more.
void CallWriter::WriteCond(const Call& call) {
  const std::vector<const Argument*> branches = BodiesOf(call);
  if (branches.size() != 2) return WriteUnknown(call);
  WarnOfCopies(call);
  const std::optional<bool> predicate = PredicateOf(call.arguments[0].second);
  const int64_t bytes[] = {BytesMadeBy(*branches[0]->graph), BytesMadeBy(*branches[1]->graph)};
  const bool takes_first = predicate.value_or(bytes[0] >= bytes[1]);
  if (!predicate.has_value()) {
    program_.warnings.push_back(
        {warning::kUnknownBranch,
         fmt::format("which branch of torch.cond at {} runs depends on data: {} is taken, whose "
                     "calls make {}",
                     call.name, takes_first ? "the first" : "the second",
                     FormatBytes(bytes[takes_first ? 0 : 1]))});
  }
  std::vector<NameId> operands;
  for (const auto* const list : ListsOf(call)) {
    for (const Argument& operand : *list) {
      if (operand.kind == Kind::kTensor) operands.push_back(TensorOf(operand));
    }
  }
  Bind(call, RunApart(*branches[takes_first ? 0 : 1]->graph, operands));
}

}  // namespace onnxfit::pt2
