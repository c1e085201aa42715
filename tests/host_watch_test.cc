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

nlohmann::json AskedAbout(const std::string& ram, const std::string& words, int code) {
  const auto run = absent_runs::RunClient({"-g", "t4", "-f", "json", "--ram", ram}, words);
  CHECK(run.code == code);
  return nlohmann::json::parse(run.out);
}

TEST_CASE("a run fits RAM of a size, or does not") {
  const std::string words = "call cudaHostAlloc @p 67108864 0 .";
  CHECK(AskedAbout("32MiB", words, 1)["targets"][0]["verdict"] == "oom");
  CHECK(AskedAbout("66MiB", words, 0)["targets"][0]["verdict"] == "tight");
  CHECK(AskedAbout("1GB", words, 0)["targets"][0]["verdict"] == "fits");
  CHECK(AskedAbout("1GB", words, 0)["host"]["limit_bytes"] == 1000000000);
}

TEST_CASE("managed memory is on the card as far as there is room") {
  const auto fits = AskedAbout("1GB", "call cudaMallocManaged @p 8388608 1 .", 0);
  CHECK(fits["host"]["managed_bytes"] == 8 * kMiB);
  CHECK(fits["host"]["most_bytes"] < 100 * kMiB);
  CHECK(fits["targets"][0]["verdict"] == "fits");
  // 20 GiB more than the card has, which no driver refuses
  const auto spills = AskedAbout("8GiB", "call cudaMallocManaged @p 37580963840 1 .", 0);
  CHECK(spills["host"]["most_bytes"] > 20 * 1024 * kMiB);
  CHECK(spills["targets"][0]["verdict"] == "tight");
}

}  // namespace
}  // namespace onnxfit::host_watch_test
