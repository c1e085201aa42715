#include <doctest/doctest.h>

#include <filesystem>
#include <string>

#include "estimator/exporters/exporter_metadata.h"
#include "estimator/onnx/loader.h"
#include "tests/paths.h"

namespace onnxfit::fx_node_test {
namespace {

std::string Text(const FxArgument& argument) {
  if (argument.kind == FxArgument::Kind::kReference) return "%" + std::string(argument.text);
  if (argument.kind != FxArgument::Kind::kList) return std::string(argument.text);
  std::string text = "[";
  for (const FxArgument& item : argument.items) text += (text.size() > 1 ? " " : "") + Text(item);
  return text + "]";
}

std::string Text(const std::optional<FxNode>& node) {
  if (!node.has_value()) return "none";
  std::string text = std::string(node->name) + " = " + std::string(node->target);
  for (const FxArgument& argument : node->arguments) text += " " + Text(argument);
  for (const auto& [name, argument] : node->named) {
    text += " " + std::string(name) + ":" + Text(argument);
  }
  return text;
}

TEST_CASE("the call that a node came from") {
  struct Row {
    const char* text;
    const char* parsed;
  };
  const Row rows[] = {
      {"%relu : [num_users=1] = call_function[target=torch.ops.aten.relu.default](args = "
       "(%getitem,), kwargs = {})",
       "relu = aten.relu.default %getitem"},
      {"%m : [num_users=2] = call_function[target=torch.ops.aten.max_pool2d.default](args = "
       "(%relu, [3, 3], [2, 2], [1, 1]), kwargs = {})",
       "m = aten.max_pool2d.default %relu [3 3] [2 2] [1 1]"},
      {"%c : [num_users=1] = call_function[target=torch.ops.aten.cat.default](args = "
       "([%a, %b], 1), kwargs = {})",
       "c = aten.cat.default [%a %b] 1"},
      {"%g : [num_users=1] = call_function[target=torch.ops.aten.gelu.default](args = (%x,), "
       "kwargs = {approximate: 'none', p: 0.1, dtype: torch.float32, n: -inf})",
       "g = aten.gelu.default %x approximate:none p:0.1 dtype:torch.float32 n:-inf"},
      {"%x : [num_users=1] = call_function[target=operator.getitem](args = (%s, 0), kwargs = {})",
       "x = operator.getitem %s 0"},
      {"%a : [num_users=1] = call_function[target=torch.ops.aten.arange.default](args = (), "
       "kwargs = {device: cpu, pin_memory: False})",
       "a = aten.arange.default device:cpu pin_memory:False"},
      {"", "none"},
      {"relu", "none"},
      {"%relu : nothing", "none"},
      {"%relu : [num_users=1] = call_function[target=t](args = (%x", "none"},
      {"%relu : [num_users=1] = call_function[target=t](args = (%x,), kwargs = {a: ", "none"},
  };
  for (const Row& row : rows) {
    CAPTURE(row.text);
    CHECK(Text(ParseFxNode(row.text)) == row.parsed);
  }
}

TEST_CASE("lists that are nested without end are refused") {
  const std::string open(10000, '[');
  CHECK_FALSE(ParseFxNode("%a : = f[target=t](args = " + open).has_value());
  const auto nested = [](size_t depth) {
    const std::string lists = std::string(depth, '[') + "1" + std::string(depth, ']');
    return ParseFxNode("%a : = f[target=t](args = " + lists + ", kwargs = {})").has_value();
  };
  CHECK(nested(32));
  CHECK_FALSE(nested(33));
}

TEST_CASE("whole numbers are read, references are found in lists") {
  const auto node = ParseFxNode("%a : = f[target=t](args = ([%b, %c], -3, 0.5), kwargs = {d: %e})");
  REQUIRE(node.has_value());
  CHECK(node->arguments[1].number == -3);
  CHECK(node->arguments[2].number == 0);
  CHECK(References(*node) == std::vector<std::string_view>{"b", "c", "e"});
}

TEST_CASE("every node of a real export that says its call can be read") {
  const Graph graph =
      LoadGraph((std::filesystem::path(kSourceDir) / "models/gpt2.dynamo.onnx").string());
  int read = 0;
  for (const Node& node : graph.nodes) {
    const std::string_view text = FindMetadata(node.metadata, "pkg.torch.onnx.fx_node");
    CHECK(ParseFxNode(text).has_value() == !text.empty());
    read += text.empty() ? 0 : 1;
  }
  CHECK(read > 600);
}

}  // namespace
}  // namespace onnxfit::fx_node_test
