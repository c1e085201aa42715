// libc's functions that open files and libraries, and those that make files under names of their
// own.  open() is declared with a mode that its callers may leave out: nobody reads it then.
#include <dlfcn.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <iterator>
#include <string_view>
#include <vector>

#include "estimator/absent/current.h"
#include "estimator/absent/kept_libc.h"
#include "estimator/absent/kept_paths.h"
#include "estimator/absent/own_runtimes.h"

namespace onnxfit::absent {
namespace {

int OpenAt(int folder, const char* path, int flags, mode_t mode) {
  static auto* const real = RealOf<int(int, const char*, int, mode_t)>("openat");
  Path room;
  path = ToOpen(folder, path, flags, room);
  return path == nullptr ? -1 : real(folder, path, flags, mode);
}

int FlagsOf(const char* mode) {
  const bool is_both = std::strchr(mode, '+') != nullptr;
  const int is_new = std::strchr(mode, 'x') == nullptr ? 0 : O_EXCL;
  if (mode[0] == 'r') return is_both ? O_RDWR : O_RDONLY;
  const int way = is_both ? O_RDWR : O_WRONLY;
  return way | O_CREAT | is_new | (mode[0] == 'w' ? O_TRUNC : 0);
}

FILE* OpenStream(const char* path, const char* mode) {
  static auto* const real = RealOf<FILE*(const char*, const char*)>("fopen");
  Path room;
  path = ToOpen(AT_FDCWD, path, FlagsOf(mode), room);
  return path == nullptr ? nullptr : real(path, mode);
}

FILE* OpenAgain(const char* path, const char* mode, FILE* stream) {
  static auto* const real = RealOf<FILE*(const char*, const char*, FILE*)>("freopen");
  Path room;
  if (path == nullptr) return real(path, mode, stream);  // another mode of the same file
  path = ToOpen(AT_FDCWD, path, FlagsOf(mode), room);
  return path == nullptr ? nullptr : real(path, mode, stream);
}

// Six letters in front of the ending that are in no other name, as mkstemp(3) has them.
template <class Try>
int MakeUnique(char* text, int ending, Try attempt) {
  constexpr int kLetters = 6;
  constexpr int kTries = 1000;
  constexpr char kAll[] = "abcdefghijklmnopqrstuvwxyz0123456789";
  const auto length = static_cast<int>(std::strlen(text));
  char* const letters = text + length - ending - kLetters;
  errno = EINVAL;
  if (length < ending + kLetters || std::strncmp(letters, "XXXXXX", kLetters) != 0) return -1;
  int made = -1;
  errno = EEXIST;
  for (int i = 0; i < kTries && made < 0 && errno == EEXIST; ++i) {
    unsigned char chance[kLetters];
    if (syscall(SYS_getrandom, chance, sizeof chance, 0) != kLetters) return -1;
    for (int k = 0; k < kLetters; ++k) letters[k] = kAll[chance[k] % (sizeof kAll - 1)];
    made = attempt(text);
  }
  return made;
}

int OpenUnique(char* text, int ending, int flags) {
  constexpr int kOwn = O_RDWR | O_CREAT | O_EXCL;
  return MakeUnique(text, ending, [flags](const char* path) {
    return OpenAt(AT_FDCWD, path, (flags & ~O_ACCMODE) | kOwn, 0600);
  });
}

}  // namespace

KEPT_LIBC(int, open, (const char* path, int flags, mode_t mode)) {
  return OpenAt(AT_FDCWD, path, flags, mode);
}
KEPT_LIBC(int, open64, (const char* path, int flags, mode_t mode)) {
  return OpenAt(AT_FDCWD, path, flags, mode);
}
KEPT_LIBC(int, openat, (int folder, const char* path, int flags, mode_t mode)) {
  return OpenAt(folder, path, flags, mode);
}
KEPT_LIBC(int, openat64, (int folder, const char* path, int flags, mode_t mode)) {
  return OpenAt(folder, path, flags, mode);
}
KEPT_LIBC(int, __open_2, (const char* path, int flags)) { return OpenAt(AT_FDCWD, path, flags, 0); }
KEPT_LIBC(int, __open64_2, (const char* path, int flags)) {
  return OpenAt(AT_FDCWD, path, flags, 0);
}
KEPT_LIBC(int, __openat_2, (int folder, const char* path, int flags)) {
  return OpenAt(folder, path, flags, 0);
}
KEPT_LIBC(int, __openat64_2, (int folder, const char* path, int flags)) {
  return OpenAt(folder, path, flags, 0);
}
KEPT_LIBC(int, creat, (const char* path, mode_t mode)) {
  return OpenAt(AT_FDCWD, path, O_WRONLY | O_CREAT | O_TRUNC, mode);
}
KEPT_LIBC(int, creat64, (const char* path, mode_t mode)) {
  return OpenAt(AT_FDCWD, path, O_WRONLY | O_CREAT | O_TRUNC, mode);
}
KEPT_LIBC(FILE*, fopen, (const char* path, const char* mode)) { return OpenStream(path, mode); }
KEPT_LIBC(FILE*, fopen64, (const char* path, const char* mode)) { return OpenStream(path, mode); }
KEPT_LIBC(FILE*, freopen, (const char* path, const char* mode, FILE* stream)) {
  return OpenAgain(path, mode, stream);
}
KEPT_LIBC(FILE*, freopen64, (const char* path, const char* mode, FILE* stream)) {
  return OpenAgain(path, mode, stream);
}

#define KEPT_UNIQUE(name, parameters, ending, flags) \
  KEPT_LIBC(int, name, parameters) { return OpenUnique(text, ending, flags); }
KEPT_UNIQUE(mkstemp, (char* text), 0, 0)
KEPT_UNIQUE(mkstemp64, (char* text), 0, 0)
KEPT_UNIQUE(mkstemps, (char* text, int ending), ending, 0)
KEPT_UNIQUE(mkstemps64, (char* text, int ending), ending, 0)
KEPT_UNIQUE(mkostemp, (char* text, int flags), 0, flags)
KEPT_UNIQUE(mkostemp64, (char* text, int flags), 0, flags)
KEPT_UNIQUE(mkostemps, (char* text, int ending, int flags), ending, flags)
KEPT_UNIQUE(mkostemps64, (char* text, int ending, int flags), ending, flags)
KEPT_LIBC(char*, mkdtemp, (char* text)) {
  const int made = MakeUnique(text, 0, [](const char* path) { return mkdir(path, 0700); });
  return made == 0 ? text : nullptr;
}

}  // namespace onnxfit::absent

