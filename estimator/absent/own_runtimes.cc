#include "estimator/absent/own_runtimes.h"

#include <dlfcn.h>
#include <elf.h>
#include <fcntl.h>
#include <link.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <functional>
#include <iterator>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "estimator/absent/current.h"

namespace onnxfit::absent {
namespace {

// What needs no card, as they are in any runtime: they make no context and ask no driver.
constexpr std::string_view kLeft[] = {"cudaRuntimeGetVersion", "cudaGetErrorName",
                                      "cudaGetErrorString"};

// movabs $address, %rax; jmp *%rax
struct [[gnu::packed]] Jump {
  uint8_t move[2] = {0x48, 0xb8};
  uint64_t address = 0;
  uint8_t jump[2] = {0xff, 0xe0};
};

// A file of a loaded object, to read its tables.
class MappedFile {
 public:
  explicit MappedFile(const char* path) {
    const auto file = static_cast<int>(syscall(SYS_openat, AT_FDCWD, path, O_RDONLY | O_CLOEXEC));
    const off_t size = file < 0 ? -1 : lseek(file, 0, SEEK_END);
    if (size > 0) {
      size_ = static_cast<size_t>(size);
      void* const at = mmap(nullptr, size_, PROT_READ, MAP_PRIVATE, file, 0);
      bytes_ = at == MAP_FAILED ? nullptr : static_cast<const char*>(at);
    }
    if (file >= 0) syscall(SYS_close, file);
  }
  ~MappedFile() {
    if (bytes_ != nullptr) munmap(const_cast<char*>(bytes_), size_);
  }
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  // `count` of them at that place of the file; null where it has not so many.
  template <class T>
  const T* Rows(uint64_t at, uint64_t count) const {
    const bool is_there = bytes_ != nullptr && at <= size_ && count <= (size_ - at) / sizeof(T);
    return is_there ? reinterpret_cast<const T*>(bytes_ + at) : nullptr;
  }

 private:
  const char* bytes_ = nullptr;
  size_t size_ = 0;
};

struct Symbols {
  const Elf64_Sym* rows = nullptr;
  size_t count = 0;
  std::string_view names = {};  // each with its zero

  std::string_view NameOf(const Elf64_Sym& symbol) const {
    if (symbol.st_name >= names.size()) return {};
    const std::string_view rest = names.substr(symbol.st_name);
    return rest.substr(0, rest.find('\0'));
  }
};

// SHT_SYMTAB: of local functions, too; none in a file that was stripped.  SHT_DYNSYM: of those that
// others may find.
Symbols SymbolsOf(const MappedFile& file, uint32_t type) {
  const auto* const header = file.Rows<Elf64_Ehdr>(0, 1);
  if (header == nullptr || std::memcmp(header->e_ident, ELFMAG, SELFMAG) != 0) return {};
  const auto* const sections = file.Rows<Elf64_Shdr>(header->e_shoff, header->e_shnum);
  if (sections == nullptr) return {};
  for (size_t i = 0; i < header->e_shnum; ++i) {
    const Elf64_Shdr& section = sections[i];
    if (section.sh_type != type || section.sh_link >= header->e_shnum) continue;
    const Elf64_Shdr& texts = sections[section.sh_link];
    const size_t count = section.sh_size / sizeof(Elf64_Sym);
    const auto* const rows = file.Rows<Elf64_Sym>(section.sh_offset, count);
    const auto* const names = file.Rows<char>(texts.sh_offset, texts.sh_size);
    if (rows == nullptr || names == nullptr) return {};
    return {rows, count, {names, texts.sh_size}};
  }
  return {};
}

// Of a static library's functions a file's own calls alone know: what others may find by its name
// the loader has led to us already, and TensorFlow's (2.21) leads to whatever dlopen() gave it.
bool IsOfRuntime(const Elf64_Sym& symbol, std::string_view name) {
  const bool is_local = ELF64_ST_BIND(symbol.st_info) == STB_LOCAL ||
                        ELF64_ST_VISIBILITY(symbol.st_other) == STV_HIDDEN;
  return is_local && ELF64_ST_TYPE(symbol.st_info) == STT_FUNC && symbol.st_shndx != SHN_UNDEF &&
         (name.starts_with("cuda") || name.starts_with("__cuda"));
}

// Where a function's first instruction leads, a jump (e9) or one behind a third argument of 0
// (xor %edx, %edx; e9); 0 for another.
uint64_t WhereJumps(uint64_t function) {
  constexpr uint8_t kJump = 0xe9;
  constexpr uint8_t kNoThird[] = {0x31, 0xd2};
  const auto* at = reinterpret_cast<const uint8_t*>(function);
  if (std::equal(std::begin(kNoThird), std::end(kNoThird), at)) at += sizeof kNoThird;
  if (*at != kJump) return 0;
  int32_t distance = 0;
  std::memcpy(&distance, at + 1, sizeof distance);
  return reinterpret_cast<uint64_t>(at + 1 + sizeof distance + distance);
}

// Over the first bytes of a function.  False where the system does not let us.
bool WriteJump(uint64_t function, const void* target) {
  const auto page_bytes = static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
  const uint64_t first = function & ~(page_bytes - 1);
  const uint64_t end = function + sizeof(Jump);
  auto* const pages = reinterpret_cast<void*>(first);
  if (mprotect(pages, end - first, PROT_READ | PROT_WRITE | PROT_EXEC) != 0) return false;
  Jump jump;
  jump.address = reinterpret_cast<uint64_t>(target);
  std::memcpy(reinterpret_cast<void*>(function), &jump, sizeof jump);
  return mprotect(pages, end - first, PROT_READ | PROT_EXEC) == 0;
}

class OwnRuntimes {
 public:
  void Look() {
    const std::lock_guard lock(mutex_);
    std::vector<std::pair<uint64_t, std::string>> loaded;
    dl_iterate_phdr(
        [](dl_phdr_info* info, size_t, void* all) {
          static_cast<decltype(loaded)*>(all)->emplace_back(info->dlpi_addr, info->dlpi_name);
          return 0;
        },
        &loaded);
    for (const auto& [base, path] : loaded) {
      if (seen_.insert({base, path}).second && !IsNvidias(path)) Replace(base, path);
    }
  }

