#include <doctest/doctest.h>

#include "estimator/operators/kernel_scratch.h"

namespace onnxfit::sort_scratch_test {
namespace {

DeviceProfile Card(int capability) {
  DeviceProfile card = DefaultDevice();
  card.compute_capability = capability;
  return card;
}

struct Sort {
  int capability;
  int64_t count;
  int64_t bits;
  int64_t bytes;
};

// What torch allocated for the sort in the backward of an embedding (64 bits in 2.11, those of
// 30,522 rows in 2.15) and of x[indices].
TEST_CASE("what sorting keys and values takes") {
  const Sort rows[] = {
      {80, 3073, 64, 67583},     {80, 4096, 64, 84479},      {80, 65536, 64, 1083903},
      {80, 500000, 64, 8151039}, {75, 3073, 64, 68607},      {75, 500000, 64, 8199167},
      {86, 65536, 64, 1083903},  {90, 4096, 64, 83455},      {90, 4097, 64, 83967},
      {90, 65536, 64, 1080831},  {100, 500000, 64, 8128511}, {120, 40000, 64, 666111},
      {80, 3073, 15, 55295},     {80, 500000, 15, 8138751},  {90, 4096, 15, 71167},
      {80, 2304, 8, 1},          {80, 2305, 8, 3583},        {80, 20000, 8, 8703},
      {80, 2305, 12, 43007},     {80, 20000, 12, 330751},    {80, 20000, 17, 332799},
      {75, 20000, 17, 334847},   {90, 20000, 17, 331775},
  };
  for (const Sort& row : rows) {
    CAPTURE(row.capability);
    CAPTURE(row.count);
    CHECK(SortBytes(row.count, row.bits, Card(row.capability)) == row.bytes);
  }
}

TEST_CASE("bits of indices") {
  CHECK(BitsOfIndices(1) == 1);
  CHECK(BitsOfIndices(256) == 8);
  CHECK(BitsOfIndices(257) == 9);
  CHECK(BitsOfIndices(30523) == 15);
}

// What torch.nonzero allocates of so many elements.
TEST_CASE("what counting and selecting elements takes") {
  for (const int64_t count : {1, 1000, 4096}) CHECK(CountBytes(count, DefaultDevice()) == 1);
  for (const int64_t count : {5000, 10'000'000}) CHECK(CountBytes(count, DefaultDevice()) == 17663);
  struct Row {
    int64_t count;
    int64_t bytes;
  };
  const Row rows[] = {{1, 1023},       {50'000, 1023},    {100'000, 1279},    {200'000, 1535},
                      {500'000, 2559}, {1'000'000, 4351}, {3'000'000, 11263}, {10'000'000, 35583}};
  for (const Row& row : rows) {
    CAPTURE(row.count);
    CHECK(SelectBytes(row.count, DefaultDevice()) == row.bytes);
  }
}

// Of 10,000,000 keys and values, and of keys alone, of all their bits: torch.unique with and
// without return_inverse.  16 bits and fewer have their digits counted before 9.0.
TEST_CASE("what sorting keys of other types takes") {
  struct Row {
    int capability;
    DType keys;
    int64_t pairs;
    int64_t alone;
    int64_t unique;  // then selecting them
  };
  constexpr int64_t kCount = 10'000'000;
  const Row rows[] = {
      {80, DType::kFloat32, 123342847, 41279487, 18175},
      {80, DType::kInt64, 162684415, 82684415, 42495},
      {80, DType::kBFloat16, 104468991, 24468991, 63487},
      {80, DType::kInt16, 104468991, 24468991, 10751},
      {80, DType::kUint8, 92257279, 12257279, 4863},
      {90, DType::kFloat32, 121914367, 41490431, 13055},
      {90, DType::kInt32, 121914367, 41412607, 13055},
      {90, DType::kBFloat16, 101823231, 21057279, 63487},
      {90, DType::kUint8, 2966015, 1055231, 15103},
  };
  for (const Row& row : rows) {
    CAPTURE(row.capability);
    CAPTURE(row.keys);
    DeviceProfile card = Card(row.capability);
    const int64_t bits = BitsOf(row.keys);
    CHECK(SortBytes(kCount, bits, card, bits) == row.pairs);
    CHECK(SortKeysBytes(kCount, row.keys, card) == row.alone);
    CHECK(UniqueKeysBytes(kCount, row.keys, card) == row.unique);
  }
  CHECK(SortKeysBytes(4864, DType::kInt32, Card(80)) == 1);
  CHECK(SortKeysBytes(4865, DType::kInt32, Card(80)) > 1);
  CHECK(InverseScanBytes(kCount, Card(80)) == 21759);
  CHECK(InverseScanBytes(kCount, Card(90)) == 26879);
  CHECK(RunLengthBytes(kCount) == 209151);
  CHECK(ScanBytes(kCount, Cub::kFrom211) == 179711);
  CHECK(ScanBytes(kCount, Cub::kFrom211, DType::kFloat32) == 42495);
  CHECK(ScanBytes(kCount, Cub::kFrom211, DType::kBFloat16) == 22015);
  CHECK(SelectBytes(kCount, Card(90)) == 19711);
}

struct Scan {
  Cub cub;
  int capability;
  int64_t count;
  int64_t bytes;
};

TEST_CASE("what finding unique rows takes") {
  const Scan rows[] = {
      {Cub::kFrom211, 80, 28672, 1279},   {Cub::kFrom211, 80, 28673, 1535},
      {Cub::kFrom211, 80, 65536, 1791},   {Cub::kFrom211, 80, 500000, 5631},
      {Cub::kFrom211, 75, 500000, 26111}, {Cub::kFrom211, 86, 65536, 4351},
      {Cub::kFrom211, 90, 500000, 2815},  {Cub::kFrom211, 100, 500000, 3327},
      {Cub::kFrom211, 120, 200000, 2047}, {Cub::kFrom213, 80, 500000, 7167},
      {Cub::kFrom213, 90, 200000, 1791},  {Cub::kFrom213, 100, 78848, 1279},
      {Cub::kFrom213, 100, 78849, 1535},  {Cub::kTo210, 80, 4000, 1023},
      {Cub::kTo210, 80, 57344, 1279},     {Cub::kTo210, 80, 57345, 1535},
  };
  for (const Scan& row : rows) {
    CAPTURE(row.capability);
    CAPTURE(row.count);
    CHECK(UniqueBytes(row.count, row.cub, Card(row.capability)) == row.bytes);
  }
  CHECK(ScanBytes(14336, Cub::kFrom211) == 1279);
  CHECK(ScanBytes(14337, Cub::kFrom211) == 1535);
  CHECK(ScanBytes(28672, Cub::kTo210) == 1279);
  CHECK(ScanBytes(28673, Cub::kTo210) == 1535);
}

}  // namespace
}  // namespace onnxfit::sort_scratch_test
