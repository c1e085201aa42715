// cuDNN's backend: the real library plans, in the program, for the card that is described to it
// instead of a handle (documented since 9.8).  So an engine's scratch is what it would be there;
// nothing is carried out.  Below 9.8, or where it refuses the card, there is one engine for
// everything, which takes no scratch, and the run says so.
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "estimator/absent/cudnn_properties.h"
#include "estimator/absent/current.h"
#include "estimator/absent/events.h"
#include "estimator/absent/status.h"

namespace onnxfit::absent {
namespace {

using Descriptor = void*;

// cudnn_graph.h (9.19.0).
enum Attribute {
  kHeuristicsGraph = 201,
  kHeuristicsResults = 202,
  kHeuristicsCard = 204,
  kConfigEngine = 300,
  kConfigWorkspace = 303,
  kPlanHandle = 400,
  kPlanConfig = 401,
  kPlanWorkspace = 402,
  kPlanCard = 407,
  kForwardFilter = 703,
  kDataFilter = 709,
  kFilterGradient = 715,
  kGraphHandle = 800,
  kGraphOperations = 801,
  kTensorDimensions = 902,
  kEngineGraph = 1300,
  kKnobs = 1302,
  kNumericalNotes = 1303,
  kBehaviorNotes = 1305,
  kEngineCard = 1307,
  kCardAsJson = 2702,
};
constexpr int kEngineDescriptor = 2;
constexpr int kCardDescriptor = 38;
constexpr int kInt64 = 3;
constexpr int kDouble = 4;
constexpr int kDescriptors = 15;
constexpr int kBehaviorNote = 19;
constexpr int kCompilesAtRunTime = 0;  // CUDNN_BEHAVIOR_NOTE_RUNTIME_COMPILATION
constexpr int kChars = 24;
constexpr size_t kFirstVersion = 90800;

// The real library's functions, or nulls.
struct Backend {
  size_t (*version)() = nullptr;
  size_t (*cuda_version)() = nullptr;
  Status (*create)(int, Descriptor*) = nullptr;
  Status (*destroy)(Descriptor) = nullptr;
  Status (*finalize)(Descriptor) = nullptr;
  Status (*set)(Descriptor, int, int, int64_t, const void*) = nullptr;
  Status (*get)(Descriptor, int, int, int64_t, int64_t*, void*) = nullptr;
};

template <class Function>
void Find(const char* name, Function& function) {
  function = reinterpret_cast<Function>(RealFunction(name));
}

Backend FindBackend() {
  Backend backend;
  Find("cudnnGetVersion", backend.version);
  Find("cudnnGetCudartVersion", backend.cuda_version);
  Find("cudnnBackendCreateDescriptor", backend.create);
  Find("cudnnBackendDestroyDescriptor", backend.destroy);
  Find("cudnnBackendFinalize", backend.finalize);
  Find("cudnnBackendSetAttribute", backend.set);
  Find("cudnnBackendGetAttribute", backend.get);
  const bool is_all = backend.create != nullptr && backend.destroy != nullptr &&
                      backend.finalize != nullptr && backend.set != nullptr &&
                      backend.get != nullptr;
  const bool plans = is_all && backend.version != nullptr && backend.version() >= kFirstVersion;
  return plans ? backend : Backend();
}

const Backend& Real() {
  static const Backend backend = FindBackend();
  return backend;
}

std::mutex& Mutex() {
  static auto* const mutex = new std::mutex;  // outlives destructors
  return *mutex;
}

// Describes a card; null where cuDNN refuses it.
Descriptor Describe(const AbsentCard& card) {
  Descriptor described = nullptr;
  const std::string json = CudnnPropertiesOf(card, Real().cuda_version());
  const bool is_good = Real().create(kCardDescriptor, &described) == kSuccess &&
                       Real().set(described, kCardAsJson, kChars, static_cast<int64_t>(json.size()),
                                  json.data()) == kSuccess &&
                       Real().finalize(described) == kSuccess;
  if (!is_good) WriteUnknownSize("cuDNN's plans");
  return is_good ? described : nullptr;
}

// Of the card that the thread works on.
Descriptor CardDescriptor() {
  static auto* const known = new std::map<int, Descriptor>;
  const std::lock_guard lock(Mutex());
  const int place = CurrentCard().place;
  const auto found = known->find(place);
  if (found != known->end()) return found->second;
  return (*known)[place] = Describe(CurrentCard());
}

bool Plans() {
  return Real().create != nullptr && HasCard(CurrentDevice()) && CardDescriptor() != nullptr;
}

// --- Windows of one element ----------------------------------------------------------
// These run on cublasLt, which makes no plan without a card; what cuDNN names instead is another
// engine's scratch (benchmarks/convolutions).  So which plan is one is followed from the filter on.

std::map<Descriptor, bool>& Points() {
  static auto* const points = new std::map<Descriptor, bool>;
  return *points;
}

bool IsPoint(Descriptor descriptor) {
  const std::lock_guard lock(Mutex());
  const auto found = Points().find(descriptor);
  return found != Points().end() && found->second;
}

void Mark(Descriptor descriptor, bool is_point) {
  const std::lock_guard lock(Mutex());
  Points()[descriptor] = is_point;
}

bool HasWindowOfOne(const int64_t* dims, int64_t count) {
  bool is_one = count > 2;
  for (int64_t i = 2; i < count; ++i) is_one = is_one && dims[i] == 1;
  return is_one;
}

void FollowPoint(Descriptor descriptor, int attribute, int64_t count, const void* values) {
  switch (attribute) {
    case kTensorDimensions:
      Mark(descriptor, HasWindowOfOne(static_cast<const int64_t*>(values), count));
      break;
    case kForwardFilter:
    case kDataFilter:
    case kFilterGradient:
    case kGraphOperations:
    case kHeuristicsGraph:
    case kPlanConfig:
    case kEngineGraph:
    case kConfigEngine:
      Mark(descriptor, IsPoint(*static_cast<const Descriptor*>(values)));
      break;
    default:
      break;
  }
}

// --- Plans that would compile ----------------------------------------------------------
// To finalize a plan of some engines compiles their kernel, which nobody runs: 0.4 s each, 13 s for
// a ResNet-50 with cudnn.benchmark.  The engine's configuration has the same workspace (of 2752
// plans of it all, cuDNN 9.19 for compute capability 8.6), so such a plan is finalized when more
// than that is asked of it.

std::map<Descriptor, Descriptor>& Configs() {  // of plans
  static auto* const configs = new std::map<Descriptor, Descriptor>;
  return *configs;
}

std::map<Descriptor, int64_t>& WaitingPlans() {  // and their workspaces
  static auto* const plans = new std::map<Descriptor, int64_t>;
  return *plans;
}

void NoteConfig(Descriptor plan, Descriptor config) {
  const std::lock_guard lock(Mutex());
  Configs()[plan] = config;
}

bool CompilesAtRunTime(Descriptor config) {
  Descriptor engine = nullptr;
  if (Real().create(kEngineDescriptor, &engine) != kSuccess) return false;
  int64_t count = 0;
  Real().get(config, kConfigEngine, kDescriptors, 1, &count, &engine);
  Real().get(engine, kBehaviorNotes, kBehaviorNote, 0, &count, nullptr);
  std::vector<int> notes(static_cast<size_t>(count), -1);  // as many as there are, else it refuses
  Real().get(engine, kBehaviorNotes, kBehaviorNote, count, &count, notes.data());
  Real().destroy(engine);
  return std::find(notes.begin(), notes.end(), kCompilesAtRunTime) != notes.end();
}

// Whether a plan may wait, which is then as good as finalized.
bool Waits(Descriptor plan) {
  const std::lock_guard lock(Mutex());
  const auto config = Configs().find(plan);
  if (config == Configs().end() || !CompilesAtRunTime(config->second)) return false;
  int64_t count = 0;
  int64_t bytes = 0;
  if (Real().get(config->second, kConfigWorkspace, kInt64, 1, &count, &bytes) != kSuccess)
    return false;
  WaitingPlans()[plan] = bytes;
  return true;
}

// The workspace of one that waits, and -1 of others; asked for anything else, it no longer waits.
int64_t WaitingWorkspace(Descriptor plan, int attribute) {
  const std::lock_guard lock(Mutex());
  const auto found = WaitingPlans().find(plan);
  if (found == WaitingPlans().end()) return -1;
  if (attribute == kPlanWorkspace) return found->second;
  WaitingPlans().erase(found);
  Real().finalize(plan);
  return -1;
}

// --- Without a library that plans ------------------------------------------------------

Status AnswerWithout(int attribute, int type, int64_t asked, int64_t* count, void* values) {
  const bool is_notes =
      attribute == kNumericalNotes || attribute == kBehaviorNotes || attribute == kEngineCard;
  if (count != nullptr) *count = is_notes ? 0 : 1;
  if (values == nullptr || asked <= 0 || is_notes || type == kDescriptors) return kSuccess;
  std::memset(values, 0, type == kInt64 || type == kDouble ? 8 : 4);
  if (attribute == kPlanWorkspace) WriteUnknownSize("cuDNN's plans");
  return kSuccess;
}

}  // namespace

ABSENT_API Status cudnnBackendCreateDescriptor(int type, Descriptor* descriptor) {
  if (Plans()) return Real().create(type, descriptor);
  *descriptor = NewHandle();
  return kSuccess;
}

ABSENT_API Status cudnnBackendDestroyDescriptor(Descriptor descriptor) {
  if (!Plans()) return kSuccess;
  {
    const std::lock_guard lock(Mutex());
    Points().erase(descriptor);
    Configs().erase(descriptor);
    WaitingPlans().erase(descriptor);
  }
  return Real().destroy(descriptor);
}

ABSENT_API Status cudnnBackendFinalize(Descriptor descriptor) {
  if (!Plans() || Waits(descriptor)) return kSuccess;
  return Real().finalize(descriptor);
}

ABSENT_API Status cudnnBackendSetAttribute(Descriptor descriptor, int attribute, int type,
                                           int64_t count, const void* values) {
  if (!Plans()) return kSuccess;
  FollowPoint(descriptor, attribute, count, values);
  Descriptor card = CardDescriptor();
  const auto set_card = [&](int where) {
    return Real().set(descriptor, where, kDescriptors, 1, &card);
  };
  if (attribute == kPlanConfig) NoteConfig(descriptor, *static_cast<const Descriptor*>(values));
  if (attribute == kGraphHandle) return kSuccess;
  if (attribute == kPlanHandle) return set_card(kPlanCard);
  if (attribute == kHeuristicsGraph) set_card(kHeuristicsCard);
  if (attribute == kEngineGraph) set_card(kEngineCard);
  return Real().set(descriptor, attribute, type, count, values);
}

ABSENT_API Status cudnnBackendGetAttribute(Descriptor descriptor, int attribute, int type,
                                           int64_t asked, int64_t* count, void* values) {
  if (!Plans()) return AnswerWithout(attribute, type, asked, count, values);
  int64_t own_count = 0;
  int64_t* const found = count == nullptr ? &own_count : count;
  const int64_t waiting = WaitingWorkspace(descriptor, attribute);
  if (waiting >= 0 && values != nullptr) std::memcpy(values, &waiting, sizeof waiting);
  if (waiting >= 0) *found = 1;
  const Status status =
      waiting >= 0 ? kSuccess : Real().get(descriptor, attribute, type, asked, found, values);
  if (status != kSuccess || values == nullptr) return status;
  if (attribute == kHeuristicsResults) {
    const int64_t filled = *found < asked ? *found : asked;
    for (int64_t i = 0; i < filled; ++i)
      Mark(static_cast<Descriptor*>(values)[i], IsPoint(descriptor));
  }
  if (attribute == kPlanWorkspace && IsPoint(descriptor)) *static_cast<int64_t*>(values) = 0;
  return status;
}

ABSENT_API Status cudnnBackendExecute(void*, Descriptor, Descriptor) { return kSuccess; }

}  // namespace onnxfit::absent
