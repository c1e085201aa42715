#include "estimator/graph/loader.h"

#include <fmt/format.h>
#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/stubs/logging.h>

#include <utility>
#include <vector>

#include "estimator/base/error.h"
#include "estimator/graph/external_data.h"
#include "estimator/graph/file_bytes.h"
#include "estimator/graph/functions.h"
#include "estimator/graph/onnx_model.h"
#include "estimator/graph/other_formats.h"
#include "estimator/graph/shorten.h"
#include "estimator/graph/text_form.h"

namespace onnxfit {
namespace {

// Calls `load`; an Error that does not know its file gets `path`.
template <typename Load>
Graph WithFile(const std::string& path, Load load) {
  try {
    return load();
  } catch (const Error& error) {
    Error::Parts parts = error.parts();
    if (parts.file.empty()) parts.file = path;
    throw Error(std::move(parts));
  }
}

onnx::ModelProto ParseModel(std::string_view bytes) {
  // ShortenModel lets no more than 256 MiB through.
  google::protobuf::io::CodedInputStream stream(reinterpret_cast<const uint8_t*>(bytes.data()),
                                                static_cast<int>(bytes.size()));
  const google::protobuf::LogSilencer silencer;  // what is wrong is said once, by us
  onnx::ModelProto model;
  if (!model.ParseFromCodedStream(&stream) || !stream.ConsumedEntireMessage()) {
    throw Error({.text = "an ONNX model was expected, ONNX's own parser refuses this one",
                 .hint = "copy or export it again, it is damaged"});
  }
  return model;
}

onnx::ModelProto ReadModel(const std::string& path, const LoadOptions& options,
                           std::vector<std::string>& notes) {
  const FileBytes file(path, RefuseOtherFormats);
  const Shortened shortened =
      ShortenModel(file.bytes(), options, [&](std::string_view part) { file.Release(part); });
  if (shortened.cut_texts > 0) {
    notes.push_back(fmt::format("left out {} overlong texts", shortened.cut_texts));
  }
  return ParseModel(shortened.copy ? std::string_view(*shortened.copy) : file.bytes());
}

onnx::ModelProto ReadText(const std::string& path) {
  const FileBytes file(path, [](std::string_view) {});
  return ParseOnnxText(file.bytes());
}

Graph Finish(onnx::ModelProto model, const std::string& path, const std::string& name,
             const LoadOptions& options, std::vector<std::string> notes) {
  if (model.has_graph()) {
    InlineFunctions(model, notes);
    ReadSmallExternalTensors(*model.mutable_graph(), path, options, notes);
  }
  return BuildGraph(std::move(model), name, std::move(notes));
}

}  // namespace

Graph LoadGraph(const std::string& path, const LoadOptions& options) {
  const std::string name = path == "-" ? "<stdin>" : path;
  return WithFile(name, [&] {
    std::vector<std::string> notes;
    onnx::ModelProto model =
        path.ends_with(".onnxtxt") ? ReadText(path) : ReadModel(path, options, notes);
    return Finish(std::move(model), path, name, options, std::move(notes));
  });
}

Graph ParseGraph(std::string_view text, std::string path) {
  return WithFile(path, [&] { return Finish(ParseOnnxText(text), path, path, {}, {}); });
}

}  // namespace onnxfit
