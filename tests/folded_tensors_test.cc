#include <doctest/doctest.h>
#include <fmt/format.h>

#include <bit>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "estimator/base/warnings.h"
#include "estimator/onnx/loader.h"
#include "tests/onnx_bytes.h"

namespace onnxfit::folded_tensors_test {
namespace {

using bytes::Bytes;
using bytes::Initializer;
using bytes::Input;
using bytes::Node;
using bytes::Number;
using bytes::Output;
using bytes::Tensor;

std::string Entry(std::string_view key, std::string_view value) {
  return Bytes(1, key) + Bytes(2, value);
}

// What onnxscript notes beside a tensor that it computed: GraphProto.value_info's metadata_props.
std::string Note(std::string_view tensor, std::string_view from) {
  const std::string entry = Entry("pkg.onnxscript.optimizer.folded_from", from);
  return Bytes(13, Bytes(1, tensor) + Bytes(4, entry));
}

// GraphProto.metadata_props: parameters by name.
std::string Signature(const std::vector<std::string>& parameters) {
  std::string text;
  for (const std::string& name : parameters) {
    text += fmt::format("p: PARAMETER target='{}'\n", name);
  }
  return Bytes(16, Entry("pkg.torch.export.ExportedProgram.graph_signature", text));
}

// TensorProto.float_data.
std::string Floats(const std::vector<float>& numbers) {
  std::string raw;
  for (const float number : numbers) {
    const auto bits = std::bit_cast<uint32_t>(number);
    for (int shift = 0; shift < 32; shift += 8) raw += static_cast<char>(bits >> shift & 0xff);
  }
  return Bytes(9, raw);
}

// What the file has once its tensors are unfolded.
std::string Loaded(const std::string& graph, std::string_view model = "") {
  const Graph loaded =
      LoadGraphFrom(bytes::Model(graph, 18) + std::string(model), "model.onnx", "model.onnx", {});
  std::string text;
  for (const onnxfit::Initializer& each : loaded.initializers) {
    const std::string_view name = loaded.values[static_cast<size_t>(each.value)].name;
    if (IsFloat(each.type.dtype)) text += fmt::format("{} {}\n", name, ToString(each.type));
  }
  for (const onnxfit::Node& node : loaded.nodes) {
    text += std::string(node.op_type);
    for (const ValueId input : node.inputs) {
      text += ' ';
      if (input != kNoValue) text += loaded.values[static_cast<size_t>(input)].name;
    }
    text += '\n';
  }
  for (const Warning& warning : loaded.warnings) text += warning.text + "\n";
  return text;
}

struct Row {
  std::string name;  // of the folded tensor
  std::vector<int64_t> dims;
  std::string from;
  std::vector<std::string> parameters;
  std::string expected;
};

// y = Add (x, NAME), x of a batch of 4.
std::string Sum(const Row& row, std::string_view contents = "") {
  return Node("Add", {row.name, "x"}, {"y"}) +
         Initializer(row.name, Tensor(1, row.dims, contents)) + Input("x", {4, 3, 2}) +
         Output("y") + Note(row.name, row.from) + Signature(row.parameters);
}

TEST_CASE("what an exporter computed of a module's tensors is made of them again") {
  const Row rows[] = {
      {"expand",
       {4, 3, 2},
       "['q', 'val_1']",
       {"q"},
       "q float32[1, 3, 2]\nExpand q expand_sizes_1\nAdd expand x\n"},
      {"expand_2",
       {4, 3, 2},
       "['q', 'unsqueeze', 'val_1']",
       {"q"},
       "q float32[1, 3, 2]\nExpand q expand_2_sizes_1\nAdd expand_2 x\n"},
      {"repeat",
       {4, 3, 2},
       "['q', 'val_1']",
       {"q"},
       "q float32[1, 3, 2]\nTile q repeat_sizes_1\nAdd repeat x\n"},
      {"transpose",
       {3, 4, 2},
       "['expand', 'q', 'val_1']",
       {"q"},
       "q float32[3, 1, 2]\nExpand q transpose_sizes_1\nAdd transpose x\n"},
      {"transpose",
       {4, 3, 2},
       "['q.weight', 'repeat', 'unsqueeze', 'val_0']",
       {"q.weight"},
       "q.weight float32[3, 1, 2]\nTile q.weight transpose_sizes_1\n"
       "Transpose transpose_part_2\nAdd transpose x\n"},
      {"mul",
       {3, 2},
       "['val_0', 'w']",
       {"w"},
       "w float32[3, 2]\nmul_number_1 float32[]\nMul w mul_number_1\nAdd mul x\n"},
      {"neg",
       {3, 2},
       "['A_log', 'exp']",
       {"A_log"},
       "A_log float32[3, 2]\nExp A_log\nNeg neg_part_1\nAdd neg x\n"},
      {"softplus",
       {2},
       "['beta', 'raw', 'softplus_2', 'tmp']",
       {"raw"},
       "raw float32[2]\nSoftplus raw\nAdd softplus x\n"},
      {"view",
       {1, 3, 1},
       "['gamma', 'val_1']",
       {"gamma"},
       "gamma float32[3]\nReshape gamma view_sizes_1\nAdd view x\n"},
      {"cat_1",
       {6, 2},
       "['k.weight', 'q.weight', 'v.weight']",
       {"q.weight", "k.weight", "v.weight"},
       "k.weight float32[2, 2]\nq.weight float32[2, 2]\nv.weight float32[2, 2]\n"
       "Concat k.weight q.weight v.weight\nAdd cat_1 x\n"},
      {"mul_1",
       {3, 2},
       "['mask', 'w']",
       {"mask", "w"},
       "mask float32[3, 2]\nw float32[3, 2]\nMul mask w\nAdd mul_1 x\n"},
      {"mul",
       {3, 2},
       "['c.weight_g', 'c.weight_v', 'div', 'linalg_vector_norm', 'val_0']",
       {"c.weight_g", "c.weight_v"},
       "c.weight_g float32[3, 1]\nc.weight_v float32[3, 2]\nReduceL2 c.weight_v mul_sizes_1\n"
       "Div c.weight_v mul_part_2\nMul mul_part_3 c.weight_g\nAdd mul x\n"},
      {"index",
       {16, 2},
       "['index', 'table', 'val_1', 'view']",
       {"table", "index"},
       "table float32[9, 2]\nReshape index index_sizes_1\nGather table index_part_2\n"
       "Add index_made x\n"},
      {"slice_1",
       {3, 2},
       "['pos', 'val_1']",
       {"pos"},
       "pos float32[3, 2]\nAdd pos x\nof pos the export has kept the part that the model reads, "
       "and "
       "that is counted: it may be larger (a .pt2 of torch.export.save has it)\n"},
      // What nobody knows stays as it is, and so does what no module has.
      {"upsample", {3, 2}, "['pos', 'val_1']", {"pos"}, "upsample float32[3, 2]\nAdd upsample x\n"},
      {"expand", {4, 3, 2}, "['val_0', 'val_1']", {"q"}, "expand float32[4, 3, 2]\nAdd expand x\n"},
      {"expand", {5, 3, 2}, "['q', 'val_1']", {"q"}, "expand float32[5, 3, 2]\nAdd expand x\n"},
  };
  for (const Row& row : rows) {
    CAPTURE(row.name);
    CAPTURE(row.from);
    CHECK(Loaded(Sum(row)) == row.expected);
  }
}

TEST_CASE("elements say which dimension was expanded, where they are not one number") {
  const Row row = {"expand", {2, 2, 2}, "['q', 'val_1']", {"q"}, ""};
  const auto loaded = [&](const std::vector<float>& elements) {
    const std::string text = Loaded(Sum(row, Floats(elements)));
    return text.substr(0, text.find('\n'));
  };
  CHECK(loaded({1, 2, 1, 2, 3, 4, 3, 4}) == "q float32[2, 1, 2]");
  CHECK(loaded({1, 2, 3, 4, 1, 2, 3, 4}) == "q float32[1, 2, 2]");
  CHECK(loaded({1, 2, 3, 4, 5, 6, 7, 8}) == "expand float32[2, 2, 2]");
  CHECK(loaded({0, 0, 0, 0, 0, 0, 0, 0}) == "expand float32[2, 2, 2]");  // a batch of 4
}

TEST_CASE("elements that bfloat16 holds were cast from it") {
  const Row row = {"_to_copy", {2}, "['w']", {"w"}, ""};
  CHECK(Loaded(Sum(row, Floats({1.5F, -3}))) == "w bfloat16[2]\nCast w\nAdd _to_copy x\n");
  CHECK(Loaded(Sum(row, Floats({1.5F, 0.1F}))) == "w float32[2]\nAdd w x\n");
  CHECK(Loaded(Sum(row)) == "w float32[2]\nAdd w x\n");
}

TEST_CASE("weights of recurrent layers are the module's") {
  const std::string layer =
      Node("LSTM", {"x", "W", "R", "B", "", "h", "h"}, {"y"},
           Bytes(5, Bytes(1, "hidden_size") + Number(3, 2) + Number(20, 2)) +
               Bytes(5, Bytes(1, "direction") + Bytes(4, "bidirectional") + Number(20, 3))) +
      Initializer("W", Tensor(1, {2, 8, 3})) + Initializer("R", Tensor(1, {2, 8, 2})) +
      Initializer("B", Tensor(1, {2, 16})) + Initializer("h", Tensor(1, {2, 4, 2})) +
      Input("x", {5, 4, 3}) + Output("y") +
      Note("W", "['r.weight_ih_l0', 'r.weight_ih_l0_reverse', 'val_0', 'zeros']") +
      Note("R", "['r.weight_hh_l0', 'r.weight_hh_l0_reverse', 'val_0', 'zeros']") +
      Note("B",
           "['r.bias_hh_l0', 'r.bias_hh_l0_reverse', 'r.bias_ih_l0', 'r.bias_ih_l0_reverse']") +
      Note("h", "['val_0', 'zeros']") +
      Signature({"r.weight_ih_l0", "r.weight_hh_l0", "r.bias_ih_l0", "r.bias_hh_l0",
                 "r.weight_ih_l0_reverse", "r.weight_hh_l0_reverse", "r.bias_ih_l0_reverse",
                 "r.bias_hh_l0_reverse"});
  CHECK(Loaded(layer) == R"(r.weight_ih_l0 float32[8, 3]
r.weight_ih_l0_reverse float32[8, 3]
r.weight_hh_l0 float32[8, 2]
r.weight_hh_l0_reverse float32[8, 2]
r.bias_ih_l0 float32[8]
r.bias_hh_l0 float32[8]
r.bias_ih_l0_reverse float32[8]
r.bias_hh_l0_reverse float32[8]
Unsqueeze r.weight_ih_l0 W_sizes_1
Unsqueeze r.weight_ih_l0_reverse W_sizes_1
Concat W_part_2 W_part_3
Unsqueeze r.weight_hh_l0 R_sizes_4
Unsqueeze r.weight_hh_l0_reverse R_sizes_4
Concat R_part_5 R_part_6
Concat r.bias_ih_l0 r.bias_hh_l0
Concat r.bias_ih_l0_reverse r.bias_hh_l0_reverse
Unsqueeze B_part_7 B_sizes_9
Unsqueeze B_part_8 B_sizes_9
Concat B_part_10 B_part_11
ConstantOfShape h_sizes_12
LSTM x W R B  h h
)");
}

TEST_CASE("a file whose program is beside its nodes stays as it is") {
  const Row row = {"mul", {3, 2}, "['val_0', 'w']", {"w"}, ""};
  CHECK(Loaded(Sum(row), Bytes(14, Entry("onnxfit.graph", "0"))) ==
        "mul float32[3, 2]\nAdd mul x\n");
}

}  // namespace
}  // namespace onnxfit::folded_tensors_test
