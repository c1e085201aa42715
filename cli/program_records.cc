#include "cli/program_records.h"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <set>
#include <sstream>
#include <string_view>

#include "estimator/absent/run_folder.h"
#include "estimator/base/file_bytes.h"

namespace onnxfit {
namespace {

namespace fs = std::filesystem;

// In the order of their names.
std::vector<fs::path> FilesEnding(const std::string& folder, std::string_view ending) {
  std::vector<fs::path> files;
  for (const auto& entry : fs::directory_iterator(folder)) {
    if (entry.path().filename().string().ends_with(ending)) files.push_back(entry.path());
  }
  std::ranges::sort(files);
  return files;
}

std::string TextOf(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
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
  if (what == "context") records.touched = true;
  uint64_t address = 0;
  int64_t bytes = 0;
  if (what != "full" || !(words >> address >> bytes)) return;
  const auto place = static_cast<size_t>(std::stoul(second));
  if (place < records.refused.size()) records.refused[place].push_back(bytes);
}

}  // namespace

int64_t PeakBytes(const std::string& folder, size_t place) {
  const std::string bytes = TextOf(fs::path(folder) / absent::kCountsFile);
  const size_t at = offsetof(absent::SharedCounts, peak_bytes) + place * sizeof(int64_t);
  int64_t peak = 0;
  if (bytes.size() >= at + sizeof peak) std::memcpy(&peak, bytes.data() + at, sizeof peak);
  return peak;
}

DeviceRecords ReadDeviceRecords(const std::string& folder, size_t cards) {
  DeviceRecords records;
  records.refused.resize(cards);
  Sets sets;
  for (const fs::path& file : FilesEnding(folder, absent::kEventsEnding)) {
    std::ifstream lines(file);
    for (std::string line; std::getline(lines, line);) ReadEvent(line, records, sets);
  }
  for (std::vector<int64_t>& refused : records.refused) std::ranges::sort(refused, std::greater());
  records.unknown_functions.assign(sets.functions.begin(), sets.functions.end());
  records.unknown_sizes.assign(sets.sizes.begin(), sets.sizes.end());
  return records;
}

std::vector<ProgramProcess> ReadProcesses(const std::string& folder) {
  std::vector<ProgramProcess> processes;
  for (const fs::path& file : FilesEnding(folder, ".torch.json")) {
    ProgramProcess process = ReadProgramProcess(TextOf(file));
    if (!process.peaks.empty()) processes.push_back(std::move(process));
  }
  std::ranges::stable_sort(processes, {},
                           [](const ProgramProcess& process) { return process.rank; });
  return processes;
}

}  // namespace onnxfit
