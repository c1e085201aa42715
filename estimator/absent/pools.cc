// Pools of cudaMallocAsync, by the runtime and the driver.  A pool gives back what it is not to
// keep when a stream is waited for: at once, here, where kernels take no time.  That the driver
// takes more at once than a request needs is not modelled: what a pool reserves is the least.
#include "estimator/absent/pools.h"

#include <cstdint>
#include <cstring>

#include "estimator/absent/contexts.h"
#include "estimator/absent/host_memory.h"
#include "estimator/absent/memory.h"
#include "estimator/absent/run_folder.h"
#include "estimator/absent/status.h"

namespace onnxfit::absent {
namespace {

// Those of each card, by device.
struct CardPools {
  Pool first[kMostCards];
  Pool* current[kMostCards];

  CardPools() {
    for (int device = 0; device < kMostCards; ++device) {
      first[device].device = device;
      current[device] = &first[device];
    }
  }
};

CardPools& All() {
  static auto* const pools = new CardPools;  // outlives destructors
  return *pools;
}

// cudaMemPoolAttr and CUmemPool_attribute (CUDA 13.0): the first three are switches.
enum PoolAttribute {
  kReleaseThreshold = 4,
  kReservedNow = 5,
  kReservedMost = 6,
  kUsedNow = 7,
  kUsedMost = 8,
};
constexpr int kLastSwitch = 3;

int64_t ValueOf(const Pool& pool, int attribute) {
  switch (attribute) {
    case kReleaseThreshold:
      return pool.kept_bytes;
    case kReservedNow:
      return pool.reserved_bytes;
    case kReservedMost:
      return pool.most_reserved_bytes;
    case kUsedNow:
      return pool.used_bytes;
    case kUsedMost:
      return pool.most_used_bytes;
    default:
      return 0;
  }
}

Status GetAttribute(const Pool* pool, int attribute, void* value) {
  if (pool == nullptr || attribute < 1) return kInvalidValue;
  const int64_t found = ValueOf(Read(*pool), attribute);
  const int is_on = 1;
  if (attribute <= kLastSwitch) {
    std::memcpy(value, &is_on, sizeof is_on);
  } else {
    std::memcpy(value, &found, sizeof found);
  }
  return kSuccess;
}

// The highest can be set to 0 alone, which forgets them (cuda.h).
Status SetAttribute(Pool* pool, int attribute, const void* value) {
  if (pool == nullptr || attribute < 1) return kInvalidValue;
  if (attribute <= kLastSwitch) return kSuccess;
  uint64_t number = 0;
  std::memcpy(&number, value, sizeof number);
  if (attribute == kReleaseThreshold) {
    pool->kept_bytes = static_cast<int64_t>(number > INT64_MAX ? INT64_MAX : number);
    return kSuccess;
  }
  const bool is_most = attribute == kReservedMost || attribute == kUsedMost;
  if (!is_most || number != 0) return kInvalidValue;
  ForgetMost(*pool, attribute == kUsedMost);
  return kSuccess;
}

// The members that cudaMemPoolProps and CUmemPoolProps begin with (CUDA 11.2 to 13.0).
struct PoolProperties {
  int type;
  int handle_types;
  int location_type;
  int location;
};
constexpr int kOnCard = 1;

Status Create(Pool** pool, const PoolProperties* properties) {
  const bool is_of_host = properties != nullptr && properties->location_type != kOnCard;
  const int device = properties == nullptr || is_of_host ? 0 : properties->location;
  if (!HasCard(device)) return kInvalidDevice;
  *pool = new Pool{.device = device, .is_of_host = is_of_host};
  return kSuccess;
}

// What is used of it stays, and is given back as it is freed.
Status Destroy(Pool* pool) {
  if (pool == nullptr || pool == &DefaultPool(pool->device)) return kInvalidValue;
  Pool*& current = All().current[pool->device];
  if (current == pool) current = &DefaultPool(pool->device);
  pool->kept_bytes = 0;
  TrimPool(*pool, 0);
  if (pool->page_bytes == 0) delete pool;
  return kSuccess;
}

Status Take(void** pointer, size_t bytes, Pool* pool) {
  *pointer = nullptr;
  if (pool == nullptr || bytes == 0) return pool == nullptr ? kInvalidValue : kSuccess;
  if (!pool->is_of_host) return Allocate(pool->device, bytes, pointer, pool);
  *pointer = AllocatePinned(bytes);
  return *pointer == nullptr ? kOutOfMemory : kSuccess;
}

Status TakeOfCard(void** pointer, size_t bytes) {
  *pointer = nullptr;
  return HasCard(CurrentDevice()) ? Take(pointer, bytes, All().current[CurrentDevice()])
                                  : kNoDevice;
}

Status Give(void* pointer) {
  return pointer == nullptr || Free(pointer) || FreePinned(pointer) || FreeManaged(pointer)
             ? kSuccess
             : kInvalidValue;
}

Status PoolOf(int device, Pool* const* pools, Pool** pool) {
  if (!HasCard(device)) return kInvalidDevice;
  *pool = pools[device];
  return kSuccess;
}

Status FirstPoolOf(int device, Pool** pool) {
  if (!HasCard(device)) return kInvalidDevice;
  *pool = &DefaultPool(device);
  return kSuccess;
}

Status SetPool(int device, Pool* pool) {
  if (!HasCard(device) || pool == nullptr) return kInvalidValue;
  All().current[device] = pool;
  return kSuccess;
}

Status TrimTo(Pool* pool, size_t kept_bytes) {
  if (pool == nullptr) return kInvalidValue;
  TrimPool(*pool, static_cast<int64_t>(kept_bytes > INT64_MAX ? INT64_MAX : kept_bytes));
  return kSuccess;
}

// Of the runtime's: with a context.
template <class Function>
Status WithContext(Function function) {
  const Status status = EnterContext();
  return Said(status == kSuccess ? function() : status);
}

}  // namespace

Pool& DefaultPool(int device) { return All().first[device]; }

ABSENT_API Status cudaMallocAsync(void** pointer, size_t bytes, void*) {
  return WithContext([=] { return TakeOfCard(pointer, bytes); });
}
ABSENT_API Status cudaMallocFromPoolAsync(void** pointer, size_t bytes, Pool* pool, void*) {
  return WithContext([=] { return Take(pointer, bytes, pool); });
}
ABSENT_API Status cudaFreeAsync(void* pointer, void*) {
  return WithContext([=] { return Give(pointer); });
}
ABSENT_API Status cudaDeviceGetDefaultMemPool(Pool** pool, int device) {
  return Said(FirstPoolOf(device, pool));
}
ABSENT_API Status cudaDeviceGetMemPool(Pool** pool, int device) {
  return Said(PoolOf(device, All().current, pool));
}
ABSENT_API Status cudaDeviceSetMemPool(int device, Pool* pool) {
  return Said(SetPool(device, pool));
}
ABSENT_API Status cudaMemPoolCreate(Pool** pool, const PoolProperties* properties) {
  return Said(Create(pool, properties));
}
ABSENT_API Status cudaMemPoolDestroy(Pool* pool) { return Said(Destroy(pool)); }
ABSENT_API Status cudaMemPoolGetAttribute(Pool* pool, int attribute, void* value) {
  return Said(GetAttribute(pool, attribute, value));
}
ABSENT_API Status cudaMemPoolSetAttribute(Pool* pool, int attribute, void* value) {
  return Said(SetAttribute(pool, attribute, value));
}
ABSENT_API Status cudaMemPoolTrimTo(Pool* pool, size_t kept_bytes) {
  return Said(TrimTo(pool, kept_bytes));
}

ABSENT_API Status cuMemAllocAsync(void** pointer, size_t bytes, void*) {
  return bytes == 0 ? kInvalidValue : TakeOfCard(pointer, bytes);
}
ABSENT_API Status cuMemAllocFromPoolAsync(void** pointer, size_t bytes, Pool* pool, void*) {
  return bytes == 0 ? kInvalidValue : Take(pointer, bytes, pool);
}
ABSENT_API Status cuMemFreeAsync(void* pointer, void*) { return Give(pointer); }
ABSENT_API Status cuDeviceGetDefaultMemPool(Pool** pool, int device) {
  return FirstPoolOf(device, pool);
}
ABSENT_API Status cuDeviceGetMemPool(Pool** pool, int device) {
  return PoolOf(device, All().current, pool);
}
ABSENT_API Status cuDeviceSetMemPool(int device, Pool* pool) { return SetPool(device, pool); }
ABSENT_API Status cuMemPoolCreate(Pool** pool, const PoolProperties* properties) {
  return Create(pool, properties);
}
ABSENT_API Status cuMemPoolDestroy(Pool* pool) { return Destroy(pool); }
ABSENT_API Status cuMemPoolGetAttribute(Pool* pool, int attribute, void* value) {
  return GetAttribute(pool, attribute, value);
}
ABSENT_API Status cuMemPoolSetAttribute(Pool* pool, int attribute, void* value) {
  return SetAttribute(pool, attribute, value);
}
ABSENT_API Status cuMemPoolTrimTo(Pool* pool, size_t kept_bytes) {
  return TrimTo(pool, kept_bytes);
}

}  // namespace onnxfit::absent
