// Calls whose arguments are graphs: torch.no_grad(), torch.autocast(…), torch.cond and loops.
#include <doctest/doctest.h>

#include <algorithm>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "estimator/base/error.h"
#include "estimator/fit/predict.h"
#include "estimator/operators/dispatch.h"
#include "estimator/writer/loss.h"
#include "tests/pt2_helpers.h"

namespace onnxfit::pt2_higher_order_test {
namespace {

using pt2::Argument;
using pt2::Arguments;
using pt2::Bool;
using pt2::Call;
using pt2::CallsOf;
using pt2::ExportedBuilder;
using pt2::ExportedProgram;
using pt2::List;
using pt2::Made;
using pt2::Number;
using pt2::Ref;
using pt2::Text;

constexpr const char* kLinear = "torch.ops.aten.linear.default";

// A graph that grows: tensors of float32 with the batch first, unless told otherwise.
class BodyBuilder {
 public:
  BodyBuilder& Input(std::string_view name) {
    body_->inputs.push_back(Ref(name));
    return *this;
  }
  BodyBuilder& Make(std::string_view target, std::string_view name, Arguments arguments,
                    int64_t width = 8, std::string_view file = "") {
    body_->tensors[name] = {
        .dtype = DType::kFloat32, .sizes = {{.expression = "s0"}, {width}}, .strides = {}};
    Call call = {.target = target, .name = name, .arguments = std::move(arguments)};
    call.results = {Ref(name)};
    if (!file.empty()) call.lines = {{.file = file, .line = 1, .function = "forward", .text = ""}};
    body_->calls.push_back(std::move(call));
    return *this;
  }
  // The last call is one of that module.
  BodyBuilder& In(std::string_view path, std::string_view type) {
    body_->calls.back().modules = {{.path = path, .type = type}};
    return *this;
  }
  BodyBuilder& Return(std::string_view name) {
    body_->outputs.push_back(Ref(name));
    return *this;
  }
  Argument Graph() const {
    return {.kind = Argument::Kind::kGraph, .text = "body", .graph = body_};
  }

