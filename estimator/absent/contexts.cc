#include "estimator/absent/contexts.h"

#include <unistd.h>

#include <mutex>
#include <set>

#include "estimator/absent/askers.h"
#include "estimator/absent/counts.h"
#include "estimator/absent/events.h"
#include "estimator/absent/memory.h"
#include "estimator/absent/pools.h"

namespace onnxfit::absent {
namespace {

constexpr int kMostPushed = 64;

// What a thread works with; below it, what it will work with once that is popped.  Without a
// destructor, since programs call CUDA as they end.
struct Thread {
  Context* contexts[kMostPushed];
  int count;
  int chosen;  // by the runtime

  Context* top() const { return count == 0 ? nullptr : contexts[count - 1]; }
};

Thread& OwnThread() {
  static thread_local Thread thread = {};
  return thread;
}

// Contexts of this process.  Bytes of a card are counted once, however many it has there: what a
// second one takes nobody has measured.
class Contexts {
 public:
  Contexts() {
    for (int device = 0; device < kMostCards; ++device) handles_[device].device = device;
  }

  bool Has(int device) {
    const std::lock_guard lock(mutex_);
    ForgetParent();
    return primaries_[device].exists;
  }

  bool Ensure(int device) {
    const std::lock_guard lock(mutex_);
    ForgetParent();
    return counts_[device] > 0 || EnsurePrimary(device);
  }

  // The runtime retains it itself until a reset.
  bool EnsureForRuntime(int device) {
    const std::lock_guard lock(mutex_);
    ForgetParent();
    return primaries_[device].is_of_runtime = EnsurePrimary(device);
  }

  bool Retain(int device) {
    const std::lock_guard lock(mutex_);
    ForgetParent();
    if (!EnsurePrimary(device)) return false;
    ++primaries_[device].retained;
    return true;
  }

  bool Release(int device) {
    const std::lock_guard lock(mutex_);
    ForgetParent();
    PrimaryState& primary = primaries_[device];
    if (primary.retained == 0) return false;
    if (--primary.retained == 0 && !primary.is_of_runtime) RemovePrimary(device);
    return true;
  }

  void Reset(int device) {
    const std::lock_guard lock(mutex_);
    ForgetParent();
    if (primaries_[device].exists) RemovePrimary(device);
  }

  Context* Create(int device) {
    const std::lock_guard lock(mutex_);
    ForgetParent();
    if (!Add(device)) return nullptr;
    auto* const context = new Context{.device = device};
    created_.insert(context);
    return context;
  }

  // The handle stays: it may be current to other threads.
  bool Destroy(Context* context) {
    const std::lock_guard lock(mutex_);
    ForgetParent();
    if (created_.erase(context) == 0) return false;
    Remove(context->device);
    return true;
  }

  Context* Primary(int device) { return &handles_[device]; }

 private:
  struct PrimaryState {
    bool exists = false;
    bool is_of_runtime = false;
    int retained = 0;
  };

  // A child that was forked has none of its parent's.
  void ForgetParent() {
    const int32_t pid = getpid();
    if (owner_ == pid) return;
    owner_ = pid;
    for (int device = 0; device < kMostCards; ++device) {
      primaries_[device] = {};
      counts_[device] = 0;
      is_told_[device] = false;
    }
    created_.clear();
  }

  bool EnsurePrimary(int device) {
    if (!primaries_[device].exists) primaries_[device].exists = Add(device);
    return primaries_[device].exists;
  }

  void RemovePrimary(int device) {
    primaries_[device] = {};
    Remove(device);
  }

  bool Add(int device) {
    if (counts_[device] == 0 && !TakeFirst(Machine().cards[static_cast<size_t>(device)]))
      return false;
    ++counts_[device];
    return true;
  }

  bool TakeFirst(const AbsentCard& card) {
    GiveBackOfEnded();
    CountContexts(card.place, 1);
    if (!TakeBytes(card.place, card.context_bytes)) {
      CountContexts(card.place, -1);
      WriteEvent({"full", card.place, 0, card.context_bytes, {}});
      return false;
    }
    if (!is_told_[card.place]) WriteEvent({"context", card.place, 0, card.context_bytes, {}});
    is_told_[card.place] = true;
    if (IsPython()) WritePython();
    return true;
  }

  void Remove(int device) {
    if (--counts_[device] > 0) return;
    FreeAllOf(device);
    TrimPool(DefaultPool(device), 0);
    const AbsentCard& card = Machine().cards[static_cast<size_t>(device)];
    GiveBytes(card.place, card.context_bytes);
    CountContexts(card.place, -1);
  }

  std::mutex mutex_;
  int32_t owner_ = 0;
  PrimaryState primaries_[kMostCards];  // by device, as the next two
  Context handles_[kMostCards];
  int counts_[kMostCards] = {};
  bool is_told_[kMostCards] = {};  // by place
  std::set<Context*> created_;
};

Contexts& All() {
  static auto* const contexts = new Contexts;  // outlives destructors
  return *contexts;
}

Status NoContext(int device) { return HasCard(device) ? kOutOfMemory : kNoDevice; }

}  // namespace

int CurrentDevice() {
  const Thread& thread = OwnThread();
  return thread.top() == nullptr ? thread.chosen : thread.top()->device;
}

void ChooseDevice(int device) {
  OwnThread().chosen = device;
  PopContext();
  PushContext(PrimaryContext(device));
}

bool EnsureContext(int device) { return HasCard(device) && All().Ensure(device); }

bool HasContext(int device) { return HasCard(device) && All().Has(device); }

Status EnterContext() {
  const int device = CurrentDevice();
  const Context* const own = CurrentContext();
  if (own != nullptr && own != PrimaryContext(device)) return kSuccess;  // the driver made it
  if (!HasCard(device) || !All().EnsureForRuntime(device)) return NoContext(device);
  if (own == nullptr) PushContext(PrimaryContext(device));
  return kSuccess;
}

Context* PrimaryContext(int device) { return All().Primary(device); }

Status RetainPrimary(int device) {
  if (!HasCard(device)) return kInvalidDevice;
  return All().Retain(device) ? kSuccess : kOutOfMemory;
}

Status ReleasePrimary(int device) {
  if (!HasCard(device)) return kInvalidDevice;
  return All().Release(device) ? kSuccess : kInvalidContext;
}

void ResetPrimary(int device) {
  if (HasCard(device)) All().Reset(device);
}

Status CreateContext(int device, Context** context) {
  if (!HasCard(device)) return kInvalidDevice;
  *context = All().Create(device);
  if (*context == nullptr) return kOutOfMemory;
  PushContext(*context);
  return kSuccess;
}

Status DestroyContext(Context* context) {
  if (context == nullptr) return kInvalidValue;
  if (CurrentContext() == context) PopContext();
  return All().Destroy(context) ? kSuccess : kInvalidContext;
}

Context* CurrentContext() { return OwnThread().top(); }

void PushContext(Context* context) {
  Thread& thread = OwnThread();
  if (thread.count < kMostPushed) thread.contexts[thread.count++] = context;
}

Context* PopContext() {
  Thread& thread = OwnThread();
  return thread.count == 0 ? nullptr : thread.contexts[--thread.count];
}

}  // namespace onnxfit::absent
