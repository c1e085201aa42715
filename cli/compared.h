// One side of a comparison, whatever it is read from, and sizes that both sides share.
#pragma once

#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>

#include "estimator/compare/compare.h"
#include "estimator/fit/estimate.h"
#include "estimator/onnx/graph.h"
#include "estimator/onnx/shapes.h"

namespace onnxfit {

inline constexpr std::string_view kGit = "git:";  // before a ref

// One side of a comparison, answered.
struct Side {
  Snapshot snapshot;
  std::optional<Estimate> estimate = {};  // of a model; a report is read as it is
};

// One side before it is answered: a report or a model.
struct Loaded {
  std::string name = {};  // as messages have it
  std::optional<Snapshot> report = {};
  std::optional<Graph> graph = {};
};

// `text`: the path of a model or of a report (onnxfit estimate --format json), "-" for standard
// input, or git:REF:PATH, a model or report as a git repository has it.  Throws Error.
Loaded LoadSide(const std::string& text);

// A report as it is, a model answered for `request`.  Throws Error.
Side AnswerSide(const Loaded& loaded, const EstimateRequest& request);

// Of a graph that is here already.
Side SideOf(const Graph& graph, const EstimateRequest& request);

// Whether `bytes` begin as JSON does, and no model.
bool LooksLikeJson(std::string_view bytes);

// What follows is about sizes that are named once for several models, of which each has some.
struct NamedGraph {
  std::string name;  // as messages have it
  const Graph* graph = nullptr;
};

// The names of dimensions and inputs that `binding` gives sizes.
std::set<std::string> NamesIn(const DimBinding& binding);

// Of these, what one of `graphs` has.  O(their inputs).
std::set<std::string> NamesOfAny(const DimBinding& binding, std::span<const Graph* const> graphs);

// `binding` for both sides of a comparison: what one of them has, the other may lack.
// Throws Error where neither has a name, with the names that they have.
DimBinding BindingForBoth(DimBinding binding, const NamedGraph& before, const NamedGraph& after);

}  // namespace onnxfit
