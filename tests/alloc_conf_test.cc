#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <vector>

#include "cli/values.h"
#include "estimator/base/bytes.h"
#include "estimator/base/error.h"
#include "tests/trace_helpers.h"

namespace onnxfit::alloc_conf_test {
namespace {

AllocatorConf Conf(const std::string& text) { return ParseAllocConf({"--alloc-conf", text}).conf; }

std::string Divisions(const std::string& value) {
  std::string text;
  for (const int64_t n : Conf("roundup_power2_divisions:" + value).roundup_divisions) {
    text += fmt::format("{}{}", text.empty() ? "" : " ", n);
  }
  return text;
}

std::string ErrorOf(const std::string& text) {
  try {
    Conf(text);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

}  // namespace

TEST_CASE("options reach their places") {
  CHECK(Conf("expandable_segments:True").expandable_segments);
  CHECK_FALSE(Conf("expandable_segments:False").expandable_segments);
  CHECK(Conf("max_split_size_mb:20").max_split_bytes == 20 * kMiB);
  CHECK(Conf("max_non_split_rounding_mb:40").max_non_split_rounding_bytes == 40 * kMiB);
  CHECK(Conf("garbage_collection_threshold:0.6").garbage_collection_threshold == 0.6);
  CHECK(Conf("per_process_memory_fraction:0").memory_fraction == 0);
  CHECK(Conf("backend:native") == AllocatorConf());
  const AllocatorConf both = Conf(" max_split_size_mb : 64 ,large_segment_size_mb:32, ");
  CHECK(both.max_split_bytes == 64 * kMiB);
  CHECK(both.large_segment_bytes == 32 * kMiB);
  CHECK(both.max_non_split_rounding_bytes == 32 * kMiB);
  CHECK(Conf("max_split_size_mb:21,max_split_size_mb:22").max_split_bytes == 22 * kMiB);
  CHECK(Conf("max_split_size_mb:9000000000000000").max_split_bytes > int64_t{1} << 62);
}

// What c10::CachingAllocator::AcceleratorAllocatorConfig of PyTorch 2.11.0 makes of them.
TEST_CASE("divisions are those of PyTorch for every class of sizes") {
  struct Row {
    std::string value;
    std::string divisions;
  };
  const Row rows[] = {
      {"4", "4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4"},
      {"[256:1,512:2,1024:4,>:8]", "1 1 1 1 1 1 1 1 1 2 4 8 8 8 8 8"},
      {"[256:1,512:2,1024:4,>:0]", "1 1 1 1 1 1 1 1 1 2 4 0 0 0 0 0"},
      {"[64:2,256:4]", "2 2 2 2 2 2 2 0 4 0 0 0 0 0 0 0"},
      {"[256:4,64:2]", "4 4 4 4 4 4 2 4 4 0 0 0 0 0 0 0"},
      {"[>:8]", "0 8 8 8 8 8 8 8 8 8 8 8 8 8 8 8"},
      {"[>:8,64:2]", "2 2 2 2 2 2 2 8 8 8 8 8 8 8 8 8"},
      {"[64:8,>:2,256:4]", "8 8 8 8 8 8 8 2 4 2 2 2 2 2 2 2"},
      {"[1:2,131072:4]", "2 0 0 0 0 0 0 0 0 0 0 0 0 0 0 4"},
      {"[]", "0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0"},
  };
  for (const Row& row : rows) {
    CAPTURE(row.value);
    CHECK(Divisions(row.value) == row.divisions);
  }
}

TEST_CASE("options that change no byte are taken and named") {
  const AllocConf given =
      ParseAllocConf({"",
                      "pinned_use_background_threads:True,release_lock_on_cudamalloc:True,"
                      "pinned_num_register_threads:8,graph_capture_record_stream_reuse:False,"
                      "pinned_reserve_segment_size_mb:5,max_split_size_mb:64"});
  CHECK(given.text.starts_with("pinned_use_background_threads:True,release"));
  CHECK(given.conf == Conf("max_split_size_mb:64"));
  CHECK(given.idle_options ==
        std::vector<std::string>{"release_lock_on_cudamalloc", "graph_capture_record_stream_reuse",
                                 "pinned_use_background_threads", "pinned_num_register_threads",
                                 "pinned_reserve_segment_size_mb"});
}

TEST_CASE("what PyTorch refuses is refused") {
  struct Row {
    std::string text;
    std::string error;
  };
  const Row rows[] = {
      {"", "--alloc-conf: expected options such as expandable_segments:True, found nothing"},
      {"expandable_segment:True",
       "--alloc-conf: expected an option of PYTORCH_ALLOC_CONF in pytorch-2.11, found "
       "'expandable_segment' (did "
       "you "
       "mean 'expandable_segments'?)"},
      {"max_split_size_mb=64",
       "--alloc-conf: expected an option of PYTORCH_ALLOC_CONF in pytorch-2.11, found "
       "'max_split_size_mb=64' (did "
       "you mean 'max_split_size_mb'?)"},
      {"throw_on_cudamalloc_oom:True",
       "--alloc-conf: expected an option of PYTORCH_ALLOC_CONF in pytorch-2.11, found "
       "'throw_on_cudamalloc_oom'"},
      {"expandable_segments:true",
       "--alloc-conf expandable_segments: expected True or False, found 'true'"},
      {"expandable_segments",
       "--alloc-conf expandable_segments: expected True or False, found nothing"},
      {"max_split_size_mb:19",
       "--alloc-conf max_split_size_mb: expected a whole number from 20, found '19'"},
      {"max_split_size_mb:21,large_segment_size_mb:64",
       "--alloc-conf max_split_size_mb: expected a whole number from 64, found '21'"},
      {"max_non_split_rounding_mb:19",
       "--alloc-conf max_non_split_rounding_mb: expected a whole number from 20, found '19'"},
      {"large_segment_size_mb:10",
       "--alloc-conf large_segment_size_mb: expected a whole number from 11, found '10'"},
      {"garbage_collection_threshold:1",
       "--alloc-conf garbage_collection_threshold: expected a number between 0 and 1, found '1'"},
      {"garbage_collection_threshold:nan",
       "--alloc-conf garbage_collection_threshold: expected a number between 0 and 1, found 'nan'"},
      {"per_process_memory_fraction:1.5",
       "--alloc-conf per_process_memory_fraction: expected a number from 0 to 1, found '1.5'"},
      {"per_process_memory_fraction:0.5x",
       "--alloc-conf per_process_memory_fraction: expected a number from 0 to 1, found '0.5x'"},
      {"roundup_power2_divisions:3",
       "--alloc-conf roundup_power2_divisions: expected a power of 2, found '3'"},
      {"roundup_power2_divisions:0",
       "--alloc-conf roundup_power2_divisions: expected a whole number from 1, found '0'"},
      {"roundup_power2_divisions:[256:3]",
       "--alloc-conf roundup_power2_divisions 256: expected a power of 2, found '3'"},
      {"roundup_power2_divisions:[100:2]",
       "--alloc-conf roundup_power2_divisions: expected a power of 2, found '100'"},
      {"roundup_power2_divisions:[256:2",
       "--alloc-conf roundup_power2_divisions: expected a list such as [256:1,512:2,>:4], found "
       "'[256:2'"},
      {"backend:cudaMallocAsync",
       "--alloc-conf backend: expected native (cudaMallocAsync is not modelled), found "
       "'cudaMallocAsync'"},
      {",", "--alloc-conf: expected options such as expandable_segments:True, found ','"},
      {"pinned_use_cuda_host_register:1",
       "--alloc-conf pinned_use_cuda_host_register: expected True or False, found '1'"},
  };
  for (const Row& row : rows) {
    CAPTURE(row.text);
    CHECK(ErrorOf(row.text) == row.error);
  }
}

TEST_CASE("an estimate says what it ran with, and what had no say in it") {
  const std::string text =
      "per_process_memory_fraction:0,pinned_use_background_threads:True,expandable_segments:True";
  const Estimate estimate =
      MakeEstimate(ParseGraph(kTwoLayers), {.alloc_conf = ParseAllocConf({"--alloc-conf", text})});
  const auto has = [](const std::vector<std::string>& lines, const std::string& line) {
    return std::find(lines.begin(), lines.end(), line) != lines.end();
  };
  CHECK(estimate.alloc_conf == text);
  CHECK(
      has(estimate.assumptions, "the card is so large that its memory fraction is never reached"));
  CHECK(has(estimate.notes, "pinned_use_background_threads changes no byte on the card"));
}

TEST_CASE("garbage collection without a limit is said to do nothing") {
  const Estimate estimate =
      MakeEstimate(ParseGraph(kTwoLayers),
                   {.alloc_conf = ParseAllocConf({"", "garbage_collection_threshold:0.6"})});
  CHECK(estimate.notes.back() ==
        "garbage_collection_threshold acts with per_process_memory_fraction alone");
}

}  // namespace onnxfit::alloc_conf_test
