#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <vector>

#include "estimator/fit/estimate.h"
#include "estimator/program/recurrent_layers.h"
#include "tests/fx_text.h"
#include "tests/trace_helpers.h"

namespace onnxfit::recurrent_test {
namespace {

// One layer over x [T, N, 4], hidden size 8; `weights` declares W, R and B.
std::string Layer(std::string_view op, int gates, int directions = 1) {
  return fmt::format(
      R"(net (float[T, N, 4] x) => (float[T, D, N, 8] y)
         < float[{0}, {1}, 4] W = ["location": "none"], float[{0}, {1}, 8] R = ["location": "none"],
           float[{0}, {2}] B = ["location": "none"] > {{
           y = {3} <hidden_size = 8, direction = "{4}"> (x, W, R, B)
         }})",
      directions, gates * 8, gates * 16, op, directions == 2 ? "bidirectional" : "forward");
}

const DimBinding kSizes = {.batch = 3, .dims = {{"T", 5}}, .inputs = {}};

// The trace's first allocation of that label, in bytes; 0 where there is none.
int64_t BytesOf(const PreparedRun& built, const TrainingSettings& settings,
                const std::string& label) {
  const std::string trace = ToString(Train(built.program, settings));
  const size_t at = trace.find(label + ":");
  return at == std::string::npos ? 0 : std::stoll(trace.substr(trace.find(':', at) + 1));
}

// cuDNN 9.19.0's reserve: gates, cells and states of all steps behind 256 bytes.
TEST_CASE("a layer keeps gates, cells and hidden states of each step") {
  const TrainingSettings settings = {.loss = Loss::kMse};
  const auto kept = [&](const std::string& text) {
    return BytesOf(Build(text, settings, kSizes), settings, ".reserve");
  };
  const int64_t hidden = 5 * 3 * 8 * 4;
  CHECK(kept(Layer("LSTM", 4)) == 5 * hidden + 256);
  CHECK(kept(Layer("LSTM", 4, 2)) == 2 * 5 * hidden + 256);
  CHECK(kept(Layer("GRU", 3)) == 6 * hidden + 256);
  CHECK(kept(Layer("RNN", 1)) == hidden + 256);
}

// Two layers of one module as torch.onnx writes them, with batch_first.
constexpr char kTwo[] = R"(net (float[N, T, 4] x) => (float[N, T, 8] y)
  < float[1, 32, 4] W = ["location": "none"], float[1, 32, 8] R = ["location": "none"],
    float[1, 64] B = ["location": "none"], float[1, 32, 8] W1 = ["location": "none"],
    float[1, 32, 8] R1 = ["location": "none"], float[1, 64] B1 = ["location": "none"],
    int64[1] one = {1} > {
    turned = Transpose <perm = [1, 0, 2]> (x)
    first = LSTM <hidden_size = 8> (turned, W, R, B)
    joined = Squeeze (first, one)
    second = LSTM <hidden_size = 8> (joined, W1, R1, B1)
    last = Squeeze (second, one)
    y = Transpose <perm = [1, 0, 2]> (last)
  })";

TEST_CASE("layers of one module are one call") {
  const TrainingSettings settings = {.loss = Loss::kMse};
  const PreparedRun built = Build(kTwo, settings, kSizes);
  REQUIRE_FALSE(built.program.calls.empty());
  CHECK(built.program.calls[0].op == "lstm");
  CHECK(built.program.calls[1].op != "lstm");
  const RecurrentLayers layers = RecurrentLayersOf(built.program.calls[0].ints);
  CHECK(layers ==
        RecurrentLayers{.gates = 4, .input = 4, .hidden = 8, .layers = 2, .batch_first = true});
  // Between layers their hidden states, too.
  CHECK(BytesOf(built, settings, ".reserve") == (2 * 5 + 1) * 5 * 3 * 8 * 4 + 256);
}

TEST_CASE("weights are parts of one tensor, and so are their gradients") {
  const TrainingSettings settings = {.loss = Loss::kMse};
  const std::string trace = ToString(Train(Build(kTwo, settings, kSizes).program, settings));
  const int64_t bytes = 4 * (32 * (4 + 8 + 2) + 32 * (8 + 8 + 2));
  CHECK(trace.find("+W.grad:" + std::to_string(bytes)) != std::string::npos);
  CHECK(trace.find("+R.grad:") == std::string::npos);
}

TEST_CASE("frozen weights come to the device as trained ones do") {
  const auto setup = [](const std::vector<std::string>& freeze) {
    const TrainingSettings settings = {.loss = Loss::kMse, .freeze = freeze};
    const std::string trace = ToString(Train(Build(kTwo, settings, kSizes).program, settings));
    return trace.substr(0, trace.find("\nforward"));
  };
  CHECK(setup({"W*", "R*"}) == setup({}));
  CHECK(setup({}).find("-W") != std::string::npos);
}

