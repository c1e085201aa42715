// Embedding.  Source: pytorch v2.6.0 derivatives.yaml (embedding_dense_backward).  The
// sort buffers of more than 3072 indices are not modelled.
#include "estimator/eager/op_families.h"

namespace onnxfit {
namespace {

constexpr OpRule kRules[] = {
    // weight [V, D], indices: the gradient has the whole table's size.
    {.name = "embedding", .gradients = {Reads(In(1))}},
};

}  // namespace

std::span<const OpRule> EmbeddingRules() { return kRules; }

}  // namespace onnxfit
