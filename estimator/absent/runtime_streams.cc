// The CUDA runtime: streams, events and graphs.  Everything is done at once, so nothing has to be
// waited for; host functions really run, in the thread that asks.
#include <map>
#include <mutex>

#include "estimator/absent/captures.h"
#include "estimator/absent/current.h"
#include "estimator/absent/status.h"

extern "C" int cudaRuntimeGetVersion(int* version);  // runtime_device.cc

namespace onnxfit::absent {
namespace {

struct Capture {
  unsigned long long number = 0;
  void* graph = nullptr;
};

struct Captures {
  std::mutex mutex;
  std::map<void*, Capture> living;  // by stream
  unsigned long long last = 0;
};

Captures& All() {
  static auto* const captures = new Captures;  // outlives destructors
  return *captures;
}

}  // namespace

void BeginCapture(void* stream, void* graph) {
  if (graph == nullptr) graph = NewHandle();
  const std::lock_guard lock(All().mutex);
  All().living[stream] = {++All().last, graph};
}

namespace {
Capture Find(void* stream) {
  const std::lock_guard lock(All().mutex);
  const auto found = All().living.find(stream);
  return found == All().living.end() ? Capture{} : found->second;
}
}  // namespace

void* EndCapture(void* stream) {
  void* const graph = Find(stream).graph;
  const std::lock_guard lock(All().mutex);
  All().living.erase(stream);
  return graph;
}

unsigned long long CaptureOf(void* stream) { return Find(stream).number; }

void TellCapture(void* stream, int* status, unsigned long long* number, void** graph) {
  const Capture capture = Find(stream);
  *status = capture.number != 0 ? 1 : 0;
  if (number != nullptr) *number = capture.number;
  if (graph != nullptr) *graph = capture.graph;
}

namespace {
Status FreshInContext(void** handle) {
  const Status status = EnterContext();
  return Said(status == kSuccess ? Fresh(handle) : status);
}
}  // namespace

ABSENT_API Status cudaStreamCreate(void** stream) { return FreshInContext(stream); }
ABSENT_API Status cudaStreamCreateWithFlags(void** stream, unsigned) {
  return FreshInContext(stream);
}
ABSENT_API Status cudaStreamCreateWithPriority(void** stream, unsigned, int) {
  return FreshInContext(stream);
}
ABSENT_API Status cudaEventCreate(void** event) { return FreshInContext(event); }
ABSENT_API Status cudaEventCreateWithFlags(void** event, unsigned) { return FreshInContext(event); }

// Nothing takes time; but what divides by it is not to divide by nothing.
ABSENT_API Status cudaEventElapsedTime(float* milliseconds, void*, void*) {
  *milliseconds = 1;
  return kSuccess;
}
ABSENT_API Status cudaEventElapsedTime_v2(float* milliseconds, void*, void*) {
  *milliseconds = 1;
  return kSuccess;
}

ABSENT_API Status cudaLaunchHostFunc(void*, void (*function)(void*), void* data) {
  function(data);
  return kSuccess;
}
ABSENT_API Status cudaStreamAddCallback(void* stream, void (*function)(void*, Status, void*),
                                        void* data, unsigned) {
  function(stream, kSuccess, data);
  return kSuccess;
}

namespace {
Status Begin(void* stream, void* graph) {
  const Status status = EnterContext();
  if (status == kSuccess) BeginCapture(stream, graph);
  return Said(status);
}
}  // namespace

ABSENT_API Status cudaStreamBeginCapture(void* stream, int) { return Begin(stream, nullptr); }
ABSENT_API Status cudaStreamBeginCaptureToGraph(void* stream, void* graph, const void*, const void*,
                                                size_t, int) {
  return Begin(stream, graph);
}
ABSENT_API Status cudaStreamEndCapture(void* stream, void** graph) {
  *graph = EndCapture(stream);
  return Said(*graph == nullptr ? kIllegalState : kSuccess);
}
ABSENT_API Status cudaStreamIsCapturing(void* stream, int* status) {
  TellCapture(stream, status, nullptr, nullptr);
  return Said(EnterContext());
}

// CUDA 13; in 12 the symbol had three arguments, of which none is written beyond.
ABSENT_API Status cudaStreamGetCaptureInfo_v2(void* stream, int* status, unsigned long long* number,
                                              void** graph, void** dependencies, size_t* count) {
  if (dependencies != nullptr) *dependencies = nullptr;
  if (count != nullptr) *count = 0;
  TellCapture(stream, status, number, graph);
  return Said(EnterContext());
}
ABSENT_API Status cudaStreamGetCaptureInfo_v3(void* stream, int* status, unsigned long long* number,
                                              void** graph, void** dependencies, void** edges,
                                              size_t* count) {
  if (edges != nullptr) *edges = nullptr;
  return cudaStreamGetCaptureInfo_v2(stream, status, number, graph, dependencies, count);
}
ABSENT_API Status cudaStreamGetCaptureInfo(void* stream, int* status, unsigned long long* number,
                                           void** graph, void** dependencies, void** edges,
                                           size_t* count) {
  int version = 0;
  cudaRuntimeGetVersion(&version);
  if (version < 13000)
    return cudaStreamGetCaptureInfo_v2(stream, status, number, nullptr, nullptr, nullptr);
  return cudaStreamGetCaptureInfo_v3(stream, status, number, graph, dependencies, edges, count);
}

ABSENT_API Status cudaStreamGetCaptureInfo_ptsz(void* stream, int* status,
                                                unsigned long long* number, void** graph,
                                                void** dependencies, void** edges, size_t* count) {
  return cudaStreamGetCaptureInfo(stream, status, number, graph, dependencies, edges, count);
}

namespace {

// Of a graph without edges.  CUDA 13 put what is known of edges in front of their count.
Status NoEdges(void* edges, size_t* count) {
  int version = 0;
  cudaRuntimeGetVersion(&version);
  size_t* const edge_count = version < 13000 ? static_cast<size_t*>(edges) : count;
  if (edge_count != nullptr) *edge_count = 0;
  return kSuccess;
}

}  // namespace

ABSENT_API Status cudaGraphGetEdges(void*, void*, void*, void* edges, size_t* count) {
  return NoEdges(edges, count);
}
ABSENT_API Status cudaGraphNodeGetDependencies(void*, void*, void* edges, size_t* count) {
  return NoEdges(edges, count);
}
ABSENT_API Status cudaGraphNodeGetDependentNodes(void*, void*, void* edges, size_t* count) {
  return NoEdges(edges, count);
}

ABSENT_API Status cudaGraphCreate(void** graph, unsigned) { return FreshInContext(graph); }
ABSENT_API Status cudaGraphInstantiate(void** runnable, void*, unsigned long long) {
  return Fresh(runnable);
}
ABSENT_API Status cudaGraphInstantiateWithFlags(void** runnable, void*, unsigned long long) {
  return Fresh(runnable);
}

// One node: PyTorch takes a graph without any for a mistake.
ABSENT_API Status cudaGraphGetNodes(void*, void** nodes, size_t* count) {
  if (nodes != nullptr && count != nullptr && *count > 0) *nodes = OneHandle();
  if (count != nullptr) *count = 1;
  return kSuccess;
}

}  // namespace onnxfit::absent
