// Against what cuDNN and cudnn-frontend answered: data/cudnn_attention.csv, which
// benchmarks/attention.py writes.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "estimator/base/framework.h"
#include "estimator/operators/attention_kernels.h"
#include "tests/paths.h"

namespace onnxfit::cudnn_attention_test {
namespace {

using Row = std::vector<std::string>;

std::vector<Row> ReadCsv(const std::string& file) {
  std::ifstream in(std::string(kSourceDir) + "/tests/data/" + file);
  std::vector<Row> rows;
  for (std::string line; std::getline(in, line);) {
    std::istringstream cells(line);
    Row& row = rows.emplace_back();
    for (std::string cell; std::getline(cells, cell, ',');) row.push_back(cell);
  }
  return rows;
}

// A call of the table, by its columns.
struct Call {
  bool is_backward = false;
  bool has_mask = false;
  bool is_causal = false;
  bool keeps = false;
  Attention attention;
};

Call CallOf(const Row& row) {
  const auto number = [&](size_t column) { return std::stoll(row.at(column)); };
  const DType dtype = row[1] == "1" ? DType::kBFloat16 : DType::kFloat16;
  const auto tensor = [&](int64_t heads, int64_t rows, int64_t size) {
    const Dims dims = {number(2), heads, rows, size};
    return StridedType{{dtype, dims}, ContiguousStrides(dims)};
  };
  return {.is_backward = row[0] == "1",
          .has_mask = row[10] == "1",
          .is_causal = row[9] == "1",
          .keeps = row[12] == "1",
          .attention = {.q = tensor(number(3), number(5), number(7)),
                        .k = tensor(number(4), number(6), number(7)),
                        .v = tensor(number(4), number(6), number(8)),
                        .drops = std::stod(row[11]) > 0}};
}

// "2.11 on 90"
struct Where {
  const FrameworkProfile& framework;
  DeviceProfile device;
};

Where WhereOf(const std::string& title) {
  const size_t on = title.find(" on ");
  const std::string name = "pytorch-" + title.substr(0, on);
  const auto framework = std::ranges::find(Frameworks(), name, &FrameworkProfile::name);
  REQUIRE(framework != Frameworks().end());
  DeviceProfile device;
  device.compute_capability = std::stoi(title.substr(on + 4));
  return {*framework, device};
}

bool TakesCudnn(const Call& call, const Where& where) {
  AttentionTerms terms = {.is_causal = call.is_causal, .needs_grad = call.keeps};
  if (call.has_mask) terms.mask = call.attention.q;
  return ChooseAttention(call.attention, terms, where.framework, where.device) ==
         AttentionKernel::kCudnn;
}

int64_t Predict(const Call& call, const Where& where) {
  if (call.is_backward) {
    return CudnnAttentionBackwardBytes(call.attention, call.has_mask, where.framework,
                                       where.device);
  }
  return CudnnAttentionForwardBytes(call.attention, where.device);
}

TEST_CASE("workspaces are those that cuDNN and cudnn-frontend answered") {
  constexpr size_t kFirstAnswer = 13;
  const std::vector<Row> rows = ReadCsv("cudnn_attention.csv");
  REQUIRE(rows.size() > 500);
  int64_t compared = 0;
  for (size_t column = kFirstAnswer; column < rows[0].size(); ++column) {
    const Where where = WhereOf(rows[0][column]);
    for (size_t i = 1; i < rows.size(); ++i) {
      const Call call = CallOf(rows[i]);
      if (!TakesCudnn(call, where)) continue;
      CAPTURE(rows[0][column]);
      CAPTURE(fmt::format("{}", fmt::join(rows[i].begin(), rows[i].begin() + kFirstAnswer, ",")));
      REQUIRE(rows[i].at(column) != "none");
      CHECK(Predict(call, where) == std::stoll(rows[i][column]));
      ++compared;
    }
  }
  CHECK(compared > 5000);
}

}  // namespace
}  // namespace onnxfit::cudnn_attention_test
