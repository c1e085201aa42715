// JSON in, plain values out.
#include <doctest/doctest.h>

#include <cmath>
#include <string>
#include <utility>

#include "tests/pt2_archive.h"

namespace onnxfit::pt2_program_test {
namespace {

// A part of the program, and what becomes of it.
struct Row {
  const char* json;
  const char* text;
};

// The small program with one text replaced; its text, or its error without the file and the hint.
std::string With(std::string_view from, std::string_view to) {
  std::string text = Pt2Text(Pt2Of(Replaced(std::string(kSmallProgram), from, to)));
  const std::string file = "net.pt2: net/models/model.json: ";
  const std::string hint = " (try: copy or export it again, it is damaged)";
  if (text.starts_with(file)) text.erase(0, file.size());
  if (text.ends_with(hint)) text.erase(text.size() - hint.size());
  return text;
}

constexpr std::string_view kArgument = R"({"as_tensor": {"name": "x"}}, "kind": 1)";

// The call's line where its argument is `argument`.
std::string CallWith(const std::string& argument) {
  const std::string text = With(kArgument, argument + R"(, "kind": 1)");
  const size_t begin = text.find("(self=");
  if (begin == text.npos) return text;
  return text.substr(begin + 6, text.find(")\n", begin) - begin - 6);
}

TEST_CASE("a program") { CHECK(Pt2Text(Pt2Of(kSmallProgram)) == kSmallProgramText); }

TEST_CASE("arguments of all kinds") {
  const Row rows[] = {
      {R"({"as_none": true})", "None"},
      {R"({"as_none": []})", "None"},  // schema 8.1
      {R"({"as_int": -3})", "-3"},
      {R"({"as_int": 9223372036854775807})", "9223372036854775807"},
      {R"({"as_int": 18446744073709551615})", "9223372036854775807"},
      {R"({"as_int": 99999999999999999999})", "9223372036854775807"},
      {R"({"as_int": -99999999999999999999})", "-9223372036854775808"},
      {R"({"as_ints": [1, 2]})", "[1, 2]"},
      {R"({"as_ints": []})", "[]"},
      {R"({"as_float": 1e-05})", "1e-05"},
      {R"({"as_float": 3})", "3.0"},
      {R"({"as_float": "NaN"})", "nan"},
      {R"({"as_float": "-Infinity"})", "-inf"},
      {R"({"as_float": Infinity})", "inf"},  // as Python's json writes it
      {R"({"as_float": -Infinity})", "-inf"},
      {R"({"as_floats": [0.1, "Infinity"]})", "[0.1, inf]"},
      {R"({"as_bool": true})", "True"},
      {R"({"as_bools": [false, true]})", "[False, True]"},
      {R"({"as_string": "a\u00e9\n"})", "'aé\n'"},
      {R"({"as_strings": ["a", "b"]})", "['a', 'b']"},
      {R"({"as_sym_int": {"as_name": "n"}})", "$n"},
      {R"({"as_sym_int": {"as_int": 3}})", "3"},
      {R"({"as_sym_ints": [{"as_name": "n"}, {"as_int": -1}]})", "[$n, -1]"},
      {R"({"as_sym_float": {"as_name": "n"}})", "$n"},
      {R"({"as_sym_floats": [{"as_float": 0.5}]})", "[0.5]"},
      {R"({"as_sym_bool": {"as_bool": false}})", "False"},
      {R"({"as_sym_bools": [{"as_name": "n"}]})", "[$n]"},
      {R"({"as_tensors": [{"name": "a"}, {"name": "b"}]})", "[%a, %b]"},
      {R"({"as_optional_tensor": {"as_none": true}})", "None"},
      {R"({"as_optional_tensors": [{"as_none": []}, {"as_tensor": {"name": "a"}}]})", "[None, %a]"},
      {R"({"as_nested_tensors": [[{"name": "a"}], []]})", "[[%a], []]"},
      {R"({"as_int_lists": [[1], [2, 3]]})", "[[1], [2, 3]]"},
      {R"({"as_scalar_type": 13})", "'bfloat16'"},
      {R"({"as_scalar_type": 24})", "'float8_e4m3fn'"},  // 8.1
      {R"({"as_scalar_type": 99})", "'99'"},
      {R"({"as_memory_format": 2})", "'channels_last'"},
      {R"({"as_layout": 7})", "'strided'"},
      {R"({"as_layout": 8})", "'8'"},
      {R"({"as_device": {"type": "cuda", "index": 1}})", "'cuda:1'"},
      {R"({"as_device": {"type": "meta", "index": null}})", "'meta'"},
      {R"({"as_device": {"type": "cpu"}})", "'cpu'"},
      {R"({"as_operator": "torch.ops.aten.add.Tensor"})", "'torch.ops.aten.add.Tensor'"},
      {R"({"as_complex": {"real": 1.0, "imag": 2.0}})", "<as_complex>"},
      {R"({"as_custom_obj": {"name": "q", "class_fqn": "Queue"}})", "<as_custom_obj>"},
      {R"({"as_string_to_argument": {"a": {"as_int": 1}, "b": {"as_tensor": {"name": "t"}}}})",
       "<as_string_to_argument>[1, %t]"},
      {R"({"as_quaternion": [1]})", "<as_quaternion>"},
  };
  for (const Row& row : rows) {
    CAPTURE(row.json);
    CHECK(CallWith(row.json) == row.text);
  }
}

TEST_CASE("a kind that is not known is noted once") {
  const std::string text =
      With(kArgument, R"({"as_ints_2": 1}}, {"name": "b", "arg": {"as_ints_2": 2})");
  CHECK(
      text.ends_with("\nnote: arguments of a kind that is not known are left out: "
                     "'as_ints_2'\n"));
  CHECK(text.find("note:") == text.rfind("note:"));
}

TEST_CASE("results, and what a call is named by where the file does not say") {
  const Row rows[] = {
      {R"([{"as_tensors": [{"name": "a"}, {"name": "b"}]}])", "a: [[%a, %b]] = "},
      {R"([{"as_none": true}, {"as_tensor": {"name": "b"}}])", "b: [None, %b] = "},
      {R"([{"as_sym_int": {"as_name": "n"}}])", "n: [$n] = "},
      {"[]", ": [] = "},
  };
  for (const Row& row : rows) {
    CAPTURE(row.json);
    std::string json = Replaced(std::string(kSmallProgram), R"([{"as_tensor": {"name": "relu"}}],
        "metadata")",
                                std::string(row.json) + ", \"metadata\"");
    json = Replaced(json, R"("is_hop_single_tensor_return": null,
        "name": "relu")",
                    R"("is_hop_single_tensor_return": null)");
    CHECK(Pt2Text(Pt2Of(json)).find("\n" + std::string(row.text)) != std::string::npos);
  }
}

