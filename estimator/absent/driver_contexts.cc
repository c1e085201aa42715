// The CUDA driver: contexts.
#include "estimator/absent/contexts.h"
#include "estimator/absent/status.h"

namespace onnxfit::absent {
namespace {

Status Answer(Context** context, Context* found) {
  if (context != nullptr) *context = found;
  return kSuccess;
}

Status Popped(Context** context) {
  Context* const popped = PopContext();
  return popped == nullptr ? kInvalidContext : Answer(context, popped);
}

}  // namespace

ABSENT_API Status cuDevicePrimaryCtxRetain(Context** context, int device) {
  const Status status = RetainPrimary(device);
  return status == kSuccess ? Answer(context, PrimaryContext(device)) : status;
}
ABSENT_API Status cuDevicePrimaryCtxRelease_v2(int device) { return ReleasePrimary(device); }
ABSENT_API Status cuDevicePrimaryCtxRelease(int device) { return ReleasePrimary(device); }
ABSENT_API Status cuDevicePrimaryCtxReset_v2(int device) {
  ResetPrimary(device);
  return HasCard(device) ? kSuccess : kInvalidDevice;
}
ABSENT_API Status cuDevicePrimaryCtxReset(int device) { return cuDevicePrimaryCtxReset_v2(device); }

// PyTorch looks here before it sets a card, so that no other card gets a context by it.
ABSENT_API Status cuDevicePrimaryCtxGetState(int device, unsigned* flags, int* is_active) {
  if (!HasCard(device)) return kInvalidDevice;
  if (flags != nullptr) *flags = 0;
  if (is_active != nullptr) *is_active = HasContext(device) ? 1 : 0;
  return kSuccess;
}

ABSENT_API Status cuCtxCreate_v2(Context** context, unsigned, int device) {
  return CreateContext(device, context);
}
ABSENT_API Status cuCtxCreate(Context** context, unsigned, int device) {
  return CreateContext(device, context);
}
ABSENT_API Status cuCtxCreate_v3(Context** context, void*, int, unsigned, int device) {
  return CreateContext(device, context);
}
ABSENT_API Status cuCtxCreate_v4(Context** context, void*, unsigned, int device) {
  return CreateContext(device, context);
}
ABSENT_API Status cuCtxDestroy_v2(Context* context) { return DestroyContext(context); }
ABSENT_API Status cuCtxDestroy(Context* context) { return DestroyContext(context); }

ABSENT_API Status cuCtxGetCurrent(Context** context) { return Answer(context, CurrentContext()); }
ABSENT_API Status cuCtxSetCurrent(Context* context) {
  PopContext();
  if (context != nullptr) PushContext(context);
  return kSuccess;
}
ABSENT_API Status cuCtxPushCurrent_v2(Context* context) {
  if (context == nullptr) return kInvalidContext;
  PushContext(context);
  return kSuccess;
}
ABSENT_API Status cuCtxPushCurrent(Context* context) { return cuCtxPushCurrent_v2(context); }
ABSENT_API Status cuCtxPopCurrent_v2(Context** context) { return Popped(context); }
ABSENT_API Status cuCtxPopCurrent(Context** context) { return Popped(context); }

ABSENT_API Status cuStreamGetCtx(void*, Context** context) {
  return Answer(context, CurrentContext());
}
ABSENT_API Status cuCtxGetDevice(int* device) {
  if (CurrentContext() == nullptr) return kInvalidContext;
  *device = CurrentDevice();
  return kSuccess;
}
ABSENT_API Status cuCtxGetDevice_v2(int* device, Context* context) {
  if (context == nullptr) return cuCtxGetDevice(device);
  *device = context->device;
  return kSuccess;
}
ABSENT_API Status cuCtxGetApiVersion(void*, unsigned* version) {
  *version = static_cast<unsigned>(kDriverVersion);
  return kSuccess;
}

}  // namespace onnxfit::absent
