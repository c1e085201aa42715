#include "cli/process_tree.h"

#include <charconv>
#include <filesystem>
#include <fstream>
#include <map>

#include "estimator/absent/process_stat.h"

namespace onnxfit {

std::vector<RunningProcess> RunningProcesses() {
  std::vector<RunningProcess> processes;
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator("/proc", ignored)) {
    RunningProcess process;
    const std::string name = entry.path().filename().string();
    const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), process.pid);
    if (error != std::errc() || end != name.data() + name.size()) continue;
    std::string line;
    std::getline(std::ifstream(entry.path() / "stat"), line);
    const auto stat = absent::ParseProcessStat(line);
    if (!stat || stat->state == 'Z') continue;
    process.parent = stat->parent;
    process.name = stat->name;
    processes.push_back(std::move(process));
  }
  return processes;
}

std::vector<pid_t> DescendantsOf(pid_t ancestor, const std::vector<RunningProcess>& processes) {
  std::multimap<pid_t, pid_t> by_parent;
  for (const RunningProcess& process : processes) by_parent.emplace(process.parent, process.pid);
  std::vector<pid_t> found = {ancestor};
  for (size_t next = 0; next < found.size(); ++next) {
    const auto [begin, end] = by_parent.equal_range(found[next]);
    for (auto child = begin; child != end; ++child) found.push_back(child->second);
  }
  found.erase(found.begin());
  return found;
}

}  // namespace onnxfit
