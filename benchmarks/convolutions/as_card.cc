// Has CUDA's libraries take the card at hand for another one: a library to be loaded before all
// others, which answers in the driver's place when somebody asks for an attribute of a device.  For
// plans alone: what is planned so cannot run.
//
//   g++ -shared -fPIC -O1 -o as_card.so as_card.cc
//   LD_PRELOAD=./as_card.so AS_CARD="75=8 76=6 16=28 39=1536 97=101376 106=16" print_plans …
//
// AS_CARD has attributes by their numbers (CUdevice_attribute of CUDA 13.0): 75 and 76 the compute
// capability, 16 multiprocessors, 39 threads of one, 97 shared bytes that a block may opt in to,
// 106 blocks of a multiprocessor.  Clocks, bandwidth and the second cache change no answer (4,000
// calls as an RTX 3060).
#include <dlfcn.h>

#include <cstdlib>
#include <cstring>
#include <map>
#include <sstream>
#include <string>

namespace {

using Attribute = int (*)(int* value, int attribute, int device);
using ProcAddress = int (*)(const char* name, void** found, int version, unsigned long long flags,
                            void* status);

Attribute real_attribute = nullptr;
ProcAddress real_proc_address = nullptr;

std::map<int, int> ReadAttributes() {
  std::map<int, int> attributes;
  const char* text = std::getenv("AS_CARD");
  std::istringstream words(text == nullptr ? "" : text);
  for (std::string word; words >> word;) {
    const size_t equals = word.find('=');
    attributes[std::atoi(word.c_str())] = std::atoi(word.c_str() + equals + 1);
  }
  return attributes;
}

int OwnAttribute(int* value, int attribute, int device) {
  static const std::map<int, int> attributes = ReadAttributes();
  const int status = real_attribute(value, attribute, device);
  const auto found = attributes.find(attribute);
  if (status == 0 && found != attributes.end()) *value = found->second;
  return status;
}

int OwnProcAddress(const char* name, void** found, int version, unsigned long long flags,
                   void* status);

// What stands for the driver's function of that name.
void* Own(const char* name, void* real) {
  if (real == nullptr) return nullptr;
  if (std::strcmp(name, "cuDeviceGetAttribute") == 0) {
    real_attribute = reinterpret_cast<Attribute>(real);
    return reinterpret_cast<void*>(OwnAttribute);
  }
  // Of CUDA 12 and later; cudart asks for no older one.
  if (std::strncmp(name, "cuGetProcAddress", 16) == 0) {
    real_proc_address = reinterpret_cast<ProcAddress>(real);
    return reinterpret_cast<void*>(OwnProcAddress);
  }
  return real;
}

int OwnProcAddress(const char* name, void** found, int version, unsigned long long flags,
                   void* status) {
  const int result = real_proc_address(name, found, version, flags, status);
  if (result == 0 && found != nullptr) *found = Own(name, *found);
  return result;
}

}  // namespace

// The runtime, which is linked into each library, finds the driver's functions by this.
extern "C" void* dlsym(void* library, const char* name) noexcept {
  using Find = void* (*)(void*, const char*);
  static const auto real = reinterpret_cast<Find>(dlvsym(RTLD_NEXT, "dlsym", "GLIBC_2.2.5"));
  void* found = real(library, name);
  return std::strncmp(name, "cu", 2) == 0 ? Own(name, found) : found;
}
