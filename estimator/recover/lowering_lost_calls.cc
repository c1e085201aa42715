// What an export has lost, put back while nodes are lowered.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "estimator/base/bytes.h"
#include "estimator/base/index.h"
#include "estimator/base/text.h"
#include "estimator/recover/exports.h"
#include "estimator/recover/habits.h"
#include "estimator/recover/lost_casts.h"
#include "estimator/recover/lost_dropouts.h"
#include "estimator/recover/lowering.h"
#include "estimator/recover/scopes.h"

namespace onnxfit {

void Lowering::PlanLostCalls(const Roles& roles) {
  std::map<std::string, int64_t> dropouts;  // by name: what it keeps for backward
  NodeId first = kNoNode;
  for (const LostCall& lost : LostCalls(roles)) {
    if (IsOfRotary(lost)) continue;
    lost_calls_.emplace(lost.before, lost);
    if (lost.behind != kNoNode) lost_behind_.emplace(lost.behind, lost);
    program_.notes.push_back(fmt::format("{} is put back before {}",
                                         lost.repeats == kNoNode ? lost.op : lost.name,
                                         DisplayName(graph_, lost.before)));
    if (lost.op != "dropout") continue;
    if (dropouts.empty()) first = lost.before;
    dropouts[lost.name] = KeptByDropout(TypeOf(lost.input).dims);
  }
  if (!dropouts.empty()) AssumeDropouts(dropouts, first);
  if (trains() && settings_.dropout != 0.0) PlanStochasticDepths();
}

namespace {

bool IsDropout(const LostCall& call) { return call.op == "dropout"; }

// What a glob may call a dropout in front of `node`: its name, the node's and their modules'.
std::vector<std::string> NamesOfDropout(const Graph& graph, NodeId node, const LostCall* call) {
  std::vector<std::string> names = {DisplayName(graph, node), ModulePath(ScopeOf(graph, node))};
  if (call != nullptr) names.insert(names.end(), {call->name, ModulePath(call->scope)});
  return names;
}

// Classes of the modules around a dropout that stood between `input` and `reader`: those that both
// are in.
std::vector<std::string> ClassesAround(const Graph& graph, ValueId input, NodeId reader) {
  std::vector<std::string> classes = ClassesOf(graph.nodes[Index(reader)]);
  const NodeId maker = graph.values[Index(input)].producer;
  if (maker == kNoNode) return classes;
  const size_t shared = SharedModules(ScopeOf(graph, maker), ScopeOf(graph, reader));
  classes.resize(std::min(shared, classes.size()));
  return classes;
}

}  // namespace

// Those that leave a trace, and dropouts that transformers have, where they are likely or told.
std::vector<LostCall> Lowering::LostCalls(const Roles& roles) {
  std::vector<LostCall> calls = FindLostCalls(graph_, metadata_, roles.folded);
  for (LostCall& cast : FindLostCasts(graph_, shapes_)) calls.push_back(std::move(cast));
  // 1 + weight.float(): what is made of a weight comes behind its cast.
  std::stable_partition(calls.begin(), calls.end(), [&](const LostCall& call) {
    return call.op == "to" && IsParameter(call.input);
  });
  LostDropouts found;
  if (trains()) found = FindLostDropouts(graph_, shapes_, rewrites_);
  const bool drops = DropsOutElsewhere(std::ranges::any_of(calls, &IsDropout));
  for (LostCall& call : found.calls) {
    const bool is_there = std::ranges::any_of(calls, [&](const LostCall& other) {
      return other.before == call.before && other.input == call.input;
    });
    if (!is_there) calls.push_back(std::move(call));
  }
  DecideDropouts(drops, calls, found.attention);
  return calls;
}

// Where no place is told: everywhere, where such models have it, and the file shows a dropout or,
// being TorchScript's, shows none and was likely exported for inference.
bool Lowering::DropsOutElsewhere(bool is_traced) const {
  if (!trains()) return false;
  if (settings_.dropout.has_value()) return *settings_.dropout != 0;
  const std::optional<bool> likely = LikelyDropsOut(graph_, metadata_, shapes_, rewrites_);
  if (is_traced) return likely.value_or(true);
  return metadata_.groups.empty() && likely.value_or(false) && !IsUnfoldedExport(graph_);
}

// Takes dropouts with p = 0 out of `calls`; `attention` (rewrites) drops out where p is above 0.
void Lowering::DecideDropouts(bool elsewhere, std::vector<LostCall>& calls,
                              const std::vector<size_t>& attention) {
  std::vector<DropoutPlace> places;
  for (const LostCall& call : calls) {
    if (!IsDropout(call)) continue;
    const std::vector<std::string> classes = ClassesAround(graph_, call.input, call.before);
    places.push_back({NamesOfDropout(graph_, call.before, &call),
                      NeverDropsOut(classes, /*weighs=*/false), call.is_rare});
  }
  for (const size_t rewrite : attention) {
    const NodeId node = rewrites_[rewrite].last;
    places.push_back({NamesOfDropout(graph_, node, nullptr),
                      NeverDropsOut(ClassesOf(At(node)), /*weighs=*/true)});
  }
  DoubtDropouts(places);
  const std::vector<bool> drops = DropsOutAt(places, elsewhere);
  for (size_t i = 0; i < attention.size(); ++i) {
    rewrites_[attention[i]].ints[0] = drops[drops.size() - attention.size() + i] ? 1 : 0;
  }
  size_t place = 0;
  std::erase_if(calls, [&](const LostCall& call) { return IsDropout(call) && !drops[place++]; });
}

// What the libraries' defaults leave open is a doubt; what they decide is told.
void Lowering::DoubtDropouts(const std::vector<DropoutPlace>& places) {
  if (!trains() || settings_.dropout.has_value()) return;
  const auto never = std::ranges::count_if(places, &DropoutPlace::never);
  if (never < std::ssize(places)) program_.doubts.push_back(Doubt::kDropout);
  if (never == 0) return;
  program_.assumptions.push_back(
      fmt::format("{} dropout{} of a library that makes them with p = 0 are taken to be so "
                  "(--dropout 0.1, if yours drop out)",
                  never, never == 1 ? "" : "s"));
}

// By place, which has several names: whether p is above 0 there.
std::vector<bool> Lowering::DropsOutAt(const std::vector<DropoutPlace>& places,
                                       bool elsewhere) const {
  std::vector<bool> drops(places.size(), elsewhere);
  if (!trains()) return drops;
  for (size_t i = 0; i < places.size() && !settings_.dropout.has_value(); ++i) {
    drops[i] = elsewhere && !places[i].never && !places[i].is_rare;
  }
  std::vector<std::string> names;
  std::vector<size_t> place_of;
  for (size_t i = 0; i < places.size(); ++i) {
    names.insert(names.end(), places[i].names.begin(), places[i].names.end());
    place_of.resize(names.size(), i);
  }
  for (const auto& [glob, p] : settings_.placed_dropouts) {
    const std::vector<bool> picked = PickNames(
        names, {&glob, 1}, {"--dropout", "lost dropouts, their nodes or modules", graph_.path});
    for (size_t i = 0; i < names.size(); ++i) {
      if (picked[i]) drops[place_of[i]] = p > 0;
    }
  }
  return drops;
}

// Its mask, a byte an element, and its result; in place, noise in the result's type.
int64_t Lowering::KeptByDropout(const Dims& dims) const {
  const int64_t result = BytesOf({ComputeType(settings_.precision), dims});
  return settings_.assumed.in_place_dropout ? result : CheckedAdd(result, Numel(dims));
}

void Lowering::AssumeDropouts(const std::map<std::string, int64_t>& dropouts, NodeId first) {
  int64_t bytes = 0;
  for (const auto& [name, kept] : dropouts) bytes = CheckedAdd(bytes, kept);
  const bool is_one = dropouts.size() == 1;
  program_.assumptions.push_back(
      fmt::format("{} dropout{} that the export has lost {} put back, the first before {}: {} more "
                  "are kept for backward (--dropout 0, if there is none)",
                  dropouts.size(), is_one ? "" : "s", is_one ? "is" : "are",
                  DisplayName(graph_, first), FormatBytes(bytes)));
}

void Lowering::PlanStochasticDepths() {
  for (const auto& [sum, branch] : FindLostStochasticDepths(graph_, rewrites_)) {
    stochastic_depths_.emplace(sum, branch);
  }
  if (stochastic_depths_.empty()) return;
  int64_t bytes = 0;  // of noise, a number a sample
  for (const auto& [sum, branch] : stochastic_depths_) {
    const Dims& dims = TypeOf(branch).dims;
    const Dims per_sample = {dims.empty() ? 1 : dims[0]};
    bytes = CheckedAdd(bytes, BytesOf({ComputeType(settings_.precision), per_sample}));
  }
  program_.assumptions.push_back(fmt::format(
      "stochastic depth, which the export has lost, is put back in {} residual block{} like "
      "torchvision's MBConv, the first at {}: {} more are kept for backward (--dropout 0, if there "
      "is none)",
      stochastic_depths_.size(), stochastic_depths_.size() == 1 ? "" : "s",
      DisplayName(graph_, stochastic_depths_.begin()->first), FormatBytes(bytes)));
}

// Beside the module that reads it: the caller's frame runs both.
void Lowering::PutCallsBack(NodeId node) {
  const auto [begin, end] = lost_calls_.equal_range(node);
  for (auto row = begin; row != end; ++row) {
    const LostCall& lost = row->second;
    const auto [made, is_new] = put_back_.emplace(lost.name, kNoName);
    if (is_new) made->second = lost.repeats == kNoNode ? PutBack(lost) : Repeat(lost);
    Hide(lost.input, made->second);
  }
}

// Copies of the model's inputs, which a cache begins with.
void Lowering::PutCopiesOfInputs() {
  for (const auto& [node, lost] : lost_calls_) {
    const bool is_input = std::ranges::find(graph_.inputs, lost.input) != graph_.inputs.end();
    if (lost.op != "cat" || !is_input) continue;
    SetPlace(DisplayName(graph_, node), lost.scope);
    const auto [made, is_new] = put_back_.emplace(lost.name, kNoName);
    if (is_new) made->second = PutBack(lost);
  }
}

void Lowering::PutCallsBehind(NodeId node) {
  const auto [begin, end] = lost_behind_.equal_range(node);
  for (auto row = begin; row != end; ++row) {
    const auto [made, is_new] = put_back_.emplace(row->second.name, kNoName);
    if (is_new) made->second = PutBack(row->second);
  }
}

// A statement of its own, before its reader's: "x = x.to(torch.float32)".
void Lowering::EnterCast() {
  frames_ = node_frames_;
  if (frames_.empty()) return;
  StatementId& statement = frames_.back();
  if (statement == kNoStatement) return;
  const std::string name = program_.source.At(statement).receiver;
  statement = Beside(statement, name.empty() ? std::vector<std::string>() : std::vector{name});
}

// "w = self.dropout(w)", the line behind "w = softmax(s)", if that does not drop out itself.
void Lowering::EnterDropoutBehind(const LostCall& lost) {
  frames_ = node_frames_;
  scope_ = lost.scope;
  if (frames_.empty()) return;
  StatementId& statement = frames_.back();
  if (statement != kNoStatement) {
    const SourceStatement& line = program_.source.At(statement);
    const bool is_other = !line.Mentions("drop") && !line.targets.empty();
    if (is_other) statement = Beside(statement, {line.targets[0]});
  }
  frames_.push_back(kNoStatement);
}

NameId Lowering::PutBack(const LostCall& lost) {
  const NameId input = TensorOf(lost.input);
  const std::vector<std::string> scope = scope_;
  if (lost.op == "to") {
    EnterCast();
  } else if (lost.op == "type_as") {
    frames_ = node_frames_;  // a part of its reader's statement
    const bool is_own = lost.behind != kNoNode && !frames_.empty();
    if (is_own && frames_.back() != kNoStatement) {  // return x.type_as(y)
      const int64_t line = program_.source.At(frames_.back()).line;
      frames_.back() = program_.source.PutBack(
          {.line = line, .returns = true, .receiver = "x", .callee = "x.type_as"});
    }
  } else if (lost.scope.empty()) {
    EnterSibling(lost.name);
  } else if (lost.op == "dropout" && lost.behind != kNoNode) {
    EnterDropoutBehind(lost);
  } else {
    EnterLost(lost);
  }
  TensorType type = program_.values[Index(input)].type;
  if (lost.op == "to" && BitsOf(type.dtype) < 32) type.dtype = DType::kFloat32;
  const NameId made = NewName(lost.name, type);
  std::vector<NameId> inputs = {input};
  if (lost.like != kNoValue) inputs.push_back(TensorOf(lost.like));
  Emit(lost.op == "dropout" ? DropoutOp() : lost.op, std::move(inputs), {made});
  scope_ = scope;
  frames_ = node_frames_;
  return made;
}

namespace {

// The line of the forward at `level` of a call in `modules` modules.
StatementId FrameAt(const std::vector<StatementId>& frames, size_t modules, size_t level) {
  if (level >= modules) return kNoStatement;
  if (frames.size() >= modules) return frames[level];
  const size_t below = modules - (level + 1);
  return below <= 1 && below < frames.size() ? frames[frames.size() - 1 - below] : kNoStatement;
}

}  // namespace

// Where the forward at `level` made `value`.
StatementId Lowering::LineOfMaker(ValueId value, size_t level) {
  const NodeId producer = graph_.values[Index(value)].producer;
  if (producer == kNoNode) return kNoStatement;
  return FrameAt(FramesOf(At(producer)), ScopeFor(producer).size(), level);
}

// Its statement is that of its reader, where that names a dropout, or it, or makes what it drops,
// too, or both are calls of one forward; else it is lost.
void Lowering::EnterLost(const LostCall& lost) {
  const bool is_module = lost.op == "dropout" || !lost.module.empty();
  if (!is_module && lost.scope == scope_) return;
  frames_.clear();
  const size_t shared = SharedModules(scope_, lost.scope);
  if (is_module && shared + 1 >= lost.scope.size() && shared > 0) {
    const StatementId line = FrameAt(node_frames_, scope_.size(), shared - 1);
    const std::string_view called = lost.module.empty() ? "drop" : ChildOf(lost.module);
    const bool is_there = line != kNoStatement &&
                          (program_.source.At(line).Mentions(called) ||
                           program_.source.AreSame(line, LineOfMaker(lost.input, shared - 1)));
    if (is_there) frames_ = {line, kNoStatement};
  }
  scope_ = lost.scope;
}

// The kept call once more, with a result of its own.
NameId Lowering::Repeat(const LostCall& lost) {
  const NameId kept = TensorOf(lost.input);
  const std::vector<std::string> scope = scope_;
  if (!lost.scope.empty()) EnterLost(lost);
  PutCallsBack(lost.repeats);
  const int32_t rewrite = rewrite_of_[Index(lost.repeats)];
  rewrite < 0 ? LowerNode(graph_.nodes[Index(lost.repeats)])
              : LowerRewritten(rewrites_[Index(rewrite)]);
  if (!lost.module.empty()) ReadTensorsOf(lost.module, program_.calls.back());
  scope_ = scope;
  frames_ = node_frames_;
  const NameId made = names_[Index(lost.input)];
  names_[Index(lost.input)] = kept;
  program_.values[Index(made)].name = lost.name;
  return made;
}

// `call` reads what `module` has under the names of the tensors that it reads.
void Lowering::ReadTensorsOf(const std::string& module, AtenCall& call) {
  for (NameId& name : call.inputs) {
    if (name == kNoName) continue;
    const std::string_view tensor = program_.values[Index(name)].name;
    const auto own = lost_.find(fmt::format("{}.{}", module, ChildOf(tensor)));
    if (own != lost_.end()) name = own->second;
  }
}

// branch * noise, the noise one number a sample.
void Lowering::PutStochasticDepthBack(NodeId node) {
  const auto found = stochastic_depths_.find(node);
  if (found == stochastic_depths_.end()) return;
  const NameId branch = TensorOf(found->second);
  const ProgramValue value = program_.values[Index(branch)];
  Dims per_sample(value.type.dims.size(), 1);
  if (!per_sample.empty()) per_sample[0] = value.type.dims[0];
  const std::vector<std::string> scope = scope_;
  scope_.push_back("stochastic_depth");
  const NameId noise = NewName(value.name + ".noise", {value.type.dtype, per_sample});
  Emit("bernoulli", {branch}, {noise});
  const NameId product = NewName(value.name + ".stochastic_depth", value.type);
  Emit("mul", {branch, noise}, {product});
  scope_ = scope;
  Hide(found->second, product);
}

void Lowering::Hide(ValueId value, NameId by) {
  hidden_.emplace_back(value, std::exchange(names_[Index(value)], by));
}

void Lowering::ShowHidden() {
  for (auto row = hidden_.rbegin(); row != hidden_.rend(); ++row) {
    names_[Index(row->first)] = row->second;
  }
  hidden_.clear();
}

}  // namespace onnxfit
