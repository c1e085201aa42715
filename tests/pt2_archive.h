// Archives as torch.export.save writes them, around programs that tests write.
#pragma once

#include <string>
#include <string_view>

#include "estimator/base/error.h"
#include "estimator/pt2/exported_program.h"
#include "tests/zip_writer.h"

namespace onnxfit {

// The archive of PyTorch 2.11, without weights.
inline std::string Pt2Of(std::string_view program) {
  return ZipOf(
      {{.name = "net/models/model.json", .contents = std::string(program), .deflate = true},
       {.name = "net/archive_format", .contents = "pt2"},
       {.name = "net/archive_version", .contents = "0"}});
}

inline pt2::ExportedProgram ReadPt2(std::string_view archive) {
  return pt2::LoadExportedProgramFrom(archive, "net.pt2");
}

// The program as text, or its error.
inline std::string Pt2Text(std::string_view archive) {
  try {
    return ToString(ReadPt2(archive));
  } catch (const Error& error) {
    return error.what();
  }
}

// `text` with the first `from` replaced.
inline std::string Replaced(std::string text, std::string_view from, std::string_view to) {
  const size_t at = text.find(from);
  return at == text.npos ? "no " + std::string(from) : text.replace(at, from.size(), to);
}

// relu(x) with a free batch, and a parameter that nobody reads.
inline constexpr std::string_view kSmallProgram = R"json({
  "graph_module": {
    "graph": {
      "inputs": [{"as_tensor": {"name": "p_w"}}, {"as_tensor": {"name": "x"}}],
      "outputs": [{"as_tensor": {"name": "relu"}}],
      "nodes": [{
        "target": "torch.ops.aten.relu.default",
        "inputs": [{"name": "self", "arg": {"as_tensor": {"name": "x"}}, "kind": 1}],
        "outputs": [{"as_tensor": {"name": "relu"}}],
        "metadata": {
          "stack_trace": "File \"net.py\", line 3, in forward\n    return self.act(x)",
          "nn_module_stack": "L__self__,,net.Net;L__self__act,act,torch.nn.modules.activation.ReLU",
          "torch_fn": "relu_1;function.relu"
        },
        "is_hop_single_tensor_return": null,
        "name": "relu"
      }],
      "tensor_values": {
        "p_w": {"dtype": 13, "sizes": [], "requires_grad": true, "device": {"type": "cpu",
          "index": null}, "strides": [], "storage_offset": {"as_int": 0}, "layout": 7},
        "x": {"dtype": 7, "sizes": [{"as_expr": {"expr_str":
          "Symbol('s0', positive=True, integer=True)", "hint": {"as_int": 2}}}, {"as_int": 3}],
          "requires_grad": false, "device": {"type": "cpu", "index": null},
          "strides": [{"as_int": 3}, {"as_int": 1}], "storage_offset": {"as_int": 0}, "layout": 7},
        "relu": {"dtype": 7, "sizes": [{"as_expr": {"expr_str": "s0", "hint": null}},
          {"as_int": 3}], "requires_grad": false, "device": {"type": "cpu", "index": null},
          "strides": [{"as_int": 3}, {"as_int": 1}], "storage_offset": {"as_int": 0}, "layout": 7}
      },
      "sym_int_values": {},
      "sym_bool_values": {},
      "is_single_tensor_return": false,
      "custom_obj_values": {},
      "sym_float_values": {}
    },
    "signature": {
      "input_specs": [
        {"parameter": {"arg": {"name": "p_w"}, "parameter_name": "w"}},
        {"user_input": {"arg": {"as_tensor": {"name": "x"}}}}],
      "output_specs": [{"user_output": {"arg": {"as_tensor": {"name": "relu"}}}}]
    },
    "module_call_graph": [
      {"fqn": "", "signature": {"inputs": [], "outputs": [], "in_spec": "", "out_spec": "",
        "forward_arg_names": ["x"]}},
      {"fqn": "act", "signature": null}],
    "metadata": {},
    "treespec_namedtuple_fields": {}
  },
  "opset_version": {"aten": 10},
  "range_constraints": {"s0": {"min_val": 2, "max_val": null}},
  "schema_version": {"major": 8, "minor": 17},
  "verifiers": ["TRAINING"],
  "torch_version": "2.11.0+cu130",
  "guards_code": []
})json";

inline constexpr std::string_view kSmallProgramText = R"(torch 2.11.0+cu130, schema 8.17
forward [x]
range s0 2..
input parameter p_w is w
input user x
output user relu
module ''
module 'act'
inputs [%p_w, %x]
relu: [%relu] = torch.ops.aten.relu.default(self=%x)
  in '' net.Net
  in 'act' torch.nn.modules.activation.ReLU
  at net.py:3 forward: return self.act(x)
outputs [%relu]
tensor p_w bfloat16[] strides [] grad
tensor relu float32[s0, 3] strides [3, 1]
tensor x float32[s0 = 2, 3] strides [3, 1]
)";

}  // namespace onnxfit
