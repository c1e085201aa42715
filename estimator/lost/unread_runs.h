// Modules that run though no output needs what they make, so that torch.export's ONNX has their
// parameters' names alone, and TorchScript's nothing: a tower's last norm, a pooler.  Internal to
// recovery.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "estimator/exporters/bound_graph.h"
#include "estimator/libraries/libraries.h"

namespace onnxfit {

struct UnreadRun {
  NodeId behind = kNoNode;    // the last node of the child in front of it
  ValueId states = kNoValue;  // what that makes
  size_t level = 0;           // of the forward that calls both
  std::string caller = {};    // its module's path
  const UnreadRunRow* row = nullptr;
};

using IsLostTensor = std::function<bool(const std::string& name)>;

// By rows of UnreadRuns (libraries.h): in calls of their classes whose child runs no node, and in
// files that name neither classes nor tensors, where all of a row's children are lost.
// O(nodes × rows).
std::vector<UnreadRun> FindUnreadRuns(
    const BoundGraph& bound, const IsLostTensor& is_lost = [](const auto&) { return false; });

struct UnreadTensorOfZeros {
  NodeId before = kNoNode;  // the first node of the child behind it
  size_t level = 0;         // of the forward that makes it
  const UnreadZerosRow* row = nullptr;
};

// By rows of UnreadZeros, where no node is of that line and no input of that name.
// O(nodes × rows).
std::vector<UnreadTensorOfZeros> FindUnreadZeros(const BoundGraph& bound);

struct UnreadHead {
  NodeId before = kNoNode;    // the first node of the child that runs next
  ValueId states = kNoValue;  // what that reads
  size_t level = 0;           // of the forward that calls both
  std::string path = {};      // the head's
  const UnreadHeadRow* row = nullptr;
};

// By rows of UnreadHeads, in calls of their classes whose head runs no node, and in files without
// classes, where a tensor of the head is lost.  O(nodes × rows).
std::vector<UnreadHead> FindUnreadHeads(
    const BoundGraph& bound, const IsLostTensor& is_lost = [](const auto&) { return false; });

}  // namespace onnxfit