  void* Left(std::string_view name) {
    const std::lock_guard lock(mutex_);
    const auto found = left_.find(name);
    return found == left_.end() ? nullptr : found->second;
  }

 private:
  // The program itself has no name.
  void Replace(uint64_t base, const std::string& path) {
    const MappedFile file(path.empty() ? "/proc/self/exe" : path.c_str());
    const Symbols symbols = SymbolsOf(file, SHT_SYMTAB);
    for (size_t i = 0; i < symbols.count; ++i) {
      const std::string_view name = symbols.NameOf(symbols.rows[i]);
      if (IsOfRuntime(symbols.rows[i], name)) ReplaceOne(base, symbols.rows[i], name);
    }
    if (symbols.count > 0) return;
    const Symbols shown = SymbolsOf(file, SHT_DYNSYM);
    for (size_t i = 0; i < shown.count; ++i) {
      const bool is_here = shown.rows[i].st_shndx != SHN_UNDEF;
      if (is_here) ReplaceShown(base + shown.rows[i].st_value, shown.NameOf(shown.rows[i]));
    }
  }

  // CUTLASS DSL's runtime (nvidia-cutlass-dsl 4.8.0, libcute_dsl_runtime.so) is stripped, and has
  // its own cudaMalloc() behind _cudaMalloc(), which jumps there; _cuLibraryLoadData() and others
  // of the driver ask it for the driver's, with the same arguments.
  static void ReplaceShown(uint64_t function, std::string_view name) {
    const bool is_of_driver = name.starts_with("_cu") && !name.starts_with("_cuda");
    if (!is_of_driver && !name.starts_with("_cuda")) return;
    const std::string own(name.substr(1));
    void* const same = OwnFunction(own.c_str());
    void* const ours = same != nullptr ? same : OwnFunction((own + "C").c_str());
    const uint64_t at = is_of_driver ? function : WhereJumps(function);
    if (ours != nullptr && at != 0) WriteJump(at, ours);
  }

  void ReplaceOne(uint64_t base, const Elf64_Sym& symbol, std::string_view name) {
    const uint64_t function = base + symbol.st_value;
    if (std::find(std::begin(kLeft), std::end(kLeft), name) != std::end(kLeft)) {
      left_.emplace(name, reinterpret_cast<void*>(function));
      return;
    }
    void* const ours = OwnFunction(std::string(name).c_str());
    const bool is_other = reinterpret_cast<uint64_t>(ours) != function;
    if (ours != nullptr && is_other && symbol.st_size >= sizeof(Jump)) WriteJump(function, ours);
  }

  std::mutex mutex_;
  std::set<std::pair<uint64_t, std::string>> seen_;
  std::map<std::string, void*, std::less<>> left_;
};

OwnRuntimes& All() {
  static auto* const runtimes = new OwnRuntimes;  // outlives destructors
  return *runtimes;
}

// What is linked to the program is there before its first line.
[[gnu::constructor]] void LookAtProgram() { ReplaceOwnRuntimes(); }

}  // namespace

void ReplaceOwnRuntimes() {
  if (!Machine().cards.empty()) All().Look();
}

void* OwnRuntimeFunction(const char* name) { return All().Left(name); }

}  // namespace onnxfit::absent
