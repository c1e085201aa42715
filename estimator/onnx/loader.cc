#include "estimator/onnx/loader.h"

#include <fmt/format.h>
#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/stubs/logging.h>

#include <functional>
#include <utility>
#include <vector>

#include "estimator/base/error.h"
#include "estimator/base/file_bytes.h"
#include "estimator/base/text.h"
#include "estimator/onnx/diagonals.h"
#include "estimator/onnx/external_data.h"
#include "estimator/onnx/functions.h"
#include "estimator/onnx/missing_initializers.h"
#include "estimator/onnx/onnx_model.h"
#include "estimator/onnx/other_formats.h"
#include "estimator/onnx/shorten.h"
#include "estimator/onnx/stored_contents.h"
#include "estimator/onnx/text_form.h"

namespace onnxfit {
namespace {

constexpr size_t kFormatBytes = 4096;  // tell formats apart

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

// A file, read and not yet understood.
struct ReadFile {
  onnx::ModelProto model;
  std::string digest;
  std::vector<CutTensor> cut_tensors = {};
  std::vector<std::string> notes = {};
};

ReadFile ReadModel(std::string_view bytes, const LoadOptions& options,
                   const std::function<void(std::string_view)>& passed) {
  Shortened shortened = ShortenModel(bytes, options, passed);
  const std::string_view kept = shortened.copy ? std::string_view(*shortened.copy) : bytes;
  ReadFile read = {.model = ParseModel(kept),
                   .digest = Digest(kept),
                   .cut_tensors = std::move(shortened.cut_tensors)};
  if (shortened.cut_texts > 0) {
    read.notes.push_back(fmt::format("left out {} overlong texts", shortened.cut_texts));
  }
  return read;
}

ReadFile ReadText(std::string_view text) {
  return {.model = ParseOnnxText(text), .digest = Digest(text)};
}

bool IsText(const std::string& path) { return path.ends_with(".onnxtxt"); }

// `path` is where external data is looked for, `name` what messages call the file.
Graph Finish(ReadFile read, const std::string& path, const std::string& name,
             const LoadOptions& options) {
  if (read.model.has_graph()) {
    InlineFunctions(read.model, read.notes);
    DeclareMissingInitializers(read.model, read.notes);
    ReadSmallExternalTensors(*read.model.mutable_graph(), path, options, read.notes);
  }
  Graph graph = BuildGraph(std::move(read.model), name, std::move(read.notes));
  graph.digest = std::move(read.digest);
  graph.diagonals =
      ReadDiagonals(graph, StoredContents(graph.model->proto.graph(), read.cut_tensors, path));
  return graph;
}

Graph LoadPath(const std::string& path, const std::string& name, const LoadOptions& options) {
  if (IsText(path)) {
    return Finish(ReadText(FileBytes(path, [](std::string_view) {}).bytes()), path, name, options);
  }
  const FileBytes file(path, RefuseOtherFormats);
  const auto release = [&](std::string_view part) { file.Release(part); };
  return file.ReadBy([&](std::string_view bytes) {
    return Finish(ReadModel(bytes, options, release), path, name, options);
  });
}

ReadFile ReadBytes(std::string_view bytes, const std::string& path, const LoadOptions& options) {
  if (IsText(path)) return ReadText(bytes);
  RefuseOtherFormats(bytes.substr(0, kFormatBytes));
  return ReadModel(bytes, options, {});
}

}  // namespace

Graph LoadGraph(const std::string& path, const LoadOptions& options) {
  const std::string name = path == "-" ? "<stdin>" : path;
  return WithFile(name, [&] { return LoadPath(path, name, options); });
}

Graph LoadGraphFrom(std::string_view bytes, const std::string& path, const std::string& name,
                    const LoadOptions& options) {
  return WithFile(name,
                  [&] { return Finish(ReadBytes(bytes, path, options), path, name, options); });
}

Graph ParseGraph(std::string_view text, std::string path) {
  return WithFile(path, [&] { return Finish(ReadText(text), path, path, {}); });
}

}  // namespace onnxfit
