#include "cli/program_records.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <set>
#include <sstream>
#include <string_view>
#include <tuple>

#include "cli/program_lines.h"
#include "estimator/absent/run_folder.h"

namespace onnxfit {
namespace {

namespace fs = std::filesystem;

// "PID.torch.json": what PyTorch's side wrote when the process ended (hook/record.py).
constexpr std::string_view kTorchEnding = ".torch.json";

// "PID.JAX.pool.json": the same of another framework (hook/pools.py).
constexpr std::string_view kPoolEnding = ".pool.json";

// "PID.engine.json" (hook/engines.py).
constexpr std::string_view kEngineEnding = ".engine.json";

// In the order of their names.
std::string TextOf(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

// "10" is behind "9"; processes without a rank come first.
int64_t RankOf(const ProgramProcess& process) {
  return process.rank.empty() ? -1 : std::atoll(process.rank.c_str());
}

struct Sets {
  std::set<std::string> functions;
  std::set<std::string> sizes;
};

void ReadEvent(const std::string& line, DeviceRecords& records, Sets& sets) {
  std::istringstream words(line);
  std::string what;
  std::string second;
  words >> what >> second;
  if (what == "unknown") sets.functions.insert(second);
  if (what == "size") sets.sizes.insert(line.substr(what.size() + 1));
  uint64_t address = 0;
  int64_t bytes = 0;
  const bool is_of_card = what == "full" || what == "context";
  if (!is_of_card || !(words >> address >> bytes)) return;
  records.touched = true;
  const auto place = static_cast<size_t>(std::stoul(second));
  if (place >= records.cards.size()) return;
  if (what == "full") records.cards[place].refused.push_back(bytes);
}

// The number at that place of the counts' file.
template <class Number>
Number CountAt(const std::string& counts, size_t first, size_t place) {
  const size_t at = first + place * sizeof(Number);
  Number number = 0;
  if (counts.size() >= at + sizeof number) std::memcpy(&number, counts.data() + at, sizeof number);
  return number;
}

void ReadCounts(const std::string& counts, DeviceRecords& records) {
  constexpr size_t kPeaks = offsetof(absent::SharedCounts, peak_bytes);
  constexpr size_t kOpen = offsetof(absent::SharedCounts, open_at_peak);
  constexpr size_t kContexts = kOpen + offsetof(absent::SharedOpen, contexts);
  constexpr size_t kCommunicators = kOpen + offsetof(absent::SharedOpen, communicators);
  constexpr size_t kHost = offsetof(absent::SharedCounts, host_peak_bytes);
  records.pinned_peak_bytes = CountAt<int64_t>(counts, kHost, absent::kPinnedMemory);
  records.managed_peak_bytes = CountAt<int64_t>(counts, kHost, absent::kManagedMemory);
  for (size_t i = 0; i < records.cards.size(); ++i) {
    CardRecord& card = records.cards[i];
    card.peak_bytes = CountAt<int64_t>(counts, kPeaks, i);
    card.contexts = CountAt<int32_t>(counts, kContexts, i);
    card.communicators = CountAt<int32_t>(counts, kCommunicators, i);
    std::ranges::sort(card.refused, std::greater());
  }
}

// "WHAT\n" and a traceback, whose last line is the exception; an empty line behind each.
void ReadFailures(const fs::path& file, std::vector<std::string>& failures) {
  std::ifstream lines(file);
  std::string what;
  std::string last;
  for (std::string line; std::getline(lines, line);) {
    if (what.empty()) {
      what = line;
    } else if (line.empty()) {
      failures.push_back(fmt::format("{}: {}", what, last));
      what.clear();
    } else {
      last = line;
    }
  }
}

// Of a process that Python is in.
bool IsUnwatched(const fs::path& events) {
  const std::string pid = events.stem().string();
  return !fs::exists(events.parent_path() / (pid + absent::kPythonEnding));
}

// From where the command was started, if it is below.
std::string ShownPath(const std::string& path) {
  const std::string here = (fs::current_path() / "").string();
  return path.starts_with(here) ? path.substr(here.size()) : path;
}

}  // namespace

std::vector<fs::path> FilesEnding(const std::string& folder, std::string_view ending) {
  std::vector<fs::path> files;
  for (const auto& entry : fs::directory_iterator(folder)) {
    if (entry.path().filename().string().ends_with(ending)) files.push_back(entry.path());
  }
  std::ranges::sort(files);
  return files;
}

bool DeviceRecords::is_any_full() const {
  return std::ranges::any_of(cards, [](const CardRecord& card) { return !card.refused.empty(); });
}

DeviceRecords ReadDeviceRecords(const std::string& folder, size_t cards) {
  DeviceRecords records;
  records.cards.resize(cards);
  Sets sets;
  for (const fs::path& file : FilesEnding(folder, absent::kEventsEnding)) {
    std::ifstream lines(file);
    bool is_python = false;
    for (std::string line; std::getline(lines, line);) {
      ReadEvent(line, records, sets);
      is_python |= line == "python";
    }
    if (is_python && IsUnwatched(file)) ++records.unwatched;
  }
  for (const fs::path& file : FilesEnding(folder, absent::kFailuresEnding)) {
    ReadFailures(file, records.failures);
  }
  ReadCounts(TextOf(fs::path(folder) / absent::kCountsFile), records);
  records.unknown_functions.assign(sets.functions.begin(), sets.functions.end());
  records.unknown_sizes.assign(sets.sizes.begin(), sets.sizes.end());
  return records;
}

std::vector<ProgramProcess> ReadProcesses(const std::string& folder, size_t points) {
  std::vector<ProgramProcess> processes;
  for (const fs::path& file : FilesEnding(folder, kTorchEnding)) {
    ProgramProcess process = ReadProgramProcess(TextOf(file));
    ExplainEnd(process);
    const std::string snapshot = SnapshotPath(folder, process);
    if (fs::exists(snapshot)) {
      AddSnapshot({snapshot, PeakSnapshotPath(folder, process), folder}, points, process);
    }
    processes.push_back(std::move(process));
  }
  std::ranges::stable_sort(processes, {}, RankOf);
  return processes;
}

std::vector<FrameworkCounts> ReadFrameworks(const std::string& folder) {
  std::vector<FrameworkCounts> frameworks;
  for (const fs::path& file : FilesEnding(folder, kPoolEnding)) {
    frameworks.push_back(ReadFrameworkCounts(TextOf(file)));
  }
  std::ranges::stable_sort(frameworks, {}, &FrameworkCounts::pid);
  return frameworks;
}

std::optional<ServingEngine> ReadEngine(const std::string& folder) {
  std::vector<std::string> jsons;
  for (const fs::path& file : FilesEnding(folder, kEngineEnding)) jsons.push_back(TextOf(file));
  return ReadServingEngine(jsons);
}

std::vector<std::string> ReadSaved(const std::string& folder) {
  struct Row {
    bool is_hidden;
    fs::file_time_type written;
    std::string path;
    auto key() const { return std::tie(is_hidden, written, path); }
  };
  std::vector<Row> rows;
  const fs::path root = fs::path(folder) / absent::kSavedFolder;
  std::error_code error;
  for (fs::recursive_directory_iterator at(root, error), end; at != end; at.increment(error)) {
    if (fs::is_directory(at->symlink_status(error))) continue;
    const std::string path = ShownPath("/" + at->path().lexically_relative(root).string());
    rows.push_back({path.find("/.") != path.npos || path.starts_with('.'),
                    fs::last_write_time(at->path(), error), path});
    if (error) rows.back().written = fs::file_time_type::min();  // a link to nothing
  }
  std::ranges::sort(rows, {}, &Row::key);
  std::vector<std::string> paths;
  for (const Row& row : rows) paths.push_back(row.path);
  return paths;
}

std::string SnapshotPath(const std::string& folder, const ProgramProcess& process) {
  return fmt::format("{}/{}.snapshot.pickle", folder, process.pid);
}

std::string PeakSnapshotPath(const std::string& folder, const ProgramProcess& process) {
  return fmt::format("{}/{}.peak.pickle", folder, process.pid);
}

}  // namespace onnxfit
