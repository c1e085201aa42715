// The body of an If or a Loop, written out among the nodes around it.  Internal to the
// room onnx/.
#pragma once

#include <onnx/onnx_pb.h>

#include <cstdint>
#include <optional>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <utility>

namespace onnxfit {

// Appends nodes to a graph under names that nothing in it has.
class BodyInliner {
 public:
  // `graph` has the initializers and all that is not replaced; `taken` are the names of
  // its values and nodes, before and after; `path` is what an error says.
  BodyInliner(onnx::GraphProto& graph, std::unordered_set<std::string> taken, int64_t opset,
              std::string path)
      : graph_(graph), taken_(std::move(taken)), opset_(opset), path_(std::move(path)) {}

  // `body` is one of the two branches of `node`.
  void InlineBranch(const onnx::NodeProto& node, const onnx::GraphProto& body);

  // One iteration.  What each iteration adds to a list is there `trips` times where that
  // is known and not above kMaxTrips, else once.  Throws Error where lists exceed kMaxCopies.
  void InlineLoop(const onnx::NodeProto& node, const onnx::GraphProto& body,
                  std::optional<int64_t> trips);

  static constexpr int64_t kMaxTrips = 1024;
  static constexpr int64_t kMaxCopies = 1 << 17;  // of all lists together

 private:
  using Names = std::unordered_map<std::string, std::string>;  // in the body -> outside

  std::string Unique(const std::string& name, const std::string& prefix);
  void NameLocals(const onnx::GraphProto& body, const std::string& prefix, Names& names);
  void AppendBody(const onnx::GraphProto& body, const std::string& prefix, const Names& names);
  void AppendOutput(const std::string& from, const std::string& to, const Names& names);
  void AppendList(const std::string& from, const std::string& to, const Names& names,
                  std::optional<int64_t> trips);
  std::string AppendConstant(const std::string& name, onnx::TensorProto value);
  std::string AppendUnsqueezed(const std::string& from, const std::string& to);

  onnx::GraphProto& graph_;
  std::unordered_set<std::string> taken_;
  int64_t opset_;
  std::string path_;
  int64_t copies_ = 0;
};

}  // namespace onnxfit
