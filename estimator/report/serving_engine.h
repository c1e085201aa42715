// What an engine that serves language models said of itself in a run (absent/hook/engines_vllm.py
// and its like have where each figure is read).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "estimator/report/json_parts.h"

namespace onnxfit {

struct RunPage;

// 0 and "" are what it did not say.  Bytes are of one card.
struct ServingEngine {
  std::string name = {};
  std::string version = {};
  int64_t cores = 0;  // processes that schedule requests, each with a cache of its own
  // What it gave memory to: its budget is all of these together.
  double share = 0;  // of the card, that it was told to use
  int64_t total_bytes = 0;
  int64_t free_bytes = 0;  // as it began
  int64_t budget_bytes = 0;
  int64_t weight_bytes = 0;
  int64_t consumed_bytes = 0;    // weights, and what lives beside them
  int64_t activation_bytes = 0;  // of the largest step
  int64_t graph_estimate_bytes = 0;
  int64_t graph_bytes = 0;      // as they were captured
  int64_t available_bytes = 0;  // for keys and values
  // Its cache of keys and values.
  int64_t kv_bytes = 0;
  int64_t kv_tokens = 0;
  int64_t kv_groups = 0;   // of layers that keep keys alike: 2 where some see a window alone
  double kv_requests = 0;  // of the longest context at once
  std::string kv_type = {};
  int64_t block_tokens = 0;
  // What it takes at most.
  int64_t longest = 0;  // tokens of a request, prompt and answer
  int64_t longest_of_model = 0;
  int64_t most_requests = 0;  // at once
  int64_t most_tokens = 0;    // of a step
  // One request of the longest context has no room, and it refused to start.
  int64_t needed_bytes = 0;
  int64_t longest_that_fits = 0;
  // Its share has no room for keys and values, and it refused to start: the least that has.
  double least_share = 0;

  bool is_refused() const { return needed_bytes > 0 || least_share > 0; }
};

// Of its processes' files, in their order; what several say is the first one's.  Nullopt where
// there are none.  Throws Error where one is no such file.
std::optional<ServingEngine> ReadServingEngine(const std::vector<std::string>& jsons);

// What it gave memory to, in its order: "weights", "keys and values".
struct EngineShare {
  int64_t bytes = 0;
  std::string what;
};
std::vector<EngineShare> EngineShares(const ServingEngine& engine);

// "vLLM 0.33.0, told to use 0.9 of the card: 19.8 GiB"
std::string EngineTitle(const ServingEngine& engine);

// Why it refused to start, what it can serve, what a card has otherwise.
std::vector<std::string> EngineSentences(const ServingEngine& engine);

// A table of what it took, and those sentences.
std::string EngineText(const ServingEngine& engine, const RunPage& page);

// The members by their names, without those that it did not say.
Json EngineJson(const ServingEngine& engine);

}  // namespace onnxfit
