#include "cli/process_tree.h"

#include <charconv>
#include <filesystem>
#include <fstream>
#include <string>
#include <system_error>

namespace onnxfit {

RunningProcesses AllProcesses() {
  RunningProcesses processes;
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator("/proc", ignored)) {
    const std::string name = entry.path().filename().string();
    pid_t pid = 0;
    const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), pid);
    if (error != std::errc() || end != name.data() + name.size()) continue;
    std::string line;
    std::getline(std::ifstream(entry.path() / "stat"), line);
    const auto stat = absent::ParseProcessStat(line);
    if (stat && stat->state != 'Z') processes.emplace(pid, *stat);
  }
  return processes;
}

std::vector<pid_t> DescendantsOf(pid_t ancestor, const RunningProcesses& processes) {
  std::multimap<pid_t, pid_t> by_parent;
  for (const auto& [pid, stat] : processes) by_parent.emplace(stat.parent, pid);
  std::vector<pid_t> found = {ancestor};
  for (size_t next = 0; next < found.size(); ++next) {
    const auto [begin, end] = by_parent.equal_range(found[next]);
    for (auto child = begin; child != end; ++child) found.push_back(child->second);
  }
  found.erase(found.begin());
  return found;
}

}  // namespace onnxfit
