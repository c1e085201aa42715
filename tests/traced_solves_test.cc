#include "estimator/writer/traced_solves.h"

#include <doctest/doctest.h>

#include <string>
#include <string_view>
#include <vector>

#include "estimator/program/program.h"

namespace onnxfit::traced_solves_test {
namespace {

// "op(inputs)" of each call, once solves are back, of three rows that a loop makes.
std::string Calls(std::string_view file, std::string_view line, bool is_read_twice = false) {
  Program program;
  program.values.resize(10);
  for (ProgramValue& value : program.values) value.type.dims = {2, 3, 3};
  const StatementId frame = program.source.Read(7, line, file);
  const auto add = [&](std::string_view op, std::vector<NameId> inputs, NameId output) {
    program.calls.push_back({.op = op,
                             .where = {},
                             .inputs = std::move(inputs),
                             .outputs = {output},
                             .frames = {frame}});
  };
  add("tril", {0}, 2);
  add("neg", {2}, 3);
  add("copy_slice", {3, 0}, 4);
  add("copy_slice", {4, 0}, 5);
  add("constant", {}, 6);
  add("add", {5, 6}, 7);
  add("matmul", {7, 1}, 8);
  if (is_read_twice) add("exp", {7}, 9);
  PutSolvesBack(program);
  std::string text;
  for (const AtenCall& call : program.calls) {
    text += std::string(call.op) + "(";
    for (const NameId input : call.inputs) text += std::to_string(input) + " ";
    text += ") ";
  }
  return text;
}

constexpr std::string_view kLine = "y, state = torch_chunk_gated_delta_rule(q, k)";
constexpr std::string_view kWritten =
    "tril(0 ) neg(2 ) copy_slice(3 0 ) copy_slice(4 0 ) constant() add(5 6 ) matmul(7 1 ) ";

TEST_CASE("a solve that a library writes out for exporters alone is put back") {
  CHECK(Calls("transformers/models/qwen3_5/modeling_qwen3_5.py", kLine) ==
        "linalg_solve_triangular(0 1 ) ");
  CHECK(Calls("net.py", kLine) == kWritten);
  CHECK(Calls("transformers/models/llama/modeling_llama.py", "y = self.attention(q, k)") ==
        kWritten);
}

TEST_CASE("an inverse that is read otherwise stays") {
  CHECK(Calls("transformers/models/qwen3_5/modeling_qwen3_5.py", kLine, true) ==
        std::string(kWritten) + "exp(7 ) ");
}

}  // namespace
}  // namespace onnxfit::traced_solves_test
