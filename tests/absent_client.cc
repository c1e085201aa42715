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
//     group N        the sums of N ints in a group of reductions, the last of which is printed
//     pass TO FROM   sends it, and prints what it gets
//     share          a handle of what is on top for another process, and opens it: on top then
//     launch         a kernel that gets the address on top
//     free           what cudaMemGetInfo says is free, printed
//     name           the card's, and its capability, printed
//     count          how many cards there are, printed
//     table          asks for NVIDIA's private functions, as a runtime linked into a program does
//     unknown        calls a function of which no header says anything
//     own            how many cards a runtime within this program finds, printed
//     nvml           the bytes of this process as NVML has them, printed
//     ints V N …  longs V N …
//                    a variable of such numbers, up to the word "."
//     call NAME ARG …  a function of the library, up to the word "."; what it returns is printed
//                    where it is not 0.  N is a number, V what the variable begins with, @V its
//                    address, =TEXT a text, _ nothing; the seventh and later ones lie on the stack
//     print V I      the I-th number of a variable, printed; `printint` where it has ints
//     cudart N       has that version of the CUDA runtime, 12080 for 12.8; before anything else
//     opened NAME    whether what dlopen() gives it for a CUDA runtime has the function that the
//                    card has, printed; `unpacked NAME`, for one that a wheel brought
//     text NAME      what that function says of nothing, printed
//     same V NAME    whether a variable is that function's address, printed
//     processes      the bytes of this process on each card as NVML has them, printed
//     half WORD …    the rest is done by a child, while this process waits
//     listen         waits for half a minute at a TCP port, as a server does
//     visited        the same, at a port to which it is connected itself
//     leave          ends at once, without destructors
//     exit N
#include <arpa/inet.h>
#include <dlfcn.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cctype>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <string>
#include <vector>

// As a runtime that is linked into a program: a function of that name, which no loader finds.
extern "C" __attribute__((visibility("hidden"), noinline)) int cudaGetDeviceCount(int* count) {
  *count = -1;
  return 35;  // the driver is too old
}

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

