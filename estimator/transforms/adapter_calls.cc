#include "estimator/transforms/adapter_calls.h"

#include <fmt/format.h>

#include <span>
#include <string>
#include <utility>

#include "estimator/base/index.h"
#include "estimator/writer/program_writer.h"

namespace onnxfit {

const TensorType& AdapterCalls::TypeOf(NameId name) const {
  return program_.values[Index(name)].type;
}

// `child`: the module's that makes the call, or what a result of the layer's own is called.
NameId AdapterCalls::Emit(std::string_view op, std::vector<NameId> inputs, std::string_view child,
                          const TensorType& type, std::vector<int64_t> ints) {
  const NameId base = inputs.empty() ? place_.outputs[0] : inputs[0];
  const NameId made =
      AddValue(program_, fmt::format("{}.{}", program_.values[Index(base)].name, child), type);
  AtenCall call = CallAt(place_, op, std::move(inputs), {made}, std::move(ints));
  if (child.starts_with("lora_")) {
    call.module = program_.modules.Enter(place_.module, fmt::format("{}.default", child));
  }
  program_.calls.push_back(std::move(call));
  return made;
}

// A result with as many rows as the first input.
NameId AdapterCalls::EmitRows(std::string_view op, std::vector<NameId> inputs,
                              std::string_view child, DType dtype, int64_t features) {
  TensorType type = {dtype, TypeOf(inputs[0]).dims};
  type.dims.back() = features;
  return Emit(op, std::move(inputs), child, type);
}

// `name` is bound to `next`, and lets go of what it held.
void AdapterCalls::Rebind(NameId& name, NameId next) {
  Drop(name);
  name = next;
}

// What the base layer returned, a name of the adapted layer's from now on.
NameId AdapterCalls::TakeBase(const LinearRun& run) {
  AtenCall& last = program_.calls.back();
  const std::string name = program_.values[Index(run.result)].name + ".base_layer";
  const NameId base = AddValue(program_, name, TensorType(TypeOf(run.result)));
  last.outputs[0] = base;
  place_ = CallAt(last, "", {}, {run.result});
  place_.dies.clear();
  place_.last_reads.clear();
  place_.held.clear();
  place_.written_in_place = false;
  return base;
}

// What forward is given, in rows of as many features as the layer takes: where an exporter has put
// the reshape before it into the layer, as these are seen.
NameId AdapterCalls::TakeInput(const LinearRun& run, const Adapter& adapter) {
  const int64_t in = TypeOf(adapter.a).dims[1];
  if (TypeOf(run.input).dims.back() == in) return run.input;
  TensorType rows = {TypeOf(run.input).dtype, TypeOf(run.result).dims};
  rows.dims.back() = in;
  return Emit("view", {run.input}, "view", rows);
}

void AdapterCalls::Write(const LinearRun& run, const Adapter& adapter) {
  const size_t count = Index(run.last - run.first) + 1;
  const std::vector<NameId> deaths =
      arguments_.TakeDeaths(run, std::span(program_.calls).last(count));
  const NameId base = TakeBase(run);
  adapter.packed == Quantization::kNone ? WriteBeside(run, adapter, base)
                                        : WriteBesidePacked(run, adapter, base);
  auto& dies = program_.calls.back().dies;
  dies.insert(dies.end(), deaths.begin(), deaths.end());
}

// --- LoRA -----------------------------------------------------------------------------------

// dropout(x), `x` itself where there is none.
NameId AdapterCalls::WriteDropout(NameId x, const Adapter& adapter) {
  const bool drops = settings_.mode == Mode::kTrain && settings_.lora.dropout > 0;
  const DType type = TypeOf(adapter.a).dtype;
  return drops ? EmitRows("dropout", {x}, "lora_dropout", type, TypeOf(x).dims.back()) : x;
}

// lora_B(lora_A(x)), whose x nobody needs behind lora_A where it `drops_x`.
NameId AdapterCalls::WriteProducts(NameId x, const Adapter& adapter, bool drops_x) {
  const DType type = TypeOf(adapter.a).dtype;
  const int64_t out = TypeOf(adapter.b).dims[0];
  const NameId down = EmitRows("linear", {x, adapter.a}, "lora_A", type, settings_.lora.rank);
  if (drops_x) Drop(x);
  const NameId up = EmitRows("linear", {down, adapter.b}, "lora_B", type, out);
  Drop(down);
  return up;
}

// lora_B(lora_A(dropout(x))) * scaling
NameId AdapterCalls::WriteAdapter(NameId x, const Adapter& adapter) {
  const NameId dropped = WriteDropout(x, adapter);
  const NameId up = WriteProducts(dropped, adapter, /*drops_x=*/dropped != x);
  const NameId scaled =
      EmitRows("mul.Scalar", {up}, "mul", TypeOf(adapter.a).dtype, TypeOf(adapter.b).dims[0]);
  Drop(up);
  return scaled;
}

// x = x.to(lora_A.weight.dtype); result = result + adapter(x); return result.to(its type before)
void AdapterCalls::WriteBeside(const LinearRun& run, const Adapter& adapter, NameId base) {
  const DType type = TypeOf(adapter.a).dtype;
  const NameId input = TakeInput(run, adapter);
  const NameId x = EmitRows("to", {input}, "to", type, TypeOf(input).dims.back());
  const bool is_dora = adapter.magnitude != kNoName;
  const NameId beside = is_dora ? WriteDora(x, adapter, base) : WriteAdapter(x, adapter);
  const NameId sum = EmitRows("add", {base, beside}, "add", type, TypeOf(base).dims.back());
  Drop(beside);
  Drop(base);
  program_.calls.push_back(CallAt(place_, "type_as", {sum, base}, {run.result}));
  Drop(sum);
  Drop(x);
  if (input != run.input) Drop(input);
}

// bnb.py, Linear4bit.forward: result = result.clone(), which Linear8bitLt.forward leaves out;
// without autocast x = x.to(lora_A.weight.dtype); output = adapter(x); without it
// output.to(result.dtype); return result + output
void AdapterCalls::WriteBesidePacked(const LinearRun& run, const Adapter& adapter, NameId base) {
  const bool converts = AutocastType(settings_.precision) == DType::kUndefined;
  const DType type = TypeOf(base).dtype;
  const int64_t out = TypeOf(base).dims.back();
  NameId result = base;
  if (adapter.packed == Quantization::kNf4) {
    Rebind(result, EmitRows("clone", {base}, "clone", type, out));
  }
  const NameId input = TakeInput(run, adapter);
  NameId x = input;
  if (converts) {
    x = EmitRows("to", {x}, "to", TypeOf(adapter.a).dtype, TypeOf(x).dims.back());
  }
  NameId output = WriteAdapter(x, adapter);
  if (converts) Rebind(output, EmitRows("type_as", {output, result}, "to", type, out));
  program_.calls.push_back(CallAt(place_, "add", {result, output}, {run.result}));
  Drop(result);
  Drop(output);
  if (x != input) Drop(x);
  if (input != run.input) Drop(input);
}

// --- DoRA -----------------------------------------------------------------------------------

// get_lora_weight: lora_B(lora_A(torch.eye(in))).T
NameId AdapterCalls::WriteLoraWeight(const Adapter& adapter) {
  const DType type = TypeOf(adapter.a).dtype;
  const int64_t in = TypeOf(adapter.a).dims[1];
  const int64_t out = TypeOf(adapter.b).dims[0];
  const NameId eye = Emit("constant", {}, "eye", {type, {in, in}});
  const NameId up = WriteProducts(eye, adapter, /*drops_x=*/false);
  const NameId transposed = Emit("permute", {up}, "T", {type, {out, in}}, {1, 0});
  Drop(up);
  Drop(eye);
  return transposed;
}

// get_weight_norm, of a LoRA weight that is detached; which of the file's weights lie transposed
// their sizes say.
NameId AdapterCalls::WriteWeightNorm(const Adapter& adapter, NameId weight, NameId lora_weight) {
  const DType type = TypeOf(adapter.a).dtype;
  const Dims dims = TypeOf(lora_weight).dims;
  const bool is_transposed = TypeOf(weight).dims != dims;
  place_.leaves_autograd = true;
  const NameId own = is_transposed ? Emit("permute", {weight}, "T", {type, dims}, {1, 0}) : weight;
  const NameId scaled = Emit("mul.Scalar", {lora_weight}, "mul", {type, dims});
  const NameId sum = Emit("add", {own, scaled}, "add", {type, dims});
  Drop(scaled);
  const NameId norm = Emit("linalg_vector_norm", {sum}, "norm", {type, {dims[0]}}, {1});
  Drop(sum);
  if (is_transposed) Drop(own);
  place_.leaves_autograd = false;
  return norm;
}

// (scale - 1) * base_result + scale * lora_result * scaling
NameId AdapterCalls::WriteScaled(NameId scale, NameId base_result, NameId lora_result) {
  const TensorType type = TypeOf(lora_result);
  const NameId less = Emit("add.Scalar", {scale}, "sub", TypeOf(scale));
  const NameId of_base = Emit("mul", {less, base_result}, "mul", type);
  Drop(less);
  const NameId of_lora = Emit("mul", {scale, lora_result}, "mul", type);
  const NameId scaled = Emit("mul.Scalar", {of_lora}, "mul", type);
  Drop(of_lora);
  const NameId sum = Emit("add", {of_base, scaled}, "add", type);
  Drop(of_base);
  Drop(scaled);
  return sum;
}

// DoraLinearVariant.forward, then DoraLinearLayer.forward, whose names are let go of in their
// order.
NameId AdapterCalls::WriteDora(NameId x, const Adapter& adapter, NameId base) {
  const DType type = TypeOf(adapter.a).dtype;
  const NameId dropped = WriteDropout(x, adapter);
  NameId lora_weight = WriteLoraWeight(adapter);
  Rebind(lora_weight, Emit("to", {lora_weight}, "to", {type, TypeOf(lora_weight).dims}));
  const NameId weight = Emit("to", {adapter.weight}, "to", {type, TypeOf(adapter.weight).dims});
  const NameId norm = WriteWeightNorm(adapter, weight, lora_weight);
  const Dims row = {1, TypeOf(norm).dims[0]};
  const NameId ratio = Emit("div", {adapter.magnitude, norm}, "div", TypeOf(norm));
  const NameId scale = Emit("view", {ratio}, "view", {type, row});
  Drop(ratio);
  const NameId lora_result = WriteProducts(dropped, adapter, /*drops_x=*/false);
  NameId base_result = base;
  if (dropped != x) {
    base_result = EmitRows("linear", {dropped, weight}, "linear", type, row[1]);
  } else if (adapter.bias != kNoName) {
    base_result = EmitRows("sub", {base, adapter.bias}, "sub", type, row[1]);
  }
  const NameId sum = WriteScaled(scale, base_result, lora_result);
  if (base_result != base) Drop(base_result);
  for (const NameId name : {lora_weight, weight, norm, scale, lora_result}) Drop(name);
  if (dropped != x) Drop(dropped);
  return sum;
}

}  // namespace onnxfit