TEST_CASE("a graph of a higher-order operator") {
  const std::string text = With(kArgument, R"({"as_graph": {"name": "true_graph_0", "graph": {
      "inputs": [{"as_tensor": {"name": "a"}}], "outputs": [{"as_tensor": {"name": "sin"}}],
      "nodes": [{"target": "torch.ops.aten.sin.default",
                 "inputs": [{"name": "self", "arg": {"as_tensor": {"name": "a"}}}],
                 "outputs": [{"as_tensor": {"name": "sin"}}], "metadata": {}}],
      "tensor_values": {}, "sym_int_values": {}, "sym_bool_values": {}}}}, "kind": 1)");
  CHECK(text.find(R"(relu: [%relu] = torch.ops.aten.relu.default(self=graph true_graph_0)
  in '' net.Net
  in 'act' torch.nn.modules.activation.ReLU
  at net.py:3 forward: return self.act(x)
  graph true_graph_0
    inputs [%a]
    sin: [%sin] = torch.ops.aten.sin.default(self=%a)
    outputs [%sin]
)") != std::string::npos);
}

TEST_CASE("sizes") {
  const Row rows[] = {
      {R"({"as_int": 4})", "4"},
      {R"j({"as_expr": {"expr_str": "Mul(Integer(2), Symbol('s0', integer=True))",
           "hint": {"as_int": 4}}})j",
       "2*s0 = 4"},
      {R"j({"as_expr": {"expr_str": "2*s0", "hint": null}})j", "2*s0"},
      {R"j({"as_expr": {"expr_str": "2*s0"}})j", "2*s0"},
      {R"j({"as_expr": {"expr_str": "u0", "hint": {"as_float": 4.0}}})j", "u0"},
      {R"j({"as_expr": {"expr_str": "Integer(6)"}})j", "6"},
      {R"j({"as_expr": {"expr_str": "what is this?"}})j", "what is this?"},
  };
  for (const Row& row : rows) {
    CAPTURE(row.json);
    const std::string text = With(R"("sizes": [])", R"("sizes": [)" + std::string(row.json) + "]");
    CHECK(text.find("tensor p_w bfloat16[" + std::string(row.text) + "] strides") !=
          std::string::npos);
  }
  const std::string symbols =
      With(R"("sym_int_values": {})", R"("sym_int_values": {"n": {"as_expr": {"expr_str": "s0",
           "hint": {"as_int": 2}}}, "m": {"as_int": 3}})");
  CHECK(symbols.ends_with("symbol m 3\nsymbol n s0 = 2\n"));
}

