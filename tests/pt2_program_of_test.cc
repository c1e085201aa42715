#include <doctest/doctest.h>

#include <algorithm>
#include <map>
#include <memory>
#include <string>

#include "estimator/base/error.h"
#include "estimator/onnx/shapes.h"
#include "estimator/program/ties.h"
#include "estimator/pt2/exported_program.h"
#include "estimator/pt2/make_program.h"
#include "tests/pt2_helpers.h"
#include "tests/trace_helpers.h"

namespace onnxfit::pt2_program_of_test {
namespace {

using namespace onnxfit::pt2;  // NOLINT(google-build-using-namespace): its helpers

constexpr char kLinear[] = "torch.ops.aten.linear.default";
constexpr char kEmbedding[] = "torch.ops.aten.embedding.default";

ExportedBuilder Mlp() {
  ExportedBuilder builder;
  builder.Parameter("p_w", "fc.weight", {10, 8}).Parameter("p_b", "fc.bias", {10});
  builder.Buffer("b_s", "scale", {8}).Input("x", {8});
  builder.Make("torch.ops.aten.mul.Tensor", "h", {{"self", Ref("x")}, {"other", Ref("b_s")}}, {8});
  builder.Make(kLinear, "y", {{"input", Ref("h")}, {"weight", Ref("p_w")}, {"bias", Ref("p_b")}},
               {10});
  return builder;
}

TEST_CASE("the module's tensors, the inputs and the calls are the file's") {
  const PreparedRun made = Made(Mlp().Return("y"));
  CHECK(made.roles.ParameterCount() == 90);
  CHECK(made.program.parameters.size() == 2);
  CHECK(made.program.buffers.size() == 1);
  CHECK(CallsOf(made.program) == "mul(x,scale) linear(h,fc.weight,fc.bias)");
  CHECK(made.program.loss != kNoName);
  const NameId y = made.program.outputs.at(0);
  CHECK(made.program.values[static_cast<size_t>(y)].type.dims == Dims{4, 10});
}

TEST_CASE("a product in place makes no tensor") {
  const auto text = [](const char* op) {
    ExportedBuilder builder = Mlp();
    builder.Buffer("b_t", "times", {10});
    builder.Make(op, "z", {{"self", Ref("y")}, {"other", Ref("b_t")}}, {10});
    return ToString(Train(Made(builder.Return("z")).program, {}));
  };
  CHECK(text("torch.ops.aten.mul.Tensor").find("+z:") != std::string::npos);
  CHECK(text("torch.ops.aten.mul_.Tensor").find("+z:") == std::string::npos);
}

TEST_CASE("frozen are those that need no gradient, and those that a flag says") {
  ExportedBuilder builder = Mlp();
  builder.program().graph.tensors.at("p_b").requires_grad = false;
  CHECK(Made(builder.Return("y")).program.frozen.size() == 1);
  CHECK(Made(Mlp().Return("y"), {.freeze = {"fc.weight"}}).program.frozen.size() == 1);
}

TEST_CASE("other sizes than those that are written are refused") {
  ExportedBuilder builder;
  builder.Parameter("p_w", "w", {10, 8}).FixedInput("x", {2, 8});
  builder.MakeFixed(kLinear, "y", {{"input", Ref("x")}, {"weight", Ref("p_w")}}, {2, 10});
  const onnxfit::Graph file = InputGraph(builder.Return("y"));
  CHECK_NOTHROW(MakeProgram(file, BindShapes(file, {.batch = 2}), {}));
  CHECK_THROWS_WITH_AS(MakeProgram(file, BindShapes(file, {.batch = 8}), {}),
                       doctest::Contains("dimension 0 is 2 in the export, which has it fixed, "
                                         "found 8"),
                       Error);
  const DimBinding wide = {.batch = {}, .inputs = {{"x", {2, 9}}}};
  CHECK_THROWS_WITH_AS(MakeProgram(file, BindShapes(file, wide), {}),
                       doctest::Contains("dimension 1 is 8"), Error);
  // Each argument of forward has its entry, which keeps what is free.
  builder.FixedInput("scale", {8}).Input("mask", {8});
  const onnxfit::Graph several = InputGraph(builder.Return("y"));
  CHECK_THROWS_WITH_AS(
      MakeProgram(several, BindShapes(several, {.batch = {}, .inputs = {{"x", {8, 8}}}}), {}),
      doctest::Contains("(try: export it with dynamic_shapes=({0: torch.export.Dim.DYNAMIC}, None, "
                        "{0: torch.export.Dim.DYNAMIC}))"),
      Error);
}

// torch.export writes sizes of 1 as numbers, whatever was asked for.
TEST_CASE("a size of 1 that the export has fixed is told to be larger") {
  ExportedBuilder builder;
  builder.FixedInput("x", {1, 8});
  builder.MakeFixed("torch.ops.aten.exp.default", "y", {{"self", Ref("x")}}, {1, 8});
  const onnxfit::Graph file = InputGraph(builder.Return("y"));
  CHECK_THROWS_WITH_AS(MakeProgram(file, BindShapes(file, {.batch = 4}), {}),
                       doctest::Contains("(try: export it with 2 or more there, and "
                                         "dynamic_shapes=({0: torch.export.Dim.DYNAMIC},))"),
                       Error);
}

Dims DimsOfInput(const ExportedProgram& exported, size_t input, const DimBinding& binding) {
  const onnxfit::Graph file = InputGraph(exported);
  const Program program =
      MakeProgram(file, BindShapes(file, binding), {.mode = Mode::kEval}).program;
  return program.values[static_cast<size_t>(program.inputs[input])].type.dims;
}

TEST_CASE("sizes that follow from others follow") {
  ExportedBuilder builder;
  builder.Input("x", {8}).Input("pairs", {8});
  builder.Make("torch.ops.aten.exp.default", "y", {{"self", Ref("x")}}, {8});
  ExportedProgram exported = builder.Return("y");
  exported.graph.tensors.at("pairs").sizes[0] = {.expression = "2*s0", .hint = 4};
  CHECK(DimsOfInput(exported, 1, {.batch = 5}) == Dims{10, 8});
}

TEST_CASE("a multiple of a symbol that stands nowhere alone is solved for its symbol") {
  ExportedBuilder builder;
  builder.Input("x", {64});
  builder.Make("torch.ops.aten.exp.default", "y", {{"self", Ref("x")}}, {64});
  ExportedProgram exported = builder.Return("y");
  for (const char* name : {"x", "y"}) {
    exported.graph.tensors.at(name).sizes[1] = {.expression = "32*s1", .hint = 64};
  }
  CHECK(DimsOfInput(exported, 0, {.batch = 5, .dims = {{"32*s1", 96}}}) == Dims{5, 96});
  CHECK_THROWS_WITH_AS(DimsOfInput(exported, 0, {.batch = 5, .dims = {{"32*s1", 100}}}),
                       "net.pt2: input 'x': dimension 1 is 32*s1 in the export, found 100, which "
                       "it cannot be",
                       Error);
}

// A table of 12 positions, of which an input of "s1" tokens takes as many as it has.
ExportedProgram Positions(bool slices_buffer) {
  ExportedBuilder builder;
  builder.Parameter("p_wpe", "wpe.weight", {12, 8}).Buffer("b_ids", "ids", {1, 12});
  builder.Input("tokens", {7}, DType::kInt64);
  const Arguments sliced = {{"self", Ref("b_ids")}, {"dim", Number(1)}, {"end", Number(7)}};
  const Arguments counted = {{"end", Number(7)}};
  if (slices_buffer) {
    builder.MakeFixed("torch.ops.aten.slice.Tensor", "at", sliced, {1, 7}, DType::kInt64);
  } else {
    builder.MakeFixed("torch.ops.aten.arange.default", "at", counted, {7}, DType::kInt64);
  }
  builder.MakeFixed("torch.ops.aten.embedding.default", "y",
                    {{"weight", Ref("p_wpe")}, {"indices", Ref("at")}}, {7, 8});
  ExportedProgram exported = builder.Return("y");
  exported.graph.tensors.at("tokens").sizes[1] = {.expression = "s1", .hint = 7};
  exported.graph.tensors.at("at").sizes.back() = {.expression = "s1", .hint = 7};
  exported.graph.tensors.at("y").sizes[0] = {.expression = "s1", .hint = 7};
  return exported;
}

TEST_CASE("positions beyond a table are refused") {
  const auto made = [](bool slices_buffer, int64_t tokens) {
    const onnxfit::Graph file = InputGraph(Positions(slices_buffer));
    return MakeProgram(file, BindShapes(file, {.batch = 4, .dims = {{"s1", tokens}}}),
                       {.mode = Mode::kEval});
  };
  for (const bool slices_buffer : {false, true}) {
    CHECK_NOTHROW(made(slices_buffer, 12));
    const std::string call = slices_buffer ? "call 'at': it takes 16 of the 12 in 'ids'"
                                           : "call 'y': it takes 16 of the 12 in 'wpe.weight'";
    const std::string error =
        "net.pt2: input 'tokens': dimension 1 ('s1') is 16, expected at most "
        "12: " +
        call + " (try: --dim s1=12)";
    CHECK_THROWS_WITH_AS(made(slices_buffer, 16), error.c_str(), Error);
  }
}

TEST_CASE("inputs of one size at the export have one batch") {
  const auto built = [](int64_t hint) {
    ExportedBuilder builder;
    builder.Input("x", {8}).Input("z", {8});
    builder.Make("torch.ops.aten.add.Tensor", "y", {{"self", Ref("x")}, {"other", Ref("z")}}, {8});
    ExportedProgram exported = builder.Return("y");
    exported.graph.tensors.at("z").sizes[0] = {.expression = "s9", .hint = hint};
    return exported;
  };
  const Program program = Made(built(2), {.mode = Mode::kEval}).program;
  CHECK(program.values[static_cast<size_t>(program.inputs[1])].type.dims == Dims{4, 8});
  CHECK_THROWS_WITH_AS(Made(built(3), {.mode = Mode::kEval}), doctest::Contains("s9"), Error);
}

TEST_CASE("the batch is the dimension that the export says") {
  ExportedBuilder builder;
  builder.FixedInput("x", {50, 2, 8}).FixedInput("state", {1, 2, 8});
  builder.MakeFixed("torch.ops.aten.exp.default", "y", {{"self", Ref("x")}}, {50, 2, 8});
  ExportedProgram exported = builder.Return("y");
  exported.batch_place = "1 x";
  const auto shapes = [&](const DimBinding& binding) {
    return BindShapes(InputGraph(exported), binding);
  };
  CHECK(shapes({.batch = {}}).batch == 2);
  CHECK(shapes({.batch = {}}).batch_place == "dimension 1 of x");
  exported.graph.tensors.at("x").sizes[1] = {.expression = "s0", .hint = 2};
  exported.graph.tensors.at("y").sizes[1] = {.expression = "s0", .hint = 2};
  exported.graph.tensors.at("state").sizes[1] = {.expression = "s9", .hint = 2};
  CHECK(DimsOfInput(exported, 0, {.batch = 5}) == Dims{50, 5, 8});
  CHECK(DimsOfInput(exported, 1, {.batch = 5}) == Dims{1, 5, 8});
  exported.batch_place.clear();
  CHECK_THROWS_WITH_AS(shapes({.batch = 5}), doctest::Contains("'s0' of input 'x', 's9' of input"),
                       Error);
}

TEST_CASE("a size that no input decides is refused") {
  ExportedBuilder builder;
  builder.Input("x", {8});
  builder.Make("torch.ops.aten.relu.default", "y", {{"self", Ref("x")}}, {8});
  ExportedProgram exported = builder.Return("y");
  exported.graph.tensors.at("y").sizes[0].expression = "u0";
  CHECK_THROWS_WITH_AS(Made(exported),
                       doctest::Contains("the data decide it, of 'y': the most that "
                                         "it may be was expected, found nothing "
                                         "(try: --dim u0=100)"),
                       Error);
}

// Of nonzero, which gives a row for each element at most.
ExportedProgram Nonzero() {
  ExportedBuilder builder;
  builder.Input("x", {8});
  builder.Make("torch.ops.aten.nonzero.default", "y", {{"self", Ref("x")}}, {2}, DType::kInt64);
  ExportedProgram exported = builder.Return("y");
  exported.graph.tensors.at("y").sizes[0] = {.expression = "u0"};
  return exported;
}

TEST_CASE("a size that data decide is one that the export allows") {
  const auto run = [](const ExportedProgram& exported, int64_t size) {
    return PrepareRun(InputGraph(exported), {.binding = {.batch = 4, .dims = {{"u0", size}}},
                                             .settings = {.mode = Mode::kEval}});
  };
  ExportedProgram exported = Nonzero();
  CHECK_THROWS_WITH_AS(Made(exported), doctest::Contains("(try: --dim u0=32)"), Error);
  exported.ranges["u0"] = {.low = 2, .high = 9};
  CHECK_THROWS_WITH_AS(Made(exported), doctest::Contains("(try: --dim u0=9)"), Error);
  CHECK(run(exported, 9).program.calls.size() == 1);
  CHECK_THROWS_WITH_AS(run(exported, 10),
                       "net.pt2: --dim u0: at most 9 was expected, which the export allows, found "
                       "10 (try: --dim u0=9)",
                       Error);
  CHECK_THROWS_WITH_AS(run(exported, 1),
                       "net.pt2: --dim u0: at least 2 was expected, which the export allows, found "
                       "1 (try: --dim u0=2)",
                       Error);
}

TEST_CASE("parameters of 16 bits that are counted in 32 are said") {
  ExportedProgram exported = Mlp().Return("y");
  for (const char* name : {"p_w", "p_b"}) {
    exported.graph.tensors.at(name).dtype = DType::kBFloat16;
  }
  const auto says = [&](Precision precision) {
    const auto all = Made(exported, {.precision = precision}).program.assumptions;
    return std::ranges::any_of(all, [](const std::string& text) {
      return text.find("bfloat16 of parameters, all counted in float32") != text.npos;
    });
  };
  CHECK(says(Precision::kFp32));
  CHECK_FALSE(says(Precision::kBf16));
}

TEST_CASE("a batch that the export does not allow is said") {
  ExportedProgram exported = Mlp().Return("y");
  exported.ranges["s0"] = {.low = 2, .high = 3};
  const Program program = Made(exported).program;
  REQUIRE_FALSE(program.assumptions.empty());
  CHECK(program.assumptions.back() ==
        "s0 is 4, which the export does not allow (from 2 to 3): its calls are taken to be the "
        "same");
}

TEST_CASE("an export in the other mode is warned of") {
  const auto warnings = [](bool trained, Mode mode) {
    ExportedBuilder builder = Mlp();
    builder.Make("torch.ops.aten.dropout.default", "z",
                 {{"input", Ref("y")}, {"p", Real(0.1)}, {"train", Bool(trained)}}, {10});
    std::string codes;
    for (const Warning& warning : Made(builder.Return("z"), {.mode = mode}).program.warnings) {
      codes += warning.code;
    }
    return codes;
  };
  CHECK(warnings(true, Mode::kTrain).empty());
  CHECK(warnings(false, Mode::kTrain) == "OF113");
  CHECK(warnings(true, Mode::kEval) == "OF113");
  CHECK(warnings(false, Mode::kEval).empty());
}

// A body of torch.autocast(enabled=False): its calls, in place of the one that wraps them.
TEST_CASE("calls of a wrapped body run in its place") {
  auto body = std::make_shared<pt2::Graph>();
  body->inputs = {Ref("arg0")};
  body->outputs = {Ref("inner")};
  body->tensors["inner"] = {.dtype = DType::kFloat32, .sizes = {{.expression = "s0"}, {8}}};
  Call inside = {.target = "torch.ops.aten.exp.default", .name = "inner"};
  inside.arguments = {{"self", Ref("arg0")}};
  inside.results = {Ref("inner")};
  body->calls = {inside};
  ExportedBuilder builder;
  builder.Input("x", {8});
  builder.Make("torch.ops.higher_order.wrap_with_autocast", "y",
               {{"", Text("cuda")},
                {"", Argument()},
                {"", Bool(false)},
                {"", Bool(true)},
                {"", {.kind = Argument::Kind::kGraph, .text = "sub", .graph = body}},
                {"", Ref("x")}},
               {8});
  builder.Make("torch.ops.aten.relu.default", "z", {{"self", Ref("y")}}, {8});
  const Program program = Made(builder.Return("z"), {.mode = Mode::kEval}).program;
  CHECK(CallsOf(program) == "exp(x) relu(inner)");
  CHECK(program.calls[0].leaves_autocast);
  CHECK_FALSE(program.calls[1].leaves_autocast);
}

TEST_CASE("detach is a view that no gradient passes") {
  ExportedBuilder builder = Mlp();
  builder.Make("torch.ops.aten.detach.default", "d", {{"self", Ref("y")}}, {10});
  builder.Make("torch.ops.aten.exp.default", "e", {{"self", Ref("d")}}, {10});
  const Program program = Made(builder.Return("e"), {.mode = Mode::kEval}).program;
  CHECK(CallsOf(program).ends_with("view(y) exp(d)"));
  CHECK(program.calls[program.calls.size() - 2].leaves_autograd);
  CHECK_FALSE(program.calls.back().leaves_autograd);
}

// Adapters are put beside layers when the calls are written.
TEST_CASE("detach stops a gradient of adapters, too") {
  ExportedBuilder builder;
  builder.Parameter("p_w", "fc.weight", {10, 8}).Input("x", {8});
  builder.In("fc").Make(kLinear, "y", {{"input", Ref("x")}, {"weight", Ref("p_w")}}, {10});
  builder.In("").Make("torch.ops.aten.detach.default", "d", {{"self", Ref("y")}}, {10});
  builder.Make("torch.ops.aten.exp.default", "e", {{"self", Ref("d")}}, {10});
  const LoraSettings lora = {.rank = 2, .targets = {"fc"}};
  const Program program = Made(builder.Return("e"), {.mode = Mode::kEval, .lora = lora}).program;
  CHECK(CallsOf(program).ends_with("view(y) exp(d)"));
}

// --- Ties --------------------------------------------------------------------------------------

// Both calls read the last of the names, as torch.export writes it.
ExportedBuilder Tied(const char* embedding_reads) {
  ExportedBuilder builder;
  builder.Parameter("p_e", "embed.weight", {50, 8}).Parameter("p_h", "head.weight", {50, 8});
  builder.Input("ids", {}, DType::kInt64);
  builder.In("embed").Make(kEmbedding, "e",
                           {{"weight", Ref(embedding_reads)}, {"indices", Ref("ids")}}, {8});
  builder.In("head").Make(kLinear, "y", {{"input", Ref("e")}, {"weight", Ref("p_h")}}, {50});
  return builder;
}

TEST_CASE("a name that no call reads is another of the parameter that its module reads") {
  const ExportedProgram tied = Tied("p_h").Return("y");
  const auto names = FindFirstNames(tied);
  REQUIRE(names.size() == 1);
  CHECK(names.at("p_h") == "p_e");
  CHECK(Made(tied).roles.ParameterCount() == 400);
  CHECK(FindFirstNames(Tied("p_e").Return("y")).empty());
}

// Two layers, of which the second has the first's tensors by names of its own, read and unread.
ExportedProgram TiedLayers() {
  ExportedBuilder builder;
  for (const char* name : {"0.fc", "0.idle", "1.fc", "1.idle"}) {
    builder.Parameter(name, "", {8, 8});
  }
  for (InputSpec& spec : builder.program().inputs) {
    static const std::map<std::string_view, std::string_view> kTargets = {
        {"0.fc", "layers.0.fc.weight"},
        {"0.idle", "layers.0.idle.weight"},
        {"1.fc", "layers.1.fc.weight"},
        {"1.idle", "layers.1.idle.weight"}};
    spec.target = kTargets.at(spec.name);
  }
  builder.Input("x", {8})
      .In("layers.0.fc")
      .Make(kLinear, "h", {{"input", Ref("x")}, {"weight", Ref("1.fc")}}, {8});
  builder.In("layers.0.idle")
      .Make(kLinear, "g", {{"input", Ref("h")}, {"weight", Ref("0.idle")}}, {8});
  builder.In("layers.1.fc").Make(kLinear, "y", {{"input", Ref("g")}, {"weight", Ref("1.fc")}}, {8});
  return builder.Return("y");
}

TEST_CASE("what no call reads is tied as its module's others are") {
  const auto names = FindFirstNames(TiedLayers());
  CHECK(names.at("1.fc") == "0.fc");
  CHECK(names.at("1.idle") == "0.idle");
  CHECK(Made(TiedLayers()).program.parameters.size() == 2);
}

TEST_CASE("adapters stand beside each layer, and each module that is sharded has its own") {
  const LoraSettings lora = {.rank = 2, .targets = {"fc", "idle"}};
  const PreparedRun adapted = Made(TiedLayers(), {.lora = lora});
  CHECK(adapted.program.adapters.size() == 4 * 2);
  CHECK(adapted.program.frozen.size() == 2);
  CHECK(adapted.program.ties.empty());

  Program sharded =
      Made(TiedLayers(), {.ranks = {.strategy = Strategy::kFsdp, .world = 2}}).program;
  CHECK(CallsOf(sharded) ==
        "linear(x,layers.0.fc.weight) linear(h,layers.0.idle.weight) "
        "linear(g,layers.1.fc.weight)");
  JoinTiesWithinShards(sharded, {"layers.*"});
  CHECK(sharded.parameters.size() == 4);
  CHECK(sharded.ties.size() == 2);
  JoinTies(sharded);
  CHECK(sharded.parameters.size() == 2);
  CHECK(sharded.placement.size() == 2);
  CHECK(CallsOf(sharded).ends_with("linear(g,layers.0.fc.weight)"));
}

// "norm", which runs twice, and a "cross.bias" as large that no call reads.
TEST_CASE("a module that runs again, or that reads its child's, has no other's parameter") {
  const auto ties = [](const char* reader) {
    ExportedBuilder builder;
    builder.Parameter("p_b", "tokens.norm.bias", {8}).Parameter("p_c", "cross.bias", {8});
    builder.Input("x", {8}).In(reader).Make("torch.ops.aten.add.Tensor", "y",
                                            {{"self", Ref("x")}, {"other", Ref("p_b")}}, {8});
    return FindFirstNames(builder.Return("y")).size();
  };
  CHECK(ties("tokens.norm") == 0);
  CHECK(ties("tokens.norm@1") == 0);
  CHECK(ties("tokens") == 0);
  CHECK(ties("head") == 1);
}

TEST_CASE("a parameter that a damaged file does not describe is tied to none") {
  ExportedProgram tied = Tied("p_h").Return("y");
  tied.graph.tensors.erase("p_h");
  CHECK(FindFirstNames(tied).empty());
}

// transformers' RoBERTa: "self.decoder.bias = self.bias".
TEST_CASE("a bias that no call reads is that of a child of its module") {
  const auto names = [](const char* target) {
    ExportedBuilder builder;
    builder.Parameter("p_b", "lm_head.bias", {50})
        .Parameter("p_w", "lm_head.decoder.weight", {50, 8});
    builder.Parameter("p_d", target, {50}).Input("x", {8});
    builder.In("lm_head.decoder")
        .Make(kLinear, "y", {{"input", Ref("x")}, {"weight", Ref("p_w")}, {"bias", Ref("p_d")}},
              {50});
    return FindFirstNames(builder.Return("y"));
  };
  CHECK(names("lm_head.decoder.bias").at("p_d") == "p_b");
  CHECK(names("lm_head.decoder.shift").empty());
}

// WavLM's torch.cat((q_proj.bias, k_proj.bias)).
TEST_CASE("a parameter that a call reads in a list is its own") {
  ExportedBuilder builder;
  builder.Parameter("p_q", "q_proj.bias", {8}).Parameter("p_k", "k_proj.bias", {8});
  builder.Parameter("p_o", "out_proj.bias", {8}).Input("x", {16}).In("attention");
  builder.MakeFixed("torch.ops.aten.cat.default", "b",
                    {{"tensors", List({Ref("p_q"), Ref("p_k")})}}, {16});
  builder.Make("torch.ops.aten.add.Tensor", "y", {{"self", Ref("x")}, {"other", Ref("b")}}, {16});
  builder.MakeFixed("torch.ops.aten.exp.default", "z", {{"self", Ref("p_o")}}, {8});
  CHECK(FindFirstNames(builder.Return("y")).empty());
}

TEST_CASE("what is stored once is one parameter, and what is stored twice two") {
  ExportedProgram stored = Tied("p_e").Return("y");
  stored.inputs[0].storage = "weight_0";
  stored.inputs[1].storage = "weight_0";
  CHECK(FindFirstNames(stored).at("p_h") == "p_e");
  ExportedProgram apart = Tied("p_h").Return("y");
  apart.inputs[0].storage = "weight_0";
  apart.inputs[1].storage = "weight_1";
  CHECK(FindFirstNames(apart).empty());
}

// As peft's VeRA shares its random matrices.
TEST_CASE("a buffer that is stored once for two modules is one, views of one storage are two") {
  const auto bytes = [](const char* storage, int64_t rows) {
    ExportedBuilder builder;
    builder.Buffer("b_1", "one.table", {8}).Buffer("b_2", "two.table", {rows, 8 / rows});
    builder.Buffer("b_3", "three.table", {8}).Parameter("p_w", "w", {8}).Input("x", {8});
    builder.Make("torch.ops.aten.add.Tensor", "y", {{"self", Ref("p_w")}, {"other", Ref("b_3")}},
                 {8});
    ExportedProgram program = builder.Return("y");
    program.inputs[0].storage = program.inputs[2].storage = "weight_0";
    program.inputs[1].storage = storage;
    return Made(program).program.buffers.size();
  };
  CHECK(bytes("weight_1", 2) == 2);
  CHECK(bytes("weight_0", 2) == 2);
}

// --- Masks -------------------------------------------------------------------------------------

// Attention over 6 places with a mask of rows >= columns + `shift`, made in `file`.
std::string Attention(const char* file, const char* text, int64_t shift) {
  constexpr char kAten[] = "torch.ops.aten.";
  const auto op = [&](const char* name) { return std::string(kAten) + name; };
  const std::string arange = op("arange.default");
  const std::string unsqueeze = op("unsqueeze.default");
  const std::string sub = op("sub.Tensor");
  const std::string ge = op("ge.Tensor");
  const std::string sdpa = op("scaled_dot_product_attention.default");
  ExportedBuilder builder;
  builder.Input("q", {2, 6, 8}).At(file, 7, text);
  builder.MakeFixed(arange, "rows", {{"end", Number(6)}}, {6}, DType::kInt64);
  builder.MakeFixed(unsqueeze, "column", {{"self", Ref("rows")}, {"dim", Number(1)}}, {6, 1},
                    DType::kInt64);
  builder.MakeFixed(sub, "shifted", {{"self", Ref("rows")}, {"other", Number(shift)}}, {6},
                    DType::kInt64);
  builder.MakeFixed(ge, "mask", {{"self", Ref("column")}, {"other", Ref("shifted")}}, {6, 6},
                    DType::kBool);
  builder.At("net.py", 9, "return attention(q)");
  builder.Make(
      sdpa, "y",
      {{"query", Ref("q")}, {"key", Ref("q")}, {"value", Ref("q")}, {"attn_mask", Ref("mask")}},
      {2, 6, 8});
  return CallsOf(Made(builder.Return("y"), {.mode = Mode::kEval}).program);
}

TEST_CASE("masks that a library leaves out of a run are left out") {
  constexpr char kFile[] = "transformers/models/gpt2/modeling_gpt2.py";
  constexpr char kLine[] = "causal_mask = create_causal_mask(";
  constexpr char kMade[] = "constant() view(rows) add.Scalar(rows) ge(column,shifted) ";
  const std::string attends = "scaled_dot_product_attention(q,q,q";
  CHECK(Attention(kFile, kLine, 0) == attends + ";0;1)");   // causal
  CHECK(Attention(kFile, kLine, 99) == attends + ";0;0)");  // hides nothing
  CHECK(Attention(kFile, kLine, 1) == kMade + attends + ",mask;0;0)");
  CHECK(Attention(kFile, "mask = create_sliding_window_causal_mask(**kwargs)", 0) ==
        attends + ";0;1)");
  CHECK(Attention(kFile, "masks = create_masks_for_generate(**kwargs)", 0) == attends + ";0;1)");
  CHECK(Attention(kFile, "masks[kind] = mask_creation_functions[kind]()", 0) == attends + ";0;1)");
  // Which says allow_is_causal_skip=False.
  CHECK(Attention("transformers/models/falcon/modeling_falcon.py", kLine, 0) ==
        kMade + attends + ",mask;0;0)");
  CHECK(Attention("net.py", kLine, 0) == kMade + attends + ",mask;0;0)");
  CHECK(Attention(kFile, "mask = rows >= columns", 0) == kMade + attends + ",mask;0;0)");
}

// position_bias of attention that a decoder tells to be causal by a mask alone.
TEST_CASE("a bias has a causal mask of its own, but where attention is never causal") {
  const auto calls = [](const char* file) {
    ExportedBuilder net;
    net.Parameter("p_b", "b", {1, 2, 6, 6}).Input("q", {2, 6, 8});
    net.At("transformers/models/t5/modeling_t5.py", 7, "mask = create_causal_mask(");
    net.MakeFixed("torch.ops.aten.arange.default", "rows", {{"end", Number(6)}}, {6},
                  DType::kInt64);
    net.MakeFixed("torch.ops.aten.unsqueeze.default", "column",
                  {{"self", Ref("rows")}, {"dim", Number(1)}}, {6, 1}, DType::kInt64);
    net.MakeFixed("torch.ops.aten.ge.Tensor", "mask",
                  {{"self", Ref("column")}, {"other", Ref("rows")}}, {6, 6}, DType::kBool);
    net.At(file, 9, "attn_output, attn_weights = attention_interface(");
    net.MakeFixed("torch.ops.aten.where.ScalarOther", "m",
                  {{"condition", Ref("mask")}, {"self", Ref("p_b")}, {"other", Real(-1e9)}},
                  {1, 2, 6, 6});
    net.Make("torch.ops.aten.scaled_dot_product_attention.default", "y",
             {{"query", Ref("q")}, {"key", Ref("q")}, {"value", Ref("q")}, {"attn_mask", Ref("m")}},
             {2, 6, 8});
    return CallsOf(Made(net.Return("y"), {.mode = Mode::kEval}).program);
  };
  CHECK(calls("transformers/models/umt5/modeling_umt5.py") ==
        "scaled_dot_product_attention(q,q,q,b;0;0)");
  CHECK(calls("transformers/models/t5/modeling_t5.py").find("where(m.ge,b,m.constant)") !=
        std::string::npos);
}

// Falcon's one head of keys and values, which scaled_dot_product_attention broadcasts.
TEST_CASE("one head of keys is broadcast unless attention is told to group heads") {
  const auto calls = [](int64_t grouped, int64_t heads) {
    ExportedBuilder net;
    net.Input("q", {4, 6, 8}).Input("k", {heads, 6, 8});
    net.Make("torch.ops.aten.scaled_dot_product_attention.default", "y",
             {{"query", Ref("q")},
              {"key", Ref("k")},
              {"value", Ref("k")},
              {"enable_gqa", Bool(grouped != 0)}},
             {4, 6, 8});
    return CallsOf(Made(net.Return("y"), {.mode = Mode::kEval}).program);
  };
  CHECK(calls(0, 1) == "scaled_dot_product_attention(q,k,k;0;0;1)");
  CHECK(calls(1, 1) == "scaled_dot_product_attention(q,k,k;0;0)");
  CHECK(calls(0, 4) == "scaled_dot_product_attention(q,k,k;0;0)");
}

// attention_mask = create_bidirectional_mask(…) of eager attention, which a run has as None.
TEST_CASE("a mask that hides nothing is not added to scores, but where Dynamo traces it") {
  const auto calls = [](const char* line, int64_t least, Compiling compile = Compiling::kNone,
                        const FrameworkProfile& framework = DefaultFramework(),
                        bool is_given = false) {
    ExportedBuilder net;
    net.Input("x", {6});
    if (is_given) net.At("net.py", 6, "n = torch.arange(6)");
    if (!is_given) net.At("transformers/models/mpnet/modeling_mpnet.py", 7, line);
    net.MakeFixed("torch.ops.aten.arange.default", "n", {{"end", Number(6)}}, {6}, DType::kInt64);
    net.At("transformers/models/mpnet/modeling_mpnet.py", 7, line);
    net.MakeFixed("torch.ops.aten.ge.Scalar", "c", {{"self", Ref("n")}, {"other", Number(least)}},
                  {6}, DType::kBool);
    net.MakeFixed("torch.ops.aten.where.Scalar", "m",
                  {{"condition", Ref("c")}, {"self", Number(0)}, {"other", Real(-1e9)}}, {6});
    net.At("net.py", 9, "scores = scores + mask.to(scores.dtype)");
    net.MakeFixed("torch.ops.aten.to.dtype", "t", {{"self", Ref("m")}, {"dtype", Text("float32")}},
                  {6});
    net.Make("torch.ops.aten.add.Tensor", "y", {{"self", Ref("x")}, {"other", Ref("t")}}, {6});
    net.Make("torch.ops.aten.exp.default", "z", {{"self", Ref("y")}}, {6});
    return CallsOf(
        Made(net.Return("z"),
             {.framework = framework, .mode = Mode::kEval, .loss = Loss::kNone, .compile = compile})
            .program);
  };
  CHECK(calls("mask = create_bidirectional_mask(", 0) == "exp(x)");
  // Since 2.14 transformers knows that torch.compile is no export.
  const auto compiled = [&](const FrameworkProfile& framework, bool is_given) {
    return calls("mask = create_bidirectional_mask(", 0, Compiling::kInductor, framework, is_given);
  };
  const auto named = [](std::string_view name) {
    return *std::ranges::find(Frameworks(), name, &FrameworkProfile::name);
  };
  CHECK(compiled(NewestFramework(), false) == "exp(x)");
  CHECK(compiled(named("pytorch-2.14"), false) == "exp(x)");
  CHECK(compiled(named("pytorch-2.13"), false).ends_with("add(x,t) exp(y)"));
  // What hides nothing here may hide something elsewhere: it is not asked while compiling.
  CHECK(compiled(NewestFramework(), true).ends_with("add(x,t) exp(y)"));
  CHECK(calls("mask = create_bidirectional_mask(", 0, Compiling::kNone, NewestFramework(), true) ==
        "constant() exp(x)");  // the model's own arange is made
  CHECK(calls("mask = create_bidirectional_mask(", 0, Compiling::kInductor)
            .ends_with("add(x,t) exp(y)"));
  CHECK(calls("mask = create_bidirectional_mask(", 1).ends_with("add(x,t) exp(y)"));
  CHECK(calls("mask = own_mask(", 0).ends_with("add(x,t) exp(y)"));
}

// Four heads share two of keys, which are repeated before attention with a causal mask.
std::string GroupedAttention(const char* mask_text, int64_t width = 8) {
  const auto op = [](const char* name) { return std::string("torch.ops.aten.") + name; };
  const std::string arange = op("arange.default");
  const std::string view = op("view.default");
  const std::string expand = op("expand.default");
  const std::string ge = op("ge.Tensor");
  const std::string sdpa = op("scaled_dot_product_attention.default");
  ExportedBuilder builder;
  builder.Input("q", {4, 6, width}).Input("k", {2, 6, width});
  builder.At("transformers/models/llama/modeling_llama.py", 7, mask_text);
  builder.MakeFixed(arange, "rows", {{"end", Number(6)}}, {6}, DType::kInt64);
  builder.MakeFixed(view, "column", {{"self", Ref("rows")}}, {6, 1}, DType::kInt64);
  builder.MakeFixed(ge, "mask", {{"self", Ref("column")}, {"other", Ref("rows")}}, {6, 6},
                    DType::kBool);
  builder.At("net.py", 9, "return attention(q)");
  builder.Make(view, "a", {{"self", Ref("k")}}, {2, 1, 6, width});
  builder.Make(expand, "b", {{"self", Ref("a")}}, {2, 2, 6, width});
  builder.Make(view, "c", {{"self", Ref("b")}}, {4, 6, width});
  builder.Make(
      sdpa, "y",
      {{"query", Ref("q")}, {"key", Ref("c")}, {"value", Ref("c")}, {"attn_mask", Ref("mask")}},
      {4, 6, width});
  return CallsOf(Made(builder.Return("y"), {.mode = Mode::kEval}).program);
}

TEST_CASE("heads are not repeated where the mask goes that made them so") {
  CHECK(GroupedAttention("mask = create_causal_mask(") ==
        "scaled_dot_product_attention(q,k,k;0;1)");
  CHECK(GroupedAttention("mask = create_causal_mask(", 512)  // use_gqa_in_sdpa: up to 256
            .ends_with("view(k) expand(a) view(b) scaled_dot_product_attention(q,c,c;0;1)"));
  CHECK(GroupedAttention("mask = rows >= columns")
            .ends_with("view(k) expand(a) view(b) scaled_dot_product_attention(q,c,c,mask;0;0)"));
}

// Where the trace of inference frees what a mask was made of: before or behind the call "last".
std::string FreedWhere(const char* mask_text) {
  ExportedBuilder net;
  net.Input("q", {4, 6, 8}).At("net.py", 5, "mask = torch.ones(6, 1)");
  net.MakeFixed("torch.ops.aten.arange.default", "ones", {{"end", Number(6)}}, {6, 1},
                DType::kInt64);
  net.At("transformers/models/llama/modeling_llama.py", 7, mask_text);
  net.MakeFixed("torch.ops.aten.arange.default", "rows", {{"end", Number(6)}}, {6}, DType::kInt64);
  net.MakeFixed("torch.ops.aten.ge.Tensor", "shown",
                {{"self", Ref("ones")}, {"other", Ref("rows")}}, {6, 6}, DType::kBool);
  net.At("net.py", 9, "y = attention(q)");
  net.Make("torch.ops.aten.cos.default", "y", {{"self", Ref("q")}}, {4, 6, 8});
  net.At("net.py", 10, "last = y * 2");
  net.Make("torch.ops.aten.cos.default", "last", {{"self", Ref("y")}}, {4, 6, 8});
  const TrainingSettings settings = {.mode = Mode::kEval};
  const std::string trace = ToString(Train(Made(net.Return("last"), settings).program, settings));
  return trace.find("-ones") < trace.find("+last:") ? "before" : "behind";
}

TEST_CASE("a statement that a run leaves out binds its name anew") {
  CHECK(FreedWhere("mask = create_causal_mask(") == "before");
  CHECK(FreedWhere("other = create_causal_mask(") == "behind");
}

// out = torch.empty(…); out[:, :4] = x
TEST_CASE("what is written into a part of a tensor has its history there") {
  const auto calls = [](const char* written) {
    ExportedBuilder net;
    net.Parameter("p_w", "w", {4}).Parameter("p_v", "v", {8}).Input("x", {4});
    net.Make("torch.ops.aten.mul.Tensor", "m", {{"self", Ref("x")}, {"other", Ref("p_w")}}, {4});
    net.Make("torch.ops.aten.new_empty.default", "out", {{"self", Ref("x")}}, {8});
    net.Make("torch.ops.aten.slice.Tensor", "part",
             {{"self", Ref("out")}, {"dim", Number(1)}, {"start", Number(0)}, {"end", Number(4)}},
             {4});
    net.Make("torch.ops.aten.copy_.default", "copied",
             {{"self", Ref("part")}, {"src", Ref(written)}}, {4});
    net.Make("torch.ops.aten.mul.Tensor", "y", {{"self", Ref("out")}, {"other", Ref("p_v")}}, {8});
    return CallsOf(Made(net.Return("y")).program);
  };
  CHECK(calls("m").ends_with("slice(out) copy_slice!(out,m) mul(copied,v)"));
  CHECK(calls("x").find("copy_slice") == std::string::npos);
}

TEST_CASE("what an attribute of a module holds lives until the next step binds it anew") {
  const auto frees = [](const char* line) {
    ExportedBuilder net;
    net.Input("x", {8}).At("net.py", 3, line);
    net.Make("torch.ops.aten.cos.default", "state", {{"self", Ref("x")}}, {8});
    net.At("net.py", 4, "return sin(x)");
    net.Make("torch.ops.aten.sin.default", "y", {{"self", Ref("x")}}, {8});
    const TrainingSettings settings = {.mode = Mode::kEval, .steps = 2};
    const std::string trace = ToString(Train(Made(net.Return("y"), settings).program, settings));
    return trace.find("-state") != trace.rfind("-state") ? 2 : 1;
  };
  CHECK(frees("state = cos(x)") == 2);
  CHECK(frees("self.state = cos(x)") == 1);
}

// "maybe_multiply (grad.bmm (batch2), alpha)", and the same of batch2.
TEST_CASE("a factor of a batched product takes a gradient beside each") {
  const auto backward = [](double alpha) {
    ExportedBuilder net;
    net.Parameter("p_a", "a", {2, 4, 8}).Parameter("p_b", "b", {2, 8, 4}).Input("x", {2, 4, 4});
    net.Make("torch.ops.aten.baddbmm.default", "y",
             {{"self", Ref("x")},
              {"batch1", Ref("p_a")},
              {"batch2", Ref("p_b")},
              {"alpha", Real(alpha)}},
             {2, 4, 4});
    const TrainingSettings settings = {.optimizer = Optimizer::kNone, .steps = 1};
    const std::string trace = ToString(Train(Made(net.Return("y"), settings).program, settings));
    return trace.substr(trace.find("backward"));
  };
  constexpr char kTwice[] = "+a.grad:256 -y.scratch +y.scratch:256 +b.grad:256 -y.scratch";
  CHECK(backward(.5).find(kTwice) != std::string::npos);
  CHECK(backward(1).find("y.scratch") == std::string::npos);
}

// "part = x[...]", too.
TEST_CASE("an alias has a node of its own in backward") {
  ExportedBuilder net;
  net.Input("x", {4, 8}).Make("torch.ops.aten.alias.default", "part", {{"self", Ref("x")}}, {4, 8});
  net.Make("torch.ops.aten.sin.default", "y", {{"self", Ref("part")}}, {4, 8});
  CHECK(CallsOf(Made(net.Return("y"), {.mode = Mode::kEval}).program) == "expand(x) sin(part)");
}

// "part = x[:, :n]" of all of x is an alias, with a node of its own in backward; not where the next
// step of the same index reads it, or is written into it.
TEST_CASE("a slice of all of a tensor is an alias at the end of an index") {
  const auto calls = [](const char* target, int line) {
    ExportedBuilder net;
    net.Input("x", {4, 8}).At("net.py", 3, "part = x[:, :n]");
    net.Make("torch.ops.aten.slice.Tensor", "part",
             {{"self", Ref("x")}, {"dim", Number(0)}, {"start", Number(0)}, {"end", Number(4)}},
             {4, 8});
    net.At("net.py", line, "y = part[:, :n]");
    net.Make(target, "y", {{"self", Ref("part")}, {"dim", Number(1)}, {"end", Number(2)}}, {4, 2});
    return CallsOf(Made(net.Return("y"), {.mode = Mode::kEval}).program);
  };
  CHECK(calls("torch.ops.aten.slice.Tensor", 4).starts_with("expand(x) slice(part)"));
  CHECK(calls("torch.ops.aten.sin.default", 3).starts_with("expand(x)"));
  CHECK(calls("torch.ops.aten.slice.Tensor", 3).starts_with("slice(x) slice(part)"));
  CHECK(calls("torch.ops.aten.copy_.default", 4).starts_with("slice(x)"));
}

// Masks that no layer reads.
TEST_CASE("a mask that nobody reads is made unless it would be left out") {
  const auto calls = [](const char* compares) {
    ExportedBuilder net;
    net.Input("q", {4}).At("transformers/models/llama/modeling_llama.py", 7,
                           "\"sliding\": create_sliding_window_causal_mask(");
    net.MakeFixed("torch.ops.aten.arange.default", "rows", {{"end", Number(6)}}, {6},
                  DType::kInt64);
    net.MakeFixed("torch.ops.aten.view.default", "column", {{"self", Ref("rows")}}, {1, 1, 6, 1},
                  DType::kInt64);
    net.MakeFixed(compares, "shown", {{"self", Ref("column")}, {"other", Ref("rows")}},
                  {1, 1, 6, 6}, DType::kBool);
    net.At("net.py", 9, "return cos(q)");
    net.Make("torch.ops.aten.cos.default", "y", {{"self", Ref("q")}}, {4});
    return CallsOf(Made(net.Return("y"), {.mode = Mode::kEval}).program);
  };
  CHECK(calls("torch.ops.aten.ge.Tensor") == "cos(q)");
  CHECK(calls("torch.ops.aten.lt.Tensor").find("lt(") != std::string::npos);
}

// LeViT's biases: a module in eval mode keeps what it indexes first.
TEST_CASE("what a module indexes once is made in the first step alone") {
  const auto made = [](Mode mode) {
    ExportedBuilder net;
    net.Parameter("p_b", "attn.attention_biases", {9, 8}).Input("x", {8});
    net.MakeFixed("torch.ops.aten.arange.default", "n", {{"end", Number(8)}}, {8}, DType::kInt64);
    net.MakeFixed("torch.ops.aten.index.Tensor", "bias",
                  {{"self", Ref("p_b")}, {"indices", List({Ref("n")})}}, {8, 8});
    net.Make("torch.ops.aten.add.Tensor", "y", {{"self", Ref("x")}, {"other", Ref("bias")}}, {8});
    return Made(net.Return("y"), {.mode = mode, .steps = 2}).program;
  };
  const std::string trace = ToString(Train(made(Mode::kEval), {.mode = Mode::kEval, .steps = 2}));
  const size_t first = trace.find("+bias:");
  REQUIRE(first != std::string::npos);
  CHECK(trace.find("+bias:", first + 1) == std::string::npos);
  CHECK_FALSE(made(Mode::kTrain).calls[1].made_once);
}

// DINOv3's coordinates, of a function under lru_cache.
TEST_CASE("what a cached function returns is made in the first step alone") {
  ExportedBuilder net;
  net.Input("x", {8}).At("net.py", 3, "coords = get_patches_center_coordinates(8)");
  net.MakeFixed("torch.ops.aten.arange.default", "n", {{"end", Number(8)}}, {8});
  net.MakeFixed("torch.ops.aten.mul.Scalar", "m", {{"self", Ref("n")}, {"other", Real(2)}}, {8});
  net.At("net.py", 4, "y = x + coords");
  net.Make("torch.ops.aten.add.Tensor", "y", {{"self", Ref("x")}, {"other", Ref("m")}}, {8});
  const TrainingSettings settings = {.mode = Mode::kEval, .steps = 2};
  const std::string trace = ToString(Train(Made(net.Return("y"), settings).program, settings));
  CHECK(trace.find("+n:") == trace.rfind("+n:"));
  CHECK(trace.find("+m:") == trace.rfind("+m:"));
  CHECK(trace.find("-n") != std::string::npos);  // its caller's names hold the result alone
  CHECK(trace.find("-m") == std::string::npos);
}

// The bytes that a call takes in eval mode beside what it reads.
TEST_CASE("a call whose name ends in _ writes over what it reads, whoever reads that too") {
  const auto takes = [](const char* target) {
    ExportedBuilder net;
    net.Input("x", {8});
    net.Make("torch.ops.aten.cos.default", "h", {{"self", Ref("x")}}, {8});
    net.Make(target, "m", {{"self", Ref("h")}, {"min", Number(0)}}, {8});
    net.Make("torch.ops.aten.add.Tensor", "y", {{"self", Ref("h")}, {"other", Ref("m")}}, {8});
    const TrainingSettings settings = {.mode = Mode::kEval, .steps = 1};
    const std::string trace = ToString(Train(Made(net.Return("y"), settings).program, settings));
    return trace.find("+m:") != std::string::npos;
  };
  CHECK(takes("torch.ops.aten.clamp.default"));
  CHECK_FALSE(takes("torch.ops.aten.clamp_.default"));
}

TEST_CASE("experts' products in groups are known by transformers' name, too") {
  const auto warnings = [](const char* target) {
    ExportedBuilder net;
    net.Parameter("p_w", "experts.w", {2, 8, 6}).Input("x", {8});
    net.MakeFixed("torch.ops.aten.arange.default", "ends", {{"end", Number(2)}}, {2},
                  DType::kInt32);
    net.Make(target, "y", {{"input", Ref("x")}, {"weight", Ref("p_w")}, {"offs", Ref("ends")}},
             {6});
    const Program program = Made(net.Return("y")).program;
    CHECK(CallsOf(program) == "constant() _grouped_mm(x,experts.w,ends)");
    return program.warnings.size();
  };
  CHECK(warnings("torch.ops.transformers.grouped_mm_fallback.default") == 0);
  CHECK(warnings("torch.ops.aten._grouped_mm.default") == 0);
}

// As MPNet's and DeBERTa's positions: torch.arange(n) without a device.
TEST_CASE("what a module on another device has on the CPU takes no memory there") {
  ExportedBuilder net;
  net.Parameter("p_w", "w", {8, 8}).Input("x", {8});
  net.MakeFixed("torch.ops.aten.arange.default", "n", {{"end", Number(8)}}, {8}, DType::kInt64);
  net.MakeFixed("torch.ops.aten.neg.default", "m", {{"self", Ref("n")}}, {8}, DType::kInt64);
  net.MakeFixed("torch.ops.aten.to.device", "k", {{"self", Ref("m")}}, {8}, DType::kInt64);
  net.Make("torch.ops.aten.mul.Tensor", "y", {{"self", Ref("x")}, {"other", Ref("m")}}, {8});
  net.Make("torch.ops.aten.type_as.default", "t", {{"self", Ref("y")}, {"other", Ref("m")}}, {8},
           DType::kInt64);
  net.Make("torch.ops.aten.add.Tensor", "z", {{"self", Ref("t")}, {"other", Ref("k")}}, {8});
  ExportedProgram exported = net.Return("z");
  const auto calls = [&](std::string_view module, std::string_view counted) {
    for (auto& [name, tensor] : exported.graph.tensors) tensor.device = module;
    for (const char* name : {"n", "m"}) exported.graph.tensors[name].device = counted;
    return CallsOf(Made(exported, {.mode = Mode::kEval, .loss = Loss::kNone}).program);
  };
  CHECK(calls("meta", "cpu") == "constant() mul.Scalar(x) to(y) add(t,k)");
  CHECK(calls("cuda", "cpu") == "constant() mul.Scalar(x) to(y) add(t,k)");
  CHECK(calls("cpu", "cpu") == "constant() neg(n) to(m) mul(x,m) type_as(y,m) add(t,k)");
  CHECK(calls("", "") == "constant() neg(n) to(m) mul(x,m) type_as(y,m) add(t,k)");
}

}  // namespace
}  // namespace onnxfit::pt2_program_of_test
