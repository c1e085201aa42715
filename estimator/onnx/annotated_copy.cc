#include "estimator/onnx/annotated_copy.h"

#include <fmt/format.h>
#include <google/protobuf/stubs/logging.h>

#include <limits>
#include <optional>

#include "estimator/base/error.h"
#include "estimator/base/file_bytes.h"
#include "estimator/onnx/loader.h"
#include "estimator/onnx/onnx_model.h"

namespace onnxfit {
namespace {

constexpr size_t kMostProtobufBytes = std::numeric_limits<int32_t>::max();

onnx::ModelProto ReadWhole(const std::string& path) {
  if (path.ends_with(".onnxtxt")) {
    return ParseOnnxText(FileBytes(path, [](std::string_view) {}).bytes());
  }
  const FileBytes file(path, RefuseOtherFormats);
  onnx::ModelProto model;
  const google::protobuf::LogSilencer silencer;
  const std::string_view bytes = file.bytes();
  if (bytes.size() > kMostProtobufBytes ||
      !model.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) {
    throw Error(
        {.file = path,
         .text = "expected a model that protobuf reads as a whole",
         .hint = "weights in a file of their own, onnx.save(…, save_as_external_data=True)"});
  }
  return model;
}

// Of a node, a tensor or the model: what was there from an earlier copy goes.
template <typename Holder>
void Put(const Annotations& notes, Holder& holder) {
  auto& entries = *holder.mutable_metadata_props();
  for (int i = entries.size() - 1; i >= 0; --i) {
    if (entries.Get(i).key().starts_with(kNotePrefix)) entries.DeleteSubrange(i, 1);
  }
  for (const auto& [key, text] : notes) {
    onnx::StringStringEntryProto& entry = *entries.Add();
    entry.set_key(std::string(kNotePrefix) + key);
    entry.set_value(text);
  }
}

const Annotations& Of(const std::map<std::string, Annotations, std::less<>>& notes,
                      const std::string& name) {
  static const Annotations kNone;
  const auto found = notes.find(name);
  return found == notes.end() ? kNone : found->second;
}

size_t PutOnNodes(const FileNotes& notes, onnx::GraphProto& graph) {
  size_t count = 0;
  for (int i = 0; i < graph.node_size(); ++i) {
    onnx::NodeProto& node = *graph.mutable_node(i);
    const std::string name =
        node.name().empty() ? fmt::format("{} #{}", node.op_type(), i) : node.name();
    const Annotations& own = Of(notes.nodes, name);
    if (!own.empty()) ++count;
    Put(own, node);
  }
  return count;
}

std::set<std::string> WeightFiles(const onnx::GraphProto& graph) {
  std::set<std::string> files;
  for (const onnx::TensorProto& tensor : graph.initializer()) {
    for (const onnx::StringStringEntryProto& entry : tensor.external_data()) {
      if (entry.key() == "location") files.insert(entry.value());
    }
  }
  return files;
}

}  // namespace

AnnotatedCopy Annotate(const std::string& path, const FileNotes& notes) {
  onnx::ModelProto model = ReadWhole(path);
  Put(notes.model, model);
  onnx::GraphProto& graph = *model.mutable_graph();
  AnnotatedCopy copy = {
      .bytes = {}, .nodes = PutOnNodes(notes, graph), .weight_files = WeightFiles(graph)};
  for (onnx::TensorProto& tensor : *graph.mutable_initializer()) {
    Put(Of(notes.tensors, tensor.name()), tensor);
  }
  for (onnx::ValueInfoProto& input : *graph.mutable_input()) {
    Put(Of(notes.tensors, input.name()), input);
  }
  if (model.ByteSizeLong() > kMostProtobufBytes || !model.SerializeToString(&copy.bytes)) {
    throw Error({.file = path, .text = "expected a copy of at most 2 GiB, protobuf's limit"});
  }
  return copy;
}

}  // namespace onnxfit
