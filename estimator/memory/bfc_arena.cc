#include "estimator/memory/bfc_arena.h"

#include <algorithm>
#include <cassert>
#include <limits>

namespace onnxfit {
namespace {

// onnxruntime 1.31, core/framework/bfc_arena.h and bfc_arena.cc.
constexpr int64_t kMinChunkBytes = 256;             // kMinAllocationSize
constexpr float kBackpedalFactor = 0.9F;            // kBackpedalFactor, a float there, too
constexpr int64_t kLeastExtensionBytes = 8 * kKiB;  // of an extension once refused
constexpr int32_t kReserved = -1;                   // in place of a region
constexpr ArenaHandle kNothing = -1;                // the handle of 0 bytes
constexpr int64_t kNoLimit = std::numeric_limits<int64_t>::max();

int64_t FirstStep(const ArenaConfig& config) {
  const bool is_limited = config.memory_limit_bytes > 0;
  const int64_t limit = is_limited ? config.memory_limit_bytes : kNoLimit;
  return RoundUp(std::min(limit, config.initial_chunk_bytes), kMinChunkBytes);
}

// What is tried after `bytes` were refused.
int64_t BackpedalBytes(int64_t bytes) {
  return RoundUp(static_cast<int64_t>(static_cast<float>(bytes) * kBackpedalFactor),
                 kMinChunkBytes);
}

}  // namespace

BfcArena::BfcArena(const ArenaConfig& config) : config_(config), step_bytes_(FirstStep(config)) {}

std::optional<ArenaHandle> BfcArena::Allocate(int64_t bytes) {
  assert(bytes >= 0);
  if (bytes == 0) return kNothing;
  const int64_t rounded_bytes = RoundUp(bytes, kMinChunkBytes);
  ChunkId id = FindFree(rounded_bytes);
  if (id == kNoChunk) {
    if (!Extend(rounded_bytes)) return std::nullopt;
    id = FindFree(rounded_bytes);
  }
  return Take(id, rounded_bytes);
}

std::optional<ArenaHandle> BfcArena::Reserve(int64_t bytes) {
  assert(bytes >= 0);
  if (bytes == 0) return kNothing;
  if (!DeviceHas(bytes)) return std::nullopt;
  total_bytes_ = CheckedAdd(total_bytes_, bytes);
  Count(bytes);
  return Add({.region = kReserved, .bytes = bytes});
}

void BfcArena::Free(ArenaHandle handle) {
  if (handle == kNothing) return;
  Chunk& chunk = At(handle);
  assert(!chunk.is_free);
  in_use_bytes_ -= chunk.bytes;
  if (chunk.region == kReserved) {
    total_bytes_ -= chunk.bytes;
    unused_.push_back(handle);
    return;
  }
  chunk.is_free = true;
  free_.insert(KeyOf(handle));
  const ChunkId previous = chunk.previous;
  if (CanJoin(handle, chunk.next)) JoinNext(handle);
  if (CanJoin(previous, handle)) JoinNext(previous);
}

void BfcArena::EndRun() {
  assert(in_run_);
  in_run_ = false;
  for (Chunk& chunk : chunks_) chunk.is_of_run = false;
  for (const Region& region : regions_) {
    for (ChunkId id = region.first; id != kNoChunk; id = At(id).next) {
      while (CanJoin(id, At(id).next)) JoinNext(id);
    }
  }
}

void BfcArena::Shrink() {
  const bool keeps_first = config_.extend_strategy == ExtendStrategy::kNextPowerOfTwo;
  std::erase_if(regions_, [&](const Region& region) {
    if (IsInUse(region) || (keeps_first && region.number == 0)) return false;
    GiveBack(region);
    return true;
  });
  step_bytes_ = config_.initial_growth_chunk_bytes;
}

BfcArena::Key BfcArena::KeyOf(ChunkId id) {
  const Chunk& chunk = At(id);
  return {.bytes = chunk.bytes, .region = chunk.region, .offset = chunk.offset, .id = id};
}

BfcArena::ChunkId BfcArena::Add(const Chunk& chunk) {
  if (unused_.empty()) {
    chunks_.push_back(chunk);
    return static_cast<ChunkId>(chunks_.size() - 1);
  }
  const ChunkId id = unused_.back();
  unused_.pop_back();
  At(id) = chunk;
  return id;
}

void BfcArena::Count(int64_t bytes) {
  in_use_bytes_ += bytes;
  max_in_use_bytes_ = std::max(max_in_use_bytes_, in_use_bytes_);
}

BfcArena::ChunkId BfcArena::FindFree(int64_t bytes) const {
  const auto found = free_.lower_bound({.bytes = bytes});
  return found == free_.end() ? kNoChunk : found->id;
}

// The rest of a chunk is split off if it is as large as the request, or too large to lie idle.
BfcArena::ChunkId BfcArena::Take(ChunkId id, int64_t bytes) {
  free_.erase(KeyOf(id));
  const int64_t dead_bytes = At(id).bytes - bytes;
  if (dead_bytes >= bytes || dead_bytes >= config_.max_dead_bytes_per_chunk) SplitTail(id, bytes);
  At(id).is_free = false;
  At(id).is_of_run = in_run_;
  Count(At(id).bytes);
  return id;
}

// Cuts a chunk after its first `bytes`.  The rest is free, and the run's only if the chunk was.
void BfcArena::SplitTail(ChunkId id, int64_t bytes) {
  Chunk tail = At(id);
  tail.offset += bytes;
  tail.bytes -= bytes;
  tail.previous = id;
  tail.is_free = true;
  const ChunkId tail_id = Add(tail);
  if (tail.next != kNoChunk) At(tail.next).previous = tail_id;
  At(id).next = tail_id;
  At(id).bytes = bytes;
  free_.insert(KeyOf(tail_id));
}

bool BfcArena::CanJoin(ChunkId front, ChunkId back) {
  return front != kNoChunk && back != kNoChunk && At(front).is_free && At(back).is_free &&
         At(front).is_of_run == At(back).is_of_run;
}

// A free chunk grows by the one behind it, which is free, too.
void BfcArena::JoinNext(ChunkId id) {
  const ChunkId back = At(id).next;
  free_.erase(KeyOf(id));
  free_.erase(KeyOf(back));
  At(id).bytes += At(back).bytes;
  At(id).next = At(back).next;
  if (At(id).next != kNoChunk) At(At(id).next).previous = id;
  unused_.push_back(back);
  free_.insert(KeyOf(id));
}

bool BfcArena::IsInUse(const Region& region) {
  for (ChunkId id = region.first; id != kNoChunk; id = At(id).next) {
    if (!At(id).is_free) return true;
  }
  return false;
}

void BfcArena::GiveBack(const Region& region) {
  for (ChunkId id = region.first; id != kNoChunk; id = At(id).next) {
    free_.erase(KeyOf(id));
    unused_.push_back(id);
  }
  total_bytes_ -= region.bytes;
}

// Adds a region that holds `bytes`.  A device that refuses it is asked for a tenth less, until that
// holds them no more: false.  The step has grown nevertheless.
bool BfcArena::Extend(int64_t bytes) {
  if (bytes > AvailableBytes()) return false;
  int64_t region_bytes = ExtensionBytes(bytes);
  while (!DeviceHas(region_bytes)) {
    region_bytes = BackpedalBytes(region_bytes);
    if (region_bytes < bytes || region_bytes < kLeastExtensionBytes) return false;
  }
  AddRegion(region_bytes);
  extensions_.push_back(
      {.requested_bytes = bytes, .bytes = region_bytes, .total_bytes = total_bytes_});
  return true;
}

// What the limit leaves.  What is reserved counts, too, and may pass the limit: then the difference
// wraps around in ONNX Runtime, and there is no limit any more.
int64_t BfcArena::AvailableBytes() const {
  const int64_t limit = config_.memory_limit_bytes;
  if (limit == 0 || total_bytes_ > limit) return kNoLimit;
  return (limit - total_bytes_) / kMinChunkBytes * kMinChunkBytes;
}

// How large a region for `bytes` is to be.  The step doubles until it holds them.  Where it holds
// them already, it doubles for the next region, up to the maximum, to which a larger step returns.
int64_t BfcArena::ExtensionBytes(int64_t bytes) {
  if (config_.extend_strategy == ExtendStrategy::kSameAsRequested) return bytes;
  const bool fits = bytes <= step_bytes_;
  while (step_bytes_ < bytes) step_bytes_ = CheckedMul(step_bytes_, 2);
  const int64_t region_bytes = std::min(step_bytes_, AvailableBytes());
  const int64_t max_bytes = config_.max_power_of_two_extend_bytes;
  if (fits) step_bytes_ = step_bytes_ < max_bytes / 2 ? 2 * step_bytes_ : max_bytes;
  return region_bytes;
}

bool BfcArena::DeviceHas(int64_t bytes) const {
  const int64_t capacity = config_.capacity_bytes;
  return capacity == 0 || bytes <= capacity - total_bytes_;
}

void BfcArena::AddRegion(int64_t bytes) {
  total_bytes_ = CheckedAdd(total_bytes_, bytes);
  const int32_t number = regions_made_++;
  const ChunkId id = Add({.region = number, .bytes = bytes, .is_free = true});
  free_.insert(KeyOf(id));
  regions_.push_back({.number = number, .first = id, .bytes = bytes});
}

}  // namespace onnxfit
