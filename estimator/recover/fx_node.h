// The call that a node came from, as torch.export's exporter writes it into the node's
// metadata (torch 2.5 to 2.11):
//   %linear : [num_users=1] = call_function[target=torch.ops.aten.linear.default](
//       args = (%view, %p_fc_weight, %p_fc_bias), kwargs = {})
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "estimator/onnx/graph.h"

namespace onnxfit {

struct FxArgument {
  enum class Kind : uint8_t {
    kReference,  // %name: `text` is the name
    kNumber,     // 3, 0.1, -inf: `text`; whole numbers also in `number`
    kWord,       // None, True, torch.float32, 'none': `text` without quotes
    kList,       // [a, b] or (a, b): `items`
  };
  Kind kind = Kind::kWord;
  std::string_view text = {};
  int64_t number = 0;
  std::vector<FxArgument> items = {};
};

struct FxNode {
  std::string_view name;    // "linear", the key of a group of nodes
  std::string_view target;  // "aten.linear.default"
  std::vector<FxArgument> arguments;
  std::vector<std::pair<std::string_view, FxArgument>> named;
};

// The call in `text`, whose views stay views of it; nothing where it is not one.
// O(length); lists are nested 32 deep at most.
std::optional<FxNode> ParseFxNode(std::string_view text);

// Whether a call makes a tensor of one number: torch.zeros, ones, full and their like.
bool FillsTensor(std::string_view target);

// The names that a call refers to, in order, those in lists included.
std::vector<std::string_view> References(const FxNode& node);

}  // namespace onnxfit
