// The text models of models/ against the expectations in their comments, products that a person
// can check (models/README.md has the grammar), and against what PyTorch took for the same modules.
#include <doctest/doctest.h>

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "estimator/fit/estimate.h"
#include "tests/files.h"
#include "tests/paths.h"
#include "tests/trace_helpers.h"

namespace onnxfit::models_test {
namespace {

namespace fs = std::filesystem;

using Expectations = std::map<std::string, int64_t, std::less<>>;

constexpr int64_t kBatch = 16;  // of all expectations

// sum := product ("+" product)*, product := atom ("*" atom)*, atom := number | key | "(" sum ")"
class Expression {
 public:
  Expression(std::string_view text, const Expectations& keys) : rest_(text), keys_(keys) {}

  int64_t Value() {
    const int64_t value = Sum();
    if (!rest_.empty()) throw std::invalid_argument("expected an end at " + std::string(rest_));
    return value;
  }

 private:
  int64_t Sum() {
    int64_t value = Product();
    while (Takes('+')) value += Product();
    return value;
  }

  int64_t Product() {
    int64_t value = Atom();
    while (Takes('*')) value *= Atom();
    return value;
  }

  int64_t Atom() {
    if (Takes('(')) {
      const int64_t value = Sum();
      if (!Takes(')')) throw std::invalid_argument("expected ) at " + std::string(rest_));
      return value;
    }
    const std::string word = Word();
    if (word.empty()) throw std::invalid_argument("expected a value at " + std::string(rest_));
    return std::isdigit(static_cast<unsigned char>(word[0])) != 0 ? std::stoll(word)
                                                                  : keys_.at(word);
  }

  bool Takes(char letter) {
    SkipSpace();
    if (rest_.empty() || rest_[0] != letter) return false;
    rest_.remove_prefix(1);
    SkipSpace();
    return true;
  }

  std::string Word() {
    const auto is_letter = [](unsigned char c) { return std::isalnum(c) != 0 || c == '_'; };
    const auto end = std::find_if_not(rest_.begin(), rest_.end(), is_letter);
    std::string word(rest_.begin(), end);
    rest_.remove_prefix(word.size());
    SkipSpace();
    return word;
  }

  void SkipSpace() { rest_.remove_prefix(std::min(rest_.find_first_not_of(' '), rest_.size())); }

  std::string_view rest_;
  const Expectations& keys_;
};

bool IsKey(std::string_view text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), [](unsigned char c) {
    return std::islower(c) != 0 || std::isdigit(c) != 0 || c == '_';
  });
}

// "# key: expression" of a model's comments; other comments are prose.
Expectations ReadExpectations(const fs::path& path) {
  Expectations keys;
  std::ifstream file(path);
  for (std::string line; std::getline(file, line) && line.starts_with("# ");) {
    const size_t colon = line.find(": ");
    if (colon == std::string::npos || !IsKey(std::string_view(line).substr(2, colon - 2))) continue;
    CAPTURE(line);
    keys[line.substr(2, colon - 2)] = Expression(line.substr(colon + 2), keys).Value();
  }
  return keys;
}

// What is alive when backward first begins, apart from module, batch and libraries.
int64_t SavedBytes(const Trace& trace) {
  std::map<BufferId, Kind> live;
  for (const Event& event : trace.events) {
    using Type = Event::Type;
    if (event.type == Type::kPhase && event.phase == Phase::kBackward) break;
    if (event.type == Type::kAlloc || event.type == Type::kKind) live[event.id] = event.kind;
    if (event.type == Type::kFree) live.erase(event.id);
  }
  int64_t bytes = 0;
  for (const auto& [buffer, kind] : live) {
    if (kind != Kind::kActivation && kind != Kind::kTemporary) continue;
    bytes += trace.buffers[static_cast<size_t>(buffer)].bytes;
  }
  return bytes;
}

