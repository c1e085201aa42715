// Which streams record a graph instead of running what they are given.
#pragma once

namespace onnxfit::absent {

// What is recorded goes into `graph`, a new one where that is null.
void BeginCapture(void* stream, void* graph = nullptr);

// The graph; null where the stream does not record.
void* EndCapture(void* stream);

// 0 where it does not record; else a number of the recording, as cudaStreamGetCaptureInfo tells it.
unsigned long long CaptureOf(void* stream);

// What both runtime and driver say of a stream; where there is room for it, for all but the first.
void TellCapture(void* stream, int* status, unsigned long long* number, void** graph);

}  // namespace onnxfit::absent
