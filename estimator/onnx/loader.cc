#include "estimator/onnx/loader.h"

#include <fmt/format.h>
#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/stubs/logging.h>
#include <onnx/defs/parser.h>

#include <algorithm>
#include <functional>
#include <future>
#include <memory>
#include <optional>
#include <stdexcept>
#include <utility>
#include <vector>

#include "estimator/base/bytes.h"
#include "estimator/base/error.h"
#include "estimator/base/file_bytes.h"
#include "estimator/base/text.h"
#include "estimator/onnx/onnx_model.h"
#include "estimator/onnx/tensor_contents.h"

namespace onnxfit {

// --- Files that are no ONNX model ----------------------------------------------

namespace {

using std::string_view_literals::operator""sv;

constexpr std::string_view kExport = "export it: torch.onnx.export(model, args, 'model.onnx')";
constexpr std::string_view kConvert = "an ONNX export of the same model";

struct Format {
  size_t offset;
  std::string_view magic;
  std::string_view name;
  std::string_view hint;
};

constexpr Format kFormats[] = {
    {0, "version https://git-lfs"sv, "a Git LFS pointer, the model itself is not here",
     "git lfs pull"},
    {0, "PK\x03\x04"sv, "a zip archive, as torch.save and numpy write", kExport},
    {0, "\x80\x02"sv, "a Python pickle, as an old torch.save writes", kExport},
    {0, "\x80\x03"sv, "a Python pickle", kExport},
    {0, "\x80\x04"sv, "a Python pickle", kExport},
    {8, "{\""sv, "safetensors: weights without a graph", kExport},
    {0, "\x89HDF\r\n\x1a\n"sv, "HDF5, as Keras writes", kConvert},
    {4, "TFL3"sv, "a TensorFlow Lite model", kConvert},
    {4, "ORTM"sv, "a model in ONNX Runtime's own format", "the .onnx file it was made from"},
    {0, "GGUF"sv, "GGUF: weights without a graph", kExport},
    {0, "\x93NUMPY"sv, "a NumPy array", kExport},
    {0, "\x1f\x8b"sv, "a gzip archive", "gunzip"},
    {0, "<!DOCTYPE"sv, "a web page, so the download went wrong", "download it again"},
    {0, "<html"sv, "a web page, so the download went wrong", "download it again"},
    {0, "\0\0\0\0\0\0\0\0"sv, "zeros", "copy it again"},
};

bool IsTextByte(char c) {
  const auto byte = static_cast<unsigned char>(c);
  return byte >= 0x20 ? byte != 0x7f : c == '\n' || c == '\r' || c == '\t' || c == '\f';
}

[[noreturn]] void Refuse(std::string_view found, std::string_view hint) {
  throw Error({.text = fmt::format("an ONNX model was expected, found {}", found),
               .hint = std::string(hint)});
}

}  // namespace

void RefuseOtherFormats(std::string_view first) {
  for (const Format& format : kFormats) {
    if (first.size() >= format.offset && first.substr(format.offset).starts_with(format.magic)) {
      Refuse(format.name, format.hint);
    }
  }
  // A model has bytes below 0x20 from the start: lengths, field numbers.
  if (!first.empty() && std::all_of(first.begin(), first.end(), IsTextByte)) {
    Refuse("text", "an .onnx file; ONNX's text form needs the ending .onnxtxt");
  }
}

// --- ONNX's text form ----------------------------------------------------------

namespace {

// A bare graph is read as of opset 17, the last one that torch's old exporter writes.
constexpr int64_t kIrVersion = 8;
constexpr int64_t kOpset = 17;

constexpr int64_t kMaxTextBytes = 16 * kMiB;
constexpr int kMaxBracketDepth = 100;  // brackets; ONNX's parser is recursive
constexpr size_t kMaxContext = 60;

std::string Where(std::string_view text, size_t at) {
  const std::string_view before = text.substr(0, at);
  const auto line = std::count(before.begin(), before.end(), '\n') + 1;
  const size_t line_start = before.rfind('\n') + 1;  // npos + 1 is 0
  return fmt::format("line {}, column {}", line, at - line_start + 1);
}

void CheckDepth(std::string_view text) {
  int depth = 0;
  bool quoted = false;
  for (size_t at = 0; at < text.size(); ++at) {
    const char c = text[at];
    if (quoted && c == '\\') {
      ++at;
    } else if (c == '"') {
      quoted = !quoted;
    } else if (!quoted && c == '#') {
      at = std::min(text.find('\n', at), text.size());
    } else if (!quoted && (c == '(' || c == '{')) {
      if (++depth <= kMaxBracketDepth) continue;
      throw Error({.where = Where(text, at),
                   .text = fmt::format("at most {} brackets inside one another were expected, "
                                       "found more",
                                       kMaxBracketDepth)});
    } else if (!quoted && (c == ')' || c == '}')) {
      --depth;
    }
  }
}

// The text between `from` and the first `to` after it, and what follows in `rest`.
std::string_view Between(std::string_view& rest, std::string_view from, std::string_view to) {
  const size_t begin = std::min(rest.find(from), rest.size());
  rest.remove_prefix(std::min(begin + from.size(), rest.size()));
  const size_t end = std::min(rest.find(to), rest.size());
  const std::string_view found = rest.substr(0, end);
  rest.remove_prefix(std::min(end + to.size(), rest.size()));
  return found;
}

std::string_view Trim(std::string_view text) {
  constexpr std::string_view kSpace = " \t\r\n";
  const size_t first = text.find_first_not_of(kSpace);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(kSpace) - first + 1);
}

// The first character that is neither space nor in a comment, 0 if there is none.
char FirstCharacter(std::string_view text) {
  text = Trim(text);
  while (text.starts_with('#')) text = Trim(text.substr(std::min(text.find('\n'), text.size())));
  return text.empty() ? '\0' : text.front();
}

// ONNX says "[ParseError at position (line: 3 column: 5)]\nError context: LINE\nMESSAGE".
[[noreturn]] void Fail(std::string_view message) {
  const std::string_view line = Between(message, "(line: ", " column: ");
  const std::string_view column = Between(message, "", ")]");
  const std::string_view context = Trim(Between(message, "Error context: ", "\n"));
  std::string what(Trim(message));
  if (what.ends_with('.')) what.pop_back();
  std::replace(what.begin(), what.end(), '\n', ' ');
  throw Error({.where = fmt::format("line {}, column {}", line, column),
               .text = fmt::format("{}, in: {}", what, context.substr(0, kMaxContext))});
}

// Throws where `parser` is not content.
void Require(const onnx::Common::Status& status) {
  if (!status.IsOK()) Fail(status.ErrorMessage());
}

onnx::ModelProto ParseModel(onnx::OnnxParser& parser, bool is_model) {
  onnx::ModelProto model;
  if (is_model) {
    Require(parser.Parse(model));
    return model;
  }
  model.set_ir_version(kIrVersion);
  model.add_opset_import()->set_version(kOpset);
  Require(parser.Parse(*model.mutable_graph()));
  return model;
}

}  // namespace

