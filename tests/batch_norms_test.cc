#include "estimator/parameters/batch_norms.h"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <vector>

#include "estimator/eager/in_place.h"
#include "estimator/fit/estimate.h"
#include "estimator/operators/dispatch.h"
#include "estimator/parameters/roles.h"
#include "tests/paths.h"
#include "tests/trace_helpers.h"

namespace onnxfit::batch_norms_test {
namespace {

std::string OpsOf(const Program& program) {
  std::string ops;
  for (const AtenCall& call : program.calls) ops += std::string(call.op) + " ";
  return ops;
}

std::string NamesOf(const std::vector<ModuleTensor>& tensors) {
  std::string names;
  for (const ModuleTensor& tensor : tensors) names += tensor.name + " ";
  return names;
}

// A network of maps [2, 8, 4, 4] whose tensors, [8, 8, 1, 1] and [8], are listed by name.
std::string Net(const std::vector<std::string>& weights, const std::vector<std::string>& numbers,
                const std::string& nodes) {
  std::string tensors;
  const auto add = [&](const char* type, const std::string& name) {
    tensors += fmt::format("{}{} \"{}\" = [\"location\": \"none\"]", tensors.empty() ? "" : ", ",
                           type, name);
  };
  for (const std::string& name : weights) add("float[8, 8, 1, 1]", name);
  for (const std::string& name : numbers) add("float[8]", name);
  return fmt::format("net (float[N, 8, 4, 4] x) => (float[N, 8, 4, 4] y) < {} > {{ {} }}", tensors,
                     nodes);
}

// Which calls work in place, of a convolution, an operator and a ReLU.
std::string InPlaceBehind(const std::string& between) {
  const TrainingSettings settings = {.loss = Loss::kNone};
  const Program program = Dispatch(
      Build(Net({"w"}, {"g", "b"}, "c = Conv (x, w) " + between + " y = Relu (n)"), settings)
          .program,
      settings);
  std::string text;
  const std::vector<bool> in_place = FindInPlaceCalls(program, settings);
  for (size_t i = 0; i < in_place.size(); ++i) {
    if (in_place[i]) text += std::string(program.calls[i].op) + " ";
  }
  return text;
}

TEST_CASE("an activation behind an instance norm writes over it as behind any norm") {
  CHECK(InPlaceBehind("n = InstanceNormalization (c, g, b)") == "relu ");
  // A view that the model's code makes.
  CHECK(InPlaceBehind("n = Transpose <perm = [0, 1, 3, 2]> (c)").empty());
}

TEST_CASE("names that tools give to what they folded are known") {
  struct Row {
    const char* node;
    const char* weight;
    const char* bias;
    const char* module;  // of the batch norm
  };
  const Row rows[] = {
      {"net/conv1_bn/batchnorm/add_1", "net/conv1/merged_input:0", "b:0", "net/conv1_bn"},
      {"net/bn/FusedBatchNormV3", "net/conv/W:0", "b:0", "net/bn"},
      {"Conv__7", "Conv__7_weights_fused_bn", "Conv__7_bias_fused_bn",
       "Conv__7_weights_fused_bn_batch_norm"},
      {"fused Conv_0", "ConvBnFusion_W_body.conv1.weight", "ConvBnFusion_BN_B_body.bn1.bias",
       "body.bn1"},
  };
  for (const Row& row : rows) {
    CAPTURE(row.node);
    const PreparedRun built =
        Build(Net({row.weight}, {row.bias},
                  fmt::format("[\"{}\"] c = Conv (x, \"{}\", \"{}\") y = Relu (c)", row.node,
                              row.weight, row.bias)),
              {.loss = Loss::kNone});
    CHECK(OpsOf(built.program).starts_with("convolution batch_norm relu "));
    REQUIRE(built.roles.folded.size() == 1);
    CHECK(built.roles.folded[0].module == row.module);
    CHECK(built.roles.ParameterCount() == 64 + 2 * 8);
    CHECK(built.roles.buffers.size() == 3);
    CHECK(built.roles.doubts.empty());
  }
}

// torch.export folds into a bias of its own making, and says so in its name.
TEST_CASE("a bias that the exporter made is none of the module's, whatever is assumed") {
  const auto has_bias = [](const char* bias) {
    const Roles roles =
        Build(Net({"m.conv.weight"}, {bias},
                  fmt::format("getitem = Conv (x, \"m.conv.weight\", \"{}\") y = Relu (getitem)",
                              bias)),
              {.loss = Loss::kNone, .assumed = {.conv_bias = true}})
            .roles;
    REQUIRE(roles.folded.size() == 1);
    return roles.folded[0].convolution_has_bias;
  };
  CHECK(has_bias("onnx::Conv_8"));
  CHECK_FALSE(has_bias("m.conv.weight_bias"));
}

TEST_CASE("a fold into a convolution without a bias left one, which is none of the module's") {
  const std::string text = Net({"m/conv/W:0"}, {"b:0"},
                               "[\"m/bn/batchnorm/add_1\"] y = Conv (x, \"m/conv/W:0\", \"b:0\")");
  CHECK(NamesOf(Build(text, {}).roles.parameters) == "m/conv.weight m/bn.weight m/bn.bias ");
  const Roles kept = Build(text, {.batch_norm = BatchNormUse::kKeep}).roles;
  CHECK(NamesOf(kept.parameters) == "m/conv/W:0 b:0 ");
  const Roles biased = Build(text, {.assumed = {.conv_bias = true}}).roles;
  CHECK(biased.ParameterCount() == 64 + 3 * 8);
}

TEST_CASE("a bias that the file computes is not looked for among lost ones") {
  const std::string text = Net({"m/conv/W:0"}, {"b:0"},
                               "b = Neg (\"b:0\") [\"m/bn/batchnorm/add_1\"] y = Conv (x, "
                               "\"m/conv/W:0\", b)");
  const PreparedRun built = Build(text, {.assumed = {.conv_bias = true}});
  CHECK(OpsOf(built.program).find("convolution batch_norm ") != std::string::npos);
}

TEST_CASE("a product and a sum for each channel may be a batch norm") {
  struct Row {
    const char* scale;  // [1, 8, 1, 1]
    const char* shift;
    const char* nodes;
    bool is_norm;
  };
  const Row rows[] = {
      {"s", "t", R"(r = Relu (x) ["m/bn/batchnorm/mul_1"] p = Mul (r, s) y = Add (p, t))", true},
      {"s", "t", R"(r = Relu (x) ["m/bn/batchnorm/mul_1"] p = Mul (r, s) y = Neg (p))", true},
      {"s", "t", "r = Relu (x) p = Mul (r, s) y = Add (p, t)", false},
      {"s", "t", "c = Conv (x, w) p = Mul (c, s) y = Add (t, p)", true},
      {"s", "t", "c = Conv (x, w) p = Mul (c, s) y = Neg (p)", false},
      {"n.s", "n.t", R"(c = Conv (x, w) p = Mul (c, "n.s") y = Add (p, "n.t"))", false},
      {"onnx::Mul_4", "onnx::Add_6",
       R"(c = Conv (x, w) p = Mul (c, "onnx::Mul_4") y = Add (p, "onnx::Add_6"))", false},
  };
  const auto text = [](const Row& row) {
    return fmt::format(
        "net (float[N, 8, 4, 4] x) => (float[N, 8, 4, 4] y) < float[8, 8, 1, 1] w = "
        "[\"location\": \"none\"], float[1, 8, 1, 1] \"{}\" = [\"location\": \"none\"], float[1, "
        "8, 1, 1] \"{}\" = [\"location\": \"none\"] > {{ {} }}",
        row.scale, row.shift, row.nodes);
  };
  for (const Row& row : rows) {
    CAPTURE(row.nodes);
    CAPTURE(row.scale);
    const PreparedRun built = Build(text(row), {});
    CHECK((OpsOf(built.program).find("batch_norm ") != std::string::npos) == row.is_norm);
    CHECK((OpsOf(built.program).find("mul ") == std::string::npos) == row.is_norm);
    CHECK(built.roles.affine.size() == (row.is_norm ? 1 : 0));
    CHECK(built.roles.buffers.size() == (row.is_norm ? 3 : 0));
    CHECK(Build(text(row), {.batch_norm = BatchNormUse::kKeep}).roles.affine.empty());
  }
}

TEST_CASE("a product that more reads, or a sum along another dimension, makes no batch norm") {
  const auto norms = [](const char* outputs, const char* shift) {
    return Build(fmt::format("net (float[N, 8, 4, 4] x) => ({}) < float[8, 8, 1, 1] w = "
                             "[\"location\": \"none\"], float[1, 8, 1, 1] s = [\"location\": "
                             "\"none\"], float[{}] t = [\"location\": \"none\"] > {{ "
                             "c = Conv (x, w) p = Mul (c, s) y = Add (p, t) }}",
                             outputs, shift),
                 {})
        .roles.affine.size();
  };
  CHECK(norms("float[N, 8, 4, 4] y", "1, 8, 1, 1") == 1);
  CHECK(norms("float[N, 8, 4, 4] y", "4") == 0);
  CHECK(norms("float[N, 8, 4, 4] y, float[N, 8, 4, 4] p", "1, 8, 1, 1") == 0);
}

// Blocks of convolution, batch norm and SiLU, as modules conv, bn and act, and a head; or the same
// after a fusion, which deletes bn and writes its numbers into the convolution.
std::string ConvBlocks(bool is_fused) {
  std::vector<std::string> weights;
  std::vector<std::string> numbers;
  std::string nodes;
  std::string x = "x";
  for (int i = 0; i < 5; ++i) {
    const std::string block = fmt::format("model.{}", i);
    weights.push_back(block + ".conv.weight");
    const std::vector<std::string> fused = {".conv.bias"};
    const std::vector<std::string> norm = {".bn.weight", ".bn.bias", ".bn.running_mean",
                                           ".bn.running_var"};
    std::string of_norm;
    for (const std::string& name : is_fused ? fused : norm) {
      numbers.push_back(block + name);
      of_norm += ", \"" + numbers.back() + "\"";
    }
    const std::string product = fmt::format("[\"/{0}/conv/Conv\"] c{1} = Conv ({2}, \"{3}\"{4}) ",
                                            block, i, x, weights.back(), is_fused ? of_norm : "");
    nodes += product;
    if (!is_fused) {
      nodes += fmt::format("[\"/{0}/bn/BatchNormalization\"] n{1} = BatchNormalization (c{1}{2}) ",
                           block, i, of_norm);
    }
    nodes += fmt::format(
        "[\"/{0}/act/Sigmoid\"] g{1} = Sigmoid ({2}{1}) [\"/{0}/act/Mul\"] a{1} = Mul ({2}{1}, "
        "g{1}) ",
        block, i, is_fused ? "c" : "n");
    x = fmt::format("a{}", i);
  }
  weights.emplace_back("model.5.weight");
  numbers.emplace_back("model.5.bias");
  nodes +=
      fmt::format("[\"/model.5/Conv\"] y = Conv ({}, \"model.5.weight\", \"model.5.bias\")", x);
  return Net(weights, numbers, nodes);
}

TEST_CASE("blocks of conv and act are those of conv, bn and act, fused before the export") {
  const PreparedRun fused = Build(ConvBlocks(true), {});
  const PreparedRun unfused = Build(ConvBlocks(false), {});
  CHECK(OpsOf(fused.program) == OpsOf(unfused.program));
  CHECK(fused.roles.ParameterCount() == unfused.roles.ParameterCount());
  CHECK(fused.roles.BufferBytes() == unfused.roles.BufferBytes());
  CHECK(NamesOf(fused.roles.parameters).find("model.4.bn.bias") != std::string::npos);
  CHECK(NamesOf(fused.roles.parameters).ends_with("model.5.weight model.5.bias "));
  REQUIRE(fused.roles.doubts.size() == 1);
  CHECK(fused.roles.doubts[0] == Doubt::kBatchNorm);
  REQUIRE(fused.roles.assumptions.size() == 1);
  CHECK(fused.roles.assumptions[0].starts_with(
      "5 batch norms are taken to be folded into biases of convolutions, for the file has modules "
      "called conv and act, as in blocks of conv, bn and act, and are put back: 2.50 KiB more"));
}

TEST_CASE("a flag says whether batch norms were folded, and nothing is open any more") {
  const PreparedRun kept = Build(ConvBlocks(true), {.batch_norm = BatchNormUse::kKeep});
  CHECK(OpsOf(kept.program).find("batch_norm") == std::string::npos);
  CHECK(kept.roles.doubts.empty());
  const PreparedRun restored = Build(ConvBlocks(true), {.batch_norm = BatchNormUse::kRestore});
  CHECK(restored.roles.folded.size() == 6);  // the head's too
  CHECK(restored.roles.doubts.empty());
}

TEST_CASE("what the file leaves open about batch norms is a range of the answer") {
  const Estimate open =
      MakeEstimate(ParseGraph(ConvBlocks(true)),
                   {.binding = {.batch = 512}, .settings = {.in_place = InPlaceUse::kAlways}});
  REQUIRE(open.range.has_value());
  CHECK(open.range->low.flags == "--batch-norm keep");
  CHECK(open.range->high.device_bytes == open.device_bytes);
}

// Four blocks of `block`, where # is the number of the block and % what the last one made.
std::string Blocks(const std::string& bias, const std::string& block, const std::string& end) {
  std::vector<std::string> weights;
  std::vector<std::string> biases;
  std::string nodes;
  std::string last = "x";
  const auto fill = [&](std::string text, int i) {
    for (size_t at = 0; (at = text.find_first_of("#%", at)) != std::string::npos;) {
      const std::string by = text[at] == '#' ? std::to_string(i) : last;
      text.replace(at, 1, by);
      at += by.size();
    }
    return text;
  };
  for (int i = 0; i < 4; ++i) {
    weights.push_back(fmt::format("{}.weight", i));
    biases.push_back(fill(bias, i));
    nodes += fill(block, i) + " ";
    last = fmt::format("a{}", i);
  }
  return Net(weights, biases, nodes + fill(end, 4));
}

TEST_CASE("shapes of blocks that are built with batch norms") {
  struct Row {
    const char* what;
    const char* bias;
    const char* block;
    const char* end;
    size_t folded;
    bool in_doubt;
  };
  const char* conv_relu = R"(c# = Conv (%, "#.weight", "b#") a# = Relu (c#))";
  const char* residual = R"(c# = Conv (%, "#.weight", "b#") s# = Add (c#, %) a# = Relu (s#))";
  const Row rows[] = {
      {"convolutions and activations may be VGG's, with and without batch norms", "b#", conv_relu,
       "y = Neg (%)", 0, true},
      {"whatever their biases are called", "#.bias",
       R"(c# = Conv (%, "#.weight", "#.bias") a# = Relu (c#))", "y = Neg (%)", 0, true},
      {"and their modules", "#.bias",
       R"(["/c#/Conv"] c# = Conv (%, "#.weight", "#.bias") ["/act/Relu"] a# = Relu (c#))",
       "y = Neg (%)", 0, true},
      {"a Sequential without a gap has none", "#.bias",
       R"(["/f/f.0/Conv"] c# = Conv (%, "#.weight", "#.bias") ["/f/f.1/Relu"] a# = Relu (c#))",
       "y = Neg (%)", 0, false},
      {"children 0 and 2 of a Sequential", "#.bias",
       R"(["/f/f.0/Conv"] c# = Conv (%, "#.weight", "#.bias") ["/f/f.2/Relu"] a# = Relu (c#))",
       "y = Neg (%)", 4, true},
      {"residual sums in a network that pools", "b#", residual,
       "p = GlobalAveragePool (%) y = Add (p, x)", 4, true},
      {"and in one that makes images", "b#", residual, "y = Neg (%)", 0, true},
      {"any norm in the file: the others would be there too", "b#", conv_relu,
       "y = LRN <size = 3> (%)", 0, false},
  };
  for (const Row& row : rows) {
    CAPTURE(row.what);
    const Roles roles = Build(Blocks(row.bias, row.block, row.end), {}).roles;
    CHECK(roles.folded.size() == row.folded);
    CHECK(roles.doubts.empty() != row.in_doubt);
  }
}

TEST_CASE("depthwise convolutions with an activation are MobileNet's") {
  std::string tensors;
  std::string nodes;
  for (int i = 0; i < 4; ++i) {
    tensors += fmt::format(
        "float[8, 1, 3, 3] w{0} = [\"location\": \"none\"], float[8] b{0} = "
        "[\"location\": \"none\"]{1}",
        i, i < 3 ? ", " : "");
    nodes += fmt::format(
        "c{0} = Conv <group = 8, pads = [1, 1, 1, 1]> ({1}, w{0}, b{0}) "
        "{2} = Clip (c{0}, low, high) ",
        i, i == 0 ? "x" : fmt::format("a{}", i - 1), i < 3 ? fmt::format("a{}", i) : "y");
  }
  const Roles roles = Build(fmt::format("net (float[N, 8, 4, 4] x) => (float[N, 8, 4, 4] y) < {}, "
                                        "float low = {{0}}, float high = {{6}} > {{ {} }}",
                                        tensors, nodes),
                            {})
                          .roles;
  CHECK(roles.folded.size() == 4);
}

TEST_CASE("networks with biases of their own stay as they are") {
  for (const char* model : {"vgg16.script", "unet.train"}) {
    CAPTURE(model);
    const Estimate estimate =
        MakeEstimate(LoadGraph(fmt::format("{}/models/{}.onnx", kSourceDir, model)), {});
    CHECK(std::ranges::none_of(estimate.assumptions, [](const std::string& assumption) {
      return assumption.find("norm") != std::string::npos;
    }));
  }
}

}  // namespace
}  // namespace onnxfit::batch_norms_test
