// The contents of a file's tensors: cut out before ONNX's parser sees them, read from files beside
// it, and where they lie, so that a few bytes of them can be read.  Internal to the room onnx/.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "estimator/base/tensor_type.h"
#include "estimator/onnx/graph.h"
#include "estimator/onnx/loader.h"

namespace onnx {
class GraphProto;
class TensorProto;
}  // namespace onnx

namespace onnxfit {

// --- A model without its weights -----------------------------------------------

// A tensor that lost its contents; views of the file.
struct CutTensor {
  std::string_view name;
  std::string_view raw_data;  // "" where the elements lie in typed fields
};

struct Shortened {
  std::optional<std::string> copy;  // of all that is left; absent where nothing was cut
  std::vector<CutTensor> cut_tensors = {};
  int64_t cut_texts = 0;  // doc strings and the like, too long to be kept
};

// Cuts the contents of tensors larger than `options` keeps out of `file`, a ModelProto,
// wherever they are: initializers, attributes, sub-graphs, functions.  Lengths of the
// messages around them are written anew.  The bytes of a skipped tensor are not touched.
// Fields that onnx.proto does not have are dropped, as protobuf ignores them.
// `passed`, where given, is told of parts that were looked at, each of some MiB: their
// pages may go.  Throws Error (without a file) for what is not a ModelProto, and for one that would
// not fit in 1 GiB of memory even so.  O(fields).
Shortened ShortenModel(std::string_view file, const LoadOptions& options,
                       const std::function<void(std::string_view)>& passed = {});

// --- Files next to the model (onnx/docs/ExternalData.md) -----------------------

// Where a tensor's elements lie, as its external_data says; -1 for what is no number.
struct Extent {
  std::string location = {};
  int64_t offset = 0;
  std::optional<int64_t> length = {};
};
Extent ExtentOf(const onnx::TensorProto& tensor);

// Whether such a location is below the model's folder.
bool StaysInFolder(const std::filesystem::path& location);

// Reads what shapes may be computed from, integer and bool tensors of at most
// `options.keep_integer_bytes`, from the files next to `model_path` into the graph's
// initializers.  No other file is opened; paths that lead elsewhere never are.  What is
// missing is no error: `notes` say what was there and what was read.
void ReadSmallExternalTensors(onnx::GraphProto& graph, const std::string& model_path,
                              const LoadOptions& options, std::vector<std::string>& notes);

// `size` bytes of the tensor's contents from `offset` on, out of a file next to `model_path`; ""
// where they are not there.
std::string ReadExternalBytes(const onnx::TensorProto& tensor, const std::string& model_path,
                              int64_t offset, int64_t size);

// --- A few bytes of what was cut out -------------------------------------------

// Where the contents of a file's tensors lie.
class StoredContents {
 public:
  // The file's bytes, of which `cut` are views, and all else that is given must outlive it.
  StoredContents(const onnx::GraphProto& graph, const std::vector<CutTensor>& cut,
                 const std::string& model_path);

  // `size` bytes of the initializer `name` from `offset` on: out of the file, what was kept of it,
  // or a file next to it.  "" where they are not there, or the contents are not those of `type`.
  std::string Read(std::string_view name, const TensorType& type, int64_t offset,
                   int64_t size) const;

 private:
  const std::string& model_path_;
  std::unordered_map<std::string_view, std::string_view> cut_;
  std::unordered_map<std::string_view, const onnx::TensorProto*> kept_;
};

// The first elements on the diagonals of matrices.  They say whether one is the transpose of
// another, as a head may be that of an embedding, at the price of a few pages of the file.
// Of those alone of which one is gathered from, and another, with the sizes of its transpose, is
// what a product multiplies with: 16 elements of each.  O(nodes × log nodes).
Diagonals ReadDiagonals(const Graph& graph, const StoredContents& contents);

}  // namespace onnxfit
