// Operators that run as another one does: their numbers are others, their memory is the same.
#pragma once

#include <span>
#include <string_view>

namespace onnxfit {

struct LikeRow {
  std::string_view op;    // ATen's name
  std::string_view like;  // the operator that has rows of its own (operators/ops_*.cc)
};

// Every row.
std::span<const LikeRow> LikeRows();

// "floor" for "ceil"; `op` itself where it has rows of its own.  O(1).
std::string_view RuleNameOf(std::string_view op);

// The operator of a call that the file names "aten.ceil.default" where that runs as `op` does,
// or has the same node; else `op`.  O(1).
std::string_view NamedBy(std::string_view target, std::string_view op);

}  // namespace onnxfit
