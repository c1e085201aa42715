#include "cli/host_watch.h"

#include <doctest/doctest.h>
#include <fmt/format.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <thread>

#include "cli/process_tree.h"
#include "tests/absent_runs.h"

namespace onnxfit::host_watch_test {
namespace {

constexpr int64_t kMiB = 1 << 20;

// Holds that many bytes for a while, and shares them with a child of its own.
void Hold(size_t bytes) {
  const std::string held(bytes, 'x');
  const pid_t child = fork();
  std::this_thread::sleep_for(std::chrono::milliseconds(1500));
  if (child != 0) waitpid(child, nullptr, 0);
  _exit(held.size() == bytes ? 0 : 1);
}

TEST_CASE("descendants are children, and theirs") {
  const RunningProcesses processes = {{5, {.parent = 3}},
                                      {3, {.parent = 2}},
                                      {4, {.parent = 1}},
                                      {2, {.parent = 1}},
                                      {6, {.parent = 2}}};
  CHECK(DescendantsOf(2, processes) == std::vector<pid_t>{3, 6, 5});
  CHECK(DescendantsOf(7, processes).empty());
}

TEST_CASE("a page that two processes share counts once") {
  const HostWatch watch;
  const pid_t child = fork();
  if (child == 0) Hold(384 * kMiB);
  waitpid(child, nullptr, 0);
  const HostPeak peak = watch.Peak();
  CHECK(peak.bytes > 384 * kMiB);
  CHECK(peak.bytes < 700 * kMiB);  // and what the tests themselves share with it
}

int64_t PinnedBytes(const std::string& words) {
  const auto run = absent_runs::RunClient({"-g", "t4", "-f", "json"}, words);
  return nlohmann::json::parse(run.out)["host"]["pinned_bytes"];
}

TEST_CASE("pinned memory counts in whole pages, the most of it at once") {
  CHECK(PinnedBytes("take 1") == 0);
  CHECK(PinnedBytes("call cudaHostAlloc @p 4097 0 .") == 8192);
  CHECK(PinnedBytes("call cudaHostAlloc @p 4096 0 . call cudaFreeHost p . "
                    "call cudaHostAlloc @q 4096 0 .") == 4096);
}

}  // namespace
}  // namespace onnxfit::host_watch_test
