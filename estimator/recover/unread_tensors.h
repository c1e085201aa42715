// Parameters of known libraries that no result of a model needs: TorchScript's exporter leaves
// them out.  Internal to the room recover/.
#pragma once

#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace onnxfit {

struct UnreadTensor {
  std::string name;         // "vision_model.post_layernorm.weight"
  std::string_view module;  // "vision_model", which holds it behind all that the file has of it
  std::string_view like;    // the tensor of the file that has its type
};

// Of a file with the tensors `names`, which must outlive the result.  O(names × log (names)).
std::vector<UnreadTensor> FindUnreadTensors(const std::set<std::string_view>& names);

}  // namespace onnxfit
