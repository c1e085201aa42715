#include "estimator/operators/cudnn_recurrent.h"

#include <doctest/doctest.h>

#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "tests/paths.h"

namespace onnxfit::cudnn_recurrent_test {
namespace {

using Row = std::map<std::string, std::string>;

// What cuDNN 9.19.0 answered: benchmarks/recurrent/README.md.
std::vector<Row> Answers() {
  std::ifstream file(std::string(kSourceDir) + "/tests/data/cudnn_recurrent.csv");
  std::vector<std::string> names;
  std::vector<Row> rows;
  for (std::string line; std::getline(file, line);) {
    std::istringstream cells(line);
    std::vector<std::string> found;
    for (std::string cell; std::getline(cells, cell, ',');) found.push_back(cell);
    if (names.empty()) {
      names = found;
      continue;
    }
    Row row;
    for (size_t i = 0; i < names.size(); ++i) row[names[i]] = found[i];
    rows.push_back(row);
  }
  return rows;
}

std::string Text(const Row& row) {
  std::string text;
  for (const auto& [name, cell] : row) text += name + "=" + cell + " ";
  return text;
}

int64_t At(const Row& row, const char* name) { return std::stoll(row.at(name)); }

RecurrentRun RunOf(const Row& row) {
  const std::map<std::string, int64_t> gates = {
      {"lstm", 4}, {"gru", 3}, {"rnn_tanh", 1}, {"rnn_relu", 1}};
  const std::map<std::string, DType> types = {
      {"fp32", DType::kFloat32}, {"fp16", DType::kFloat16}, {"bf16", DType::kBFloat16}};
  RecurrentRun run = {.layers = {.gates = gates.at(row.at("mode")),
                                 .input = At(row, "input"),
                                 .hidden = At(row, "hidden"),
                                 .projected = At(row, "projected"),
                                 .layers = At(row, "layers"),
                                 .directions = At(row, "directions"),
                                 .drops_out = At(row, "dropout") != 0},
                      .steps = At(row, "steps"),
                      .batch = At(row, "batch"),
                      .rows = At(row, "rows"),
                      .dtype = types.at(row.at("dtype"))};
  if (At(row, "packed") != 0) run.layers.packed_steps = run.steps;
  return run;
}

TEST_CASE("spaces are as large as cuDNN says, to the byte") {
  const std::map<std::string, RecurrentAlgorithm> algorithms = {
      {"standard", RecurrentAlgorithm::kStandard},
      {"small_h", RecurrentAlgorithm::kPersistStaticSmallH},
      {"persist_static", RecurrentAlgorithm::kPersistStatic}};
  const std::vector<Row> rows = Answers();
  CHECK(rows.size() == 7 * 150);
  for (const Row& row : rows) {
    CAPTURE(Text(row));
    const RecurrentRun run = RunOf(row);
    const DeviceProfile device = {.compute_capability = static_cast<int>(At(row, "capability")),
                                  .multiprocessors = At(row, "multiprocessors"),
                                  .threads_per_multiprocessor = At(row, "threads")};
    const RecurrentAlgorithm algorithm = algorithms.at(row.at("algorithm"));
    CHECK(WeightSpaceNumel(run.layers) * BitsOf(run.dtype) / 8 == At(row, "weights"));
    CHECK(ReserveBytes(run) == At(row, "reserve"));
    CHECK(RecurrentWorkspaceBytes(run, device, algorithm, true) == At(row, "training"));
    CHECK(DropoutStatesBytes(device) == At(row, "states"));
    if (run.layers.drops_out) continue;  // PyTorch drops nothing in inference
    CHECK(RecurrentWorkspaceBytes(run, device, algorithm, false) == At(row, "inference"));
  }
}

TEST_CASE("which algorithm PyTorch asks for") {
  using enum RecurrentAlgorithm;
  struct Case {
    const char* what;
    RecurrentRun run;
    int capability;
    int64_t multiprocessors;
    RecurrentAlgorithm forward;
    RecurrentAlgorithm backward;
  };
  const auto layer = [](int64_t gates, int64_t hidden) {
    return RecurrentLayers{.gates = gates, .input = 128, .hidden = hidden};
  };
  const auto run = [](const RecurrentLayers& layers, int64_t batch, DType dtype) {
    return RecurrentRun{
        .layers = layers, .steps = 20, .batch = batch, .rows = 20 * batch, .dtype = dtype};
  };
  RecurrentLayers packed = layer(4, 128);
  packed.packed_steps = 20;
  RecurrentLayers projected = layer(4, 128);
  projected.projected = 64;
  const Case cases[] = {
      {"LSTM of 192", run(layer(4, 192), 8, DType::kFloat32), 80, 108, kPersistStaticSmallH,
       kStandard},
      {"LSTM of 128", run(layer(4, 128), 8, DType::kFloat32), 75, 40, kPersistStaticSmallH,
       kPersistStaticSmallH},
      {"RNN of 384", run(layer(1, 384), 8, DType::kFloat32), 80, 108, kPersistStaticSmallH,
       kStandard},
      {"packed", run(packed, 8, DType::kFloat32), 80, 108, kStandard, kStandard},
      {"projected", run(projected, 8, DType::kFloat32), 80, 108, kStandard, kStandard},
      {"LSTM in fp32", run(layer(4, 512), 8, DType::kFloat32), 80, 108, kStandard, kStandard},
      {"LSTM in fp16", run(layer(4, 512), 8, DType::kFloat16), 80, 108, kPersistStatic,
       kPersistStatic},
      {"GRU in fp16", run(layer(3, 512), 8, DType::kFloat16), 80, 108, kStandard, kStandard},
      {"small card", run(layer(4, 512), 8, DType::kFloat16), 86, 84, kStandard, kStandard},
      {"odd batch", run(layer(4, 512), 9, DType::kFloat16), 90, 132, kStandard, kStandard},
      {"wide RNN", run(layer(1, 1024), 96, DType::kFloat16), 90, 132, kStandard, kStandard},
  };
  for (const Case& c : cases) {
    CAPTURE(c.what);
    const DeviceProfile device = {.compute_capability = c.capability,
                                  .multiprocessors = c.multiprocessors};
    CHECK(ChooseRecurrentAlgorithm(c.run, device, true) == c.forward);
    CHECK(ChooseRecurrentAlgorithm(c.run, device, false) == c.backward);
  }
}

}  // namespace
}  // namespace onnxfit::cudnn_recurrent_test
