// Which parameters optimizers are told apart: those that people give to Muon, and embeddings'.
#pragma once

#include <vector>

#include "estimator/program/program.h"

namespace onnxfit {

// By index into program.parameters: matrices that are no embedding's table, nor the weight of the
// last layer that has one.  Source: "Muon is an optimizer for 2D parameters of neural network
// hidden layers", torch/optim/_muon.py, pytorch v2.11.0.  O(calls).
std::vector<bool> AreHiddenMatrices(const Program& program);

// By index into program.parameters: tables of embeddings, be they a head's weight too.  O(calls).
std::vector<bool> AreEmbeddingTables(const Program& program);

}  // namespace onnxfit
