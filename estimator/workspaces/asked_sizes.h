// What a library asks for on a card, as a program under `onnxfit run` wants to know: a question and
// an answer of one line.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "estimator/base/device.h"

namespace onnxfit {

// Questions:
//
//   convolution CARD CUDNN PASS TYPE ORDER X W Y STRIDE PADDING DILATION
//   convolution 0 91900 forward float32 first 4,3,8,8 16,3,3,3 4,16,8,8 1,1 1,1 1,1
//
// CARD is a place in `cards`, CUDNN the library's version as it says it, PASS forward,
// data_gradient or weight_gradient, ORDER first (NCHW) or last (NHWC); sizes are as cuDNN gets
// them, which has no transposed convolutions and no one-dimensional ones.  The answer is the
// workspace in bytes, and "final" behind it where that goes before what cuDNN plans for a card that
// is described: measured in that very call, or of a product of matrices, which it does not plan so.
//
//   recurrent TYPE CARD ALGORITHM GATES INPUT HIDDEN PROJECTED LAYERS DIRECTIONS DROPS PACKED STEPS
//   BATCH ROWS recurrent float32 0 0 4 32 64 0 2 1 0 0 20 8 160
//
// Layers of LSTM, GRU (3 gates) or RNN (1), ALGORITHM as cudnnRNNAlgo_t numbers them.  The answer
// is the space of their weights, what is kept for backward, and what they work in, in training and
// in inference.
//
//   dropout-states CARD
//
// The states of cuDNN's dropout.
//
// "" where there is no answer, or this is no question.
std::string AnswerTo(std::string_view question, const std::vector<DeviceProfile>& cards);

}  // namespace onnxfit
