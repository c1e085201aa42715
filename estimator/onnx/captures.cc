#include "estimator/onnx/captures.h"

#include <algorithm>
#include <unordered_set>

namespace onnxfit {
namespace {

class Captures {
 public:
  std::vector<std::string_view> Of(const onnx::NodeProto& node) {
    VisitAttributes(node);
    return std::move(captured_);
  }

 private:
  void VisitAttributes(const onnx::NodeProto& node) {
    for (const onnx::AttributeProto& attribute : node.attribute()) {
      if (attribute.has_g()) VisitGraph(attribute.g());
      for (const onnx::GraphProto& graph : attribute.graphs()) VisitGraph(graph);
    }
  }

  void VisitGraph(const onnx::GraphProto& graph) {
    scopes_.push_back(NamesIn(graph));
    for (const onnx::NodeProto& node : graph.node()) {
      for (const std::string& name : node.input()) Use(name);
      VisitAttributes(node);
    }
    for (const onnx::ValueInfoProto& output : graph.output()) Use(output.name());
    scopes_.pop_back();
  }

  static std::unordered_set<std::string_view> NamesIn(const onnx::GraphProto& graph) {
    std::unordered_set<std::string_view> names;
    for (const onnx::ValueInfoProto& input : graph.input()) names.insert(input.name());
    for (const onnx::TensorProto& tensor : graph.initializer()) names.insert(tensor.name());
    for (const onnx::SparseTensorProto& tensor : graph.sparse_initializer()) {
      names.insert(tensor.values().name());
    }
    for (const onnx::NodeProto& node : graph.node()) {
      for (const std::string& name : node.output()) names.insert(name);
    }
    return names;
  }

  void Use(std::string_view name) {
    if (name.empty()) return;
    const auto has_name = [name](const auto& scope) { return scope.contains(name); };
    if (std::any_of(scopes_.rbegin(), scopes_.rend(), has_name)) return;
    if (seen_.insert(name).second) captured_.push_back(name);
  }

  std::vector<std::unordered_set<std::string_view>> scopes_;
  std::unordered_set<std::string_view> seen_;
  std::vector<std::string_view> captured_;
};

}  // namespace

std::vector<std::string_view> CapturedNames(const onnx::NodeProto& node) {
  return Captures().Of(node);
}

}  // namespace onnxfit
