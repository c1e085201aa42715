// Advice in tests: models, cards of chosen sizes, flags as they are typed.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "cli/options.h"
#include "estimator/advise/advice.h"
#include "estimator/base/bytes.h"
#include "estimator/base/cards.h"
#include "estimator/fit/judge_targets.h"
#include "estimator/onnx/loader.h"
#include "tests/paths.h"

namespace onnxfit {

// Three matrices: 37 million parameters, their gradients and moments against small activations.
inline constexpr char kHeavy[] = R"(
  net (float[N, 1024] x) => (float[N, 1000] y)
  < float[1024, 4096] first = ["location": "none"],
    float[4096, 4096] middle = ["location": "none"],
    float[4096, 4096] second = ["location": "none"],
    float[4096, 1000] head = ["location": "none"] > {
    a = MatMul (x, first)
    b = Relu (a)
    c = MatMul (b, middle)
    d = Relu (c)
    e = MatMul (d, second)
    f = Relu (e)
    y = MatMul (f, head)
  })";

// Activations of [N, S, 1024] against three small matrices.
inline constexpr char kLong[] = R"(
  net (float[N, S, 256] x) => (float[N, S, 64] y)
  < float[256, 1024] first = ["location": "none"],
    float[1024, 1024] middle = ["location": "none"],
    float[1024, 64] head = ["location": "none"] > {
    a = MatMul (x, first)
    b = Gelu <approximate = "none"> (a)
    c = MatMul (b, middle)
    d = Gelu <approximate = "none"> (c)
    y = MatMul (d, head)
  })";

inline Graph FileOf(const std::string& name) {
  return LoadGraph(std::string(kSourceDir) + "/models/" + name);
}

// Without a context: tensors and cache have all of it.
inline Target Memory(int64_t bytes) {
  return MakeTarget({.memory_bytes = bytes, .overhead_bytes = 0});
}

inline Target CardCalled(std::string_view name) { return MakeTarget({.card = FindCard(name)}); }

// The words of a line, quotes taken off.
inline std::vector<std::string> Words(const std::string& line) {
  std::vector<std::string> words(1);
  for (const char c : line) {
    if (c == ' ' && !words.back().empty()) words.emplace_back();
    if (c != ' ' && c != '\'') words.back() += c;
  }
  if (words.back().empty()) words.pop_back();
  return words;
}

// What is asked by `typed`, and then by `more`, whose flags take the place of the same ones.
inline EstimateRequest RequestFor(const std::string& typed, const std::string& more = "") {
  std::vector<std::string> args = {"model.onnx"};
  const std::vector<std::string> first = Words(typed);
  const std::vector<std::string> second = Words(more);
  for (size_t i = 0; i < first.size(); ++i) {
    const bool has_value = i + 1 < first.size() && first[i + 1][0] != '-';
    if (std::find(second.begin(), second.end(), first[i]) == second.end()) {
      args.push_back(first[i]);
      if (has_value) args.push_back(first[i + 1]);
    }
    i += has_value ? 1 : 0;
  }
  args.insert(args.end(), second.begin(), second.end());
  return ParseOptions(args).request;
}

inline JudgedTarget Judged(const Graph& file, EstimateRequest request, const Target& target) {
  request.targets = {target};
  const Study study(file);
  const SharedPrediction guess = study.Predicted(request);
  const auto doubts = DoubtsOf(guess->program, request.settings);
  return JudgeTargets(study, request, guess, PredictWorse(study, request, doubts, guess))[0];
}

inline std::vector<Advice> AtBatch(const Graph& file, const EstimateRequest& request,
                                   const Target& target) {
  return AdviseAtBatch(file, request, Judged(file, request, target));
}

inline std::vector<Advice> ToRaise(const Graph& file, const EstimateRequest& request,
                                   const Target& target) {
  return AdviseMaxBatch(file, request, FindMaxBatches(file, request, {&target, 1})[0]);
}

// The line with these flags, or null.
inline const Advice* FindAdvice(const std::vector<Advice>& all, std::string_view flags) {
  for (const Advice& advice : all) {
    if (advice.flags == flags) return &advice;
  }
  return nullptr;
}

// What the run reserves where there is room for everything.
inline int64_t Needs(const Graph& file, const EstimateRequest& request) {
  const LoopedPrediction run = PredictLoop(file, request);
  PlayableRun playable = run.playable();
  playable.is_inference = false;  // how many copies there is room for is no question here
  return Judge(playable, Memory(int64_t{1} << 50)).used_bytes;
}

// Flags and effects, a line each, beginning and ending with a newline.
inline std::string Listed(const std::vector<Advice>& all) {
  std::string text = "\n";
  for (const Advice& a : all) {
    text += fmt::format("{}: {}", a.flags.empty() ? a.change : a.flags, ToString(a.effect));
    if (a.max_batch) text += fmt::format(", batch {}", *a.max_batch);
    text += '\n';
  }
  return text;
}

}  // namespace onnxfit