void Listen(bool is_visited) {
  constexpr unsigned kSeconds = 30;
  const int server = socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  auto* const any = reinterpret_cast<sockaddr*>(&address);
  const bool listens = bind(server, any, size) == 0 && listen(server, 1) == 0 &&
                       getsockname(server, any, &size) == 0;
  const bool is_there = !is_visited || connect(socket(AF_INET, SOCK_STREAM, 0), any, size) == 0;
  if (!listens || !is_there) std::exit(3);
  sleep(kSeconds);
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

void Group(int count) {
  constexpr int kSum = 0;
  Take(sizeof(int) * static_cast<size_t>(count));
  auto* const ints = static_cast<int*>(stack.back());
  Find<int (*)()>("ncclGroupStart")();
  for (int i = 0; i < count; ++i) {
    Copy(ints + i, &i, kToCard);
    Find<int (*)(const void*, void*, size_t, int, int, void*, void*)>("ncclAllReduce")(
        ints + i, ints + i, 1, kNcclInt, kSum, ranks, nullptr);
  }
  Find<int (*)()>("ncclGroupEnd")();
  stack.back() = ints + count - 1;
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

// Of this process.
unsigned long long NvmlBytes(unsigned place) {
  struct Row {
    unsigned pid;
    unsigned long long bytes;
  } rows[16];
  unsigned count = 16;
  void* card = nullptr;
  Find<int (*)(unsigned, void**)>("nvmlDeviceGetHandleByIndex_v2")(place, &card);
  Find<int (*)(void*, unsigned*, Row*)>("nvmlDeviceGetComputeRunningProcesses")(card, &count, rows);
  for (unsigned i = 0; i < count; ++i) {
    if (rows[i].pid == static_cast<unsigned>(getpid())) return rows[i].bytes;
  }
  return 0;
}

void PrintProcesses() {
  unsigned count = 0;
  Find<int (*)(unsigned*)>("nvmlDeviceGetCount_v2")(&count);
  for (unsigned place = 0; place < count; ++place) std::printf("%llu ", NvmlBytes(place));
  std::printf("\n");
}

// --- Any function, by its name -----------------------------------------------------------

constexpr size_t kMostArguments = 12;

std::map<std::string, std::vector<long long>> variables;

// A variable has room for what functions write to it.
std::vector<long long>& Variable(const std::string& name) {
  std::vector<long long>& numbers = variables[name];
  if (numbers.empty()) numbers.resize(256);
  return numbers;
}

long long Number(const std::string& word) {
  if (word[0] == '@') return reinterpret_cast<long long>(Variable(word.substr(1)).data());
  if (word[0] == '=') return reinterpret_cast<long long>(strdup(word.c_str() + 1));
  if (word[0] == '_') return 0;
  if (std::isdigit(word[0]) != 0 || word[0] == '-')
    return static_cast<long long>(std::strtoull(word.c_str(), nullptr, 10));
  return Variable(word)[0];
}

// The words up to the next ".", and the place behind it.
std::vector<std::string> Sentence(const std::vector<std::string>& words, size_t& i) {
  std::vector<std::string> sentence;
  for (; words.at(i) != "."; ++i) sentence.push_back(words[i]);
  ++i;
  return sentence;
}

void Set(const std::vector<std::string>& sentence, bool is_of_ints) {
  auto* const longs = Variable(sentence[0]).data();
  auto* const ints = reinterpret_cast<int*>(longs);
  for (size_t i = 1; i < sentence.size(); ++i) {
    const long long number = Number(sentence[i]);
    if (is_of_ints) ints[i - 1] = static_cast<int>(number);
    if (!is_of_ints) longs[i - 1] = number;
  }
}

void Call(const std::vector<std::string>& sentence) {
  long long a[kMostArguments] = {};
  for (size_t i = 1; i < sentence.size(); ++i) a[i - 1] = Number(sentence[i]);
  using Function = int (*)(long long, long long, long long, long long, long long, long long,
                           long long, long long, long long, long long, long long, long long);
  const int status = Find<Function>(sentence[0].c_str())(a[0], a[1], a[2], a[3], a[4], a[5], a[6],
                                                         a[7], a[8], a[9], a[10], a[11]);
  if (status != 0) std::printf("%d\n", status);
}

void Print(const std::string& variable, size_t place, bool is_of_ints) {
  const auto* const longs = Variable(variable).data();
  std::printf("%lld\n", is_of_ints ? reinterpret_cast<const int*>(longs)[place] : longs[place]);
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
  if (word == "group") Group(static_cast<int>(number()));
  if (word == "broadcast") Broadcast(static_cast<int>(number()));
  if (word == "pass") Pass(static_cast<int>(number()), second());
  if (word == "launch") Launch();
  if (word == "free") PrintFree();
  if (word == "same") {
    const void* const function = dlsym(RTLD_DEFAULT, words.at(i + 2).c_str());
    std::printf("%d\n", Number(words.at(i + 1)) == reinterpret_cast<long long>(function));
  }
  if (word == "cudart") {
    setenv("ABSENT_CUDART_VERSION", words.at(i + 1).c_str(), /*overwrite=*/1);
    dlopen(ABSENT_CUDART, RTLD_NOW);
  }
  if (word == "opened" || word == "unpacked") {
    const char* const file = word == "opened" ? ABSENT_CUDART : ABSENT_CUDART_OF_WHEEL;
    void* const function = dlsym(dlopen(file, RTLD_NOW), words.at(i + 1).c_str());
    std::printf("%d\n",
                function != nullptr && function == dlsym(RTLD_DEFAULT, words.at(i + 1).c_str()));
  }
  if (word == "text")
    std::printf("%s\n", Find<const char* (*)(void*)>(words.at(i + 1).c_str())(nullptr));
  if (word == "name") PrintName();
  if (word == "count") PrintCount();
  if (word == "own") {
    int count = 0;
    const int status = cudaGetDeviceCount(&count);
    std::printf("%d %d\n", status, count);
  }
  if (word == "nvml") std::printf("%llu\n", NvmlBytes(0));
  if (word == "processes") PrintProcesses();
  if (word == "call" || word == "ints" || word == "longs") {
    const std::vector<std::string> sentence = Sentence(words, ++i);
    word == "call" ? Call(sentence) : Set(sentence, word == "ints");
    return i;
  }
  if (word == "print" || word == "printint") {
    Print(words.at(i + 1), static_cast<size_t>(second()), word == "printint");
    return i + 3;
  }
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
  if (word == "listen") Listen(false);
  if (word == "visited") Listen(true);
  if (word == "leave") _exit(0);
  if (word == "exit") std::exit(static_cast<int>(number()));
  const bool has_two = word == "rank" || word == "pass" || word == "same";
  const bool has_one = word == "take" || word == "write" || word == "entry" ||
                       word == "broadcast" || word == "group" || word == "text" ||
                       word == "cudart" || word == "opened" || word == "unpacked";
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
