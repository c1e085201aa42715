#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "estimator/pt2/known_elements.h"
#include "tests/pt2_helpers.h"

namespace onnxfit::pt2_known_elements_test {
namespace {

using namespace onnxfit::pt2;  // NOLINT(google-build-using-namespace): its helpers

std::optional<Dims> DimsOf(const pt2::Graph& graph, std::string_view name) {
  const auto tensor = graph.tensors.find(name);
  if (tensor == graph.tensors.end()) return std::nullopt;
  Dims dims;
  for (const Size& size : tensor->second.sizes) dims.push_back(size.number);
  return dims;
}

// "1 2 3" of what the last call makes; "?" where that is not known.
std::string ElementsOf(const ExportedProgram& exported) {
  KnownElements known(
      exported.graph, [](const Argument& argument) { return argument.number; },
      [&](std::string_view name) { return DimsOf(exported.graph, name); });
  const Known* found = known.Find(exported.graph.calls.back().name);
  if (found == nullptr) return "?";
  std::string text;
  for (const int64_t element : found->elements) {
    text += (text.empty() ? "" : " ") + std::to_string(element);
  }
  return text;
}

// r = arange(4), c = r[:, None], n = r - 4, then one call.
std::string After(const std::string& target, Arguments arguments,
                  const std::vector<int64_t>& sizes) {
  const std::string full = "torch.ops.aten." + target;
  ExportedBuilder builder;
  builder.FixedInput("x", {4});
  builder.MakeFixed("torch.ops.aten.arange.default", "r", {{"end", Number(4)}}, {4}, DType::kInt64);
  builder.MakeFixed("torch.ops.aten.unsqueeze.default", "c",
                    {{"self", Ref("r")}, {"dim", Number(1)}}, {4, 1}, DType::kInt64);
  builder.MakeFixed("torch.ops.aten.sub.Tensor", "n", {{"self", Ref("r")}, {"other", Number(4)}},
                    {4}, DType::kInt64);
  builder.MakeFixed(full, "y", std::move(arguments), sizes, DType::kInt64);
  return ElementsOf(builder.Return("y"));
}

TEST_CASE("elements follow from sizes") {
  CHECK(After("arange.start_step", {{"start", Number(2)}, {"step", Number(3)}}, {3}) == "2 5 8");
  CHECK(After("add.Tensor", {{"self", Ref("r")}, {"other", Number(10)}}, {4}) == "10 11 12 13");
  CHECK(After("sub.Tensor", {{"self", Ref("r")}, {"other", Ref("r")}}, {4}) == "0 0 0 0");
  CHECK(After("ge.Tensor", {{"self", Ref("c")}, {"other", Ref("r")}}, {4, 4}) ==
        "1 0 0 0 1 1 0 0 1 1 1 0 1 1 1 1");
  CHECK(After("slice.Tensor",
              {{"self", Ref("r")}, {"dim", Number(0)}, {"start", Number(1)}, {"end", Number(3)}},
              {2}) == "1 2");
  CHECK(After("select.int", {{"self", Ref("c")}, {"dim", Number(0)}, {"index", Number(-1)}}, {1}) ==
        "3");
  CHECK(After("select.int", {{"self", Ref("c")}, {"dim", Number(-1)}, {"index", Number(0)}}, {4}) ==
        "0 1 2 3");
  CHECK(After("abs.default", {{"self", Ref("n")}}, {4}) == "4 3 2 1");
  CHECK(After("floor_divide.default", {{"self", Ref("n")}, {"other", Number(3)}}, {4}) ==
        "-2 -1 -1 -1");
  CHECK(After("cumsum.default", {{"self", Ref("r")}, {"dim", Number(-1)}}, {4}) == "0 1 3 6");
  CHECK(After("cumsum.default", {{"self", Ref("c")}, {"dim", Number(-1)}}, {4, 1}) == "0 1 2 3");
  CHECK(After("diff.default", {{"self", Ref("r")}}, {3}) == "1 1 1");
  CHECK(After("max_pool1d.default", {{"self", Ref("r")}, {"kernel_size", Numbers({2})}}, {2}) ==
        "?");
  CHECK(After("new_ones.default", {{"self", Ref("r")}}, {3, 5}) == "1");
  CHECK(After("expand.default", {{"self", Ref("r")}}, {9, 4}) == "0 1 2 3");
  CHECK(After("repeat.default", {{"self", Ref("c")}}, {4, 3}) == "0 1 2 3");
  CHECK(After("repeat.default", {{"self", Ref("r")}}, {3, 4}) == "0 1 2 3");
  CHECK(After("logical_not.default", {{"self", Ref("r")}}, {4}) == "1 0 0 0");
  CHECK(After("index.Tensor", {{"self", Ref("r")}, {"indices", List({Ref("r")})}}, {4}) ==
        "0 1 2 3");
  CHECK(After("index.Tensor", {{"self", Ref("r")}, {"indices", List({Ref("n")})}}, {4}) ==
        "0 1 2 3");
}

TEST_CASE("a picture of one number is that in every size") {
  const auto resized = [](const char* of) {
    ExportedBuilder builder;
    builder.MakeFixed("torch.ops.aten.ones.default", "o", {}, {1, 1, 2, 2}, DType::kFloat32);
    builder.MakeFixed("torch.ops.aten.arange.default", "r", {{"end", Number(4)}}, {4},
                      DType::kInt64);
    builder.MakeFixed("torch.ops.aten.upsample_nearest2d.vec", "y", {{"input", Ref(of)}},
                      {1, 1, 3, 5}, DType::kFloat32);
    return ElementsOf(builder.Return("y"));
  };
  CHECK(resized("o") == "1");
  CHECK(resized("r") == "?");
}

TEST_CASE("what data decide is not known, nor what is too large, or reads beyond a table") {
  CHECK(After("add.Tensor", {{"self", Ref("x")}, {"other", Number(1)}}, {4}) == "?");
  CHECK(After("add.Tensor", {{"self", Ref("r")}, {"other", Real(0.5)}}, {4}) == "?");
  CHECK(After("sin.default", {{"self", Ref("r")}}, {4}) == "?");
  CHECK(After("arange.default", {{"end", Number(int64_t{1} << 40)}}, {int64_t{1} << 40}) == "?");
  CHECK(After("slice.Tensor", {{"self", Ref("r")}, {"dim", Number(0)}, {"start", Number(3)}},
              {2}) == "?");
  CHECK(After("view.default", {{"self", Ref("r")}}, {2, 2}) == "?");
  CHECK(After("repeat.default", {{"self", Ref("r")}}, {8}) == "?");
}

TEST_CASE("sizes that do not fit together are not known, and numbers wrap around") {
  CHECK(After("expand.default", {{"self", Ref("r")}}, {9, 7}) == "?");
  CHECK(After("slice.Tensor", {{"self", Ref("c")}, {"dim", Number(1)}}, {9, 1}) == "?");
  CHECK(After("slice.Tensor", {{"self", Ref("c")}, {"dim", Number(0)}}, {3, 5}) == "?");
  CHECK(After("index.Tensor", {{"self", Ref("r")}, {"indices", List({Ref("r")})}}, {7}) == "?");
  CHECK(After("diff.default", {{"self", Ref("c")}, {"prepend", Ref("r")}}, {4, 1}) == "?");
  constexpr int64_t kHighest = INT64_MAX;
  CHECK(After("arange.start_step", {{"start", Number(kHighest)}, {"step", Number(kHighest)}},
              {3}) == "9223372036854775807 -2 9223372036854775805");
}

TEST_CASE("a long chain is given up, not followed to the end of the stack") {
  ExportedBuilder builder;
  std::vector<std::string> names = {"r"};
  builder.MakeFixed("torch.ops.aten.arange.default", "r", {{"end", Number(4)}}, {4}, DType::kInt64);
  for (int i = 0; i < 100000; ++i) names.push_back("v" + std::to_string(i));
  for (size_t i = 1; i < names.size(); ++i) {
    builder.MakeFixed("torch.ops.aten.add.Tensor", names[i],
                      {{"self", Ref(names[i - 1])}, {"other", Number(1)}}, {4}, DType::kInt64);
  }
  CHECK(ElementsOf(builder.Return(names.back())) == "?");
}

TEST_CASE("masks that hide nothing, and causal ones, are told") {
  const auto mask = [](const std::vector<int64_t>& elements) {
    return Known{{7, 2, 2}, {1, 2, 2}, elements};
  };
  CHECK(AreAllTrue(mask({1, 1, 1, 1})));
  CHECK_FALSE(AreAllTrue(mask({1, 0, 1, 1})));
  CHECK(IsCausal(mask({1, 0, 1, 1})));
  CHECK_FALSE(IsCausal(mask({1, 0, 0, 1})));
  CHECK_FALSE(IsCausal(mask({1, 1, 1, 1})));
}

}  // namespace
}  // namespace onnxfit::pt2_known_elements_test
