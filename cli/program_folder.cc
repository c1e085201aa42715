#include "cli/program_folder.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <span>
#include <string_view>

#include "cli/absent_library.h"
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

void WriteBytes(const fs::path& path, std::span<const unsigned char> bytes) {
  std::ofstream file(path, std::ios::binary);
  file.write(reinterpret_cast<const char*>(bytes.data()),
             static_cast<std::streamsize>(bytes.size()));
  if (!file.good()) throw Error({.text = fmt::format("{} could not be written", path.string())});
}

void WriteLibrary(const fs::path& folder) {
  if (AbsentLibrary().empty()) {
    throw Error({.text = "running a program: expected Linux on x86-64",
                 .hint = "onnxfit model.pt2 -b 8 -g t4, which runs anywhere"});
  }
  fs::create_directory(folder);
  WriteBytes(folder / kLibrary, AbsentLibrary());
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

std::string Prefixed(const char* variable, const std::string& first) {
  const char* const rest = std::getenv(variable);
  const bool has_rest = rest != nullptr && *rest != '\0';
  return fmt::format("{}={}{}{}", variable, first, has_rest ? ":" : "", has_rest ? rest : "");
}

}  // namespace

ProgramFolder::ProgramFolder(const std::vector<Target>& cards) {
  std::string name = (fs::temp_directory_path() / "onnxfit-run-XXXXXX").string();
  if (mkdtemp(name.data()) == nullptr) {
    throw Error({.text = fmt::format("no folder for the run in {}: {}",
                                     fs::temp_directory_path().string(), std::strerror(errno))});
  }
  path_ = name;
  WriteLibrary(fs::path(path_) / kLibraries);
  WriteHooks(fs::path(path_) / absent::kHooksFolder);
  WriteCards(fs::path(path_) / absent::kCardsFile, cards);
}

ProgramFolder::~ProgramFolder() {
  std::error_code ignored;
  fs::remove_all(path_, ignored);
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
