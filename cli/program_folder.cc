#include "cli/program_folder.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <span>
#include <string_view>

#include "cli/absent_library.h"
#include "cli/work_folder.h"
#include "estimator/absent/run_folder.h"
#include "estimator/base/card_caches.h"
#include "estimator/base/error.h"

namespace onnxfit {

namespace {

namespace fs = std::filesystem;

constexpr std::string_view kLibrary = "libonnxfit_absent.so";
constexpr std::string_view kLibraries = "lib";

// Names by which programs open what is in the library: the same file, so that the loader gives
// them the one that is there.
constexpr std::string_view kOtherNames[] = {"libcuda.so.1", "libcuda.so", "libnvidia-ml.so.1"};

void WriteLibrary(const fs::path& folder) {
  const std::string library = AbsentLibrary();
  if (library.empty()) {
    throw Error({.text = "running a program: expected Linux on x86-64",
                 .hint = "onnxfit model.pt2 -b 8 -g t4, which runs anywhere"});
  }
  fs::create_directory(folder);
  WriteBytes(folder / kLibrary, library);
  for (const std::string_view name : kOtherNames) fs::create_symlink(kLibrary, folder / name);
}

void WriteHooks(const fs::path& folder) {
  fs::create_directory(folder);
  for (const HookFile& file : HookFiles()) WriteBytes(folder / file.name, *file.bytes);
}

// NVIDIA's cards call themselves so, whatever the table's rows leave out.
std::string FullName(const std::string& name) {
  return name.starts_with("NVIDIA") || name.starts_with("Tesla") ? name : "NVIDIA " + name;
}

void WriteCards(const fs::path& path, const std::vector<Target>& cards) {
  std::ofstream file(path);
  for (const Target& card : cards) {
    const CardCaches caches = CachesOf(card.device);
    file << fmt::format("{}\t{}\t{}\t{}\t{}\t{}\t{}\t{}\n", FullName(card.device.name),
                        card.device.compute_capability, card.device.multiprocessors,
                        card.device.threads_per_multiprocessor,
                        card.usable_bytes(),  // what others have of it is not there
                        card.device.context.bytes, caches.l2_bytes, caches.bus_bits);
  }
}

// Nothing is behind them: who opens one has a device that answers nothing.
void WriteDevices(const fs::path& folder, size_t cards) {
  fs::create_directory(folder);
  for (const char* const name : {"nvidiactl", "nvidia-uvm"}) {
    fs::create_symlink("/dev/null", folder / name);
  }
  for (size_t i = 0; i < cards; ++i) {
    fs::create_symlink("/dev/null", folder / fmt::format("nvidia{}", i));
  }
}

std::string Prefixed(const char* variable, const std::string& first) {
  const char* const rest = std::getenv(variable);
  const bool has_rest = rest != nullptr && *rest != '\0';
  return fmt::format("{}={}{}{}", variable, first, has_rest ? ":" : "", has_rest ? rest : "");
}

// --- Where it lies ------------------------------------------------------------------------------

constexpr std::string_view kNames = "onnxfit-run-";

// LD_PRELOAD and paths of libraries have no way to quote these (ld.so(8)).
constexpr std::string_view kApart = " \t\n:;$";

fs::path TemporaryFolder() {
  const char* const asked = std::getenv("TMPDIR");
  for (const char* const name : {asked == nullptr ? "/tmp" : asked, "/tmp", "/var/tmp"}) {
    std::error_code error;
    const fs::path path = fs::absolute(name, error);
    const bool is_apart = path.string().find_first_of(kApart) != std::string::npos;
    if (!is_apart && access(path.c_str(), W_OK | X_OK) == 0) return path;
  }
  throw Error({.text = fmt::format("no folder for the run: expected a temporary one whose path has "
                                   "no blank, ':', ';' or '$', found {}",
                                   asked == nullptr ? "/tmp" : asked),
               .hint = "TMPDIR=/dev/shm"});
}

// --- Runs that were killed ----------------------------------------------------------------------

// A run holds a lock on this file, which the kernel takes back however it ends.
constexpr std::string_view kOwner = "owner";

// -1 where there is none, or another has it.
int LockedFile(const fs::path& file, int flags) {
  const int lock = open(file.c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW | flags, 0600);
  if (lock >= 0 && flock(lock, LOCK_EX | LOCK_NB) == 0) return lock;
  if (lock >= 0) close(lock);
  return -1;
}

// Under its name once it is locked, so that nobody finds it without.
int TakeLock(const fs::path& folder) {
  const fs::path part = folder / "owner.part";
  const int lock = LockedFile(part, O_CREAT);
  std::error_code ignored;
  fs::rename(part, folder / kOwner, ignored);
  return lock;
}

// Whether a process that a killed run has left still writes there.
bool IsUsed(const fs::path& folder) {
  const std::string variable = fmt::format("{}={}", absent::kFolderVariable, folder.string());
  std::error_code ignored;
  for (const auto& process : fs::directory_iterator("/proc", ignored)) {
    std::ifstream variables(process.path() / "environ", std::ios::binary);
    for (std::string one; std::getline(variables, one, '\0');) {
      if (one == variable) return true;
    }
  }
  return false;
}

bool IsOurs(const fs::directory_entry& entry) {
  struct stat status = {};
  return entry.path().filename().string().starts_with(kNames) &&
         lstat(entry.path().c_str(), &status) == 0 && S_ISDIR(status.st_mode) &&
         status.st_uid == geteuid();
}

void RemoveKilled(const fs::path& temporary) {
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(temporary, ignored)) {
    if (!IsOurs(entry)) continue;
    const int lock = LockedFile(entry.path() / kOwner, 0);
    if (lock < 0) continue;
    if (!IsUsed(entry.path())) fs::remove_all(entry.path(), ignored);
    close(lock);
  }
}

}  // namespace

ProgramFolder::ProgramFolder(const std::vector<Target>& cards) {
  const fs::path temporary = TemporaryFolder();
  RemoveKilled(temporary);
  std::string name = (temporary / kNames).string() + "XXXXXX";
  if (mkdtemp(name.data()) == nullptr) {
    throw Error({.text = fmt::format("no folder for the run in {}: {}", temporary.string(),
                                     std::strerror(errno))});
  }
  path_ = name;
  lock_ = TakeLock(path_);
  WriteLibrary(fs::path(path_) / kLibraries);
  WriteHooks(fs::path(path_) / absent::kHooksFolder);
  WriteCards(fs::path(path_) / absent::kCardsFile, cards);
  WriteDevices(fs::path(path_) / absent::kDeviceFolder, cards.size());
}

ProgramFolder::~ProgramFolder() {
  std::error_code ignored;
  fs::remove_all(path_, ignored);
  if (lock_ >= 0) close(lock_);
}

std::vector<std::string> ProgramFolder::variables() const {
  const std::string libraries = fmt::format("{}/{}", path_, kLibraries);
  return {fmt::format("{}={}", absent::kFolderVariable, path_),
          Prefixed("LD_PRELOAD", fmt::format("{}/{}", libraries, kLibrary)),
          Prefixed("LD_LIBRARY_PATH", libraries),
          Prefixed(absent::kPythonVariable, fmt::format("{}/{}", path_, absent::kHooksFolder)),
          fmt::format("TRITON_LIBCUDA_PATH={}", libraries)};
}

}  // namespace onnxfit
