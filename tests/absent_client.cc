// A program that uses CUDA as it is told, for tests of `onnxfit run`; linked with none of it.
//
//   absent_client [WORD …]
//     take BYTES     cudaMalloc; its address is on top of the stack.  Exit 3 where the card is full
//     give           cudaFree of what is on top
//     write N, read  an int to what is on top, and back, which is printed
//     peek           how many bytes of that int are known, printed
//     entry NAME     asks the driver for a function by its name
//     rank R N       is the R-th of N ranks
//     gather, reduce, broadcast ROOT
//                    that of the int on top among the ranks, printed
//     pass TO FROM   sends it, and prints what it gets
//     share          a handle of what is on top for another process, and opens it: on top then
//     launch         a kernel that gets the address on top
//     free           what cudaMemGetInfo says is free, printed
//     name           the card's, and its capability, printed
//     count          how many cards there are, printed
//     table          asks for NVIDIA's private functions, as a runtime linked into a program does
//     unknown        calls a function of which no header says anything
//     nvml           the bytes of this process as NVML has them, printed
//     half WORD …    the rest is done by a child, while this process waits
//     leave          ends at once, without destructors
//     exit N
#include <dlfcn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

namespace {

template <class Function>
Function Find(const char* name) {
  void* const found = dlsym(RTLD_DEFAULT, name);
  if (found == nullptr) {
    std::printf("no %s\n", name);
    std::exit(4);
  }
  return reinterpret_cast<Function>(found);
}

struct Grid {
  unsigned x = 1, y = 1, z = 1;
};

constexpr int kToCard = 1;
constexpr int kToHost = 2;

std::vector<void*> stack;

void Take(size_t bytes) {
  void* pointer = nullptr;
  const int status = Find<int (*)(void**, size_t)>("cudaMalloc")(&pointer, bytes);
  if (status != 0) {
    std::printf("%s\n", Find<const char* (*)(int)>("cudaGetErrorString")(status));
    std::exit(3);
  }
  stack.push_back(pointer);
}

void Give() {
  Find<int (*)(void*)>("cudaFree")(stack.back());
  stack.pop_back();
}

void Copy(void* to, const void* from, int kind) {
  Find<int (*)(void*, const void*, size_t, int)>("cudaMemcpy")(to, from, sizeof(int), kind);
}

void Peek() {
  int value = 0;
  const auto device = reinterpret_cast<unsigned long long>(stack.back());
  std::printf("%zu\n", Find<size_t (*)(void*, unsigned long long, size_t)>("onnxfit_peek")(
                           &value, device, sizeof value));
}

void Ask(const char* name) {
  void* function = nullptr;
  Find<int (*)(const char*, void**, int, unsigned long long)>("cuGetProcAddress")(name, &function,
                                                                                  12000, 0);
}

struct IpcHandle {
  char bytes[64];
};

void Share() {
  IpcHandle handle;
  void* opened = nullptr;
  Find<int (*)(IpcHandle*, void*)>("cudaIpcGetMemHandle")(&handle, stack.back());
  Find<int (*)(void**, IpcHandle, unsigned)>("cudaIpcOpenMemHandle")(&opened, handle, 0);
  stack.push_back(opened);
}

struct UniqueId {
  char bytes[128] = "ranks of a test";
};
constexpr int kNcclInt = 2;
void* ranks = nullptr;
int rank_count = 1;

void JoinRanks(int rank, int count) {
  rank_count = count;
  Find<int (*)(void**, int, UniqueId, int)>("ncclCommInitRank")(&ranks, count, UniqueId(), rank);
}

// What a collective has made of the int on top: `count` of them.
void PrintInts(int count) {
  std::vector<int> values(static_cast<size_t>(count));
  Find<int (*)(void*, const void*, size_t, int)>("cudaMemcpy")(
      values.data(), stack.back(), sizeof(int) * values.size(), kToHost);
  for (const int value : values) std::printf("%d ", value);
  std::printf("\n");
}

void Gather() {
  const void* const from = stack.back();
  Take(4096);
  Find<int (*)(const void*, void*, size_t, int, void*, void*)>("ncclAllGather")(
      from, stack.back(), 1, kNcclInt, ranks, nullptr);
  PrintInts(rank_count);
}

void Reduce() {
  constexpr int kSum = 0;
  Find<int (*)(const void*, void*, size_t, int, int, void*, void*)>("ncclAllReduce")(
      stack.back(), stack.back(), 1, kNcclInt, kSum, ranks, nullptr);
  PrintInts(1);
}

void Broadcast(int root) {
  Find<int (*)(const void*, void*, size_t, int, int, void*, void*)>("ncclBroadcast")(
      stack.back(), stack.back(), 1, kNcclInt, root, ranks, nullptr);
  PrintInts(1);
}

// The receiver first, as a group allows.
void Pass(int to, int from) {
  using Transfer = int (*)(void*, size_t, int, int, void*, void*);
  void* const sent = stack.back();
  Take(4096);
  Find<int (*)()>("ncclGroupStart")();
  Find<Transfer>("ncclRecv")(stack.back(), 1, kNcclInt, from, ranks, nullptr);
  Find<Transfer>("ncclSend")(sent, 1, kNcclInt, to, ranks, nullptr);
  Find<int (*)()>("ncclGroupEnd")();
  PrintInts(1);
}

void Launch() {
  void* arguments[] = {&stack.back()};
  void* on_stack = stack.back();
  arguments[0] = &on_stack;
  Find<int (*)(const void*, Grid, Grid, void**, size_t, void*)>("cudaLaunchKernel")(
      nullptr, Grid(), Grid(), arguments, 0, nullptr);
}

void PrintFree() {
  size_t free = 0;
  size_t total = 0;
  Find<int (*)(size_t*, size_t*)>("cudaMemGetInfo")(&free, &total);
  std::printf("%zu of %zu\n", free, total);
}

void PrintName() {
  char name[256] = {};
  int major = 0;
  Find<int (*)(char*, int, int)>("cuDeviceGetName")(name, sizeof name, 0);
  Find<int (*)(int*, int, int)>("cudaDeviceGetAttribute")(&major, 75, 0);
  std::printf("%s, %d\n", name, major);
}

void PrintCount() {
  int count = 0;
  Find<int (*)(int*)>("cudaGetDeviceCount")(&count);
  std::printf("%d\n", count);
}

void PrintNvml() {
  struct Row {
    unsigned pid;
    unsigned long long bytes;
  } rows[16];
  unsigned count = 16;
  void* card = nullptr;
  Find<int (*)(unsigned, void**)>("nvmlDeviceGetHandleByIndex_v2")(0, &card);
  Find<int (*)(void*, unsigned*, Row*)>("nvmlDeviceGetComputeRunningProcesses")(card, &count, rows);
  for (unsigned i = 0; i < count; ++i) {
    if (rows[i].pid == static_cast<unsigned>(getpid())) std::printf("%llu\n", rows[i].bytes);
  }
}

// Does the word at `i`; returns the place of the next.
size_t Do(const std::vector<std::string>& words, size_t i) {
  const std::string& word = words[i];
  const auto number = [&] { return std::strtoll(words.at(i + 1).c_str(), nullptr, 10); };
  int value = 0;
  if (word == "take") Take(static_cast<size_t>(number()));
  if (word == "give") Give();
  if (word == "peek") Peek();
  if (word == "entry") Ask(words.at(i + 1).c_str());
  const auto second = [&] { return std::atoi(words.at(i + 2).c_str()); };
  if (word == "rank") JoinRanks(static_cast<int>(number()), second());
  if (word == "share") Share();
  if (word == "gather") Gather();
  if (word == "reduce") Reduce();
  if (word == "broadcast") Broadcast(static_cast<int>(number()));
  if (word == "pass") Pass(static_cast<int>(number()), second());
  if (word == "launch") Launch();
  if (word == "free") PrintFree();
  if (word == "name") PrintName();
  if (word == "count") PrintCount();
  if (word == "nvml") PrintNvml();
  if (word == "table") {
    const void* table = nullptr;
    const char of[16] = {};
    std::printf("%d\n", Find<int (*)(const void**, const void*)>("cuGetExportTable")(&table, of));
  }
  if (word == "unknown") std::printf("%d\n", Find<int (*)()>("__cudaRegisterUnifiedTable")());
  if (word == "write") {
    value = static_cast<int>(number());
    Copy(stack.back(), &value, kToCard);
  }
  if (word == "read") {
    Copy(&value, stack.back(), kToHost);
    std::printf("%d\n", value);
  }
  if (word == "leave") _exit(0);
  if (word == "exit") std::exit(static_cast<int>(number()));
  const bool has_two = word == "rank" || word == "pass";
  const bool has_one = word == "take" || word == "write" || word == "entry" || word == "broadcast";
  return i + (has_two ? 3 : has_one ? 2 : 1);
}

}  // namespace

int main(int argc, char** argv) {
  const std::vector<std::string> words(argv + 1, argv + argc);
  for (size_t i = 0; i < words.size();) {
    if (words[i] == "half") {
      std::fflush(stdout);
      const pid_t child = fork();
      if (child != 0) {
        int status = 0;
        waitpid(child, &status, 0);
        return WEXITSTATUS(status);
      }
      ++i;
      continue;
    }
    i = Do(words, i);
    std::fflush(stdout);
  }
  return 0;
}