TEST_CASE("ranges of symbols") {
  const Row rows[] = {
      {R"({"min_val": 2, "max_val": null})", "2.."},
      {R"({"min_val": null, "max_val": 8})", "..8"},
      {R"({"min_val": 0, "max_val": 9223372036854775806})", "0.."},
      {R"({"min_val": -9223372036854775807, "max_val": 9223372036854775807})", ".."},
      {R"({"min_val": "-Infinity", "max_val": Infinity})", ".."},
  };
  for (const Row& row : rows) {
    CAPTURE(row.json);
    const std::string text = With(R"({"min_val": 2, "max_val": null})", row.json);
    CHECK(text.find("range s0 " + std::string(row.text) + "\n") != std::string::npos);
  }
}

TEST_CASE("what inputs are to the module") {
  const Row rows[] = {
      {R"({"buffer": {"arg": {"name": "b"}, "buffer_name": "bn.mean", "persistent": true}})",
       "buffer b is bn.mean"},
      {R"({"buffer": {"arg": {"name": "b"}, "buffer_name": "mask", "persistent": false}})",
       "buffer b is mask, not persistent"},
      {R"({"tensor_constant": {"arg": {"name": "c"}, "tensor_constant_name": "lifted_0"}})",
       "constant c is lifted_0"},
      {R"({"user_input": {"arg": {"as_sym_int": {"as_name": "n"}}}})", "user n"},
      {R"({"user_input": {"arg": {"as_int": 3}}})", "user  = 3"},
      {R"({"constant_input": {"name": "flag", "value": {"as_bool": true}}})", "user flag = True"},
      {R"({"constant_input": {"name": "k", "value": {"as_none": true}}})", "user k = None"},
      {R"({"custom_obj": {"arg": {"name": "q", "class_fqn": "Q"}, "custom_obj_name": "queue"}})",
       "other q is queue"},
      {R"({"token": {"arg": {"name": "token"}}})", "other token"},
      {R"({"wish": {"arg": {"name": "w"}}})", "other w"},
  };
  for (const Row& row : rows) {
    CAPTURE(row.json);
    const std::string text =
        With(R"({"parameter": {"arg": {"name": "p_w"}, "parameter_name": "w"}})", row.json);
    CHECK(text.find("input " + std::string(row.text) + "\ninput user x\n") != std::string::npos);
  }
}

