// A program that uses CUDA as it is told, for tests of `onnxfit run`; linked with none of it.
//
//   absent_client [WORD …]
//     take BYTES     cudaMalloc; its address is on top of the stack.  Exit 3 where the card is full
//     give           cudaFree of what is on top
//     write N, read  an int to what is on top, and back, which is printed
//     peek           how many bytes of that int are known, printed
//     entry NAME     asks the driver for a function by its name
//     launch         a kernel that gets the address on top
//     free           what cudaMemGetInfo says is free, printed
//     name           the card's, and its capability, printed
//     count          how many cards there are, printed
//     table          asks for NVIDIA's private functions, as a runtime linked into a program does
//     unknown        calls a function of which no header says anything
//     nvml           the bytes of this process as NVML has them, printed
//     half WORD …    the rest is done by a child, while this process waits
//     leave          ends at once, without destructors
//     ranks N        is the first of so many ranks, by NCCL
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

void JoinRanks(int ranks) {
  struct {
    char bytes[128];
  } id = {};
  void* communicator = nullptr;
  using Init = int (*)(void**, int, decltype(id), int);
  Find<Init>("ncclCommInitRank")(&communicator, ranks, id, 0);
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
  if (word == "ranks") JoinRanks(static_cast<int>(number()));
  if (word == "leave") _exit(0);
  if (word == "exit") std::exit(static_cast<int>(number()));
  return i + (word == "take" || word == "write" || word == "entry" || word == "ranks" ? 2 : 1);
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