TEST_CASE("its weights and both of its biases are parameters") {
  const PreparedRun built = Build(Layer("LSTM", 4, 2), {.loss = Loss::kMse}, kSizes);
  CHECK(built.roles.ParameterCount() == 2 * (32 * 4 + 32 * 8 + 64));
  REQUIRE_FALSE(built.program.calls.empty());
  CHECK(built.program.calls[0].op == "lstm");
  CHECK(built.program.warnings.empty());
}

TEST_CASE("a layer may leave its sequence out, and give its last state alone") {
  const std::string text = R"(net (float[T, N, 4] x) => (float[D, N, 8] h)
      < float[1, 8, 4] W = ["location": "none"], float[1, 8, 8] R = ["location": "none"] > {
        "", h = RNN <hidden_size = 8> (x, W, R)
      })";
  const PreparedRun built = Build(text, {.loss = Loss::kMse}, kSizes);
  REQUIRE_FALSE(built.program.calls.empty());
  CHECK(built.program.calls[0].op == "rnn");
  REQUIRE(built.program.calls[0].outputs.size() == 2);
  CHECK(built.program.calls[0].outputs[0] == kNoName);
}

TEST_CASE("nothing is kept in eval") {
  const TrainingSettings settings = {.mode = Mode::kEval};
  const PreparedRun built = Build(Layer("GRU", 3), settings, kSizes);
  CHECK(BytesOf(built, settings, ".reserve") == 0);
}

// Parameters in PyTorch's order of gates, two of the new one's three, which ONNX wants in another.
constexpr char kSliced[] = R"(net (float[T, N, 4] x) => (float[T, 1, N, 8] y)
  < float[24, 4] "rnn.weight_ih_l0" = ["location": "none"],
    float[24, 8] "rnn.weight_hh_l0" = ["location": "none"],
    float[1, 48] val_9 = ["location": "none"],
    int64[1] zero = {0}, int64[1] eight = {8}, int64[1] end = {24} > {
    a = Slice ("rnn.weight_ih_l0", zero, eight, zero)
    b = Slice ("rnn.weight_ih_l0", eight, end, zero)
    ba = Concat <axis = 0> (b, a)
    w = Unsqueeze (ba, zero)
    c = Slice ("rnn.weight_hh_l0", zero, eight, zero)
    d = Slice ("rnn.weight_hh_l0", eight, end, zero)
    dc = Concat <axis = 0> (d, c)
    r = Unsqueeze (dc, zero)
    y = GRU <hidden_size = 8, linear_before_reset = 1> (x, w, r, val_9)
  })";

std::string InputsOf(const Program& program, const AtenCall& call) {
  std::string names;
  for (const NameId name : call.inputs) {
    names += (name == kNoName ? "-" : program.values[static_cast<size_t>(name)].name) + " ";
  }
  return names;
}

TEST_CASE("the module's own tensors are read, not their slices in ONNX's order") {
  const Program program = Build(kSliced, {.loss = Loss::kMse}, kSizes).program;
  CHECK(program.calls[0].op == "gru");
  CHECK(InputsOf(program, program.calls[0]) == "x - - rnn.weight_ih_l0 rnn.weight_hh_l0 val_9 ");
}

// torch.export's optimizer computes the bias of ONNX's node from both of PyTorch's.
TEST_CASE("biases that were computed together are put back, with a bias's size") {
  Graph graph = ParseGraph(kSliced);
  const std::string signature =
      "# inputs\np_wi: PARAMETER target='rnn.weight_ih_l0'\np_wh: PARAMETER "
      "target='rnn.weight_hh_l0'\np_bi: PARAMETER target='rnn.bias_ih_l0'\np_bh: PARAMETER "
      "target='rnn.bias_hh_l0'\nx: USER_INPUT\n\n# outputs\ny: USER_OUTPUT\n";
  graph.metadata.emplace_back("pkg.torch.export.ExportedProgram.graph_signature", signature);
  const std::string call =
      FxText("gru", "gru.input",
             "%x, %h, [%p_wi, %p_wh, %p_bi, %p_bh], True, 1, 0.0, False, False, False");
  for (size_t i = 0; i < graph.nodes.size(); ++i) Say(graph, static_cast<NodeId>(i), call);
  const PreparedRun built = Build(graph, {.loss = Loss::kMse}, kSizes);
  CHECK(built.roles.ParameterCount() == 24 * 4 + 24 * 8 + 2 * 24);
  CHECK(InputsOf(built.program, built.program.calls[0]) ==
        "x - - rnn.weight_ih_l0 rnn.weight_hh_l0 rnn.bias_ih_l0 rnn.bias_hh_l0 ");
}