// For what calls the kernel by itself (hook/saves.py): where a file is to be written that the
// program calls `path`, until this thread asks again.  Null and errno where it cannot be.
extern "C" __attribute__((visibility("default"))) const char* onnxfit_saved_path(const char* path) {
  static thread_local onnxfit::absent::Path room;
  return onnxfit::absent::ToOpen(AT_FDCWD, path, O_WRONLY | O_CREAT | O_TRUNC, room);
}

// --- Libraries ----------------------------------------------------------------------------------

// dlopen() looks for a library where its caller says (RUNPATH), so that it has to be called from
// there: what stands under its name changes the path and jumps on.
extern "C" {
__attribute__((visibility("hidden"))) void* onnxfit_kept_dlopen = nullptr;
}

namespace onnxfit::absent {
namespace {

// What the card's own functions stand for.  Programs that do not link to these ask for their
// functions by name, from what dlopen() gives them: ONNX Runtime cuDNN's (1.31), Python's ctypes
// the runtime's, XLA's plugin those of all (jax 0.10.2).
constexpr std::string_view kStoodFor[] = {
    "libcudart", "libcublas",   "libcublasLt",   "libcudnn",    "libcufft",
    "libcurand", "libcusolver", "libcusparse",   "libcupti",    "libnccl",
    "libcuda",   "libcufile",   "libcusparseLt", "libnvidia-ml"};

// "libcudart.so.13", and as auditwheel names the copy in a wheel: "libcudart.faf08d9a.so.13"
// (torchvision 0.29), "libcudart-c64a25f3.so.12".  vLLM's sleep mode (0.33) opens whichever the
// process has loaded.
bool IsNamed(std::string_view name, std::string_view library) {
  if (!name.starts_with(library)) return false;
  const std::string_view rest = name.substr(library.size());
  return rest.starts_with('.') || rest.starts_with('-') ? rest.find(".so") != rest.npos : false;
}

bool IsAskedByName(const char* path) {
  const std::string_view name = NameOf(path);
  return std::any_of(std::begin(kStoodFor), std::end(kStoodFor),
                     [&](std::string_view known) { return IsNamed(name, known); });
}

// NVIDIA's libraries know one another's private functions, and what needs no card is asked of
// them (current.h): cuDNN's plans, versions.
bool IsOfNvidias(const void* caller) {
  Dl_info info;
  return dladdr(caller, &info) != 0 && info.dli_fname != nullptr && IsNvidias(info.dli_fname);
}

void* RealOpen(const char* path, int flags) {
  return reinterpret_cast<void* (*)(const char*, int)>(onnxfit_kept_dlopen)(path, flags);
}

// A library by its name in the folders that its caller's file names (RUNPATH), as the loader does
// it for that caller; null where it is in none.
void* OpenFor(const void* caller, const char* name, int flags) {
  Dl_info info;
  Dl_serinfo size;
  if (std::strchr(name, '/') != nullptr || dladdr(caller, &info) == 0) return nullptr;
  void* const file = RealOpen(info.dli_fname, RTLD_LAZY | RTLD_NOLOAD);
  if (file == nullptr || dlinfo(file, RTLD_DI_SERINFOSIZE, &size) != 0) return nullptr;
  std::vector<char> room(size.dls_size);
  auto* const folders = reinterpret_cast<Dl_serinfo*>(room.data());
  *folders = size;
  if (dlinfo(file, RTLD_DI_SERINFO, folders) != 0) return nullptr;
  void* found = nullptr;
  for (unsigned i = 0; found == nullptr && i < folders->dls_cnt; ++i) {
    const Path path(folders->dls_serpath[i].dls_name, "/");
    found = RealOpen(Path(path.view(), name).text(), flags);
  }
  return found;
}

// This library's own file, once the one at `path` is loaded, too; `path` where that fails.
const char* InsteadOf(const char* path, int flags, const void* caller) {
  Dl_info info;
  const bool is_loaded =
      RealOpen(path, flags) != nullptr || OpenFor(caller, path, flags) != nullptr;
  return is_loaded && dladdr(reinterpret_cast<void*>(&InsteadOf), &info) != 0 ? info.dli_fname
                                                                              : path;
}

}  // namespace
}  // namespace onnxfit::absent

