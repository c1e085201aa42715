// What each initializer of a file is to training: a parameter, a buffer, or a constant.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "estimator/base/error.h"
#include "estimator/base/settings.h"
#include "estimator/onnx/graph.h"
#include "estimator/onnx/shapes.h"
#include "estimator/program/module_tensors.h"
#include "estimator/recover/affine_batch_norm.h"
#include "estimator/recover/exporter_metadata.h"
#include "estimator/recover/folded_batch_norm.h"
#include "estimator/recover/rewrites.h"

namespace onnxfit {

enum class Role : uint8_t {
  kConstant,   // serves shapes, scalars, masks: not on the device for training
  kParameter,  // trained: has a gradient and optimizer state
  kBuffer,     // lives on the device, untrained: batch-norm statistics, position ids
};

// Tensors that belong to a folded batch norm or an affine one: their names in `parameters` and
// `buffers` are its module's, with .weight, .bias, .running_mean, .running_var and
// .num_batches_tracked.
struct Roles : ModuleTensors {
  std::vector<Role> of_initializer;               // by index into Graph::initializers
  std::vector<FoldedBatchNorm> folded;            // put back
  std::vector<AffineBatchNorm> affine;            // run as batch norms
  std::vector<std::pair<ValueId, ValueId>> ties;  // a copy, and the tensor that it is
  // An initializer, and the buffer of which it is a view that the exporter computed.
  std::vector<std::pair<ValueId, std::string>> views;
  // An initializer, and the table of which it is the first rows.
  std::optional<std::pair<ValueId, std::string>> table_rows;
  std::vector<Rewritten> rewrites;  // what their inner nodes alone read is in no module
  std::vector<std::string> assumptions;
  std::vector<Doubt> doubts;       // what was guessed and no flag said
  std::vector<std::string> notes;  // for -v
  Warnings warnings;
};

// Signals, surest first: the exporter's graph_signature; the operator that reads the
// value (statistics of a batch norm); its type and use.
// O((nodes + initializers) × log initializers).
Roles FindRoles(const BoundGraph& bound, const TrainingSettings& settings);

}  // namespace onnxfit
