// What a program may do with a card that is not there, function by function, and what is counted.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <string>
#include <vector>

#include "tests/absent_runs.h"

namespace onnxfit::program_card_test {
namespace {

using absent_runs::Printed;
using absent_runs::RunClient;
using absent_runs::UsedBy;
using absent_runs::UsedBytes;

constexpr int64_t kMiB = 1 << 20;

int64_t ContextBytes() { return UsedBytes("take 1 give") - 2 * kMiB; }

// Two cards, as the program finds them.
std::string PrintedOfTwo(const std::string& words) {
  return RunClient({"--devices", "2xt4"}, words).program;
}

// --- Contexts --------------------------------------------------------------------------

TEST_CASE("a context is there as soon as something works on the card") {
  const char* const calls[] = {
      "cudaSetDevice 0",
      "cudaInitDevice 0 0 0",
      "cudaFree 0",
      "cudaStreamCreate @s",
      "cudaStreamIsCapturing 0 @s",
      "cudaEventCreateWithFlags @e 2",
      "cudaHostAlloc @p 4096 0",
      "cudaHostRegister @p 64 0",
      "cudaMallocManaged @p 4096 1",
      "cudaMemGetInfo @a @b",
      "cudaMemset @p 0 4",
      "cudaDeviceSynchronize",
      "cudaDeviceGetLimit @v 0",
      "cudaFuncGetAttributes @v 0",
      "cudaGraphCreate @g 0",
      "cublasCreate_v2 @h",
      "cudnnCreate @h",
      "cufftPlan1d @h 64 41 1",
      "curandCreateGenerator @h 100",
      "cuDevicePrimaryCtxRetain @c 0",
      "cuCtxCreate_v2 @c 0 0",
      "cuCtxCreate_v3 @c 0 0 0 0",
      "cuCtxCreate_v4 @c 0 0 0",
  };
  const std::string context = fmt::format("{}\n", ContextBytes());
  for (const char* call : calls) {
    CAPTURE(call);
    CHECK(Printed(fmt::format("call {} . nvml", call)).ends_with(context));
  }
}

TEST_CASE("whoever only looks gets no context") {
  const char* const calls[] = {
      "cuInit 0",
      "cuDeviceGet @d 0",
      "cuCtxGetCurrent @c",
      "cudaGetDeviceCount @n",
      "cudaGetDevice @d",
      "cudaDeviceGetAttribute @v 16 0",
      "cudaGetDeviceProperties @v 0",
      "cudaDeviceGetDefaultMemPool @p 0",
      "cudaMemPoolCreate @p 0",
      "cudaPointerGetAttributes @v 4096",
      "cudaEventQuery 0",
      "cudaGetLastError",
      "cublasLtGetVersion",
      "cuDevicePrimaryCtxGetState 0 @f @a",
  };
  for (const char* call : calls) {
    CAPTURE(call);
    CHECK(Printed(fmt::format("call {} . nvml", call)) == "0\n");
  }
}

TEST_CASE("each card has the context of who works there") {
  const std::string context = std::to_string(ContextBytes());
  CHECK(PrintedOfTwo("call cudaSetDevice 1 . processes") == "0 " + context + " \n");
  CHECK(PrintedOfTwo("call cudaStreamCreate @s . call cudaSetDevice 1 . processes") ==
        context + " " + context + " \n");
  // What PyTorch asks before it sets a card.
  const std::string state = "call cuDevicePrimaryCtxGetState {0} @f @a . printint a 0 ";
  CHECK(PrintedOfTwo("call cudaSetDevice 1 . " + fmt::format(fmt::runtime(state), 0) +
                     fmt::format(fmt::runtime(state), 1)) == "0\n1\n");
  // The driver's words: what is allocated goes to the card of the current context.
  CHECK(PrintedOfTwo("call cuDevicePrimaryCtxRetain @c 1 . call cuCtxPushCurrent_v2 c . call "
                     "cudaGetDevice @d . printint d 0 call cuMemAlloc_v2 @p 64 . processes")
            .starts_with("1\n0 "));
  CHECK(PrintedOfTwo("call cuDevicePrimaryCtxRetain @c 1 . call cuCtxSetCurrent c . call "
                     "cuCtxPopCurrent_v2 @d . call cuCtxGetCurrent @c . print c 0") == "0\n");
}

TEST_CASE("a context that ends gives back what it held") {
  const char* const words[] = {
      "take 9000000 call cudaDeviceReset .",
      "take 9000000 call cuDevicePrimaryCtxReset_v2 0 .",
      "call cuCtxCreate_v2 @c 0 0 . call cuMemAlloc_v2 @p 9000000 . call cuCtxDestroy_v2 c .",
      ("call cuDevicePrimaryCtxRetain @c 0 . call cuDevicePrimaryCtxRetain @c 0 . call "
       "cuDevicePrimaryCtxRelease_v2 0 . call cuDevicePrimaryCtxRelease_v2 0 ."),
  };
  for (const char* done : words) {
    CAPTURE(done);
    CHECK(Printed(fmt::format("{} nvml", done)) == "0\n");
  }
  // The runtime holds its own, and a context that has ended is made again.
  CHECK(Printed("call cudaFree 0 . call cuDevicePrimaryCtxRetain @c 0 . call "
                "cuDevicePrimaryCtxRelease_v2 0 . nvml") == fmt::format("{}\n", ContextBytes()));
  CHECK(UsedBytes("take 9000000 call cudaDeviceReset . take 9000000") == UsedBytes("take 9000000"));
  CHECK(Printed("call cuDevicePrimaryCtxRelease_v2 0 .") == "201\n");  // invalid context
}

TEST_CASE("a card says of its L2 and its bus what it has") {
  const std::string asks =
      "call cudaDeviceGetAttribute @v 38 0 . printint v 0 call cudaDeviceGetAttribute @v 37 0 . "
      "printint v 0 call cudaDeviceGetAttribute @v 108 0 . printint v 0";
  const auto told = [&](const char* card) { return RunClient({"-g", card}, asks).program; };
  CHECK(told("t4") == "4194304\n256\n0\n");
  CHECK(told("a100-40gb") == "41943040\n5120\n31457280\n");
  CHECK(told("rtx4090") == "75497472\n384\n56623104\n");
  CHECK(told("h200") == "62914560\n6144\n47185920\n");
}

TEST_CASE("who asks is told what the process holds, and the most since the last time") {
  const std::string context = std::to_string(ContextBytes());
  const std::string asks = "call onnxfit_held_bytes 0 @m . print m 0 ";
  const auto more = [&](int64_t mebibytes) {
    return std::to_string(ContextBytes() + mebibytes * kMiB);
  };
  // What it returns, then the most: 8 MiB were there and are gone.
  CHECK(Printed("call cudaMalloc @p 8388608 . call cudaFree p . " + asks + asks) ==
        context + "\n" + more(8) + "\n" + context + "\n" + context + "\n");
  CHECK(Printed("call cudaMalloc @p 8388608 . call cudaMalloc @q 8388608 . " + asks +
                "call cudaFree p . call cudaFree q . " + asks) ==
        more(16) + "\n" + more(16) + "\n" + context + "\n" + more(16) + "\n");
}

// --- Virtual memory --------------------------------------------------------------------

// A handle of 4 MiB on card 0, and 8 MiB of addresses.
const std::string kHandle =
    "ints p 1 1 1 0 . call cuMemCreate @h 4194304 @p 0 . "
    "call cuMemAddressReserve @a 8388608 0 0 0 . ";

// What is held beside the context after those words.
int64_t HeldAfter(const std::string& words) {
  return std::stoll(Printed(kHandle + words + " nvml")) - ContextBytes();
}

TEST_CASE("mapped memory stays until nothing maps it") {
  const std::string map = "call cuMemMap a 4194304 0 h 0 . ";
  CHECK(HeldAfter("") == 4 * kMiB);
  CHECK(HeldAfter("call cuMemRelease h .") == 0);
  CHECK(HeldAfter(map + "call cuMemRelease h .") == 4 * kMiB);
  CHECK(HeldAfter(map + "call cuMemUnmap a 4194304 .") == 4 * kMiB);
  CHECK(HeldAfter(map + "call cuMemRelease h . call cuMemUnmap a 4194304 .") == 0);
  CHECK(HeldAfter(map + "call cuMemUnmap a 4194304 . call cuMemRelease h .") == 0);
  // A handle that was retained by an address, and is the same one.
  const std::string retained = map + "call cuMemRetainAllocationHandle @r a . ";
  CHECK(HeldAfter(retained + "call cuMemRelease h . call cuMemUnmap a 4194304 .") == 4 * kMiB);
  CHECK(HeldAfter(retained +
                  "call cuMemRelease h . call cuMemUnmap a 4194304 . call cuMemRelease r "
                  ".") == 0);
  // Its two halves, at two places.
  const std::string halves =
      "call cuMemMap a 2097152 2097152 h 0 . longs b a . call cuMemRelease h . ";
  CHECK(HeldAfter(halves) == 4 * kMiB);
  CHECK(HeldAfter(halves + "call cuMemUnmap a 2097152 .") == 0);
}

TEST_CASE("what cannot be mapped is refused") {
  struct Row {
    const char* words;
    const char* status;
  };
  const Row rows[] = {
      {"call cuMemMap a 4194304 2097152 h 0 .", "1\n"},         // beyond the handle
      {"call cuMemMap a 1000 0 h 0 .", "1\n"},                  // less than a page
      {"call cuMemMap 24189255811072 4194304 0 h 0 .", "1\n"},  // not reserved
      {"call cuMemMap a 4194304 0 h 0 . call cuMemMap a 4194304 0 h 0 .", "1\n"},  // mapped
      {"call cuMemMap a 4194304 0 h 0 . call cuMemUnmap a 2097152 .", "1\n"},      // half of it
      {"call cuMemMap a 4194304 0 h 0 . call cuMemAddressFree a 8388608 .", "1\n"},
      {"call cuMemRetainAllocationHandle @r a .", "1\n"},
      {"call cuMemRelease h . call cuMemRelease h .", "1\n"},
      {"call cuMemCreate @h 1000 @p 0 .", "1\n"},
      {"call cuMemCreate @h 99999999983617 @p 0 .", "1\n"},
      {"call cuMemCreate @h 20971520000000 @p 0 .", "2\n"},
      {"call cuMemAddressReserve @b 18446744073707454464 0 0 0 .", "2\n"},
      {"call cuMemAddressFree a 8388608 .", ""},
  };
  for (const Row& row : rows) {
    CAPTURE(row.words);
    CHECK(Printed(kHandle + row.words) == row.status);
  }
}

TEST_CASE("addresses that were reserved and freed are there again") {
  std::string words = "take 1 ";
  // 12 TiB lie behind the cards': ten times 8 are more than that.
  for (int i = 0; i < 10; ++i) {
    words +=
        "call cuMemAddressReserve @a 8796093022208 0 0 0 . call cuMemAddressFree a 8796093022208 "
        ". ";
  }
  CHECK(Printed(words) == "");
  const std::string aligned = Printed(
      "take 1 call cuMemAddressReserve @a 2097152 0 0 0 . call cuMemAddressReserve @b 2097152 "
      "1073741824 0 0 . print b 0");
  CHECK(std::stoull(aligned) % (1024 * kMiB) == 0);
}

TEST_CASE("memory that another process imports is not counted twice") {
  const std::string file = "call cuMemExportToShareableHandle @f h 1 0 . ints g 0 . ";
  CHECK(HeldAfter(file +
                  "call cuMemImportFromShareableHandle @i f 1 . call cuMemMap a 4194304 0 i 0 "
                  ".") == 4 * kMiB);
  CHECK(HeldAfter("call cuMemExportToShareableHandle @f h 8 0 . call "
                  "cuMemImportFromShareableHandle @i @f 8 .") == 4 * kMiB);
  CHECK(Printed(kHandle + "call cuMemImportFromShareableHandle @i 0 1 .") == "1\n");
}

// --- Rows and arrays -------------------------------------------------------------------

TEST_CASE("rows and arrays take the card's memory") {
  struct Row {
    const char* words;
    int64_t mib;
  };
  const Row rows[] = {
      // 4,096 rows of 1,000 bytes, each padded to 1,024.
      {"call cudaMallocPitch @p @q 1000 4096 .", 4},
      {"call cuMemAllocPitch_v2 @p @q 1000 4096 4 .", 4},
      {"call cudaMalloc3D @p _ _ _ _ _ 1000 64 64 .", 4},
      // Floats of one channel, and halves of four.
      {"ints d 32 0 0 0 2 . call cudaMallocArray @a @d 1024 1024 0 .", 4},
      {"ints d 16 16 16 16 2 . call cudaMallocArray @a @d 1024 1024 0 .", 8},
      {"ints d 8 8 0 0 1 . call cudaMalloc3DArray @a @d 0 _ _ _ 256 256 16 .", 2},
      {"longs d 1024 1024 4294967328 . call cuArrayCreate_v2 @a @d .", 4},
      {"longs d 1024 1024 4 4294967328 . call cuArray3DCreate_v2 @a @d .", 16},
      // 4, 1 and a quarter; of layers each has all of them.
      {"ints d 32 0 0 0 2 . call cudaMallocMipmappedArray @a @d 3 0 _ _ 1024 1024 0 .", 6},
      {"ints d 32 0 0 0 2 . call cudaMallocMipmappedArray @a @d 2 1 _ _ 1024 1024 2 .", 10},
      {"longs d 1024 1024 0 4294967328 . call cuMipmappedArrayCreate @a @d 3 .", 6},
      // Sparse ones get theirs later.
      {"ints d 32 0 0 0 2 . call cudaMallocArray @a @d 1024 1024 64 .", 0},
  };
  const int64_t context = ContextBytes();
  for (const Row& row : rows) {
    CAPTURE(row.words);
    CHECK(std::stoll(Printed(fmt::format("call cudaFree 0 . {} nvml", row.words))) - context ==
          row.mib * kMiB);
  }
  CHECK(Printed("call cudaMallocPitch @p @q 1000 4096 . print q 0") == "1024\n");
  CHECK(Printed("call cudaMallocPitch @p @q 18446744073709551615 2 .") == "2\n");
}

TEST_CASE("arrays give back what they took, once") {
  const std::string array = "ints d 32 0 0 0 2 . call cudaMallocArray @a @d 1024 1024 0 . ";
  const std::string context = fmt::format("{}\n", ContextBytes());
  CHECK(Printed(array + "call cudaFreeArray a . nvml") == context);
  CHECK(Printed(array + "call cudaFreeArray a . call cudaFreeArray a .") == "400\n");
  const std::string levels =
      "ints d 32 0 0 0 2 . call cudaMallocMipmappedArray @a @d 3 0 _ _ 1024 1024 0 . call "
      "cudaGetMipmappedArrayLevel @l a 2 . ";
  CHECK(Printed(levels + "call cuArrayGetDescriptor_v2 @v l . print v 0") == "256\n");
  CHECK(Printed(levels + "call cudaFreeArray l . call cudaFreeMipmappedArray a . nvml") ==
        "400\n" + context);
  // What the card's own layout adds is not known, and said.
  CHECK(RunClient({"-g", "t4"}, array).out.find("the layout of CUDA arrays") != std::string::npos);
}

// --- Pools -----------------------------------------------------------------------------

// A pool's attribute by its number.
std::string Attribute(int number) {
  return fmt::format("call cudaMemPoolGetAttribute p {} @v . print v 0 ", number);
}

TEST_CASE("a pool counts what is used of it and what it keeps") {
  const std::string all = Attribute(5) + Attribute(6) + Attribute(7) + Attribute(8);
  const std::string take = "call cudaMallocAsync @a 5000000 0 . call cudaMallocAsync @b 1000 0 . ";
  const std::string pool = "call cudaDeviceGetDefaultMemPool @p 0 . ";
  CHECK(Printed(pool + take + all) == "8388608\n8388608\n5001216\n5001216\n");
  // A pool keeps nothing unless it is told to.
  CHECK(Printed(pool + take + "call cudaFreeAsync a 0 . " + all) ==
        "2097152\n8388608\n1024\n5001216\n");
  const std::string keep = "longs t -1 . call cudaMemPoolSetAttribute p 4 @t . ";
  CHECK(Printed(pool + keep + take + "call cudaFreeAsync a 0 . " + all) ==
        "8388608\n8388608\n1024\n5001216\n");
  CHECK(Printed(pool + keep + take + "call cudaFreeAsync a 0 . call cudaMemPoolTrimTo p 0 . " +
                Attribute(5)) == "2097152\n");
  // The highest are forgotten by a 0, and set to nothing else.
  CHECK(Printed(pool + take +
                "call cudaFreeAsync a 0 . longs z 0 . call cudaMemPoolSetAttribute p "
                "6 @z . call cudaMemPoolSetAttribute p 8 @z . " +
                Attribute(6) + Attribute(8)) == "2097152\n1024\n");
  CHECK(Printed(pool + "longs z 7 . call cudaMemPoolSetAttribute p 8 @z .") == "1\n");
}

TEST_CASE("what a pool keeps is used again, and is the card's once it ends") {
  const std::string pool =
      "ints q 1 0 1 0 . call cudaMemPoolCreate @p @q . longs t -1 . call cudaMemPoolSetAttribute p "
      "4 "
      "@t . call cudaMallocFromPoolAsync @a 9000000 p 0 . call cudaFreeAsync a 0 . ";
  CHECK(UsedBytes(pool + "call cuMemAllocFromPoolAsync @a 9000000 p 0 .") == UsedBytes(pool));
  CHECK(UsedBytes(pool + "take 9000000") == UsedBytes(pool) + 10 * kMiB);
  CHECK(UsedBytes(pool + "call cudaMemPoolDestroy p . take 9000000") == UsedBytes(pool));
  // Another one is what cudaMallocAsync takes from.
  CHECK(Printed(pool + "call cudaDeviceSetMemPool 0 p . call cudaMallocAsync @a 9000000 0 . " +
                Attribute(7)) == "9000448\n");
  CHECK(Printed("call cudaDeviceGetDefaultMemPool @p 0 . call cudaMemPoolDestroy p .") == "1\n");
}

TEST_CASE("functions for a stream of each thread do the same") {
  CHECK(UsedBytes("call cudaMallocAsync_ptsz @a 9000000 0 .") == UsedBytes("take 9000000"));
  CHECK(UsedBytes("call cuMemAllocAsync_ptsz @a 9000000 0 .") == UsedBytes("take 9000000"));
  CHECK(
      Printed("take 64 longs v 7 . call cudaMalloc @p 64 . call cudaMemcpyAsync_ptsz p @v 8 1 0 . "
              "call cudaMemcpy_ptds @w p 8 2 . print w 0") == "7\n");
}

// --- Kernels ---------------------------------------------------------------------------

TEST_CASE("what a kernel may have written is forgotten, wherever its arguments lie") {
  // An int on the card, and variables of the client's, which lie in its heap.
  const std::string begin =
      "take 64 longs v 7 . call cudaMalloc @p 64 . call cudaMemcpy p @v 8 1 . ";
  const std::string end = "call cudaMemcpy @w p 8 2 . print w 0";
  CHECK(Printed(begin + end) == "7\n");
  CHECK(Printed(begin +
                "longs n 3 . longs a @n @p 0 . call cuLaunchKernel _ 1 1 1 1 1 1 0 _ @a _ . " +
                end) == "0\n");
  CHECK(Printed(begin +
                "longs n 3 . longs a @n @n 0 . call cuLaunchKernel _ 1 1 1 1 1 1 0 _ @a _ . " +
                end) == "7\n");
  // Packed into one buffer.
  CHECK(Printed(begin +
                "longs b 3 p . longs s 16 . longs x 1 @b 2 @s 0 . call cuLaunchKernel _ 1 1 1 "
                "1 1 1 0 _ _ @x . " +
                end) == "0\n");
  CHECK(Printed(begin +
                "longs b 3 p . longs s 8 . longs x 1 @b 2 @s 0 . call cuLaunchKernel _ 1 1 1 "
                "1 1 1 0 _ _ @x . " +
                end) == "7\n");
  // Nothing is mapped there.
  CHECK(Printed(begin +
                "longs a 4096 8192 . call cuLaunchKernel _ 1 1 1 1 1 1 0 _ @a _ . call "
                "cuLaunchKernel _ 1 1 1 1 1 1 0 _ 4096 8192 . " +
                end) == "7\n");
}

TEST_CASE("plans that take scratch themselves are named") {
  for (const char* call : {"cufftPlan1d @h 64 41 1", "cufftMakePlan1d 0 64 41 1 @s",
                           "cusolverDnSgeqrf_bufferSize @h 4 4 @v 4 @s"}) {
    CAPTURE(call);
    const std::string name = std::string(call).substr(0, std::string(call).find(' '));
    CHECK(RunClient({"-g", "t4"}, fmt::format("take 1 call {} .", call)).out.find(name) !=
          std::string::npos);
  }
}

// --- Versions of CUDA --------------------------------------------------------------------

TEST_CASE("functions are called as each CUDA declares them") {
  // A word behind what that CUDA passes stays 9.  Nodes and edges: cuda_runtime_api.h
  // of 12.8, 13.0.
  struct Row {
    const char* call;
    const char* in_12;
    const char* in_13;
  };
  const Row rows[] = {
      {"cudaStreamGetCaptureInfo s @i @n _ _ @x", "9\n", "0\n"},
      {"cudaGraphGetEdges g _ _ @n @x", "9\n", "0\n"},
      {"cudaGraphNodeGetDependencies g _ @n @x", "9\n", "0\n"},
      {"cudaGraphNodeGetDependentNodes g _ @n @x", "9\n", "0\n"},
      {"cudaGraphGetEdges_v2 g _ _ _ @x", "0\n", "0\n"},
      {"cudaStreamGetCaptureInfo_v2 s @i @n _ _ @x", "0\n", "0\n"},
      {"cudaStreamGetCaptureInfo_v3 s @i @n _ _ _ @x", "0\n", "0\n"},
  };
  const std::string begin = "call cudaStreamCreate @s . call cudaGraphCreate @g 0 . longs x 9 . ";
  for (const Row& row : rows) {
    CAPTURE(row.call);
    const auto printed = [&](int version) {
      return Printed(fmt::format("cudart {} {} call {} . print x 0", version, begin, row.call));
    };
    CHECK(printed(12080) == row.in_12);
    CHECK(printed(13000) == row.in_13);
  }
}

TEST_CASE("a card's properties fill the structure of that CUDA, and no more") {
  const auto word = [](int version, const char* function, int place) {
    std::string sevens;
    for (int i = 0; i < 140; ++i) sevens += "7 ";
    return Printed(fmt::format("cudart {} take 1 longs v {}. call {} @v 0 . print v {}", version,
                               sevens, function, place));
  };
  // 728, 1,032 and 1,008 bytes; in 12 the old name stands for the structure of 11.
  CHECK(word(11080, "cudaGetDeviceProperties", 91) == "7\n");
  CHECK(word(11080, "cudaGetDeviceProperties", 36) ==
        word(12080, "cudaGetDeviceProperties_v2", 36));
  CHECK(word(12080, "cudaGetDeviceProperties", 91) == "7\n");
  CHECK(word(12080, "cudaGetDeviceProperties_v2", 128) == "0\n");
  CHECK(word(12080, "cudaGetDeviceProperties_v2", 129) == "7\n");
  CHECK(word(13000, "cudaGetDeviceProperties", 125) == "0\n");
  CHECK(word(13000, "cudaGetDeviceProperties", 126) == "7\n");
}

TEST_CASE("functions that are asked for by name") {
  CHECK(Printed("opened cudaMalloc take 1") == "1\n");
  CHECK(Printed("opened cudaNoSuchFunction take 1") == "0\n");
  CHECK(Printed("unpacked cudaMalloc take 1") == "1\n");
}

TEST_CASE("a runtime that is linked into a program leads to the card") {
  CHECK(Printed("own take 1") == "0 1\n");
  CHECK(PrintedOfTwo("own take 1") == "0 2\n");
}

TEST_CASE("CUPTI's version is that of the runtime's release") {
  const auto version = [](int runtime) {
    return Printed(fmt::format("cudart {} call cuptiGetVersion @v . printint v 0 take 1", runtime));
  };
  CHECK(version(11080) == "18\n");
  CHECK(version(12080) == "26\n");
  CHECK(version(13000) == "130000\n");
  CHECK(version(13050) == "130500\n");
}

TEST_CASE("what a stream records goes into the graph that was given") {
  for (const char* const side : {"cuda", "cu"}) {
    CAPTURE(side);
    CHECK(Printed(fmt::format("call {0}StreamBeginCaptureToGraph 5 9 0 0 0 0 . "
                              "call {0}StreamEndCapture 5 @g . print g 0 take 1",
                              side)) == "9\n");
  }
  // Not twice: it does not record any more.
  CHECK(Printed("call cuStreamBeginCapture_v2 5 0 . call cuStreamEndCapture 5 @g . "
                "call cuStreamEndCapture 5 @g . take 1") == "401\n");
}

TEST_CASE("a runtime before 12 makes no context when a card is set") {
  CHECK(Printed("cudart 11080 call cudaSetDevice 0 . nvml") == "0\n");
  CHECK(Printed("cudart 12000 call cudaSetDevice 0 . nvml") == fmt::format("{}\n", ContextBytes()));
}

TEST_CASE("the driver hands out the function of the CUDA that is asked for") {
  struct Row {
    const char* name;
    int version;
    const char* symbol;
  };
  const Row rows[] = {
      {"cuCtxCreate", 11030, "cuCtxCreate_v2"},
      {"cuCtxCreate", 11080, "cuCtxCreate_v3"},
      {"cuCtxCreate", 13000, "cuCtxCreate_v4"},
      {"cuCtxGetDevice", 12080, "cuCtxGetDevice"},
      {"cuCtxGetDevice", 13000, "cuCtxGetDevice_v2"},
      {"cuGraphGetEdges", 12020, "cuGraphGetEdges"},
      {"cuGraphGetEdges", 12030, "cuGraphGetEdges_v2"},
      {"cuStreamGetCaptureInfo", 12020, "cuStreamGetCaptureInfo_v2"},
      {"cuStreamGetCaptureInfo", 12030, "cuStreamGetCaptureInfo_v3"},
      {"cuMemAlloc", 12080, "cuMemAlloc_v2"},
  };
  for (const Row& row : rows) {
    CAPTURE(row.name);
    CAPTURE(row.version);
    CHECK(Printed(fmt::format("call cuGetProcAddress ={} @f {} 0 . same f {}", row.name,
                              row.version, row.symbol)) == "1\n");
  }
}

// --- Addresses and handles -------------------------------------------------------------

TEST_CASE("a stack without a limit, and the old layout, change nothing") {
  // The kernel then maps elsewhere.  Pinned memory is the host's: 1.
  const std::string words =
      "take 5000000 write 7 read call cudaHostAlloc @p 4194304 0 . call cudaPointerGetAttributes "
      "@v p . printint v 0";
  const auto limited = RunClient({"-g", "t4"}, words);
  CHECK(limited.program == "7\n1\n");
  for (const char* before : {"ulimit -s unlimited 2> /dev/null; ", "setarch -L "}) {
    CAPTURE(before);
    const auto other = RunClient({"-g", "t4"}, words, before);
    CHECK(other.program == limited.program);
    CHECK(other.out == limited.out);
  }
}

TEST_CASE("requests that no number holds are out of memory") {
  for (const char* bytes : {"18446744073709551615", "9223372036854775807", "9223372036854775808"}) {
    CAPTURE(bytes);
    CHECK(Printed(fmt::format("call cudaMalloc @p {} .", bytes)) == "2\n");
    CHECK(Printed(fmt::format("call cudaMallocAsync @p {} 0 .", bytes)) == "2\n");
  }
  CHECK(Printed("longs p 9 . call cudaMalloc @p 0 . print p 0") == "0\n");
}

TEST_CASE("what is freed twice, or never was, is refused as CUDA does") {
  CHECK(Printed("call cudaEventCreate @a . call cudaEventDestroy a . call cudaEventDestroy a .") ==
        "400\n");
  CHECK(
      Printed("call cudaStreamCreate @a . call cudaStreamDestroy a . call cudaStreamDestroy a .") ==
      "400\n");
  CHECK(Printed("call cudaHostAlloc @p 64 0 . call cudaFreeHost p . call cudaFreeHost p .") ==
        "1\n");
  CHECK(
      Printed("call cudaHostRegister @v 64 0 . call cudaPointerGetAttributes @a @v . printint a 0 "
              "call cudaHostRegister @v 64 0 . call cudaHostUnregister @v . call "
              "cudaHostUnregister @v .") == "1\n712\n713\n");
}

}  // namespace
}  // namespace onnxfit::program_card_test
