// A model's file once more, with notes in the metadata of its nodes and tensors: viewers show them
// (Netron: "metadata" of a node, of a tensor, of the model).
#pragma once

#include <cstddef>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace onnxfit {

// What every key of ours begins with.
inline constexpr std::string_view kNotePrefix = "onnxfit.";

// Keys behind kNotePrefix, and texts.
using Annotations = std::vector<std::pair<std::string, std::string>>;

struct FileNotes {
  Annotations model = {};
  std::map<std::string, Annotations, std::less<>> nodes = {};    // by DisplayName (graph.h)
  std::map<std::string, Annotations, std::less<>> tensors = {};  // initializers and inputs, by name
};

struct AnnotatedCopy {
  std::string bytes;  // ONNX protobuf
  size_t nodes = 0;   // that have got notes
  // Files with weights, as the model names them: the copy looks for them in its own folder.
  std::set<std::string> weight_files = {};
};

// A copy of the file at `path` (ONNX protobuf, or text where it ends in ".onnxtxt"; "-" is standard
// input) with `notes`; those of an earlier copy go.  Nothing else is changed: weights, names,
// versions.  (metadata_props of nodes and tensors: onnx.proto, IR version 10; earlier readers skip
// them.)  Throws Error, also where the copy would be larger than protobuf's 2 GiB.
AnnotatedCopy Annotate(const std::string& path, const FileNotes& notes);

}  // namespace onnxfit
