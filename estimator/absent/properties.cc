#include "estimator/absent/properties.h"

#include <cstring>

namespace onnxfit::absent {
namespace {

// Where a member lies, in bytes, by driver_types.h of CUDA 12.8 and of 13.0; below 0: not there.
// That of 11.8 is 12's without what is behind its 728 bytes.
struct Member {
  int in_12;
  int in_13;
  int64_t (*value)(const AbsentCard& card);
  int bytes = 4;
};

template <int kAttribute>
int64_t Of(const AbsentCard& card) {
  return AttributeOf(card, kAttribute);
}

int64_t Yes(const AbsentCard&) { return 1; }
int64_t Total(const AbsentCard& card) { return card.total_bytes; }
int64_t Pitch(const AbsentCard&) { return 2147483647; }

constexpr int kName = 0;
constexpr size_t kNameBytes = 256;
constexpr int kUuid = 256;
constexpr int kBytesIn11 = 728;
constexpr int kBytesIn12 = 1032;
constexpr int kBytesIn13 = 1008;

constexpr Member kMembers[] = {
    {288, 288, Total, 8},                                         // totalGlobalMem
    {296, 296, Of<8>, 8},                                         // sharedMemPerBlock
    {304, 304, Of<12>},                                           // regsPerBlock
    {308, 308, Of<10>},                                           // warpSize
    {312, 312, Pitch, 8},                                         // memPitch
    {320, 320, Of<1>},                                            // maxThreadsPerBlock
    {324, 324, Of<2>},                                            // maxThreadsDim
    {328, 328, Of<3>},     {332, 332, Of<4>}, {336, 336, Of<5>},  // maxGridSize
    {340, 340, Of<6>},     {344, 344, Of<7>}, {348, -1, Of<13>},  // clockRate
    {352, 352, Of<9>, 8},                                         // totalConstMem
    {360, 360, Of<75>},                                           // major
    {364, 364, Of<76>},                                           // minor
    {368, 368, Of<14>, 8},                                        // textureAlignment
    {388, 384, Of<16>},                                           // multiProcessorCount
    {400, 392, Of<19>},                                           // canMapHostMemory
    {576, 560, Yes},                                              // concurrentKernels
    {584, 568, Of<33>},                                           // pciBusID
    {600, 584, Of<40>},                                           // asyncEngineCount
    {604, 588, Yes},                                              // unifiedAddressing
    {608, -1, Of<36>},                                            // memoryClockRate
    {612, 592, Of<37>},                                           // memoryBusWidth
    {616, 596, Of<38>},                                           // l2CacheSize
    {620, 600, Of<108>},                                          // persistingL2CacheMaxSize
    {624, 604, Of<39>},                                           // maxThreadsPerMultiProcessor
    {628, 608, Yes},                                              // streamPrioritiesSupported
    {640, 624, Of<81>, 8},                                        // sharedMemPerMultiprocessor
    {648, 632, Of<82>},                                           // regsPerMultiprocessor
    {652, 636, Of<83>},                                           // managedMemory
    {676, 656, Of<89>},                                           // concurrentManagedAccess
    {688, 668, Of<95>},                                           // cooperativeLaunch
    {696, 672, Of<97>, 8},                                        // sharedMemPerBlockOptin
    {712, 688, Of<106>},                                          // maxBlocksPerMultiProcessor
    {728, 704, Of<99>},                                           // hostRegisterSupported
    {744, 720, Of<115>},                                          // memoryPoolsSupported
};

}  // namespace

void WriteProperties(void* properties, const AbsentCard& card, int version) {
  auto* const bytes = static_cast<char*>(properties);
  const bool is_13 = version >= 13000;
  const int size = is_13 ? kBytesIn13 : version >= 12000 ? kBytesIn12 : kBytesIn11;
  std::memset(bytes, 0, static_cast<size_t>(size));
  std::strncpy(bytes + kName, card.name.c_str(), kNameBytes - 1);
  bytes[kUuid] = static_cast<char>(card.place + 1);
  for (const Member& member : kMembers) {
    const int at = is_13 ? member.in_13 : member.in_12;
    const int64_t value = member.value(card);
    if (at >= 0 && at + member.bytes <= size)
      std::memcpy(bytes + at, &value, static_cast<size_t>(member.bytes));
  }
}

}  // namespace onnxfit::absent
