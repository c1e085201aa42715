// The caching allocator against what PyTorch's own did: every allocation and free of a
// recorded run, and a new segment wherever PyTorch took one.
#include <doctest/doctest.h>

#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "estimator/memory/allocator.h"
#include "tests/paths.h"

namespace onnxfit::recorded_events_test {
namespace {

namespace fs = std::filesystem;

// Plays a recording: after every allocation as much is reserved as PyTorch had reserved.
void Play(std::istream& recording) {
  const auto source = NewCountingSource(int64_t{1} << 60);
  const auto allocator = NewCachingAllocator(*source);
  int64_t recorded_reserved = 0;
  BufferId next = 0;
  int events = 0;
  for (std::string line; std::getline(recording, line); ++events) {
    if (line.starts_with('#')) continue;
    CAPTURE(line);
    const AllocatorStats before = allocator->stats();
    if (line[0] == 's') {
      recorded_reserved += std::stoll(line.substr(2));
      continue;  // the allocation that needs it comes next
    }
    if (line[0] == '+') {
      REQUIRE(allocator->Alloc(next++, std::stoll(line.substr(1))));
      REQUIRE(allocator->stats().reserved_bytes == recorded_reserved);
      continue;
    }
    std::istringstream words(line.substr(1));
    BufferId buffer = 0;
    int64_t bytes = 0;
    words >> buffer >> bytes;
    allocator->Free(buffer);
    REQUIRE(before.requested_bytes - allocator->stats().requested_bytes == bytes);
  }
  CHECK(events > 500);
}

TEST_CASE("the caching allocator does what PyTorch's did, event by event") {
  int files = 0;
  for (const auto& entry : fs::directory_iterator(fs::path(kSourceDir) / "tests/data")) {
    if (entry.path().extension() != ".events") continue;
    CAPTURE(entry.path().filename().string());
    std::ifstream recording(entry.path());
    Play(recording);
    ++files;
  }
  CHECK(files >= 2);
}

}  // namespace
}  // namespace onnxfit::recorded_events_test
