#include <doctest/doctest.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <string>
#include <vector>

#include "estimator/lost/lost_calls.h"
#include "estimator/operators/dispatch.h"
#include "tests/trace_helpers.h"

namespace onnxfit::lost_rotary_test {
namespace {

constexpr char kSignature[] =
    "b: BUFFER target='m.rope.inv_freq' persistent=False\n"
    "o: BUFFER target='m.rope.original_inv_freq' persistent=False\n";

constexpr char kLayer[] = "['', 'm', 'm.layers.0', 'm.layers.0.attention', 'mul']";
constexpr char kRope[] = "['', 'm', 'm.rope', 'cos']";

// An embedding of n = 3 positions and f = 2 frequencies, computed to cos and sin of each layer, to
// the angles, or to the product of positions and frequencies.
struct Export {
  const char* graph;
  int own_nodes;  // of the embedding, before those of the layer
};

constexpr Export kTables = {R"(net (float[N, 1, 3, 4] x) => (float[N, 1, 3, 4] y)
  < float[1, 1, 3, 4] unsqueeze_6 = ["location": "none"],
    float[1, 1, 3, 4] unsqueeze_7 = ["location": "none"] > {
    a = Mul (x, unsqueeze_6) b = Mul (x, unsqueeze_7) y = Add (a, b)
  })",
                            0};
constexpr Export kAngles = {R"(net (float[N, 3, 4] x) => (float[N, 3, 4] y)
  < float[1, 3, 4] cat_1 = ["location": "none"] > {
    cos = Cos (cat_1) sin = Sin (cat_1) a = Mul (x, cos) b = Mul (x, sin) y = Add (a, b)
  })",
                            2};
constexpr Export kProduct = {R"(net (float[N, 3, 4] x) => (float[N, 3, 4] y)
  < float[1, 2, 3] matmul = ["location": "none"] > {
    f = Transpose <perm = [0, 2, 1]> (matmul) cat = Concat <axis = 2> (f, f)
    cos = Cos (cat) sin = Sin (cat) a = Mul (x, cos) b = Mul (x, sin) y = Add (a, b)
  })",
                             4};

PreparedRun BuildExport(const Export& file, const TrainingSettings& settings,
                        const char* signature = kSignature) {
  Graph graph = ParseGraph(file.graph);
  graph.metadata.emplace_back("graph_signature", signature);
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    const bool is_own = static_cast<int>(i) < file.own_nodes;
    graph.nodes[i].metadata.emplace_back("pkg.torch.onnx.name_scopes", is_own ? kRope : kLayer);
  }
  return Build(graph, settings);
}

// The calls as they are dispatched, without views.
std::string Calls(const Export& file, Precision precision = Precision::kFp32,
                  const char* signature = kSignature) {
  const TrainingSettings settings = {.precision = precision, .mode = Mode::kEval};
  std::vector<std::string_view> ops;
  for (const AtenCall& call :
       Dispatch(BuildExport(file, settings, signature).program, settings).calls)
    if (call.op != "view") ops.push_back(call.op);
  return fmt::format("{}", fmt::join(ops, " "));
}

TEST_CASE("a rotary embedding that was computed runs all of it") {
  const std::string all =
      "constant add.Scalar expand _to_copy bmm permute cat cos mul.Scalar sin mul.Scalar "
      "mul mul add";
  CHECK(Calls(kTables) == all);
  CHECK(Calls(kAngles) == all);
  CHECK(Calls(kProduct) == all);
}

TEST_CASE("it computes in fp32 and returns what the layers compute in") {
  CHECK(Calls(kAngles, Precision::kBf16) ==
        "constant add.Scalar expand _to_copy _to_copy bmm permute cat cos mul.Scalar sin "
        "mul.Scalar _to_copy _to_copy mul mul add");
  CHECK(Calls(kAngles, Precision::kAmpBf16) == Calls(kAngles));  // autocast is off in it
}

TEST_CASE("its buffers are as long as the table is wide") {
  for (const Export& file : {kTables, kAngles, kProduct}) {
    const PreparedRun built = BuildExport(file, {.loss = Loss::kNone});
    REQUIRE(built.roles.buffers.size() == 2);
    CHECK(built.roles.buffers[0].name == "m.rope.inv_freq");
    CHECK(built.roles.buffers[1].name == "m.rope.original_inv_freq");
    CHECK(built.roles.BufferBytes() == 2 * 2 * 4);
    CHECK(built.roles.ParameterCount() == 0);
  }
}

TEST_CASE("of two embeddings it is not known which was computed") {
  const std::string two = std::string(kSignature) + "c: BUFFER target='m.local.inv_freq'\n";
  CHECK(Calls(kAngles, Precision::kFp32, two.c_str()) == "constant cos sin mul mul add");
}

}  // namespace
}  // namespace onnxfit::lost_rotary_test
