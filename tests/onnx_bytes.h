// ONNX files written by hand, field by field, for tests of what no text can say.
// Field numbers: onnx.proto.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

#include "estimator/onnx/wire_format.h"

namespace onnxfit::bytes {

inline std::string Number(uint32_t field, uint64_t value) {
  std::string out;
  AppendVarint(out, uint64_t{field} << 3);
  AppendVarint(out, value);
  return out;
}

// The head of a field of `size` bytes that follow.
inline std::string Head(uint32_t field, uint64_t size) {
  std::string out;
  AppendVarint(out, uint64_t{field} << 3 | 2);
  AppendVarint(out, size);
  return out;
}

inline std::string Bytes(uint32_t field, std::string_view value) {
  return Head(field, value.size()) + std::string(value);
}

using Names = std::initializer_list<std::string_view>;

// GraphProto.node.
inline std::string Node(std::string_view op, Names inputs, Names outputs,
                        std::string_view more = "") {
  std::string node;
  for (const std::string_view name : inputs) node += Bytes(1, name);
  for (const std::string_view name : outputs) node += Bytes(2, name);
  return Bytes(1, node + Bytes(4, op) + std::string(more));
}

// TensorProto without its name: dims, data_type, then `contents`, a field.
inline std::string Tensor(uint64_t data_type, const std::vector<int64_t>& dims,
                          std::string_view contents = "") {
  std::string tensor;
  for (const int64_t dim : dims) tensor += Number(1, static_cast<uint64_t>(dim));
  return tensor + Number(2, data_type) + std::string(contents);
}

// GraphProto.initializer.
inline std::string Initializer(std::string_view name, std::string_view tensor) {
  return Bytes(5, std::string(tensor) + Bytes(8, name));
}

// GraphProto.input and output, float32.
inline std::string Value(uint32_t field, std::string_view name,
                         const std::vector<int64_t>& dims = {}) {
  std::string shape;
  for (const int64_t dim : dims) shape += Bytes(1, Number(1, static_cast<uint64_t>(dim)));
  const std::string type = Bytes(1, Number(1, 1) + Bytes(2, shape));
  return Bytes(field, Bytes(1, name) + Bytes(2, type));
}
inline std::string Input(std::string_view name, const std::vector<int64_t>& dims = {}) {
  return Value(11, name, dims);
}
inline std::string Output(std::string_view name) { return Value(12, name); }

// ModelProto of IR version 8.
inline std::string Model(std::string_view graph, uint64_t opset = 17) {
  return Number(1, 8) + Bytes(7, graph) + Bytes(8, Number(2, opset));
}

// y = Relu(x), with `more` fields of the graph.
inline std::string Relu(std::string_view more = "") {
  return Model(Node("Relu", {"x"}, {"y"}) + Input("x", {2, 3}) + Output("y") + std::string(more));
}

}  // namespace onnxfit::bytes
