// The modules of a program that multiply what they are given by one matrix of their own: nn.Linear,
// transformers' Conv1D.  Adapters stand beside them, and they are what is quantized.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "estimator/program/program.h"

namespace onnxfit {

// One run of a layer's forward: calls `first` to `last`, the product at `product`.
struct LinearRun {
  int64_t first = 0;
  int64_t last = 0;
  int64_t product = 0;
  NameId input = kNoName;   // what forward is given
  NameId result = kNoName;  // what it returns, of call `last`
};

struct LinearLayer {
  std::string path;  // "model.layers.0.self_attn.q_proj"
  NameId weight =
      kNoName;            // in the form of its file: of nn.Linear [out, in], of a MatMul [in, out]
  NameId bias = kNoName;  // kNoName where it has none, or none is known
  NameId behind = kNoName;  // the module's tensor behind which those of the layer stand in order
  int64_t in_features = 0;
  int64_t out_features = 0;
  bool is_output =
      false;  // has the shape of the vocabulary's table, as get_output_embeddings() has
  bool is_read_alone = false;    // its forward never runs: another module reads its matrix
  bool is_of_attention = false;  // and that is nn.MultiheadAttention's out_proj
  std::vector<LinearRun> runs = {};
};

// In the order of the module's parameters, each once: a layer that is called again has more runs.
// O(calls × depth of modules).
std::vector<LinearLayer> FindLinearLayers(const Program& program);

// transformers' Conv1D, whose weight lies the other way than nn.Linear's.
bool IsConv1d(const Program& program, const LinearLayer& layer);

std::vector<std::string> PathsOf(const std::vector<LinearLayer>& layers);

// By index into `layers`.  "q_proj" picks all layers whose last name that is, as in peft; globs are
// matched with whole paths.  Throws Error for a target that picks nothing; `flag` is what messages
// call its place.  O(layers × targets).
std::vector<bool> PickLayers(const std::vector<LinearLayer>& layers,
                             const std::vector<std::string>& targets, std::string_view flag,
                             const std::string& file);

// What a layer's frame was given lives as long as the frame, also where it gets other calls.
class FrameArguments {
 public:
  explicit FrameArguments(const Program& program);

  // Takes the deaths of what was made before `run` from its calls: they are those of its end.
  std::vector<NameId> TakeDeaths(const LinearRun& run, std::span<AtenCall> calls) const;

 private:
  std::vector<int64_t> made_at_;  // by name: the call, -1 where none makes it, kOfModule
};

}  // namespace onnxfit