onnx::ModelProto ParseOnnxText(std::string_view text) {
  if (static_cast<int64_t>(text.size()) > kMaxTextBytes) {
    throw Error({.text = fmt::format("at most {} of text were expected, found {}",
                                     FormatBytes(kMaxTextBytes),
                                     FormatBytes(static_cast<int64_t>(text.size())))});
  }
  const char first = FirstCharacter(text);
  if (first == 0) throw Error({.text = "an ONNX model was expected, found no text"});
  CheckDepth(text);
  onnx::OnnxParser parser(text);
  onnx::ModelProto model;
  try {
    model = ParseModel(parser, first == '<');
  } catch (const Error&) {
    throw;
  } catch (const std::out_of_range&) {  // std::stoll
    throw Error({.text = "numbers of 64 bits were expected, found a larger one"});
  } catch (const std::exception& error) {
    throw Error({.text = "ONNX text was expected, found what its parser does not take",
                 .detail = fmt::format("ONNX says: {}", error.what())});
  }
  if (!parser.EndOfInput()) throw Error({.text = "one model was expected, more text follows it"});
  return model;
}

// --- From bytes to a Graph -----------------------------------------------------

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
  std::future<std::string> digest = DigestMeanwhile(kept);
  ReadFile read = {
      .model = ParseModel(kept), .digest = {}, .cut_tensors = std::move(shortened.cut_tensors)};
  read.digest = digest.get();
  if (shortened.cut_texts > 0) {
    read.notes.push_back(fmt::format("left out {} overlong texts", shortened.cut_texts));
  }
  return read;
}

ReadFile ReadText(std::string_view text) {
  return {.model = ParseOnnxText(text), .digest = Digest(text)};
}

bool IsText(const std::string& path) { return path.ends_with(".onnxtxt"); }

// Of the tensors that `read` has now; looked for when the first one is asked for.
ReadElements ElementsIn(const ReadFile& read, const std::string& path) {
  auto contents = std::make_shared<std::optional<StoredContents>>();
  return [&read, &path, contents](const onnx::TensorProto& tensor) {
    if (!contents->has_value()) contents->emplace(read.model.graph(), read.cut_tensors, path);
    const TensorType type = TypeOfInitializer(tensor);
    return (*contents)->Read(tensor.name(), type, 0, BytesOf(type));
  };
}

// `path` is where external data is looked for, `name` what messages call the file.
Graph Finish(ReadFile read, const std::string& path, const std::string& name,
             const LoadOptions& options) {
  Warnings warnings;
  if (read.model.has_graph()) {
    InlineFunctions(read.model, read.notes);
    UpgradeOldOpset(read.model, read.notes);
    FreeUnknownDims(*read.model.mutable_graph());
    if (std::optional<Warning> bare = StoreBareParameters(*read.model.mutable_graph())) {
      warnings.push_back(*std::move(bare));
    }
    CountPermutationsFromFront(read.model);
    JoinWindowsInFront(read.model, read.notes);
    DeclareMissingInitializers(read.model, read.notes);
    ReadSmallExternalTensors(*read.model.mutable_graph(), path, options, read.notes);
    UnfoldTensors(read.model, ElementsIn(read, path), read.notes, warnings);
  }
  Graph graph = BuildGraph(std::move(read.model), name, std::move(read.notes));
  graph.digest = std::move(read.digest);
  graph.warnings.insert(graph.warnings.end(), warnings.begin(), warnings.end());
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
