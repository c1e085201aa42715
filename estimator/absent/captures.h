// Which streams record a graph instead of running what they are given.
#pragma once

namespace onnxfit::absent {

void BeginCapture(void* stream);
void EndCapture(void* stream);

// 0 where it does not record; else a number of the recording, as cudaStreamGetCaptureInfo tells it.
unsigned long long CaptureOf(void* stream);

}  // namespace onnxfit::absent