constexpr char kSecond[] = "dimension 1 of in, as its LSTM reads it";

TEST_CASE("the batch is the dimension that the layer reads so") {
  struct Row {
    const char* input;
    const char* to_x;   // from the input to [T, N, 4]
    const char* free;   // of the file, the batch first
    const char* place;  // where it is, "" where nobody is surprised
  };
  const Row rows[] = {
      {"float[T, N, 4] in", "x = Identity (in)", "N T ", kSecond},
      {"float[T, N, 4] in", "h = Relu (in) x = Dropout (h)", "N T ", kSecond},
      {"float[N, T, 4] in", "x = Transpose <perm = [1, 0, 2]> (in)", "N T ", ""},
      {"int64[N, T] in", "e = Gather (table, in) x = Transpose <perm = [1, 0, 2]> (e)", "N T ", ""},
      {"int64[T, N] in", "x = Gather (table, in)", "N T ", kSecond},
      {"float[T, N, 4] in", "x = Neg (in)", "T N ", ""},  // an operator that is not looked through
      {"float[T, 2, 4] in", "x = Identity (in)", "T ", kSecond},
  };
  for (const Row& row : rows) {
    CAPTURE(row.to_x);
    const Graph graph = ParseGraph(fmt::format(
        R"(net ({}) => (float[T, 1, N, 8] y)
           < float[9, 4] table = ["location": "none"], float[1, 32, 4] W = ["location": "none"],
             float[1, 32, 8] R = ["location": "none"] > {{
             {}
             y = LSTM <hidden_size = 8> (x, W, R)
           }})",
        row.input, row.to_x));
    std::string names;
    for (const std::string& name : FreeDims(graph)) names += name + " ";
    CHECK(names == row.free);
    DimBinding binding = {.batch = 2, .dims = {{"T", 5}}, .inputs = {}};
    if (names == "T N ") binding.dims = {{"N", 5}};
    CHECK(BindShapes(graph, binding).batch_place == row.place);
  }
}

TEST_CASE("which dimension is the batch is said where it is not the first") {
  const auto says = [](const std::string& text) {
    const Estimate estimate = MakeEstimate(ParseGraph(text), {.binding = kSizes});
    return std::ranges::find(estimate.assumptions,
                             "the batch is dimension 1 of x, as its GRU reads it") !=
           estimate.assumptions.end();
  };
  constexpr char kFirst[] = R"(net (float[N, T, 4] x) => (float[N, T, 4] y)
    < float[4, 4] w = ["location": "none"] > { y = MatMul (x, w) })";
  CHECK(says(Layer("GRU", 3)));
  CHECK_FALSE(says(kFirst));
}

TEST_CASE("a batch that is written in the second dimension is changed there") {
  const Graph graph = ParseGraph(
      R"(net (float[T, 2, 4] x) => (float[T, 1, 2, 8] y)
         < float[1, 32, 4] W = ["location": "none"], float[1, 32, 8] R = ["location": "none"] > {
           y = LSTM <hidden_size = 8> (x, W, R)
         })");
  const Shapes shapes = BindShapes(graph, {.batch = 6, .dims = {{"T", 5}}, .inputs = {}});
  CHECK(shapes.batch == 6);
  CHECK(shapes.types[static_cast<size_t>(graph.inputs[0])].tensor.dims == Dims{5, 6, 4});
}

// As torch.onnx writes torch.nn.RNN where torch.export read it: no node of ONNX's is of it.
TEST_CASE("a layer that runs step by step is warned of, cells in a loop of one's own are not") {
  const auto layers = [](const std::string& type, const char* op) {
    Program program;
    const ModuleId module = program.modules.Enter(kOutside, "net.r");
    program.modules.SetClass(module, "torch.nn.modules.rnn." + type);
    for (int step = 0; step < 2; ++step) {
      program.calls.push_back({.op = "tanh", .where = "tanh", .module = module});
    }
    program.calls.push_back({.op = op, .where = op, .module = module});
    return UnrolledLayers(program);
  };
  CHECK(layers("RNN", "tanh") == std::vector<std::string>{"net.r"});
  CHECK(layers("RNN", "rnn").empty());
  CHECK(layers("LSTM", "lstm").empty());
  CHECK(layers("RNNCell", "tanh").empty());
}

}  // namespace
}  // namespace onnxfit::recurrent_test