TEST_CASE("what outputs are to the caller") {
  const Row rows[] = {
      {R"({"buffer_mutation": {"arg": {"name": "add"}, "buffer_name": "bn.mean"}})",
       "mutation add of bn.mean"},
      {R"({"user_input_mutation": {"arg": {"name": "add"}, "user_input_name": "x"}})",
       "mutation add of x"},
      {R"({"parameter_mutation": {"arg": {"name": "add"}, "parameter_name": "w"}})",
       "mutation add of w"},
      {R"({"loss_output": {"arg": {"name": "loss"}}})", "user loss"},
      {R"({"user_output": {"arg": {"as_int": 3}}})", "user "},
      {R"({"gradient_to_parameter": {"arg": {"name": "g"}, "parameter_name": "w"}})",
       "other g of w"},
      {R"({"token": {"arg": {"name": "t"}}})", "other t"},
      {R"({"wish": {}})", "other "},
  };
  for (const Row& row : rows) {
    CAPTURE(row.json);
    const std::string text =
        With(R"({"user_output": {"arg": {"as_tensor": {"name": "relu"}}}})", row.json);
    CHECK(text.find("\noutput " + std::string(row.text) + "\nmodule") != std::string::npos);
  }
}

TEST_CASE("versions") {
  const auto with = [](const char* version) {
    return With(R"("schema_version": {"major": 8, "minor": 17})",
                "\"schema_version\": " + std::string(version));
  };
  const auto error = [](const std::string& found) {
    return "net.pt2: schema 7 or 8 was expected (PyTorch 2.5 to 2.15), found " + found +
           " (try: PyTorch 2.15, torch.export.save(torch.export.export(model, args), 'model.pt2'))";
  };
  CHECK(with(R"({"major": 8, "minor": 1})").starts_with("torch 2.11.0+cu130, schema 8.1\n"));
  CHECK(with(R"({"major": 7, "minor": 3})").starts_with("torch 2.11.0+cu130, schema 7.3\n"));
  CHECK(with(R"({"major": 8, "minor": 21})")
            .ends_with("\nnote: schema 8.21 is newer than 8.20: what it adds is left out\n"));
  CHECK(with(R"({"major": 9, "minor": 1})") == error("9.1"));
  CHECK(with(R"({"major": 6, "minor": 1})") == error("6.1"));
  CHECK(with("1") == error("1.0"));
  CHECK(with("null") ==
        "a member 'schema_version' was expected, found an object with "
        "'graph_module'");
  CHECK(With(R"("torch_version": "2.11.0+cu130",)", "").starts_with("torch , schema 8.17\n"));
}

TEST_CASE("members that are not known are passed over, optional ones may be absent") {
  CHECK(With(R"("verifiers": ["TRAINING"],)", R"("future": {"as": [1, null]},)") ==
        kSmallProgramText);
  CHECK(With(R"("kind": 1)", R"("kind": 7, "future": 1)") == kSmallProgramText);
  CHECK(With(R"(,
        "forward_arg_names": ["x"])",
             "")
            .starts_with("torch 2.11.0+cu130, schema 8.17\nforward []\n"));
}

TEST_CASE("a call has the name of its Python function") {
  const auto method = [](std::string_view function) {
    const std::string json = Replaced(std::string(kSmallProgram), "relu_1;function.relu", function);
    return std::string(ReadPt2(Pt2Of(json)).graph.calls[0].method);
  };
  CHECK(method("relu_1;function.relu") == "relu");
  CHECK(method("float_12;method_descriptor.float") == "float");
  CHECK(method("relu") == "");
  CHECK(method("") == "");
}

TEST_CASE("damaged metadata gives fewer lines, and no error") {
  for (const char* metadata : {"{}", R"({"stack_trace": 3, "nn_module_stack": null})",
                               R"({"stack_trace": "?", "nn_module_stack": "a,b"})"}) {
    CAPTURE(metadata);
    std::string json(kSmallProgram);
    const size_t begin = json.find(R"("metadata": {
          "stack_trace")");
    const size_t end = json.find('}', begin) + 1;
    json.replace(begin, end - begin, "\"metadata\": " + std::string(metadata));
    const std::string text = Pt2Text(Pt2Of(json));
    CHECK(text.find("(self=%x)\noutputs") != std::string::npos);
  }
}