Expectations Found(const fs::path& path) {
  const TrainingSettings settings = {.optimizer = Optimizer::kAdamW};
  const DimBinding binding = {.batch = kBatch};
  const Graph graph = LoadGraph(path);
  const Estimate estimate = MakeEstimate(graph, {.binding = binding, .settings = settings});
  const Trace trace = Train(Build(graph, settings, binding).program, settings);
  return {{"parameters", estimate.model.parameters},
          {"parameter_bytes", estimate.model.parameter_bytes},
          {"buffer_bytes", estimate.model.buffer_bytes},
          {"adamw_state_bytes", estimate.optimizer_state_bytes},
          {"saved_bytes", SavedBytes(trace)}};
}

// model, batch, precision, parameters, buffer bytes, step; allocated after forward, backward and
// step; peaks: exact, allocated, reserved (benchmarks/accuracy/measure_shown_runs.py).
struct PyTorchStep {
  std::string model;
  std::vector<int64_t> figures;  // all columns from "parameters" on
};

std::vector<PyTorchStep> ReadPyTorchSteps() {
  std::ifstream file(fs::path(kSourceDir) / "benchmarks/accuracy/data/shown_runs.csv");
  std::vector<PyTorchStep> steps;
  for (std::string line; std::getline(file, line);) {
    std::istringstream fields(line);
    std::vector<std::string> words;
    for (std::string word; std::getline(fields, word, ',');) words.push_back(word);
    if (words.at(1) != std::to_string(kBatch) || words.at(2) != "fp32") continue;
    PyTorchStep& step = steps.emplace_back(PyTorchStep{words[0], {}});
    for (size_t i = 3; i < words.size(); ++i) step.figures.push_back(std::stoll(words[i]));
  }
  return steps;
}

std::vector<int64_t> FiguresOf(const Estimate& estimate, size_t index) {
  const StepFigures& step = estimate.steps.at(index);
  return {estimate.model.parameters,
          estimate.model.buffer_bytes,
          static_cast<int64_t>(index) + 1,
          step.after_forward.allocated_bytes,
          step.after_backward.allocated_bytes,
          step.after_step.allocated_bytes,
          step.peak.exact_bytes,
          step.peak.allocated_bytes,
          step.peak.reserved_bytes};
}

}  // namespace

TEST_CASE("text models take what PyTorch takes, step by step") {
  const std::vector<PyTorchStep> steps = ReadPyTorchSteps();
  CHECK(steps.size() == 3 * TextModels().size());
  std::map<std::string, Estimate> estimates;
  for (const PyTorchStep& step : steps) {
    CAPTURE(step.model);
    auto [at, is_new] = estimates.try_emplace(step.model);
    const fs::path path = fs::path(kSourceDir) / "models" / (step.model + ".onnxtxt");
    if (is_new) at->second = MakeEstimate(LoadGraph(path), {.binding = {.batch = kBatch}});
    CHECK(FiguresOf(at->second, static_cast<size_t>(step.figures.at(2) - 1)) == step.figures);
  }
}

TEST_CASE("expressions are sums of products of numbers and keys") {
  struct Row {
    const char* text;
    int64_t value;
  };
  const Row rows[] = {
      {"7", 7}, {"2 + 3 * 4", 14}, {"(2 + 3) * 4", 20}, {"2 * (key + 1)", 22}, {"key", 10},
  };
  const Expectations keys = {{"key", 10}};
  for (const Row& row : rows) {
    CAPTURE(row.text);
    CHECK(Expression(row.text, keys).Value() == row.value);
  }
  CHECK_THROWS_AS(Expression("2 +", keys).Value(), std::invalid_argument);
  CHECK_THROWS_AS(Expression("2 3", keys).Value(), std::invalid_argument);
}

TEST_CASE("text models give what their comments say") {
  const std::vector<fs::path> paths = TextModels();
  CHECK(paths.size() >= 12);
  for (const fs::path& path : paths) {
    CAPTURE(path.filename().string());
    const Expectations expected = ReadExpectations(path);
    for (const auto& found : Found(path)) {
      CAPTURE(found.first);
      REQUIRE(expected.contains(found.first));
      CHECK(found.second == expected.at(found.first));
    }
  }
}

}  // namespace onnxfit::models_test