 private:
  std::shared_ptr<pt2::Graph> body_ = std::make_shared<pt2::Graph>();
};

Argument Linear(std::string_view file = "") {
  return BodyBuilder()
      .Input("x")
      .Input("w")
      .Make(kLinear, "inner", {{"input", Ref("x")}, {"weight", Ref("w")}}, 8, file)
      .Return("inner")
      .Graph();
}

// One operator after the other.
Argument Unary(const char* input, const std::vector<std::string_view>& ops) {
  BodyBuilder body;
  body.Input(input);
  std::string_view last = input;
  for (const std::string_view op : ops) {
    body.Make(op == "exp" ? "torch.ops.aten.exp.default" : "torch.ops.aten.tanh.default", op,
              {{"self", Ref(last)}});
    last = op;
  }
  return body.Return(last).Graph();
}

// A layer in a context, then one outside.
ExportedProgram InContext(std::string_view target, Arguments arguments) {
  ExportedBuilder builder;
  builder.Parameter("p_a", "a.weight", {8, 8}).Parameter("p_b", "b.weight", {10, 8});
  builder.Input("x", {8});
  arguments.emplace_back("", Ref("x"));
  arguments.emplace_back("", Ref("p_a"));
  builder.Make(target, "y", std::move(arguments), {8});
  builder.Make(kLinear, "z", {{"input", Ref("y")}, {"weight", Ref("p_b")}}, {10});
  return builder.Return("z");
}

// --- torch.no_grad() ---------------------------------------------------------------------------

constexpr const char* kSetGrad = "torch.ops.higher_order.wrap_with_set_grad_enabled";

TEST_CASE("calls of torch.no_grad() are told, those of torch.enable_grad() are not") {
  const Program without = Made(InContext(kSetGrad, {{"", Bool(false)}, {"", Linear()}})).program;
  CHECK(CallsOf(without) == "linear(x,a.weight) linear(inner,b.weight)");
  CHECK(without.calls[0].leaves_autograd);
  CHECK_FALSE(without.calls[1].leaves_autograd);
  CHECK(UnreachedParameters(without).size() == 1);
  const Program with = Made(InContext(kSetGrad, {{"", Bool(true)}, {"", Linear()}})).program;
  CHECK_FALSE(with.calls[0].leaves_autograd);
  CHECK(UnreachedParameters(with).empty());
}

// --- torch.utils.checkpoint --------------------------------------------------------------------

std::string CheckpointsOf(const Program& program) {
  std::string text;
  for (const AtenCall& call : program.calls) text += std::to_string(call.checkpoint) + " ";
  return text;
}

// Its forward runs under no_grad, and once more in backward.
TEST_CASE("a reentrant checkpoint comes in no_grad's clothes") {
  const Argument body = Linear("/lib/torch/utils/checkpoint.py");
  const Program program = Made(InContext(kSetGrad, {{"", Bool(false)}, {"", body}})).program;
  CHECK_FALSE(program.calls[0].leaves_autograd);
  CHECK(CheckpointsOf(program).starts_with("0 -1 "));
  CHECK(program.has_reentrant_checkpoints);
  CHECK(program.warnings.empty());
}

// torch.export's blocks behind one: its own end, of nothing or of the rest, then the model's.
TEST_CASE("behind a reentrant checkpoint the model's own torch.no_grad() holds") {
  constexpr std::string_view kFile = "/lib/torch/utils/checkpoint.py";
  const auto blocks = [](const std::vector<Argument>& bodies) {
    ExportedBuilder builder;
    builder.Parameter("p_a", "a.weight", {8, 8}).Input("x", {8});
    for (const Argument& body : bodies) {
      builder.Make(kSetGrad, "y", {{"", Bool(false)}, {"", body}, {"", Ref("x")}, {"", Ref("p_a")}},
                   {8});
      if (body.graph->calls.empty()) builder.program().graph.calls.back().results.clear();
    }
    std::string text;
    for (const AtenCall& call : Made(builder.Return("y"), {.loss = Loss::kNone}).program.calls) {
      if (call.op == "linear") text += call.leaves_autograd ? "no_grad " : "grad ";
    }
    return text;
  };
  const Argument nothing = BodyBuilder().Graph();
  const Argument checkpoint = Linear(kFile);
  CHECK(blocks({checkpoint, Linear()}) == "grad grad ");
  CHECK(blocks({checkpoint, nothing, Linear()}) == "grad no_grad ");
  CHECK(blocks({checkpoint, Linear(), Linear()}) == "grad grad no_grad ");
  CHECK(blocks({checkpoint, nothing, checkpoint, Linear()}) == "grad grad grad ");
  CHECK(blocks({Linear(), checkpoint, Linear()}) == "no_grad grad grad ");
}

TEST_CASE("that the file's own checkpoints are obeyed is said") {
  const ExportedProgram exported =
      InContext(kSetGrad, {{"", Bool(false)}, {"", Linear("/lib/torch/utils/checkpoint.py")}});
  const auto told = [&](const TrainingSettings& settings) {
    std::string text;
    for (const std::string& assumption : Made(exported, settings).program.assumptions) {
      if (assumption.starts_with("the file's own checkpoints")) text += assumption;
    }
    return text;
  };
  CHECK(told({}) ==
        "the file's own checkpoints are computed again: 1 part of the forward pass, with "
        "use_reentrant=True (--checkpoint puts others in their place)");
  CHECK(told({.checkpoint = {"auto"}}).empty());
  CHECK(told({.mode = Mode::kEval}).empty());
}

// The first block is given the batch, which asks for no gradient; of what nothing reads another
// tells.
TEST_CASE("a reentrant checkpoint of the file's own that trains nothing is told") {
  const auto told = [](const char* file) {
    ExportedBuilder builder;
    builder.Parameter("p_a", "a.weight", {8, 8}).Parameter("p_b", "b.weight", {10, 8});
    builder.Parameter("p_c", "unread.weight", {8, 8}).Input("x", {8});
    builder.Make(
        kSetGrad, "y",
        {{"", Bool(file[0] == '\0')}, {"", Linear(file)}, {"", Ref("x")}, {"", Ref("p_a")}}, {8});
    builder.Make(kLinear, "z", {{"input", Ref("y")}, {"weight", Ref("p_b")}}, {10});
    const ExportedProgram exported = builder.Return("z");
    const EstimateRequest request = {.binding = {.batch = 4}};
    const Prediction prediction = Predict(pt2::InputGraph(exported), request);
    std::string text;
    for (const Warning& warned : prediction.warnings) {
      if (warned.text.find("use_reentrant") != std::string::npos) text += warned.text;
    }
    return text;
  };
  CHECK(told("/lib/torch/utils/checkpoint.py").starts_with("1 of 3 trained parameters get no"));
  CHECK(told("").empty());
}

TEST_CASE("checkpoint_sequential is one checkpoint, one that runs another is two") {
  const auto told = [](const std::vector<std::string_view>& own_lines) {
    auto body = std::make_shared<pt2::Graph>(*Linear().graph);
    for (const std::string_view text : own_lines) {
      body->calls[0].lines.push_back({.file = "/lib/torch/utils/checkpoint.py", .text = text});
    }
    const Argument argument = {.kind = Argument::Kind::kGraph, .text = "body", .graph = body};
    const Program program = Made(InContext(kSetGrad, {{"", Bool(false)}, {"", argument}})).program;
    std::string text = program.has_reentrant_checkpoints ? "reentrant" : "";
    for (const Warning& warned : program.warnings) text += warned.code;
    return text;
  };
  constexpr std::string_view kRuns = "outputs = run_function(*args)";
  constexpr std::string_view kSequence = "input = functions[j](input)";
  CHECK(told({kRuns}) == "reentrant");
  CHECK(told({kRuns, kSequence}) == "reentrant");
  CHECK(told({kSequence}) == told({}));  // its last segment
  CHECK(told({kRuns, kRuns}) == "OF110");
}

// One that runs `inner` in its place, and a layer behind it in the line that `behind` is.
ExportedProgram WithCheckpoint(int64_t behind) {
  const pt2::SourceLine caller = {
      .file = "/net.py", .line = 7, .text = "x = checkpoint(self.a, x)"};
  const pt2::SourceLine own = {
      .file = "/lib/torch/utils/checkpoint.py", .line = 798, .text = "return torch.empty((0,))"};
  const pt2::SourceLine inner = {.file = "/net.py", .line = 3, .text = "return self.a(x)"};
  ExportedBuilder builder;
  builder.Parameter("p_a", "a.weight", {8, 8}).Parameter("p_b", "b.weight", {10, 8});
  builder.Input("x", {8});
  builder.Make("torch.ops.aten.empty.memory_format", "e", {}, {0});
  builder.Make(kLinear, "y", {{"input", Ref("x")}, {"weight", Ref("p_a")}}, {8});
  builder.Make(kLinear, "z", {{"input", Ref("y")}, {"weight", Ref("p_b")}}, {10});
  ExportedProgram exported = builder.Return("z");
  exported.graph.calls[0].lines = {caller, own};
  exported.graph.calls[1].lines = {caller, inner};
  exported.graph.calls[2].lines = {caller};
  exported.graph.calls[2].lines[0].line = behind;
  return exported;
}

TEST_CASE("another checkpoint begins with a tensor of its own") {
  for (const int64_t behind : {7, 8}) {
    const Program program = Made(WithCheckpoint(behind)).program;
    const std::string text = CheckpointsOf(program);
    CHECK_MESSAGE(text.starts_with("0 0 -1 "), text);  // the tensor too
    CHECK_FALSE(program.has_reentrant_checkpoints);
    CHECK(program.warnings.empty());
  }
}

// As the last part of checkpoint_sequential does: by its lines it would be under the one before it.
TEST_CASE("what our export notes says where a checkpoint ends") {
  for (const bool is_noted : {false, true}) {
    ExportedProgram exported = WithCheckpoint(7);
    exported.graph.calls[2].lines = exported.graph.calls[1].lines;
    for (const size_t under : {size_t{0}, size_t{1}})
      exported.graph.calls[under].is_checkpointed = is_noted;
    CHECK(CheckpointsOf(Made(exported).program).starts_with(is_noted ? "0 0 -1 " : "0 0 0 "));
  }
}

// What the outer one looks at when the inner begins are blocks of nothing; the rest is in the last.
TEST_CASE("a checkpoint inside another is bounded, and its gradients flow") {
  ExportedProgram exported = WithCheckpoint(8);
  std::vector<Call>& calls = exported.graph.calls;
  const ExportedProgram other =
      InContext(kSetGrad, {{"", Bool(false)}, {"", BodyBuilder().Graph()}});
  Call nothing = other.graph.calls[0];
  nothing.results.clear();
  Call rest = InContext(kSetGrad, {{"", Bool(false)}, {"", Linear()}}).graph.calls[0];
  rest.results[0].text = "y";
  calls = {calls[0], nothing, nothing, nothing, rest, calls[2]};
  const Program program = Made(exported).program;
  for (const AtenCall& call : program.calls) {
    CHECK(call.checkpoint == -1);
    CHECK_FALSE(call.leaves_autograd);
  }
  CHECK(UnreachedParameters(program).empty());
  REQUIRE(program.warnings.size() == 1);
  CHECK(program.warnings[0].code == "OF110");
  CHECK(program.warnings[0].text ==
        "torch.utils.checkpoint, one inside another: what it computes anew in backward is kept "
        "until then, which is an upper bound");
  CHECK(Made(exported, {.checkpoint = {"auto"}}).program.warnings.empty());
}

TEST_CASE("checkpoints of both kinds are bounded") {
  ExportedProgram exported = WithCheckpoint(8);
  ExportedProgram other =
      InContext(kSetGrad, {{"", Bool(false)}, {"", Linear("/lib/torch/utils/checkpoint.py")}});
  exported.graph.calls.insert(exported.graph.calls.begin() + 2, other.graph.calls[0]);
  exported.graph.calls[2].results[0].text = "w";
  exported.graph.tensors["w"] = exported.graph.tensors.at("y");
  const Program program = Made(exported).program;
  for (const AtenCall& call : program.calls) CHECK(call.checkpoint == -1);
  REQUIRE(program.warnings.size() == 1);
  CHECK(program.warnings[0].code == "OF110");
  CHECK(program.warnings[0].text ==
        "torch.utils.checkpoint, with use_reentrant=True and without: what it computes anew in "
        "backward is kept until then, which is an upper bound");
}

// --- torch.autocast(…) -------------------------------------------------------------------------

Program Cast(const char* dtype, bool is_enabled, Precision precision) {
  const TrainingSettings settings = {.precision = precision};
  ExportedProgram exported =
      InContext("torch.ops.higher_order.wrap_with_autocast", {{"", Text("cuda")},
                                                              {"", Text(dtype)},
                                                              {"", Bool(is_enabled)},
                                                              {"", Bool(true)},
                                                              {"", Linear()}});
  return Dispatch(Made(exported, settings).program, settings);
}

std::string TypesOf(const Program& program) {
  std::string text;
  for (const AtenCall& call : program.calls) {
    if (call.op != "linear" && call.op != "addmm" && call.op != "mm") continue;
    text +=
        std::string(Name(program.values[static_cast<size_t>(call.outputs[0])].type.dtype)) + " ";
  }
  return text;
}

TEST_CASE("a block of torch.autocast(…) casts as it says, whatever the loop does") {
  CHECK(TypesOf(Cast("bfloat16", true, Precision::kFp32)).starts_with("bfloat16 "));
  CHECK(TypesOf(Cast("float16", true, Precision::kFp32)).starts_with("float16 "));
  CHECK(TypesOf(Cast("bfloat16", true, Precision::kAmpFp16)) == "bfloat16 float16 ");
  CHECK(TypesOf(Cast("float16", false, Precision::kAmpFp16)) == "float32 float16 ");
}

// torch.autocast(x.device.type, …) of a model that was exported on the CPU.
TEST_CASE("a block for the device of the export is one for the GPU") {
  const auto types = [](const char* device) {
    ExportedProgram exported =
        InContext("torch.ops.higher_order.wrap_with_autocast", {{"", Text("cpu")},
                                                                {"", Text("bfloat16")},
                                                                {"", Bool(true)},
                                                                {"", Bool(true)},
                                                                {"", Linear()}});
    for (auto& [name, tensor] : exported.graph.tensors) tensor.device = device;
    const TrainingSettings settings = {.precision = Precision::kFp32};
    return TypesOf(Dispatch(Made(exported, settings).program, settings));
  };
  CHECK(types("cpu").starts_with("bfloat16 "));
  CHECK(types("cuda").starts_with("float32 "));
}

// timm.layers.set_fast_norm()
TEST_CASE("what timm's fast norms are given has the type of the autocast around them") {
  const auto calls = [](const char* type, bool is_enabled) {
    BodyBuilder body;
    body.Input("a").Input("v").Make(
        "torch.ops.aten.layer_norm.default", "inner",
        {{"input", Ref("a")}, {"normalized_shape", List({Number(8)})}, {"weight", Ref("v")}});
    body.In("norm", type);
    ExportedProgram exported = InContext("torch.ops.higher_order.wrap_with_autocast",
                                         {{"", Text("cuda")},
                                          {"", Argument()},
                                          {"", Bool(is_enabled)},
                                          {"", Bool(true)},
                                          {"", body.Return("inner").Graph()}});
    exported.is_as_written = true;
    return CallsOf(Made(exported, {.precision = Precision::kAmpFp16}).program);
  };
  CHECK(calls("timm.layers.norm.LayerNorm", false)
            .starts_with("to(x) to(a.weight) layer_norm(x.cast,a.weight.cast;1) "));
  CHECK(calls("timm.layers.norm.LayerNorm", true).starts_with("layer_norm(x,a.weight;1) "));
  CHECK(calls("torch.nn.LayerNorm", false).starts_with("layer_norm(x,a.weight;1) "));
}

TEST_CASE("a block that the machine of the export may have turned off is told") {
  const auto codes = [](const char* dtype, bool is_enabled) {
    std::string text;
    for (const Warning& warning : Cast(dtype, is_enabled, Precision::kFp32).warnings) {
      text += warning.code;
    }
    return text;
  };
  CHECK(codes("bfloat16", false) == "OF109");
  CHECK(codes("bfloat16", true).empty());
  CHECK(codes("float16", false).empty());
}

// PyTorch makes it so that a layer that runs with gradients later has one.
TEST_CASE("the cast of a parameter that autocast keeps has a gradient, under no_grad too") {
  const TrainingSettings settings = {.precision = Precision::kAmpBf16};
  ExportedProgram exported = InContext(kSetGrad, {{"", Bool(false)}, {"", Linear()}});
  const Program program = Dispatch(Made(exported, settings).program, settings);
  int casts = 0;
  for (const AtenCall& call : program.calls) {
    const std::string& made = program.values[static_cast<size_t>(call.outputs[0])].name;
    if (call.op != "_to_copy" || (made != "a.weight.cast" && made != "x.cast")) continue;
    CHECK(call.leaves_autograd == (made == "x.cast"));
    ++casts;
  }
  CHECK(casts == 2);
}

// torch/amp/autocast_mode.py: __exit__ empties the cache where the outermost block ends.
TEST_CASE("casts that a block keeps die where it ends, unless the loop has one around it") {
  const auto dies_early = [](const Program& program) {
    const NameId cast = program.cached_casts.front();  // of a.weight, its name is a view's too
    return std::ranges::any_of(program.calls, [&](const AtenCall& call) {
      return std::ranges::find(call.dies, cast) != call.dies.end();
    });
  };
  CHECK(dies_early(Cast("bfloat16", true, Precision::kFp32)));
  CHECK_FALSE(dies_early(Cast("bfloat16", true, Precision::kAmpBf16)));
}

// --- torch.cond --------------------------------------------------------------------------------

ExportedProgram Cond(const Argument& predicate) {
  ExportedBuilder builder;
  builder.Input("x", {8});
  builder.Make("torch.ops.higher_order.cond", "y",
               {{"", predicate},
                {"", Unary("x", {"exp"})},
                {"", Unary("x", {"tanh", "exp"})},
                {"", List({Ref("x")})}},
               {8});
  builder.program().graph.truths["t"] = {.expression = "StrictLessThan(s0, 5)"};
  builder.program().graph.truths["u"] = {.expression = "StrictLessThan(u0, 5)"};
  return builder.Return("y");
}

TEST_CASE("torch.cond runs the branch that sizes choose, or else the one that makes more") {
  const TrainingSettings eval = {.mode = Mode::kEval};
  const auto symbol = [](const char* name) {
    return Argument{.kind = Argument::Kind::kSymbol, .text = name};
  };
  CHECK(CallsOf(Made(Cond(symbol("t")), eval).program) == "exp(x)");  // the batch is 4
  CHECK(CallsOf(Made(Cond(Bool(false)), eval).program) == "tanh(x) exp(tanh)");
  CHECK(CallsOf(Made(Cond(symbol("u")), eval).program) == "tanh(x) exp(tanh)");
  const Program program = Made(Cond(Ref("x")), eval).program;
  CHECK(CallsOf(program) == "tanh(x) exp(tanh)");
  REQUIRE(program.warnings.size() == 1);
  CHECK(program.warnings[0].code == "OF103");
  CHECK(program.warnings[0].text ==
        "which branch of torch.cond at y runs depends on data: the second is taken, whose calls "
        "make 256 B");
  CHECK(Made(Cond(Bool(true)), eval).program.warnings.empty());
}

// --- Loops -------------------------------------------------------------------------------------

ExportedProgram While(Argument limit) {
  ExportedBuilder builder;
  builder.Input("x", {8});
  builder.MakeFixed("torch.ops.aten.zeros.default", "i", {{"size", List({})}}, {}, DType::kInt64);
  const Argument condition =
      BodyBuilder()
          .Input("i")
          .Input("x")
          .Make("torch.ops.aten.lt.Scalar", "less", {{"self", Ref("i")}, {"other", limit}})
          .Return("less")
          .Graph();
  const Argument body =
      BodyBuilder()
          .Input("i")
          .Input("x")
          .Make("torch.ops.aten.add.Tensor", "next", {{"self", Ref("i")}, {"other", Number(2)}})
          .Make("torch.ops.aten.exp.default", "e", {{"self", Ref("x")}})
          .Return("next")
          .Return("e")
          .Graph();
  builder.Make("torch.ops.higher_order.while_loop", "y",
               {{"", condition}, {"", body}, {"", List({Ref("i"), Ref("x")})}, {"", List({})}},
               {8});
  builder.program().graph.calls.back().results = {Ref("j"), Ref("y")};
  return builder.Return("y");
}

int CountOf(const Program& program, std::string_view op) {
  int count = 0;
  for (const AtenCall& call : program.calls) count += call.op == op ? 1 : 0;
  return count;
}

TEST_CASE("while_loop runs as often as its counter says, once where nothing says it") {
  const TrainingSettings eval = {.mode = Mode::kEval};
  const Program counted = Made(While(Number(6)), eval).program;  // 0, 2, 4
  CHECK(CountOf(counted, "exp") == 3);
  CHECK(counted.warnings.empty());
  CHECK(CountOf(Made(While(Number(5)), eval).program, "exp") == 3);
  CHECK(CountOf(Made(While(Number(7)), eval).program, "exp") == 4);
  CHECK(CountOf(Made(While(Number(-3)), eval).program, "exp") == 0);
  const Program unknown = Made(While(Ref("x")), eval).program;
  CHECK(CountOf(unknown, "exp") == 1);
  REQUIRE(unknown.warnings.size() == 1);
  CHECK(unknown.warnings[0].code == "OF117");
  CHECK(unknown.warnings[0].text ==
        "how often the body of while_loop at y runs depends on data: it is counted once, which is "
        "too little where it runs more often");
}

TEST_CASE("loops without an end are refused") {
  CHECK_THROWS_WITH_AS(Made(While(Number(1'000'000)), {.mode = Mode::kEval}),
                       "net.pt2: call 'y': loops of at most 100000 calls in all were expected, "
                       "found more (try: a shorter sequence by --dim)",
                       Error);
}

// A carried value of 8, and 3 steps of x.
ExportedProgram Steps(const char* target, bool carries) {
  ExportedBuilder builder;
  builder.Input("n", {8}).Buffer("h", "h", {8}).Buffer("x", "x", {3, 8}).Buffer("w", "w", {8});
  BodyBuilder body;
  if (carries) body.Input("h");
  body.Input("t").Input("w");
  body.Make("torch.ops.aten.mul.Tensor", "m", {{"self", Ref("t")}, {"other", Ref("w")}});
  body.Make("torch.ops.aten.exp.default", "e", {{"self", Ref(carries ? "h" : "m")}});
  if (carries) body.Return("e");
  body.Return("m");
  Arguments arguments = {{"", body.Graph()}};
  if (carries) arguments.emplace_back("", List({Ref("h")}));
  arguments.emplace_back("", List({Ref("x")}));
  arguments.emplace_back("", List({Ref("w")}));
  builder.MakeFixed(target, "y", std::move(arguments), {3, 8});
  if (carries) builder.program().graph.calls.back().results = {Ref("last"), Ref("y")};
  return builder.Return("y");
}

TEST_CASE("scan and map run their body once for each step, and join what it gives") {
  const auto calls = [](const char* target, bool carries) {
    return CallsOf(Made(Steps(target, carries), {.mode = Mode::kEval}).program);
  };
  CHECK(calls("torch.ops.higher_order.scan", true) ==
        "unbind(x;0) mul(x.part,w) exp(h) mul(x.part,w) exp(e) mul(x.part,w) exp(e) view(m) "
        "view(m) view(m) cat(y.unsqueezed,y.unsqueezed,y.unsqueezed)");
  CHECK(calls("torch.ops.higher_order.map_impl", false) ==
        "unbind(x;0) mul(x.part,w) exp(m) mul(x.part,w) exp(m) mul(x.part,w) exp(m) view(m) "
        "view(m) view(m) cat(y.unsqueezed,y.unsqueezed,y.unsqueezed)");
}

TEST_CASE("what autograd copies for a loop or a branch is told in training") {
  const auto codes = [](const ExportedProgram& exported, Mode mode) {
    std::string text;
    for (const Warning& warning :
         Made(exported, {.mode = mode, .loss = Loss::kNone}).program.warnings)
      text += warning.code;
    return text;
  };
  CHECK(codes(Cond(Bool(true)), Mode::kTrain) == "OF102");
  CHECK(codes(While(Number(6)), Mode::kTrain) == "OF102");
  CHECK(codes(Steps("torch.ops.higher_order.scan", true), Mode::kTrain) == "OF102");
  CHECK(codes(Steps("torch.ops.higher_order.scan", true), Mode::kEval).empty());
}

TEST_CASE("bodies of operators that are not known are not run, which is said") {
  const Program program =
      Made(InContext("torch.ops.higher_order.flex_attention", {{"", Linear()}})).program;
  CHECK(CallsOf(program) == "?(x,a.weight) linear(y,b.weight)");
  REQUIRE_FALSE(program.warnings.empty());
  CHECK(program.warnings[0].code == "OF102");
}

}  // namespace
}  // namespace onnxfit::pt2_higher_order_test
