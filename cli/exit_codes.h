// The exit codes of every command.
#pragma once

namespace onnxfit {

inline constexpr int kExitDone = 0;         // an answer, and every target given holds
inline constexpr int kExitTargetFails = 1;  // an answer, and a target does not hold
inline constexpr int kExitNoAnswer = 2;     // bad flag, unreadable model, free dimension
inline constexpr int kExitNoGpu = 3;        // a card at hand was asked for, and none can be used
inline constexpr int kExitStopped = 130;    // Ctrl-C, as shells count it: 128 + SIGINT

}  // namespace onnxfit
