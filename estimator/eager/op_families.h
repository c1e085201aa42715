// The families of the operator table, one file each.  A new operator is one row in the
// file of its family and one line in tests/op_rule_test.cc.
#pragma once

#include <span>

#include "estimator/eager/op_rule.h"

namespace onnxfit {

std::span<const OpRule> AttentionRules();      // ops_attention.cc
std::span<const OpRule> ConvolutionRules();    // ops_convolution.cc
std::span<const OpRule> DropoutRules();        // ops_dropout.cc
std::span<const OpRule> ElementwiseRules();    // ops_elementwise.cc
std::span<const OpRule> EmbeddingRules();      // ops_embedding.cc
std::span<const OpRule> LinearRules();         // ops_linear.cc
std::span<const OpRule> LossRules();           // ops_loss.cc
std::span<const OpRule> NormalizationRules();  // ops_normalization.cc
std::span<const OpRule> PoolingRules();        // ops_pooling.cc
std::span<const OpRule> RecurrentRules();      // ops_recurrent.cc
std::span<const OpRule> ViewRules();           // ops_views.cc

// Types of what is made on the way.
inline TensorType LikeInput(const CallTypes& call) { return call.in(0); }
inline TensorType LikeOutput(const CallTypes& call) { return call.out(0); }
inline TensorType ScalarLikeOutput(const CallTypes& call) { return {call.out(0).dtype, {}}; }

// The strides of an elementwise kernel's result.
Dims AsOperands(const CallTypes& call);  // ops_elementwise.cc

}  // namespace onnxfit
