// Where the contents of a file's tensors lie, so that a few bytes of them can be read.  Internal
// to the room onnx/.
#pragma once

#include <onnx/onnx_pb.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "estimator/base/tensor_type.h"
#include "estimator/onnx/shorten.h"

namespace onnxfit {

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

}  // namespace onnxfit
