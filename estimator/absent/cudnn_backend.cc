// cuDNN's backend: the real library plans, in the program, for the card that is described to it
// instead of a handle (documented since 9.8).  So an engine's scratch is what it would be there;
// nothing is carried out, nor compiled: what an engine says that it works in is what its plan asks
// for.  Convolutions that were measured on such a card are the command's (asks.h).  Below 9.8, or
// where it refuses the card, there is one engine for everything, which takes no scratch, and the
// run says so.
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <optional>
#include <string>

#include "estimator/absent/asks.h"
#include "estimator/absent/cudnn_layers.h"
#include "estimator/absent/current.h"
#include "estimator/absent/events.h"
#include "estimator/absent/status.h"

namespace onnxfit::absent {
namespace {

using Descriptor = CudnnDescriptor;

// cudnn_graph.h (9.19.0).
enum Attribute {
  kHeuristicsGraph = 201,
  kHeuristicsResults = 202,
  kHeuristicsCard = 204,
  kConfigEngine = 300,
  kConfigWorkspace = 303,
  kPlanHandle = 400,
  kPlanWorkspace = 402,
  kPlanCard = 407,
  kGraphHandle = 800,
  kEngineGraph = 1300,
  kNumericalNotes = 1303,
  kBehaviorNotes = 1305,
  kEngineCard = 1307,
  kCardAsJson = 2702,
};
constexpr int kEngineDescriptor = 2;
constexpr int kCardDescriptor = 38;
constexpr int kInt64 = 3;
constexpr int kDouble = 5;
constexpr int kDescriptors = 15;
constexpr int kBehaviors = 19;
constexpr int kChars = 24;
constexpr int kCompiles = 0;  // CUDNN_BEHAVIOR_NOTE_RUNTIME_COMPILATION
constexpr int kMostBehaviors = 16;
constexpr Status kCudnnNotSupported = 3000;

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
  const bool is_known = is_all && backend.version != nullptr && backend.cuda_version != nullptr;
  return is_known ? backend : Backend();
}

const Backend& Real() {
  static const Backend backend = FindBackend();
  return backend;
}

std::mutex& CardsMutex() {
  static auto* const mutex = new std::mutex;  // outlives destructors
  return *mutex;
}

// Describes a card; null where cuDNN refuses it.
Descriptor Describe(const AbsentCard& card) {
  Descriptor described = nullptr;
  const std::string json = CudnnPropertiesOf({.capability = card.capability,
                                              .multiprocessors = card.multiprocessors,
                                              .threads_per_multiprocessor = card.threads},
                                             Real().cuda_version());
  const bool is_known = Real().version() >= FirstCudnnVersion(card.capability) &&
                        card.capability >= LeastCapabilityOf(Real().cuda_version());
  const bool is_good = is_known && Real().create(kCardDescriptor, &described) == kSuccess &&
                       Real().set(described, kCardAsJson, kChars, static_cast<int64_t>(json.size()),
                                  json.data()) == kSuccess &&
                       Real().finalize(described) == kSuccess;
  if (!is_good) WriteUnknownSize("cuDNN's plans");
  return is_good ? described : nullptr;
}

// Of the card that the thread works on.
Descriptor CardDescriptor() {
  static auto* const known = new std::map<int, Descriptor>;
  const std::lock_guard lock(CardsMutex());
  const int place = CurrentCard().place;
  const auto found = known->find(place);
  if (found != known->end()) return found->second;
  return (*known)[place] = Describe(CurrentCard());
}

bool Plans() {
  return Real().create != nullptr && HasCard(CurrentDevice()) && CardDescriptor() != nullptr;
}

// Whose a descriptor is was decided when it was made, maybe on another card of which the library
// plans less, or more.
bool IsOfLibrary(Descriptor descriptor) {
  return Real().create != nullptr && !IsHandle(descriptor);
}

// --- Plans ------------------------------------------------------------------------------

// Whether the kernels of that engine are compiled when a plan is made: a second each.
bool CompilesKernels(Descriptor config) {
  Descriptor engine = nullptr;
  if (Real().create(kEngineDescriptor, &engine) != kSuccess) return false;
  int notes[kMostBehaviors] = {};
  int64_t count = 0;
  const bool is_known =
      Real().get(config, kConfigEngine, kDescriptors, 1, &count, &engine) == kSuccess &&
      Real().get(engine, kBehaviorNotes, kBehaviors, kMostBehaviors, &count, notes) == kSuccess;
  bool compiles = false;
  for (int64_t i = 0; is_known && i < count; ++i) compiles = compiles || notes[i] == kCompiles;
  Real().destroy(engine);
  return compiles;
}

// What an engine says that it works in; the same as its plan (benchmarks/convolutions: 4,000 on an
// H200).  Nullopt where its plan has to be made.
std::optional<int64_t> BytesWithoutPlan(Descriptor config) {
  if (config == nullptr || !CompilesKernels(config)) return std::nullopt;
  int64_t bytes = 0;
  int64_t count = 0;
  const Status status = Real().get(config, kConfigWorkspace, kInt64, 1, &count, &bytes);
  return status == kSuccess ? std::optional(bytes) : std::nullopt;
}

Status FinalizePlan(Descriptor plan) {
  const std::optional<int64_t> bytes = BytesWithoutPlan(ConfigOf(plan));
  const Status status = bytes ? kSuccess : Real().finalize(plan);
  if (status == kSuccess) NotePlan(plan, bytes);
  return status;
}

// What the command knows of a convolution.
struct KnownBytes {
  int64_t bytes = 0;
  bool is_final = false;  // else cuDNN's plan goes before it
};

std::optional<KnownBytes> FindKnownBytes(const CudnnLayer& layer) {
  const std::string text = LayerText(layer);
  if (text.empty()) return std::nullopt;
  const auto answer = AskCommand("convolution " + std::to_string(CurrentCard().place) + " " +
                                 std::to_string(Real().version()) + " " + text);
  if (!answer) return std::nullopt;
  char* end = nullptr;
  const int64_t bytes = std::strtoll(answer->c_str(), &end, 10);
  return KnownBytes{bytes, std::strcmp(end, " final") == 0};
}

// Windows of one element run on cublasLt, which makes no plan without a card; what cuDNN names
// instead is another engine's scratch (benchmarks/convolutions).  Where no command says more, none.
int64_t PlanBytes(Descriptor plan, int64_t planned) {
  const auto layer = LayerOf(plan);
  if (layer == nullptr || !IsFirstPlan(plan)) return planned;
  const std::optional<KnownBytes> known = FindKnownBytes(*layer);
  if (known && known->is_final) return known->bytes;
  if (known || !IsPoint(*layer)) return planned;
  WriteUnknownSize("cuDNN's plans of 1 x 1 convolutions");
  return 0;
}

Status GetPlanBytes(Descriptor plan, int64_t* count, void* values) {
  const std::optional<int64_t> noted = NotedBytes(plan);
  if (noted) {
    if (count != nullptr) *count = 1;
    std::memcpy(values, &*noted, sizeof *noted);
  }
  int64_t own_count = 0;
  const Status status = noted ? kSuccess
                              : Real().get(plan, kPlanWorkspace, kInt64, 1,
                                           count == nullptr ? &own_count : count, values);
  if (status != kSuccess) return status;
  int64_t& bytes = *static_cast<int64_t*>(values);
  bytes = PlanBytes(plan, bytes);
  return kSuccess;
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
  if (FreeHandle(descriptor) || !IsOfLibrary(descriptor)) return kSuccess;
  ForgetCudnn(descriptor);
  return Real().destroy(descriptor);
}

ABSENT_API Status cudnnBackendFinalize(Descriptor descriptor) {
  if (!IsOfLibrary(descriptor)) return kSuccess;
  return ConfigOf(descriptor) != nullptr ? FinalizePlan(descriptor) : Real().finalize(descriptor);
}

ABSENT_API Status cudnnBackendSetAttribute(Descriptor descriptor, int attribute, int type,
                                           int64_t count, const void* values) {
  if (!IsOfLibrary(descriptor)) return kSuccess;
  if (!Plans()) return kCudnnNotSupported;
  FollowCudnn(descriptor, attribute, count, values);
  Descriptor card = CardDescriptor();
  const auto set_card = [&](int where) {
    return Real().set(descriptor, where, kDescriptors, 1, &card);
  };
  if (attribute == kGraphHandle) return kSuccess;
  if (attribute == kPlanHandle) return set_card(kPlanCard);
  if (attribute == kHeuristicsGraph) set_card(kHeuristicsCard);
  if (attribute == kEngineGraph) set_card(kEngineCard);
  return Real().set(descriptor, attribute, type, count, values);
}

ABSENT_API Status cudnnBackendGetAttribute(Descriptor descriptor, int attribute, int type,
                                           int64_t asked, int64_t* count, void* values) {
  if (!IsOfLibrary(descriptor)) return AnswerWithout(attribute, type, asked, count, values);
  if (attribute == kPlanWorkspace && asked > 0 && values != nullptr)
    return GetPlanBytes(descriptor, count, values);
  int64_t own_count = 0;
  int64_t* const found = count == nullptr ? &own_count : count;
  const Status status = Real().get(descriptor, attribute, type, asked, found, values);
  if (status != kSuccess || values == nullptr || attribute != kHeuristicsResults) return status;
  const int64_t filled = *found < asked ? *found : asked;
  for (int64_t i = 0; i < filled; ++i)
    FollowEngine(descriptor, static_cast<Descriptor*>(values)[i], i);
  return status;
}

ABSENT_API Status cudnnBackendExecute(void*, Descriptor, Descriptor) { return kSuccess; }

}  // namespace onnxfit::absent
