#include <doctest/doctest.h>

#include <cstring>
#include <optional>
#include <string>
#include <vector>

#include "estimator/onnx/graph.h"
#include "estimator/onnx/loader.h"
#include "tests/onnx_bytes.h"
#include "tests/temp_folder.h"

namespace onnxfit::diagonals_test {
namespace {

constexpr uint64_t kFloat = 1;
constexpr uint64_t kInt64 = 7;

std::string Floats(const std::vector<float>& numbers) {
  std::string text(numbers.size() * sizeof(float), '\0');
  std::memcpy(text.data(), numbers.data(), text.size());
  return text;
}

// [rows, columns] of which element (i, j) is 100 i + j, plus `shift`.
std::vector<float> Counted(int64_t rows, int64_t columns, float shift = 0) {
  std::vector<float> numbers;
  for (int64_t i = 0; i < rows; ++i) {
    for (int64_t j = 0; j < columns; ++j)
      numbers.push_back(static_cast<float>(100 * i + j) + shift);
  }
  return numbers;
}

std::vector<float> TransposeOf(const std::vector<float>& numbers, int64_t rows, int64_t columns) {
  std::vector<float> turned;
  for (int64_t j = 0; j < columns; ++j) {
    for (int64_t i = 0; i < rows; ++i) {
      turned.push_back(numbers[static_cast<size_t>(i * columns + j)]);
    }
  }
  return turned;
}

// How a file holds the numbers of a matrix: a field of TensorProto.
using Held = std::string (*)(const std::vector<float>&);
std::string Raw(const std::vector<float>& numbers) { return bytes::Bytes(9, Floats(numbers)); }
std::string Typed(const std::vector<float>& numbers) { return bytes::Bytes(4, Floats(numbers)); }
std::string Nowhere(const std::vector<float>&) {
  const auto entry = bytes::Bytes(1, "location") + bytes::Bytes(2, "gone.bin");
  return bytes::Bytes(13, entry) + bytes::Number(14, 1);
}

// y = words[ids] · head
std::string Model(const std::string& words, const std::string& head) {
  return bytes::Model(
      bytes::Node("Gather", {"words", "ids"}, {"x"}) + bytes::Node("MatMul", {"x", "head"}, {"y"}) +
      bytes::Output("y") +
      bytes::Initializer("ids", bytes::Tensor(kInt64, {2}, bytes::Bytes(7, "\1\2"))) +
      bytes::Initializer("words", words) + bytes::Initializer("head", head));
}

std::optional<bool> IsCopy(const Graph& graph) {
  ValueId words = kNoValue;
  ValueId head = kNoValue;
  for (const Initializer& initializer : graph.initializers) {
    const auto name = graph.values[static_cast<size_t>(initializer.value)].name;
    if (name == "words") words = initializer.value;
    if (name == "head") head = initializer.value;
  }
  return AreTransposes(graph, head, words);
}

TEST_CASE("a matrix is the transpose of another, or not, by what the file stores") {
  struct Row {
    const char* name;
    int64_t rows, columns;
    Held held;
    float shift;  // of the head's numbers
    std::optional<bool> expected;
  };
  const Row rows[] = {
      {"too large to be kept", 40, 20, Raw, 0, true},
      {"too large, another", 40, 20, Raw, 1, false},
      {"small", 5, 3, Raw, 0, true},
      {"small, another", 5, 3, Raw, 1, false},
      {"typed", 5, 3, Typed, 0, true},
      {"typed, another", 5, 3, Typed, 1, false},
      {"typed and large: not looked for", 40, 20, Typed, 0, std::nullopt},
      {"a single element says nothing", 5, 1, Raw, 0, std::nullopt},
      {"in a file that is not there", 40, 20, Nowhere, 0, std::nullopt},
  };
  const TempFolder folder;
  for (const Row& row : rows) {
    CAPTURE(row.name);
    const auto words = Counted(row.rows, row.columns);
    const auto head = TransposeOf(Counted(row.rows, row.columns, row.shift), row.rows, row.columns);
    const std::string model = Model(bytes::Tensor(kFloat, {row.rows, row.columns}, row.held(words)),
                                    bytes::Tensor(kFloat, {row.columns, row.rows}, row.held(head)));
    CHECK(IsCopy(LoadGraph(folder.Write("m.onnx", model))) == row.expected);
  }
}

TEST_CASE("numbers that only fill a matrix say nothing") {
  const TempFolder folder;
  const std::string zeros = Raw(std::vector<float>(800, 0.0F));
  const std::string model =
      Model(bytes::Tensor(kFloat, {40, 20}, zeros), bytes::Tensor(kFloat, {20, 40}, zeros));
  CHECK(IsCopy(LoadGraph(folder.Write("m.onnx", model))) == std::nullopt);
}

TEST_CASE("fewer bytes than the sizes need are not read") {
  const TempFolder folder;
  const std::string words = bytes::Tensor(kFloat, {40, 20}, Raw(Counted(40, 20)));
  const std::string head = bytes::Tensor(kFloat, {20, 40}, Raw(Counted(20, 39)));
  CHECK(IsCopy(LoadGraph(folder.Write("m.onnx", Model(words, head)))) == std::nullopt);
}

TEST_CASE("elements are read from files next to the model") {
  const auto held = [](const char* offset) {
    const auto entry = [](std::string_view key, std::string_view value) {
      return bytes::Bytes(13, bytes::Bytes(1, key) + bytes::Bytes(2, value));
    };
    return entry("location", "weights.bin") + entry("offset", offset) + bytes::Number(14, 1);
  };
  const TempFolder folder;
  const auto words = Counted(40, 20);
  folder.Write("weights.bin", Floats(words) + Floats(TransposeOf(words, 40, 20)) + Floats(words));
  const auto is_copy = [&](const char* head_at) {
    const std::string model = Model(bytes::Tensor(kFloat, {40, 20}, held("0")),
                                    bytes::Tensor(kFloat, {20, 40}, held(head_at)));
    return IsCopy(LoadGraph(folder.Write("m.onnx", model)));
  };
  CHECK(is_copy("3200") == true);
  CHECK(is_copy("6400") == false);
  CHECK(is_copy("9000") == std::nullopt);                 // beyond the end
  CHECK(is_copy("9223372036854775807") == std::nullopt);  // far beyond
}

}  // namespace
}  // namespace onnxfit::diagonals_test
