// Memory in two and three dimensions: rows with a pitch, and arrays, whose layout is the card's
// own.
#include <algorithm>
#include <cstring>
#include <map>
#include <mutex>
#include <vector>

#include "estimator/absent/contexts.h"
#include "estimator/absent/current.h"
#include "estimator/absent/events.h"
#include "estimator/absent/memory.h"
#include "estimator/absent/status.h"

namespace onnxfit::absent {
namespace {

// Rows begin at multiples of 512 bytes, the alignment of textures, as programs saw on Kepler and
// Maxwell cards (forums.developer.nvidia.com/t/39738); deviceQuery shows the same alignment of all
// cards since.
constexpr size_t kPitchUnit = 512;
constexpr size_t kMostWidth = size_t{1} << 40;

bool IsProduct(size_t a, size_t b, size_t& product) {
  return !__builtin_mul_overflow(a, b, &product);
}

Status TakeRows(void** pointer, size_t* pitch, size_t width, size_t rows) {
  *pointer = nullptr;
  *pitch = (std::min(width, kMostWidth) + kPitchUnit - 1) / kPitchUnit * kPitchUnit;
  size_t bytes = 0;
  if (width > kMostWidth || !IsProduct(*pitch, rows, bytes)) return kOutOfMemory;
  return bytes == 0 ? kSuccess : Allocate(CurrentDevice(), bytes, pointer);
}

// --- Arrays ---------------------------------------------------------------------------------

// CUDA_ARRAY3D_DESCRIPTOR (cuda.h); a side that is not there is 0.
struct Descriptor {
  size_t width, height, depth;
  int format;
  unsigned channels;
  unsigned flags;
};

constexpr unsigned kLayered = 1;
constexpr unsigned kWithoutMemory = 0x40 | 0x80;  // sparse, and of deferred mapping

// Bytes of a channel, or of all of them, by CUarray_format; those of images that are compressed or
// have planes are taken for a byte.
struct FormatRow {
  int format;
  size_t bytes;
};
constexpr FormatRow kFormats[] = {
    {0x01, 1}, {0x02, 2}, {0x03, 4}, {0x08, 1}, {0x09, 2}, {0x0a, 4}, {0x10, 2},
    {0x20, 4}, {0xc3, 2}, {0xc4, 2}, {0xc5, 2}, {0xc9, 2}, {0xca, 2}, {0xcb, 2},
};

size_t BytesOfFormat(int format) {
  for (const FormatRow& row : kFormats) {
    if (row.format == format) return row.bytes;
  }
  return 1;
}

size_t Half(size_t side, unsigned level) {
  return std::max<size_t>(1, level < 64 ? side >> level : 0);
}

// Of one level; layers stay as many.
bool BytesOf(const Descriptor& array, unsigned level, size_t& bytes) {
  const bool is_layered = (array.flags & kLayered) != 0;
  const size_t depth = std::max<size_t>(1, array.depth);
  bytes = BytesOfFormat(array.format) * std::max(1U, array.channels);
  return IsProduct(bytes, Half(array.width, level), bytes) &&
         IsProduct(bytes, Half(array.height, level), bytes) &&
         IsProduct(bytes, is_layered ? depth : Half(depth, level), bytes);
}

struct Array {
  Descriptor descriptor = {};
  void* memory = nullptr;
  std::vector<Array*> levels = {};  // of a mipmapped one
};

struct Arrays {
  std::mutex mutex;
  std::map<Array*, bool> all;  // whether a mipmapped one has it
};

Arrays& All() {
  static auto* const arrays = new Arrays;  // outlives destructors
  return *arrays;
}

Array* Add(const Descriptor& descriptor, bool is_level) {
  auto* const array = new Array{.descriptor = descriptor};
  All().all[array] = is_level;
  return array;
}

// As many bytes as elements take: what the card's layout adds is documented nowhere.
Status Create(Array** array, const Descriptor& descriptor, unsigned levels) {
  *array = nullptr;
  if (descriptor.width == 0 || levels == 0) return kInvalidValue;
  size_t bytes = 0;
  for (unsigned level = 0; level < levels; ++level) {
    size_t of_level = 0;
    if (!BytesOf(descriptor, level, of_level) || __builtin_add_overflow(bytes, of_level, &bytes))
      return kOutOfMemory;
  }
  void* memory = nullptr;
  const bool has_memory = (descriptor.flags & kWithoutMemory) == 0;
  const Status status = has_memory ? Allocate(CurrentDevice(), bytes, &memory) : kSuccess;
  if (status != kSuccess) return status;
  if (has_memory) WriteUnknownSize("the layout of CUDA arrays");
  const std::lock_guard lock(All().mutex);
  *array = Add(descriptor, false);
  (*array)->memory = memory;
  return kSuccess;
}

Status CreateLevels(Array** array, const Descriptor& descriptor, unsigned levels) {
  const Status status = Create(array, descriptor, levels);
  if (status != kSuccess) return status;
  const std::lock_guard lock(All().mutex);
  for (unsigned level = 0; level < levels; ++level) {
    Descriptor smaller = descriptor;
    smaller.width = Half(descriptor.width, level);
    if (smaller.height > 0) smaller.height = Half(descriptor.height, level);
    if (smaller.depth > 0 && (descriptor.flags & kLayered) == 0)
      smaller.depth = Half(descriptor.depth, level);
    (*array)->levels.push_back(Add(smaller, true));
  }
  return kSuccess;
}

Status Destroy(Array* array) {
  const std::lock_guard lock(All().mutex);
  const auto found = All().all.find(array);
  if (found == All().all.end() || found->second) return kInvalidHandle;
  if (array->memory != nullptr) Free(array->memory);
  for (Array* const level : array->levels) {
    All().all.erase(level);
    delete level;
  }
  All().all.erase(found);
  delete array;
  return kSuccess;
}

Status Level(Array** level, const Array* array, unsigned number) {
  if (array == nullptr || number >= array->levels.size()) return kInvalidValue;
  *level = array->levels[number];
  return kSuccess;
}

// --- The runtime's words for it --------------------------------------------------------------

// cudaChannelFormatDesc: bits of four channels, and what they are (driver_types.h).
struct Channels {
  int bits[4];
  int kind;
};
struct Extent {
  size_t width, height, depth;
};
enum Kind { kSigned = 0, kUnsigned = 1, kFloat = 2 };

int FormatOf(const Channels& channels) {
  const int size = channels.bits[0] <= 8 ? 0 : channels.bits[0] <= 16 ? 1 : 2;
  if (channels.kind == kFloat) return size == 1 ? 0x10 : 0x20;
  return (channels.kind == kSigned ? 0x08 : 0x01) + size;
}

Descriptor Described(const Channels& channels, const Extent& extent, unsigned flags) {
  const auto count = std::count_if(channels.bits, channels.bits + 4, [](int b) { return b > 0; });
  return {
      extent.width, extent.height, extent.depth, FormatOf(channels), static_cast<unsigned>(count),
      flags};
}

}  // namespace

ABSENT_API Status cudaMallocPitch(void** pointer, size_t* pitch, size_t width, size_t height) {
  const Status status = EnterContext();
  return Said(status == kSuccess ? TakeRows(pointer, pitch, width, height) : status);
}

ABSENT_API Status cuMemAllocPitch_v2(void** pointer, size_t* pitch, size_t width, size_t height,
                                     unsigned) {
  return width == 0 || height == 0 ? kInvalidValue : TakeRows(pointer, pitch, width, height);
}

namespace {
struct PitchedPointer {
  void* pointer;
  size_t pitch, width, height;
};
}  // namespace

ABSENT_API Status cudaMalloc3D(PitchedPointer* pitched, Extent extent) {
  const Status status = EnterContext();
  if (status != kSuccess) return Said(status);
  size_t rows = 0;
  *pitched = {nullptr, 0, extent.width, extent.height};
  if (!IsProduct(extent.height, extent.depth, rows)) return Said(kOutOfMemory);
  return Said(TakeRows(&pitched->pointer, &pitched->pitch, extent.width, rows));
}

ABSENT_API Status cudaMalloc3DArray(Array** array, const Channels* channels, Extent extent,
                                    unsigned flags) {
  const Status status = EnterContext();
  if (status != kSuccess) return Said(status);
  return Said(Create(array, Described(*channels, extent, flags), 1));
}
ABSENT_API Status cudaMallocArray(Array** array, const Channels* channels, size_t width,
                                  size_t height, unsigned flags) {
  return cudaMalloc3DArray(array, channels, {width, height, 0}, flags);
}
ABSENT_API Status cudaMallocMipmappedArray(Array** array, const Channels* channels, Extent extent,
                                           unsigned levels, unsigned flags) {
  const Status status = EnterContext();
  if (status != kSuccess) return Said(status);
  return Said(CreateLevels(array, Described(*channels, extent, flags), levels));
}
ABSENT_API Status cudaGetMipmappedArrayLevel(Array** level, const Array* array, unsigned number) {
  return Said(Level(level, array, number));
}
ABSENT_API Status cudaFreeArray(Array* array) {
  return Said(array == nullptr ? kSuccess : Destroy(array));
}
ABSENT_API Status cudaFreeMipmappedArray(Array* array) {
  return Said(array == nullptr ? kSuccess : Destroy(array));
}

namespace {
struct FlatDescriptor {
  size_t width, height;
  int format;
  unsigned channels;
};
}  // namespace

ABSENT_API Status cuArray3DCreate_v2(Array** array, const Descriptor* descriptor) {
  return Create(array, *descriptor, 1);
}
ABSENT_API Status cuArrayCreate_v2(Array** array, const FlatDescriptor* flat) {
  return Create(array, {flat->width, flat->height, 0, flat->format, flat->channels, 0}, 1);
}
ABSENT_API Status cuMipmappedArrayCreate(Array** array, const Descriptor* descriptor,
                                         unsigned levels) {
  return CreateLevels(array, *descriptor, levels);
}
ABSENT_API Status cuMipmappedArrayGetLevel(Array** level, const Array* array, unsigned number) {
  return Level(level, array, number);
}
ABSENT_API Status cuArrayDestroy(Array* array) { return Destroy(array); }
ABSENT_API Status cuMipmappedArrayDestroy(Array* array) { return Destroy(array); }
ABSENT_API Status cuArray3DGetDescriptor_v2(Descriptor* descriptor, const Array* array) {
  *descriptor = array->descriptor;
  return kSuccess;
}
ABSENT_API Status cuArrayGetDescriptor_v2(FlatDescriptor* flat, const Array* array) {
  const Descriptor& all = array->descriptor;
  *flat = {all.width, all.height, all.format, all.channels};
  return kSuccess;
}

}  // namespace onnxfit::absent
