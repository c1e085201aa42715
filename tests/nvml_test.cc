// What is read of a driver's management library: one of the tests' own, which is opened as the
// driver's is.
#include "estimator/cuda/nvml.h"

#include <doctest/doctest.h>
#include <unistd.h>

#include "estimator/base/bytes.h"
#include "tests/nvml_library.h"
#include "tests/paths.h"

namespace onnxfit::nvml_test {
namespace {

constexpr char kBusId[] = "0000:65:00.0";
constexpr unsigned long long kNotAvailable = ~0ull;

unsigned int OwnPid() { return static_cast<unsigned int>(getpid()); }

// "p7:1048576 p9:-"
std::string Text(const std::vector<GpuProcess>& processes) {
  std::string text;
  for (const GpuProcess& process : processes) {
    if (!text.empty()) text += ' ';
    text += process.name + ":" + (process.bytes ? std::to_string(*process.bytes) : "-");
  }
  return text;
}

TEST_CASE("a library is open for as long as it is asked") {
  const NvmlLibrary library(kCountingNvml);
  library->total_bytes = 8 * kGiB;
  {
    const Nvml nvml(kCountingNvml);
    CHECK(library->open == 1);
    CHECK(nvml.DriverVersion() == "580.65.06");
    CHECK(nvml.TotalBytes(kBusId) == 8 * kGiB);
    CHECK(!nvml.TotalBytes("0000:00:00.0").has_value());
    CHECK(!nvml.TotalBytes("").has_value());
  }
  CHECK(library->open == 0);
}

TEST_CASE("processes have names, but for this one, the largest first") {
  const NvmlLibrary library(kCountingNvml);
  library->compute = {{7, 5}, {OwnPid(), 300}, {9, 20}};
  library->graphics = {{9, 20}, {8, 10}};
  const Nvml nvml(kCountingNvml);
  const NvmlProcesses found = nvml.Processes(kBusId);
  CHECK(found.has_this_process);
  CHECK(found.own_bytes == 300);
  CHECK(Text(found.others) == "p9:20 p8:10 p7:5");
  CHECK(found.others[0].pid == 9);
  CHECK(library->named == 3);
  CHECK(nvml.OwnBytes(kBusId) == 300);
  CHECK(library->named == 3);
}

TEST_CASE("entries are read in either length that drivers write") {
  for (const bool is_long : {false, true}) {
    CAPTURE(is_long);
    const NvmlLibrary library(kCountingNvml);
    library->long_entries = is_long;
    library->compute = {{7, 5}, {9, 20}, {OwnPid(), 300}};
    const NvmlProcesses found = Nvml(kCountingNvml).Processes(kBusId);
    CHECK(found.own_bytes == 300);
    CHECK(Text(found.others) == "p9:20 p7:5");
  }
}

TEST_CASE("a list that grows while it is asked for is asked for again") {
  const NvmlLibrary library(kCountingNvml);
  library->compute = {{OwnPid(), 300}};
  library->growing = 2;
  const Nvml nvml(kCountingNvml);
  CHECK(nvml.Processes(kBusId).others.size() == 200);
  library->compute = {{OwnPid(), 300}};
  library->growing = 1000;  // without end
  CHECK(!nvml.Processes(kBusId).has_this_process);
}

TEST_CASE("what a driver does not tell is not told") {
  const NvmlLibrary library(kCountingNvml);
  const Nvml nvml(kCountingNvml);
  SUBCASE("sizes, under WDDM") {
    library->compute = {{OwnPid(), kNotAvailable}, {7, kNotAvailable}};
    const NvmlProcesses found = nvml.Processes(kBusId);
    CHECK(found.has_this_process);
    CHECK(!found.own_bytes.has_value());
    CHECK(Text(found.others) == "p7:-");
  }
  SUBCASE("who this is, in a container") {
    library->compute = {{7, 5}};
    const NvmlProcesses found = nvml.Processes(kBusId);
    CHECK(!found.has_this_process);
    CHECK(!found.own_bytes.has_value());
    CHECK(!nvml.OwnBytes(kBusId).has_value());
  }
  SUBCASE("lists, without permission") {
    library->compute = {{OwnPid(), 300}};
    library->list_status = 4;
    CHECK(!nvml.Processes(kBusId).has_this_process);
  }
  SUBCASE("names: then the kernel's, of those that it has") {
    library->name_status = 6;
    library->compute = {{1, 5}, {1u << 30, 4}};
    const NvmlProcesses found = nvml.Processes(kBusId);
    REQUIRE(found.others.size() == 2);
    CHECK(!found.others[0].name.empty());
    CHECK(found.others[0].name != "p1");
    CHECK(found.others[1].name.empty());
  }
  SUBCASE("the total") { CHECK(!nvml.TotalBytes(kBusId).has_value()); }
}

TEST_CASE("of a slice (MIG) the others are those of the slice") {
  const NvmlLibrary library(kCountingNvml);
  library->compute = {{7, 5, 1}, {OwnPid(), 300, 2}, {9, 20, 2}};
  CHECK(Text(Nvml(kCountingNvml).Processes(kBusId).others) == "p9:20");
}

TEST_CASE("a library without the calls, one that does not start, or none at all says nothing") {
  const auto says_nothing = [](const char* path) {
    const Nvml nvml(path);
    const NvmlProcesses found = nvml.Processes(kBusId);
    return !found.has_this_process && !found.own_bytes && found.others.empty() &&
           !nvml.OwnBytes(kBusId);
  };
  const NvmlLibrary old(kOldNvml);
  old->compute = {{OwnPid(), 300}};
  old->total_bytes = kGiB;
  CHECK(says_nothing(kOldNvml));
  CHECK(Nvml(kOldNvml).TotalBytes(kBusId) == kGiB);

  const NvmlLibrary broken(kCountingNvml);
  broken->compute = {{OwnPid(), 300}};
  broken->init_status = 9;
  CHECK(says_nothing(kCountingNvml));
  CHECK(Nvml(kCountingNvml).DriverVersion() == "");
  CHECK(broken->open == 0);

  CHECK(says_nothing("no-such-library.so"));
  CHECK(Nvml("no-such-library.so").DriverVersion() == "");
}

}  // namespace
}  // namespace onnxfit::nvml_test
