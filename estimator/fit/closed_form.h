// A transformer that is known by its numbers alone: what a training step takes by a published
// formula.  No run is played, so nothing is known of rounding, of the cache, and of what an
// optimizer's step allocates meanwhile.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "estimator/fit/estimate.h"
#include "estimator/fit/target.h"

namespace onnxfit {

struct TransformerNumbers {
  int64_t parameters = 0;
  int64_t layers = 0;
  int64_t hidden = 0;
  std::optional<int64_t> heads = {};       // else by the size of a head
  std::optional<int64_t> sequence = {};    // else 2048
  std::optional<int64_t> vocabulary = {};  // else GPT-2's
};

// A product: "parameters", "175000000000 x 4 bytes (fp32)".
struct ClosedFormProduct {
  std::string kind;
  std::string text;
};

// How many cards of a kind hold it, if all of it is divided evenly among them.
struct CardCount {
  Target target;
  int64_t cards = 0;      // 0 where a card leaves no room beside its context
  bool is_asked = false;  // by --gpu or --memory
};

struct ClosedForm {
  TransformerNumbers numbers;  // all of them there
  TrainingSettings settings;
  int64_t batch = 1;
  std::vector<BreakdownRow> breakdown;  // adds up to total_bytes; a context comes for each card
  int64_t total_bytes = 0;
  std::vector<ClosedFormProduct> products;  // how the rows were made
  std::vector<CardCount> cards;             // the request's, or two that many have
  std::vector<std::string> assumptions;
  Warnings warnings;
};

// Activations of a layer: s·b·h·(34 + 5·a·s/h) bytes in 16 bits, of s tokens, b samples, h wide,
// a heads (Korthikanti et al. 2022, "Reducing Activation Recomputation in Large Transformer
// Models", equation 1); the same tensors in other precisions.  Throws Error where numbers
// contradict each other, where the request is about something that has no closed form (eval, a
// table, frozen parameters), and for sizes that 64 bits do not hold.
ClosedForm MakeClosedForm(const TransformerNumbers& numbers, const EstimateRequest& request);

// 12·layers·hidden² + vocabulary·hidden: what a transformer of these numbers has.
int64_t LikelyParameters(const TransformerNumbers& numbers);

}  // namespace onnxfit
