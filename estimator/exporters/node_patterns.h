// Nodes of a graph, described by text as they would be written: "Sub(x, Mul(Floor(Div(x, y)), y))".
// Internal to recovery.
#pragma once

#include <array>
#include <optional>
#include <string_view>
#include <vector>

#include "estimator/exporters/bound_graph.h"

namespace onnxfit {

// A pattern is an expression, behind definitions of letters that stand for one and the same value
// wherever they are read: "a = Atan(Div(x, y)); Where(Less(y, 0), Neg(a), a)".
//   Sub(…)   what a node of ONNX's own domain makes, whose further inputs do not matter
//   x        any value, the same one wherever the letter is read
//   0.5      this number, to six digits
//   #        any one number of floats that is known
//   _        anything, as what sizes are computed from
//   Same(x)  what a Cast makes of x that does nothing, or several: exporters write them in calls
//            that promote.  In front of other nodes they are passed over.
//   Whole(x) what a Cast to integers makes of x
class NodePattern {
 public:
  struct Match {
    std::array<ValueId, 26> letters = {};  // kNoValue of those that are not in the pattern
    std::vector<NodeId> nodes;             // in the graph's order, `last` included

    ValueId At(char letter) const { return letters[static_cast<size_t>(letter - 'a')]; }
  };

  // Implicit, so that tables hold the text.
  constexpr NodePattern(const char* text) : text_(text) {}

  // The operator of the last node.
  std::string_view LastOperator() const;
  // What is found where `last` ends the pattern: no result of the other nodes is read elsewhere,
  // but for integers that are known, such as sizes.  O(nodes of the pattern).
  std::optional<Match> Find(const BoundGraph& bound, NodeId last) const;

 private:
  std::string_view text_;
};

}  // namespace onnxfit
