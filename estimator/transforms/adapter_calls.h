// The forward of a layer that has an adapter beside it, as peft runs it.
#pragma once

#include <string_view>
#include <vector>

#include "estimator/base/settings.h"
#include "estimator/program/program.h"
#include "estimator/transforms/linear_layers.h"

namespace onnxfit {

// The tensors of an adapted layer.
struct Adapter {
  NameId a = kNoName;          // [rank, in]
  NameId b = kNoName;          // [out, rank]
  NameId magnitude = kNoName;  // [out], of DoRA alone
  NameId weight = kNoName;     // the layer's own, as is the next
  NameId bias = kNoName;
  Quantization packed = Quantization::kNone;  // how its weight is kept
};

// Source: peft 0.21.2, tuners/lora/layer.py (Linear.forward), bnb.py, dora.py, variants.py.
class AdapterCalls {
 public:
  // All must outlive it.  `program` without what is to be written.
  AdapterCalls(Program& program, const TrainingSettings& settings)
      : program_(program), settings_(settings), arguments_(program) {}

  // Behind the calls of `run`, which are the last of the program.
  void Write(const LinearRun& run, const Adapter& adapter);

 private:
  const TensorType& TypeOf(NameId name) const;
  NameId Emit(std::string_view op, std::vector<NameId> inputs, std::string_view child,
              const TensorType& type, std::vector<int64_t> ints = {});
  NameId EmitRows(std::string_view op, std::vector<NameId> inputs, std::string_view child,
                  DType dtype, int64_t features);
  void Drop(NameId name) { program_.calls.back().dies.push_back(name); }
  void Rebind(NameId& name, NameId next);
  NameId TakeBase(const LinearRun& run);
  NameId TakeInput(const LinearRun& run, const Adapter& adapter);
  NameId WriteDropout(NameId x, const Adapter& adapter);
  NameId WriteProducts(NameId x, const Adapter& adapter, bool drops_x);
  NameId WriteAdapter(NameId x, const Adapter& adapter);
  void WriteBeside(const LinearRun& run, const Adapter& adapter, NameId base);
  void WriteBesidePacked(const LinearRun& run, const Adapter& adapter, NameId base);

  // DoRA.
  NameId WriteLoraWeight(const Adapter& adapter);
  NameId WriteWeightNorm(const Adapter& adapter, NameId weight, NameId lora_weight);
  NameId WriteScaled(NameId scale, NameId base_result, NameId lora_result);
  NameId WriteDora(NameId x, const Adapter& adapter, NameId base);

  Program& program_;
  const TrainingSettings& settings_;
  const FrameArguments arguments_;
  AtenCall place_;
};

}  // namespace onnxfit