extern "C" __attribute__((visibility("hidden"))) const char* onnxfit_kept_library(
    const char* path, int flags, const void* caller) {
  using onnxfit::absent::Path;
  static thread_local Path room;
  if (onnxfit_kept_dlopen == nullptr) onnxfit_kept_dlopen = dlsym(RTLD_NEXT, "dlopen");
  onnxfit::absent::ReplaceOwnRuntimes();
  if (path == nullptr) return path;
  const char* const kept = std::strchr(path, '/') == nullptr
                               ? nullptr
                               : onnxfit::absent::ToRead(AT_FDCWD, path, /*follows=*/true, room);
  const char* const found = kept == nullptr ? path : kept;
  const bool is_replaced = (flags & RTLD_NOLOAD) == 0 && onnxfit::absent::IsAskedByName(found) &&
                           !onnxfit::absent::IsOfNvidias(caller);
  return is_replaced ? onnxfit::absent::InsteadOf(found, flags, caller) : found;
}

asm(R"(
  .text
  .globl dlopen
  .type dlopen, @function
dlopen:
  mov (%rsp), %rdx
  push %rdi
  push %rsi
  sub $8, %rsp
  call onnxfit_kept_library
  add $8, %rsp
  pop %rsi
  pop %rdi
  mov %rax, %rdi
  jmp *onnxfit_kept_dlopen(%rip)
)");
