// What files may cost, whatever their size: each budget is reached here or in its module's test (of
// If and Loop in control_flow_test.cc, of functions in graph_test.cc, of messages and names in
// loader_test.cc, of lists in calls in fx_node_test.cc); of all known elements, and of evaluations
// that wait for one another, by data/crashes.tar.xz.  Not reached by any: 8 GiB from a pipe, for
// their memory, and 2^26 fields of a file, which take 128 MiB and two seconds.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <fstream>
#include <string>
#include <string_view>

#include "estimator/base/bytes.h"
#include "estimator/base/error.h"
#include "estimator/base/index.h"
#include "estimator/exporters/exporter_metadata.h"
#include "estimator/onnx/contrib_operators.h"
#include "estimator/onnx/loader.h"
#include "estimator/onnx/rebind.h"
#include "estimator/onnx/shapes.h"
#include "tests/onnx_bytes.h"
#include "tests/temp_folder.h"
#include "tests/trace_helpers.h"

namespace onnxfit::budgets_test {
namespace {

constexpr uint64_t kInt64 = 7;

// `line` for each number below `count`: "@" is the number, "#" the next one.
std::string Repeated(int count, std::string_view line) {
  std::string text;
  for (int i = 0; i < count; ++i) {
    for (const char letter : line) {
      if (letter != '@' && letter != '#') {
        text += letter;
      } else {
        text += std::to_string(letter == '@' ? i : i + 1);
      }
    }
    text += '\n';
  }
  return text;
}

template <typename Work>
std::string ErrorIn(Work work) {
  try {
    work();
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

std::string ShapeError(const std::string& text) {
  return ErrorIn([&] { BindShapes(ParseGraph(text), {}); });
}

// What is known of the last value that a node makes.
std::optional<KnownTensor> KnownOfLast(const std::string& text) {
  const Graph graph = ParseGraph(text);
  const Shapes shapes = BindShapes(graph, {});
  return shapes.known[Index(graph.nodes.back().outputs[0])];
}

std::string Ones(int count) {
  std::string text = "1";
  for (int i = 1; i < count; ++i) text += ", 1";
  return text;
}

TEST_CASE("a tensor has at most 64 dimensions") {
  const auto input = [](int rank) {
    return ShapeError(fmt::format("g (float[{0}] x) => (float y) {{ y = Relu(x) }}", Ones(rank)));
  };
  CHECK(input(64).empty());
  CHECK(input(65) == "<text>: input 'x': at most 64 dimensions were expected, found 65");
  CHECK(ShapeError(fmt::format("g (float[1] x) => (float y) <float[{}] w = [\"location\": "
                               "\"none\"]> {{ y = Add(x, w) }}",
                               Ones(65))) ==
        "<text>: initializer 'w': at most 64 dimensions were expected, found 65");
  CHECK(ShapeError(fmt::format("g (float[{}] x, float[2] z) => (float y) <int64[1] a = {{0}}> "
                               "{{ y = Unsqueeze(x, a) }}",
                               Ones(64))) ==
        "<text>: node 'Unsqueeze #0': at most 64 dimensions were expected, found 65");
}

TEST_CASE("of what is evaluated at once, 2^25 elements are read and made") {
  const auto last = [](int count) {
    return KnownOfLast(fmt::format(
        "<ir_version: 8, opset_import: [\"\" : 17]> g (float[1] x) => (int64 y) <int64[1] e = "
        "{{1}}, "
        "int64 d = {{1000000}}, int64[2] v = {{0, 1}}> {{ {} y = ReduceMax<keepdims = 0>(h{}) }}",
        Repeated(count, "h@ = OneHot(e, d, v)"), count - 1));
  };
  CHECK(last(32).has_value());
  CHECK_FALSE(last(33).has_value());
}

TEST_CASE("floats are known up to 1024 of them") {
  const auto fourth = [](int count) {
    const Graph graph = ParseGraph(fmt::format(
        "g (float[1] x) => (float y) <float a = {{0}}, float b = {{{}}}, float c = {{1}}, "
        "int64 i = {{3}}> {{ r = Range(a, b, c) y = Gather(r, i) }}",
        count));
    return BindShapes(graph, {}).known_scalar[Index(graph.nodes.back().outputs[0])];
  };
  CHECK(fourth(1024) == 3);
  CHECK(fourth(1025) == std::nullopt);
}

// Lists whose last part is shorter, so that ONNX alone does not know their parts.
std::string Lists(int count, int64_t dim) {
  return fmt::format(
      "<ir_version: 8, opset_import: [\"\" : 17]> g (float[{}] x) => (float y) <int64 three = "
      "{{3}}, "
      "int64 i = {{0}}> {{ {} y = SequenceAt(l{}, i) }}",
      dim, Repeated(count, "l@ = SplitToSequence<axis = 0>(x, three)"), count - 1);
}

TEST_CASE("lists are followed up to 65536 parts, and 2^23 sizes of all together") {
  CHECK(ShapeError(Lists(1, 3 * 65536 - 1)).empty());
  CHECK(ShapeError(Lists(1, 3 * 65536 + 1)).find("depends on data") != std::string::npos);
  CHECK(ShapeError(Lists(26, 3 * 65536 - 1)).find("depends on data") != std::string::npos);
}

TEST_CASE("lists of numbers that shapes are inferred from have at most 65536") {
  const auto split = [](int count) {
    return ShapeError(fmt::format(
        "<ir_version: 8, opset_import: [\"\" : 17]> g (float[{0}] x) => (float y) "
        "<int64[1] one = {{1}}, int64[1] n = {{{0}}}, int64 i = {{0}}> {{ parts = Expand(one, n) "
        "l = SplitToSequence<axis = 0>(x, parts) y = SequenceAt(l, i) }}",
        count));
  };
  CHECK(split(65536).empty());
  CHECK(split(65537).find("depends on data") != std::string::npos);
}

TEST_CASE("of other files 256 MiB of integers are read") {
  const TempFolder folder;
  folder.Write("ids.bin", std::string(kMiB, '\0'));
  const auto error = [&](int count) {
    std::string graph;
    const std::string location =
        bytes::Bytes(13, bytes::Bytes(1, "location") + bytes::Bytes(2, "ids.bin"));
    for (int i = 0; i < count; ++i) {
      graph +=
          bytes::Initializer(fmt::format("w{}", i),
                             bytes::Tensor(kInt64, {kMiB / 8}, location + bytes::Number(14, 1)));
    }
    const std::string path = folder.Write("m.onnx", bytes::Relu(graph));
    return ErrorIn([&] { LoadGraph(path); });
  };
  CHECK(error(2).empty());
  CHECK(error(257).find("at most 256.0 MiB of integers were expected, found more") !=
        std::string::npos);
}

TEST_CASE("a file has at most 256 MiB besides weights") {
  const TempFolder folder;
  const std::string path = folder.Path("m.onnx");
  std::ofstream file(path, std::ios::binary);
  for (int i = 0; i < 17; ++i) {
    file << bytes::Head(6, 16 * kMiB);  // ModelProto.doc_string, of zeros
    file.seekp(16 * kMiB, std::ios::cur);
  }
  file << bytes::Relu();
  file.close();
  CHECK(ErrorIn([&] {
          LoadGraph(path);
        }).ends_with("at most 256.0 MiB besides weights were expected, found 272.0 MiB"));
}

TEST_CASE("of integers in a file 64 MiB are read, tensors of up to 1 KiB besides") {
  const std::string ids =
      bytes::Tensor(kInt64, {kMiB / 8}, bytes::Bytes(9, std::string(kMiB, '\0')));
  std::string graph = bytes::Initializer("i", bytes::Tensor(kInt64, {}, bytes::Number(7, 0)));
  for (int i = 0; i < 65; ++i) graph += bytes::Initializer(fmt::format("w{}", i), ids);
  graph += bytes::Node("Gather", {"w63", "i"}, {"last"}) + bytes::Output("last");
  graph += bytes::Node("Gather", {"w64", "i"}, {"beyond"}) + bytes::Output("beyond");
  const Graph loaded = LoadGraphFrom(bytes::Relu(graph), "m.onnx", "m.onnx");
  const Shapes shapes = BindShapes(loaded, {});
  CHECK(shapes.known[Index(loaded.outputs[1])].has_value());
  CHECK_FALSE(shapes.known[Index(loaded.outputs[2])].has_value());
}

TEST_CASE("a file has at most 2^23 strings") {
  std::string names;
  for (int i = 0; i <= 8 << 20; ++i) names += std::string_view("\x0a\x00", 2);  // NodeProto.input
  const std::string file = bytes::Model(bytes::Bytes(1, names));
  CHECK(ErrorIn([&] {
          LoadGraphFrom(file, "m.onnx", "m.onnx");
        }).ends_with("at most 8388608 strings were expected, found more"));
}

TEST_CASE("a file in ONNX's text form has at most 16 MiB") {
  const auto error = [&](size_t size) {
    std::string text = "g (float[4] x) => (float[4] y) { y = Relu(x) }";
    text.resize(size, ' ');
    return ErrorIn([&] { ParseGraph(text); });
  };
  CHECK(error(16 << 20).empty());
  CHECK(error((16 << 20) + 1) == "<text>: at most 16.0 MiB of text were expected, found 16.0 MiB");
}

constexpr std::string_view kContrib =
    R"(<ir_version: 10, opset_import: ["" : 17, "com.microsoft" : 1]>)";

TEST_CASE("ONNX Runtime's numbers of heads and positions are no sizes to make") {
  for (const char* heads : {"0", "9223372036854775807"}) {
    CHECK(ShapeError(fmt::format("{} g (float[2, 3, 8] x, float[8, 24] w) => (float y) {{ y, z = "
                                 "com.microsoft.Attention<num_heads = {}>(x, w) }}",
                                 kContrib, heads))
              .empty());
  }
  const Graph graph = ParseGraph(
      std::string(kContrib) +
      R"(g (int32[1, 1099511627776] ids) => (float y) < float[9, 8] words = ["location": "none"],
         float[9, 8] places = ["location": "none"], float[8] w = ["location": "none"] >
         { y, m = com.microsoft.EmbedLayerNormalization(ids, , words, places, , w, w) })");
  const Graph parts = TakeFusedApart(graph, {});
  CHECK(parts.initializers.back().type.dims == Dims{1, 1 << 20});
}

TEST_CASE("a path of more than 64 modules is none") {
  const auto depth = [](int count) {
    std::string path;
    for (int i = 0; i < count; ++i) path += "/m";
    const std::string node = bytes::Node("Relu", {"x"}, {"y"}, bytes::Bytes(3, path));
    const Graph graph = LoadGraphFrom(
        bytes::Model(node + bytes::Input("x", {2}) + bytes::Output("y")), "m.onnx", "m.onnx");
    const ExporterMetadata metadata = ReadExporterMetadata(graph);
    return metadata.modules.DepthOf(metadata.ModuleOf(0));
  };
  CHECK(depth(64) == 63);
  CHECK(depth(65) == 0);
}

TEST_CASE("for a larger batch nine nodes behind one another are made larger") {
  const auto first = [](int count) {
    const DimBinding batch = {.batch = 6, .dims = {}, .inputs = {}};
    Warnings warnings;
    const Graph graph = Rebind(
        ParseGraph(fmt::format("g (float[4, 8] x) => (float y) <float[4, 8] h0 = [\"location\": "
                               "\"none\"]> {{ {} y = Add(x, h{}) }}",
                               Repeated(count, "h# = Neg(h@)"), count)),
        batch, warnings);
    const ValueId made = graph.nodes.front().outputs[0];
    return BindShapes(graph, batch).types[Index(made)].tensor.dims[0];
  };
  CHECK(first(9) == 6);
  CHECK(first(10) == 4);
}

// The first call of a layer whose weight is joined of `parts`, and that again by `steps` nodes.
std::string FirstCall(int parts, int steps) {
  std::string stored;
  std::string joined;
  for (int i = 0; i < parts; ++i) {
    const int rows = i > 0 ? 1 : 65 - parts;
    stored += fmt::format(R"(float[1, {}, 4] w{} = ["location": "none"], )", rows, i);
    joined += fmt::format("{}w{}", i > 0 ? ", " : "", i);
  }
  const PreparedRun built = Build(
      fmt::format(
          R"(net (float[5, 3, 4] x) => (float y) < {} float[1, 64, 64] R = ["location": "none"] >
         {{ W0 = Concat<axis = 1>({}) {} y = RNN<hidden_size = 64>(x, W{}, R) }})",
          stored, joined, Repeated(steps, "W# = Concat<axis = 1>(W@)"), steps),
      {.loss = Loss::kMse});
  return std::string(built.program.calls.at(0).op);
}

TEST_CASE("a recurrent layer's weight has at most 16 parts, and is followed through 8 nodes") {
  CHECK(FirstCall(16, 0) == "rnn");
  CHECK(FirstCall(17, 0) == "cat");
  CHECK(FirstCall(2, 7) == "rnn");
  CHECK(FirstCall(2, 8) == "cat");
}

}  // namespace
}  // namespace onnxfit::budgets_test
