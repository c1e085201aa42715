#include "estimator/recover/unread_run_calls.h"

#include <utility>

#include "estimator/base/index.h"
#include "estimator/base/module_names.h"
#include "estimator/program/modules.h"

namespace onnxfit {
namespace {

// The model's first input of integers [batch, words]; null without one.
const TensorType* WordsOf(const BoundGraph& bound) {
  for (const ValueId input : bound.graph().inputs) {
    const TensorType& type = bound.TypeOf(input);
    if (!IsFloat(type.dtype) && type.dims.size() == 2) return &type;
  }
  return nullptr;
}

}  // namespace

UnreadRunWriter::UnreadRunWriter(Recovery& recovery, const Places& places)
    : recovery_(recovery), places_(places) {
  zeros_ = FindUnreadZeros(recovery.bound);
  const auto is_lost = [&](const std::string& name) { return TensorOf(name) != kNoName; };
  heads_ = FindUnreadHeads(recovery.bound, is_lost);
  for (UnreadRun& run : FindUnreadRuns(recovery.bound, is_lost)) {
    const NodeId behind = run.behind;
    runs_.emplace(behind, std::move(run));
  }
}

void UnreadRunWriter::WriteBefore(NodeId node) {
  for (const UnreadHead& head : heads_) {
    if (head.before == node) Write(head);
  }
  for (const UnreadTensorOfZeros& zeros : zeros_) {
    if (zeros.before != node) continue;
    const TensorType* words = WordsOf(recovery_.bound);
    if (words == nullptr) continue;
    UnitWriter unit(recovery_, PlaceOf(node, zeros.level, zeros.row->line, -1));
    unit.RunUnread(unit.Make("constant", {}, std::string(zeros.row->in_class) + ".zeros", *words));
  }
}

void UnreadRunWriter::WriteBehind(NodeId node) {
  const auto [begin, end] = runs_.equal_range(node);
  for (auto run = begin; run != end; ++run) Write(run->second);
}

void UnreadRunWriter::Write(const UnreadRun& run) {
  NameId made = recovery_.values.NameOf(run.states);
  if (made == kNoName) return;
  if (!run.row->norm.empty()) made = WriteNorm(run, made);
  if (!run.row->copy_line.empty()) made = WriteCopy(run, made);
  if (made != kNoName) recovery_.unread.insert(made);
  if (!run.row->pooler.empty() && made != kNoName) made = WritePooler(run, made);
  if (made != kNoName) recovery_.unread.insert(made);
}

void UnreadRunWriter::Write(const UnreadHead& head) {
  const CallPlace caller = PlaceOf(head.before, head.level, head.row->line, -1);
  NameId made = recovery_.values.NameOf(head.states);
  if (made == kNoName) return;
  TensorType type = recovery_.writer.program().values[Index(made)].type;
  CallPlace detached = caller;
  detached.leaves_autograd = true;
  made = UnitWriter(recovery_, detached).Make("view", {made}, head.path + ".detach", type);
  const bool shows_lines = !caller.frames.empty();  // the caller's, not the head's
  const CallPlace forward = shows_lines ? caller : Enter(caller, head.path, "");
  for (const std::string_view layer : head.row->layers) {
    const std::string path = ChildPath(head.path, layer);
    UnitWriter unit(recovery_, Enter(forward, path, ""));
    if (layer == "gelu") {
      made = unit.Make("gelu", {made}, path, type);
      continue;
    }
    const NameId weight = TensorOf(path + ".weight");
    const NameId bias = TensorOf(path + ".bias");
    if (weight == kNoName || bias == kNoName || type.dims.empty()) return;
    type.dims.back() = unit.program().values[Index(weight)].type.dims[0];
    made = unit.Make("linear", {made, weight, bias}, path, type);
  }
  recovery_.unread.insert(made);
}

NameId UnreadRunWriter::WriteNorm(const UnreadRun& run, NameId states) {
  const std::string path = ChildPath(run.caller, run.row->norm);
  const NameId weight = TensorOf(path + ".weight");
  const NameId bias = TensorOf(path + ".bias");
  if (weight == kNoName || bias == kNoName) return kNoName;
  if (!run.row->first.empty()) {
    states =
        TakeFirst(UnitWriter(recovery_, PlaceOf(run.behind, run.level, run.row->first, 1)), states);
  }
  const CallPlace caller = PlaceOf(run.behind, run.level, run.row->norm_line, 2);
  UnitWriter unit(recovery_, Enter(caller, path, "return F.layer_norm("));
  const TensorType type = unit.program().values[Index(states)].type;
  return unit.Make("layer_norm", {states, weight, bias}, path, type, {1});
}

NameId UnreadRunWriter::WriteCopy(const UnreadRun& run, NameId states) {
  const ProgramValue value = recovery_.writer.program().values[Index(states)];
  UnitWriter unit(recovery_, PlaceOf(run.behind, run.level, run.row->copy_line, 1));
  return unit.Make("clone", {states}, value.name + ".gathered", value.type);
}

// The first of all states, through a layer and tanh.
NameId UnreadRunWriter::WritePooler(const UnreadRun& run, NameId states) {
  const std::string path = ChildPath(run.caller, run.row->pooler);
  const NameId weight = TensorOf(path + ".dense.weight");
  const NameId bias = TensorOf(path + ".dense.bias");
  if (weight == kNoName || bias == kNoName) return kNoName;
  const CallPlace caller = PlaceOf(run.behind, run.level, run.row->pooler_line, 3);
  const auto in_line = [&](std::string_view line) { return Enter(caller, path, line); };
  states =
      TakeFirst(UnitWriter(recovery_, in_line("first_token_tensor = hidden_states[:, 0]")), states);
  UnitWriter dense(recovery_, Enter(in_line("pooled_output = self.dense(first_token_tensor)"),
                                    path + ".dense", "return F.linear("));
  const TensorType type = dense.program().values[Index(states)].type;
  const NameId made = dense.Make("linear", {states, weight, bias}, path + ".dense", type);
  UnitWriter activation(recovery_, Enter(in_line("pooled_output = self.activation(pooled_output)"),
                                         path + ".activation", "return torch.tanh(input)"));
  return activation.Make("tanh", {made}, path, type);
}

NameId UnreadRunWriter::TakeFirst(UnitWriter unit, NameId states) {
  const ProgramValue value = unit.program().values[Index(states)];
  TensorType type = value.type;
  type.dims.erase(type.dims.begin() + 1);
  return unit.Make("select", {states}, value.name + ".first", type, {1});
}

// In the forward at `level` around `node`, so many lines below the one that calls its child.
CallPlace UnreadRunWriter::PlaceOf(NodeId node, size_t level, std::string_view line,
                                   int64_t below) {
  Program& program = recovery_.writer.program();
  CallPlace place = places_.Of(node);
  const StatementId front = FrameAt(program.modules, place, level);
  const bool shows_lines = !place.frames.empty();
  place.frames.resize(std::min(place.frames.size(), level));
  place.module = program.modules.AtLevel(place.module, level);
  place.written_in_place = std::nullopt;
  StatementId own = kNoStatement;
  if (front != kNoStatement) {
    const SourceStatement& before = program.source.At(front);
    const std::string file = before.file;
    own = program.source.Read(before.line + below, line, file);
  }
  if (shows_lines) place.frames.push_back(own);
  return place;
}

CallPlace UnreadRunWriter::Enter(CallPlace caller, const std::string& path, std::string_view line) {
  Program& program = recovery_.writer.program();
  const bool is_path = !recovery_.bound.metadata().signature.empty();  // what modules are called
  caller.module = program.modules.Enter(caller.module, is_path ? path : ChildOf(path));
  const bool shows_lines = !caller.frames.empty();
  if (shows_lines) caller.frames.push_back(program.source.PutBack(ReadStatement(1, line)));
  return caller;
}

NameId UnreadRunWriter::TensorOf(const std::string& name) const {
  return recovery_.values.FindLostTensor(name).value_or(kNoName);
}

}  // namespace onnxfit
