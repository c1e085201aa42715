// One side of a comparison, whatever it is read from.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "estimator/fit/estimate.h"
#include "estimator/fit/snapshot.h"
#include "estimator/graph/graph.h"

namespace onnxfit {

inline constexpr std::string_view kGit = "git:";  // before a ref

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

}  // namespace onnxfit
