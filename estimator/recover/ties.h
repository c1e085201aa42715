// Parameters with several names.  Internal to the room recover/.
#pragma once

#include <map>
#include <string_view>

#include "estimator/onnx/graph.h"
#include "estimator/recover/exporter_metadata.h"

namespace onnxfit {

// torch.export lists a tied parameter under each of its names, in the order of
// named_parameters(remove_duplicate=False), and stores it under one: by that, the name that
// comes first in the list, where it is another one.  A name that no call reads belongs to the
// parameter that the calls of its module read instead: "wte.weight" to "lm_head.weight" where
// wte's embedding reads %p_lm_head_weight.
// O(nodes).
std::map<std::string_view, std::string_view> FindFirstNames(const Graph& graph,
                                                            const ExporterMetadata& metadata);

// Whether a language model's head, where nothing tells, likely has the weight of its embedding.
// Configurations of transformers 5.17 say so, but those of Llama and its kin, whose feed-forward
// blocks have a gate_proj and whose words are not scaled (Gemma's are).  O(nodes).
bool LikelyTiesHead(const Graph& graph, const ExporterMetadata& metadata);

}  // namespace onnxfit
