#include "estimator/absent/images.h"

#include <cstdint>
#include <cstring>
#include <mutex>
#include <unordered_map>

namespace onnxfit::absent {
namespace {

constexpr uint32_t kWrapperMagic = 0x466243B1;  // FATBINC_MAGIC of fatbinary_section.h

struct Wrapper {
  uint32_t magic;
  uint32_t version;
  const unsigned char* data;
};

// How a fat binary lies in memory, as fatbinary of CUDA 13.0.88 writes it and as those of PyTorch
// 2.11 and 2.14 lie.  Only the members that are read have a name.
constexpr uint32_t kMagic = 0xBA55ED50;

struct Header {
  uint32_t magic;
  uint16_t version;
  uint16_t header_bytes;
  uint64_t bytes;  // of all images, behind the header
};

struct ImageHeader {
  uint16_t kind;
  uint16_t version;
  uint32_t header_bytes;
  uint64_t bytes;
  uint32_t unread[3];
  uint32_t capability;
  uint32_t unread_too[2];
  uint32_t flags;
};

constexpr uint16_t kPtx = 1;
constexpr uint16_t kMachineCode = 2;
constexpr uint32_t kForOne = 0x00100000;  // of sm_90a, not of sm_90

template <class Type>
Type Read(const unsigned char* from) {
  Type value;
  std::memcpy(&value, from, sizeof value);
  return value;
}

bool IsRunBy(const Image& image, int capability) {
  if (image.is_for_one) return image.capability == capability;
  const bool is_generation = image.capability / 10 == capability / 10;
  return image.capability <= capability && (image.is_ptx || is_generation);
}

// Machine code goes before PTX.
bool IsBetter(const Image& image, const Image& than) {
  if (image.is_ptx != than.is_ptx) return than.is_ptx;
  return image.capability > than.capability;
}

std::mutex mutex;

// By how the host calls it.  Never destroyed: libraries ask as they are unloaded.
std::unordered_map<const void*, const void*>& Wrappers() {
  static auto* const wrappers = new std::unordered_map<const void*, const void*>();
  return *wrappers;
}

}  // namespace

void RegisterKernel(const void* wrapper, const void* function) {
  const std::lock_guard lock(mutex);
  Wrappers()[function] = wrapper;
}

std::vector<Image> ImagesOf(const void* wrapper) {
  if (wrapper == nullptr) return {};
  const auto outer = Read<Wrapper>(static_cast<const unsigned char*>(wrapper));
  if (outer.magic != kWrapperMagic || outer.data == nullptr) return {};
  const auto header = Read<Header>(outer.data);
  if (header.magic != kMagic) return {};
  std::vector<Image> images;
  const unsigned char* at = outer.data + header.header_bytes;
  const unsigned char* const end = at + header.bytes;
  while (at + sizeof(ImageHeader) <= end) {
    const auto image = Read<ImageHeader>(at);
    if (image.header_bytes < sizeof image) return {};
    if (image.kind == kPtx || image.kind == kMachineCode) {
      images.push_back({.is_ptx = image.kind == kPtx,
                        .is_for_one = (image.flags & kForOne) != 0,
                        .capability = static_cast<int>(image.capability)});
    }
    at += image.header_bytes + image.bytes;
  }
  return images;
}

std::optional<Image> ChosenImage(const std::vector<Image>& images, int capability) {
  std::optional<Image> chosen;
  for (const Image& image : images) {
    if (!IsRunBy(image, capability)) continue;
    if (!chosen || IsBetter(image, *chosen)) chosen = image;
  }
  return chosen;
}

std::optional<Image> ImageOf(const void* function, int capability) {
  const void* wrapper = nullptr;
  {
    const std::lock_guard lock(mutex);
    const auto found = Wrappers().find(function);
    if (found == Wrappers().end()) return std::nullopt;
    wrapper = found->second;
  }
  return ChosenImage(ImagesOf(wrapper), capability);
}

}  // namespace onnxfit::absent
