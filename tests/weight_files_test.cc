#include "estimator/onnx/weight_files.h"

#include <doctest/doctest.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <string_view>

#include "estimator/base/error.h"
#include "tests/onnx_bytes.h"
#include "tests/temp_folder.h"

namespace onnxfit::weight_files_test {
namespace {

namespace fs = std::filesystem;

constexpr uint64_t kFloat = 1;

std::string Stored(std::string_view name, int64_t elements, std::string_view file,
                   std::string_view offset, uint64_t type = kFloat) {
  const auto entry = [](std::string_view key, std::string_view value) {
    return bytes::Bytes(13, bytes::Bytes(1, key) + bytes::Bytes(2, value));
  };
  return bytes::Initializer(
      name, bytes::Tensor(type, {elements}, entry("location", file) + entry("offset", offset)) +
                bytes::Number(14, 1));
}

// A scale of 4 bytes and a weight of 64 KiB in one file, as wide again in another.
std::string WriteModel(const TempFolder& folder, std::string_view second = "b.data") {
  folder.Write("a.data", "abcd" + std::string(4092, 'x') + std::string(size_t{4} << 14, 'w'));
  const std::string graph = Stored("scale", 1, "a.data", "0") +
                            Stored("weight", 1 << 14, "a.data", "4096") +
                            Stored("other", 1 << 14, second, "0");
  return folder.Write("m.onnx", bytes::Number(1, 8) + bytes::Bytes(7, graph));
}

std::string BytesIn(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

TEST_CASE("the files of a model's weights") {
  const TempFolder folder;
  const std::vector<WeightFile> files = ReadWeightFiles(WriteModel(folder));
  REQUIRE(files.size() == 2);
  CHECK(files[0].name == "a.data");
  CHECK(files[0].bytes() == 4096 + (4 << 14));
  CHECK(files[1].name == "b.data");
  CHECK(files[1].bytes() == 4 << 14);
}

TEST_CASE("a copy has no weights, and what is small as it was") {
  const TempFolder folder;
  const TempFolder room;
  const std::string path = WriteModel(folder);
  const std::string copy =
      CopyWithoutWeights(path, ReadWeightFiles(path), fs::path(room.Path("m")).parent_path());
  CHECK(BytesIn(copy) == BytesIn(path));
  const std::string weights = BytesIn(room.Path("a.data"));
  REQUIRE(weights.size() == 4096 + (4 << 14));
  CHECK(weights.substr(0, 4) == "abcd");
  CHECK(weights.find_first_not_of('\0', 4) == 4096);
  CHECK(weights.find_first_not_of('\0', 4096 + 8) == weights.npos);
  const std::string others = BytesIn(room.Path("b.data"));  // which is not there
  REQUIRE(others.size() == 4 << 14);
  CHECK(others.find_first_not_of('\0', 8) == others.npos);
  CHECK(others.substr(0, 8) != weights.substr(4096, 8));
}

TEST_CASE("what counts weights is a small number of their types") {
  const TempFolder folder;
  const TempFolder room;
  const std::string path = WriteModel(folder);
  CopyWithoutWeights(path, ReadWeightFiles(path), fs::path(room.Path("m")).parent_path());
  const std::string weights = BytesIn(room.Path("a.data"));
  float number = 0;
  std::memcpy(&number, weights.data() + 4096, sizeof(number));
  CHECK(number > 0);
  CHECK(number < 1);
}

TEST_CASE("places in a table stay zeros") {
  const TempFolder folder;
  const TempFolder room;
  constexpr uint64_t kInt64 = 7;
  const std::string graph = Stored("places", 1 << 14, "a.data", "0", kInt64);
  const std::string path = folder.Write("m.onnx", bytes::Number(1, 8) + bytes::Bytes(7, graph));
  CopyWithoutWeights(path, ReadWeightFiles(path), fs::path(room.Path("m")).parent_path());
  CHECK(BytesIn(room.Path("a.data")) == std::string(size_t{8} << 14, '\0'));
}

TEST_CASE("names that lead out of the model's folder are refused") {
  const TempFolder folder;
  for (const std::string name : {"../b.data", "/b.data", ""}) {
    CAPTURE(name);
    CHECK_THROWS_AS(ReadWeightFiles(WriteModel(folder, name)), Error);
  }
}

}  // namespace
}  // namespace onnxfit::weight_files_test
