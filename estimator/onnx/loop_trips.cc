// How often a Loop runs.
#include <algorithm>
#include <unordered_set>

#include "estimator/onnx/partial_inferrer.h"

namespace onnxfit {
namespace {

constexpr int64_t kMaxSteps = 1 << 15;  // nodes that are looked at, those of each trip

// The body as a graph of its own: its inputs, then what it reads of the graph around it.
LoneBody BodyOfLoop(const Flow& flow, const onnx::GraphProto& body) {
  const Inferrer& around = flow.partial.get();
  onnx::ModelProto model;
  *model.mutable_opset_import() = flow.graph().model->proto.opset_import();
  *model.mutable_graph() = body;
  LoneBody lone;
  lone.inputs = around.SizesByName();
  const Node& node = flow.node();
  std::unordered_set<std::string_view> taken;
  for (int i = 0; i < body.input_size(); ++i) {
    taken.insert(body.input(i).name());
    const auto place = static_cast<size_t>(i);
    const ValueId outside = place < node.inputs.size() ? node.inputs[place] : kNoValue;
    const bool is_carried = i >= 2 && outside != kNoValue;
    const DType own = i == 0 ? DType::kInt64 : DType::kBool;
    lone.inputs.types.push_back(is_carried ? around.ProtoOf(outside) : ProtoFrom(own, {}));
    lone.elements.push_back(is_carried ? around.KnownOf(outside) : std::nullopt);
  }
  for (const std::string_view name : CapturedNames(flow.proto())) {
    const auto found = flow.by_name.find(name);
    if (found == flow.by_name.end() || !taken.insert(name).second) continue;
    model.mutable_graph()->add_input()->set_name(std::string(name));
    lone.inputs.types.push_back(around.ProtoOf(found->second));
    lone.elements.push_back(around.KnownOf(found->second));
  }
  lone.graph = BuildGraph(std::move(model), flow.graph().path);
  const bool is_whole = lone.graph.inputs.size() == lone.elements.size();
  if (!is_whole) throw Error({.text = "inputs that are stored"});
  return lone;
}

std::vector<Fact> RunOnce(const LoneBody& body) {
  PartialInferrer partial(body);
  for (NodeId id = 0; id < static_cast<NodeId>(body.graph.nodes.size()); ++id) partial.Infer(id);
  return partial.Outputs();
}

// Whether the body says that it goes on; nullopt where that is not known.
std::optional<bool> GoesOn(const std::vector<Fact>& made) {
  if (made.empty() || !made[0].elements || made[0].elements->is_float()) return std::nullopt;
  if (Numel(made[0].elements->stored) != 1) return std::nullopt;
  return made[0].elements->integers()[0] != 0;
}

// Carries what one trip makes to the next.
void Carry(const std::vector<Fact>& made, int64_t trip, size_t carried, LoneBody& body) {
  body.elements[0] = MakeIntegers(DType::kInt64, {}, {trip});
  body.elements[1] = MakeIntegers(DType::kBool, {}, {1});
  for (size_t i = 0; i < carried && i + 1 < made.size(); ++i) {
    body.inputs.types[i + 2] = made[i + 1].type;
    body.elements[i + 2] = made[i + 1].elements;
  }
}

Trips CountTrips(LoneBody body, size_t carried, int64_t most) {
  const Trips unknown = {most == INT64_MAX ? std::nullopt : std::optional(most), false};
  LoneBody any = body;  // whatever is carried
  any.elements[1] = MakeIntegers(DType::kBool, {}, {1});
  for (size_t i = 0; i < carried; ++i) any.elements[i + 2].reset();
  const std::optional<bool> always = GoesOn(RunOnce(any));
  if (always && !*always) return {std::min<int64_t>(most, 1), true};
  if (always) return {unknown.most, unknown.most.has_value()};
  const auto nodes = std::max<int64_t>(std::ssize(body.graph.nodes), 1);
  Carry({}, 0, 0, body);
  for (int64_t trip = 1; trip * nodes <= kMaxSteps; ++trip) {
    const std::vector<Fact> made = RunOnce(body);
    const std::optional<bool> goes_on = GoesOn(made);
    if (!goes_on) return unknown;
    if (!*goes_on || trip == most) return {trip, true};
    Carry(made, trip, carried, body);
  }
  return unknown;
}

}  // namespace

Trips TripsOf(const Flow& flow) {
  const int64_t most =
      std::max<int64_t>(KnownScalar(flow.partial.get(), flow.node(), 0).value_or(INT64_MAX), 0);
  const bool has_most = most < INT64_MAX;  // how exporters write a while loop
  if (KnownScalar(flow.partial.get(), flow.node(), 1) == 0) return {0, true};
  const auto& inputs = flow.node().inputs;
  const bool is_limited = !inputs.empty() && inputs[0] != kNoValue;
  const bool has_condition = inputs.size() > 1 && inputs[1] != kNoValue;
  const Trips unknown = {has_most ? std::optional(most) : std::nullopt, false};
  if (is_limited && !has_most && !KnownScalar(flow.partial.get(), flow.node(), 0)) return unknown;
  const onnx::AttributeProto* body = FindAttribute(flow.proto(), "body");
  if (body == nullptr || body->g().input_size() < 2) return unknown;
  if (!has_condition) return {unknown.most, has_most};
  try {
    const auto carried = std::min<size_t>(static_cast<size_t>(body->g().input_size()),
                                          std::max<size_t>(inputs.size(), 2)) -
                         2;
    return CountTrips(BodyOfLoop(flow, body->g()), carried, most);
  } catch (const Error&) {
    return unknown;
  }
}

}  // namespace onnxfit