TEST_CASE("where a program is not what was expected") {
  struct Damage {
    const char* from;
    const char* to;
    const char* error;
  };
  const Damage rows[] = {
      {R"("target": "torch.ops.aten.relu.default",)", "",
       "graph_module.graph.nodes[0]: a member 'target' was expected, found an object with "
       "'inputs'"},
      {R"("target": "torch.ops.aten.relu.default")", R"("target": 3)",
       "graph_module.graph.nodes[0].target: a text was expected, found 3"},
      {R"({"as_tensor": {"name": "x"}}, "kind")", R"({"as_tensor": "x"}, "kind")",
       "graph_module.graph.nodes[0].inputs[0].arg.as_tensor: an object was expected, found the "
       "text 'x'"},
      {R"({"as_tensor": {"name": "x"}}, "kind")", R"({}, "kind")",
       "graph_module.graph.nodes[0].inputs[0].arg: an object with one member, its kind, was "
       "expected, found an empty object"},
      {R"({"as_tensor": {"name": "x"}}, "kind")", R"({"as_int": 1, "as_bool": true}, "kind")",
       "graph_module.graph.nodes[0].inputs[0].arg: an object with one member, its kind, was "
       "expected, found an object with 'as_int'"},
      {R"({"as_tensor": {"name": "x"}}, "kind")", R"({"as_ints": [1, "2"]}, "kind")",
       "graph_module.graph.nodes[0].inputs[0].arg.as_ints[1]: a whole number was expected, found "
       "the text '2'"},
      {R"({"as_tensor": {"name": "x"}}, "kind")", R"({"as_int": 1.5}, "kind")",
       "graph_module.graph.nodes[0].inputs[0].arg.as_int: a whole number was expected, found 1.5"},
      {R"({"as_tensor": {"name": "x"}}, "kind")", R"({"as_int": NaN}, "kind")",
       "graph_module.graph.nodes[0].inputs[0].arg.as_int: a whole number was expected, found nan"},
      {R"({"as_tensor": {"name": "x"}}, "kind")", R"({"as_float": "1"}, "kind")",
       "graph_module.graph.nodes[0].inputs[0].arg.as_float: a number was expected, found the text "
       "'1'"},
      {R"("strides": [])", R"("strides": null)",
       "graph_module.graph.tensor_values.p_w: a member 'strides' was expected, found an object "
       "with 'dtype'"},
      {R"("sizes": [])", R"("sizes": [{"as_int": -1}])",
       "graph_module.graph.tensor_values.p_w.sizes: sizes of 0 or more was expected, found a list "
       "of 1"},
      {R"("sizes": [])", R"("sizes": [{"as_expr": {"expr_str": ""}}])",
       "graph_module.graph.tensor_values.p_w.sizes[0].as_expr: an expression was expected, found "
       "an "
       "object with 'expr_str'"},
      {R"("requires_grad": true)", R"("requires_grad": 1)",
       "graph_module.graph.tensor_values.p_w.requires_grad: true or false was expected, found 1"},
      {R"({"parameter": {"arg": {"name": "p_w"}, "parameter_name": "w"}},)", "",
       "graph_module.signature.input_specs: a list of 2, as many as the graph has, was expected, "
       "found a list of 1"},
      {R"("output_specs": [{"user_output": {"arg": {"as_tensor": {"name": "relu"}}}}])",
       R"("output_specs": [])",
       "graph_module.signature.output_specs: a list of 1, as many as the graph has, was expected, "
       "found a list of 0"},
      {R"("range_constraints": {"s0")", R"("range_constraints": [1], "more": {"s0")",
       "range_constraints: an object was expected, found a list of 1"},
  };
  for (const Damage& row : rows) {
    CAPTURE(row.error);
    CHECK(With(row.from, row.to) == row.error);
  }
}

}  // namespace
}  // namespace onnxfit::pt2_program_test
