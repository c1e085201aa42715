// The body of an If or a Loop, written out among the nodes around it.
#include <fmt/format.h>
#include <onnx/onnx_pb.h>

#include <algorithm>

#include "estimator/base/index.h"
#include "estimator/onnx/constants.h"
#include "estimator/onnx/control_flow.h"

namespace onnxfit {
namespace {

using Names = std::unordered_map<std::string, std::string>;

const std::string& Renamed(const std::string& name, const Names& names) {
  const auto found = names.find(name);
  return found == names.end() ? name : found->second;
}

// A body inside the body reads the new names, but for those that it defines itself.
void RenameCaptures(onnx::GraphProto& body, Names names) {
  for (const auto& input : body.input()) names.erase(input.name());
  for (const auto& initializer : body.initializer()) names.erase(initializer.name());
  for (const auto& node : body.node()) {
    for (const std::string& output : node.output()) names.erase(output);
  }
  for (auto& node : *body.mutable_node()) {
    for (std::string& input : *node.mutable_input()) input = Renamed(input, names);
    for (auto& attribute : *node.mutable_attribute()) {
      if (attribute.has_g()) RenameCaptures(*attribute.mutable_g(), names);
    }
  }
  for (auto& output : *body.mutable_output()) output.set_name(Renamed(output.name(), names));
}

// An output of a branch takes the name that it has outside, where a node of the branch
// makes it and it goes by no other name yet.
void NameOutput(const onnx::GraphProto& body, const std::string& from, const std::string& to,
                Names& names) {
  const bool made_here =
      std::any_of(body.node().begin(), body.node().end(), [&](const onnx::NodeProto& node) {
        return std::find(node.output().begin(), node.output().end(), from) != node.output().end();
      });
  if (made_here && !to.empty()) names.emplace(from, to);
}

onnx::TensorProto Scalar(onnx::TensorProto::DataType type, int64_t value) {
  onnx::TensorProto tensor;
  tensor.set_data_type(type);
  if (type == onnx::TensorProto::INT64) {
    tensor.add_int64_data(value);
  } else {
    tensor.add_int32_data(static_cast<int32_t>(value));
  }
  return tensor;
}

std::string PrefixOf(const onnx::NodeProto& node) {
  if (!node.name().empty()) return node.name();
  return node.output_size() > 0 ? node.output(0) : node.op_type();
}

void AddInts(onnx::NodeProto& node, const std::string& name, int64_t value) {
  onnx::AttributeProto& attribute = *node.add_attribute();
  attribute.set_name(name);
  attribute.set_type(onnx::AttributeProto::INTS);
  attribute.add_ints(value);
}

}  // namespace

std::string BodyInliner::Unique(const std::string& name, const std::string& prefix) {
  if (taken_.insert(name).second) return name;
  const std::string longer = prefix + "/" + name;
  std::string unique = longer;
  for (int i = 2; !taken_.insert(unique).second; ++i) unique = longer + "_" + std::to_string(i);
  return unique;
}

void BodyInliner::NameLocals(const onnx::GraphProto& body, const std::string& prefix,
                             Names& names) {
  const auto add = [&](const std::string& name) {
    if (name.empty() || names.contains(name)) return;
    names.emplace(name, Unique(name, prefix));
  };
  for (const auto& initializer : body.initializer()) add(initializer.name());
  for (const auto& sparse : body.sparse_initializer()) add(sparse.values().name());
  for (const auto& node : body.node()) {
    for (const std::string& output : node.output()) add(output);
  }
}

void BodyInliner::AppendBody(const onnx::GraphProto& body, const std::string& prefix,
                             const Names& names) {
  for (const auto& initializer : body.initializer()) {
    onnx::TensorProto& added = *graph_.add_initializer();
    added = initializer;
    added.set_name(Renamed(added.name(), names));
  }
  for (const auto& sparse : body.sparse_initializer()) {
    onnx::SparseTensorProto& added = *graph_.add_sparse_initializer();
    added = sparse;
    added.mutable_values()->set_name(Renamed(sparse.values().name(), names));
  }
  for (const auto& info : body.value_info()) {
    onnx::ValueInfoProto& added = *graph_.add_value_info();
    added = info;
    added.set_name(Renamed(added.name(), names));
  }
  for (const auto& node : body.node()) {
    onnx::NodeProto& added = *graph_.add_node();
    added = node;
    if (!node.name().empty()) added.set_name(Unique(node.name(), prefix));
    for (std::string& input : *added.mutable_input()) input = Renamed(input, names);
    for (std::string& output : *added.mutable_output()) output = Renamed(output, names);
    for (auto& attribute : *added.mutable_attribute()) {
      if (attribute.has_g()) RenameCaptures(*attribute.mutable_g(), names);
    }
  }
}

void BodyInliner::AppendOutput(const std::string& from, const std::string& to, const Names& names) {
  if (to.empty() || Renamed(from, names) == to) return;
  onnx::NodeProto& identity = *graph_.add_node();
  identity.set_op_type("Identity");
  identity.add_input(Renamed(from, names));
  identity.add_output(to);
}

std::string BodyInliner::AppendConstant(const std::string& name, onnx::TensorProto value) {
  onnx::NodeProto& constant = *graph_.add_node();
  constant.set_op_type("Constant");
  constant.add_output(name);
  onnx::AttributeProto& attribute = *constant.add_attribute();
  attribute.set_name("value");
  attribute.set_type(onnx::AttributeProto::TENSOR);
  *attribute.mutable_t() = std::move(value);
  return name;
}

// Axes are an input from opset 13 on.
std::string BodyInliner::AppendUnsqueezed(const std::string& from, const std::string& to,
                                          int64_t axis) {
  std::string axes;
  if (opset_ >= 13) {
    onnx::TensorProto place = Scalar(onnx::TensorProto::INT64, axis);
    place.add_dims(1);
    axes = AppendConstant(Unique(to + "/axes", to), std::move(place));
  }
  onnx::NodeProto& unsqueeze = *graph_.add_node();
  unsqueeze.set_op_type("Unsqueeze");
  unsqueeze.add_input(from);
  if (!axes.empty()) unsqueeze.add_input(axes);
  if (axes.empty()) AddInts(unsqueeze, "axes", axis);
  unsqueeze.add_output(to);
  return to;
}

// A part for each iteration; equal ones are made once.
void BodyInliner::AppendList(const std::vector<std::string>& parts, const std::string& to) {
  if (to.empty()) return;
  if (parts.size() == 1) {
    AppendUnsqueezed(parts[0], to);
    return;
  }
  copies_ += std::ssize(parts);
  if (copies_ > kMaxCopies) {
    throw Error(
        {.file = path_,
         .where = "loops",
         .text = fmt::format("lists of at most {} parts were expected, found more", kMaxCopies)});
  }
  std::vector<std::string> unsqueezed;
  for (size_t i = 0; i < parts.size(); ++i) {
    const bool is_new = i == 0 || parts[i] != parts[i - 1];
    unsqueezed.push_back(is_new ? AppendUnsqueezed(parts[i], Unique(to + "/each", to))
                                : unsqueezed.back());
  }
  AppendConcat(unsqueezed, to, 0);
}

onnx::NodeProto& BodyInliner::AppendConcat(const std::vector<std::string>& parts,
                                           const std::string& to, int64_t axis) {
  onnx::NodeProto& concat = *graph_.add_node();
  concat.set_op_type("Concat");
  for (const std::string& part : parts) concat.add_input(part);
  concat.add_output(to);
  onnx::AttributeProto& along = *concat.add_attribute();
  along.set_name("axis");
  along.set_type(onnx::AttributeProto::INT);
  along.set_i(axis);
  return concat;
}

void BodyInliner::InlineStack(const onnx::NodeProto& node,
                              const std::vector<std::string>& elements) {
  const int64_t axis = IntAttribute(node, "axis", 0);
  const std::string& to = node.output(0);
  std::vector<std::string> parts;
  for (const std::string& element : elements) {
    parts.push_back(AppendUnsqueezed(element, Unique(to + "/each", to), axis));
  }
  onnx::NodeProto& concat = AppendConcat(parts, to, axis);
  concat.set_name(node.name());
  *concat.mutable_metadata_props() = node.metadata_props();
}

void BodyInliner::InlineBranch(const onnx::NodeProto& node, const onnx::GraphProto& body) {
  const std::string prefix = PrefixOf(node);
  const int outputs = std::min(node.output_size(), body.output_size());
  Names names;
  for (int i = 0; i < outputs; ++i) NameOutput(body, body.output(i).name(), node.output(i), names);
  NameLocals(body, prefix, names);
  AppendBody(body, prefix, names);
  for (int i = 0; i < outputs; ++i) AppendOutput(body.output(i).name(), node.output(i), names);
}

// `names` has what is carried.
void BodyInliner::AppendIteration(const onnx::GraphProto& body, const std::string& prefix,
                                  int64_t trip, Names& names) {
  const onnx::TensorProto parts[] = {Scalar(onnx::TensorProto::INT64, trip),
                                     Scalar(onnx::TensorProto::BOOL, 1)};
  for (int i = 0; i < std::min(body.input_size(), 2); ++i) {
    const std::string name = Unique(body.input(i).name(), prefix);
    names[body.input(i).name()] = AppendConstant(name, parts[i]);
  }
  NameLocals(body, prefix, names);
  AppendBody(body, prefix, names);
}

// Loop: (most trips, condition, carried ...) -> (carried ..., lists ...)
// body: (trip, condition, carried ...) -> (condition, carried ..., elements of lists ...)
void BodyInliner::InlineLoop(const onnx::NodeProto& node, const onnx::GraphProto& body,
                             Iterations iterations) {
  const std::string prefix = PrefixOf(node);
  const int count = std::max(node.input_size() - 2, 0);
  const int outputs = std::min(node.output_size(), body.output_size() - 1);
  std::vector<std::string> carried;
  for (int i = 0; i < count; ++i) carried.push_back(node.input(i + 2));
  std::vector<std::vector<std::string>> lists(Index(std::max(outputs - count, 0)));
  // A list of no parts has no type.
  const int64_t copies = std::max<int64_t>(iterations.copies, lists.empty() ? 0 : 1);
  for (int64_t trip = 0; trip < copies; ++trip) {
    Names names;
    for (int i = 0; i < std::min(count, body.input_size() - 2); ++i) {
      names[body.input(i + 2).name()] = carried[Index(i)];
    }
    for (int i = 0; trip + 1 == copies && i < std::min(outputs, count); ++i) {
      NameOutput(body, body.output(i + 1).name(), node.output(i), names);
    }
    AppendIteration(body, prefix, trip, names);
    for (int i = 0; i < std::min(count, body.output_size() - 1); ++i) {
      carried[Index(i)] = Renamed(body.output(i + 1).name(), names);
    }
    for (int i = count; i < outputs; ++i) {
      lists[Index(i - count)].push_back(Renamed(body.output(i + 1).name(), names));
    }
  }
  for (int i = 0; i < std::min(outputs, count); ++i) {
    AppendOutput(carried[Index(i)], node.output(i), {});
  }
  const int64_t trips = iterations.trips.value_or(1);
  for (int i = count; i < outputs; ++i) {
    std::vector<std::string>& parts = lists[Index(i - count)];
    if (trips <= kMaxTrips) parts.resize(Index(std::max<int64_t>(trips, 1)), parts.back());
    AppendList(parts, node.output(i));
  }
}

void BodyInliner::InlineMap(const onnx::NodeProto& node, const onnx::GraphProto& body,
                            const std::vector<std::vector<std::string>>& elements) {
  const std::string prefix = PrefixOf(node);
  const int outputs = std::min(node.output_size(), body.output_size());
  std::vector<std::vector<std::string>> made(Index(outputs));
  for (size_t place = 0; place < elements[0].size(); ++place) {
    Names names;
    for (int i = 0; i < std::min(node.input_size(), body.input_size()); ++i) {
      const std::vector<std::string>& list = elements[Index(i)];
      names[body.input(i).name()] = list[std::min(place, list.size() - 1)];
    }
    NameLocals(body, prefix, names);
    AppendBody(body, prefix, names);
    for (int i = 0; i < outputs; ++i) {
      made[Index(i)].push_back(Renamed(body.output(i).name(), names));
    }
  }
  for (int i = 0; i < outputs; ++i) {
    onnx::NodeProto& list = *graph_.add_node();
    list.set_op_type("SequenceConstruct");
    for (const std::string& part : made[Index(i)]) list.add_input(part);
    list.add_output(node.output(i));
  }
}

}  // namespace onnxfit
