// What functions of CUDA return.  The runtime and the driver number these alike (driver_types.h,
// cuda.h of CUDA 13.0).
#pragma once

namespace onnxfit::absent {

using Status = int;

inline constexpr Status kSuccess = 0;
inline constexpr Status kInvalidValue = 1;
inline constexpr Status kOutOfMemory = 2;
inline constexpr Status kNoDevice = 100;
inline constexpr Status kInvalidDevice = 101;
inline constexpr Status kInvalidContext = 201;  // the driver's
inline constexpr Status kInvalidHandle = 400;
inline constexpr Status kIllegalState = 401;
inline constexpr Status kNotFound = 500;
inline constexpr Status kAlreadyRegistered = 712;  // host memory
inline constexpr Status kNotRegistered = 713;
inline constexpr Status kNotSupported = 801;

// What cudaGetLastError says, of this thread.
Status& LastStatus();

// Keeps it where it is an error.
inline Status Said(Status status) {
  if (status != kSuccess) LastStatus() = status;
  return status;
}

}  // namespace onnxfit::absent

// A function that the program finds in the place of CUDA's.
#define ABSENT_API extern "C" __attribute__((visibility("default")))
