// In the place of libFuzzer where g++ builds: runs all files of the folders given, then changes of
// them that nothing guides, for -max_total_time=SECONDS.  The input that a run died of is still in
// the target's folder; fuzz.py has it.
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <string_view>
#include <vector>

#include "tests/fuzz/mutate.h"
#include "tests/fuzz/targets.h"

namespace onnxfit::fuzz {
namespace {

namespace fs = std::filesystem;

constexpr unsigned kMostSeconds = 30;  // of one run: SIGALRM ends it
constexpr size_t kMostBytes = 1 << 16;

int64_t FlagValue(const std::vector<std::string>& words, std::string_view flag) {
  for (const std::string& word : words) {
    if (word.starts_with(flag)) return std::strtoll(word.c_str() + flag.size(), nullptr, 10);
  }
  return 0;
}

std::string BytesOf(const fs::path& file) {
  std::ifstream stream(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(stream), {}};
}

// Of all files in the folders among `words`, sorted.
std::vector<std::string> SeedsIn(const std::vector<std::string>& words) {
  std::vector<fs::path> files;
  for (const std::string& word : words) {
    if (!fs::is_directory(word)) continue;
    for (const auto& entry : fs::recursive_directory_iterator(word)) {
      if (entry.is_regular_file()) files.push_back(entry.path());
    }
  }
  std::sort(files.begin(), files.end());
  std::vector<std::string> seeds;
  for (const fs::path& file : files) seeds.push_back(BytesOf(file));
  return seeds;
}

void RunWithin(const std::string& bytes) {
  alarm(kMostSeconds);
  RunTarget(bytes);
  alarm(0);
}

std::string Changed(const std::vector<std::string>& seeds, Random& random) {
  std::string bytes = seeds[Below(seeds.size(), random)];
  if (OneIn(4, random)) bytes = CrossTarget(bytes, seeds[Below(seeds.size(), random)], random);
  for (size_t i = 1 + Below(3, random); i > 0; --i) {
    bytes = MutateTarget(bytes, kMostBytes, random);
  }
  return bytes;
}

int Main(const std::vector<std::string>& words) {
  OpenTarget(words);
  const std::vector<std::string> seeds = SeedsIn(words);
  for (const std::string& seed : seeds) RunWithin(seed);
  int64_t runs = static_cast<int64_t>(seeds.size());
  const auto seed = static_cast<Random::result_type>(FlagValue(words, "-seed="));
  Random random(seed != 0 ? seed : std::random_device()());
  const auto end =
      std::chrono::steady_clock::now() + std::chrono::seconds(FlagValue(words, "-max_total_time="));
  for (; !seeds.empty() && std::chrono::steady_clock::now() < end; ++runs) {
    RunWithin(Changed(seeds, random));
  }
  std::printf("stat::number_of_executed_units: %lld\n", static_cast<long long>(runs));
  return seeds.empty() ? 1 : 0;
}

}  // namespace
}  // namespace onnxfit::fuzz

// As libFuzzer's, of the same name.
extern "C" size_t LLVMFuzzerMutate(uint8_t* data, size_t size, size_t most) {
  static onnxfit::fuzz::Random random;
  std::string bytes(data, data + size);
  const size_t at = onnxfit::fuzz::Below(size + 1, random);
  const size_t count = onnxfit::fuzz::Below(4, random);
  if (onnxfit::fuzz::OneIn(3, random)) bytes.erase(at, count);
  if (onnxfit::fuzz::OneIn(3, random)) bytes.insert(at, bytes.substr(at / 2, count));
  if (at < bytes.size()) bytes[at] = static_cast<char>(onnxfit::fuzz::Below(256, random));
  bytes.resize(std::min(bytes.size(), most));
  std::copy(bytes.begin(), bytes.end(), data);
  return bytes.size();
}

int main(int argc, char** argv) {
  return onnxfit::fuzz::Main(std::vector<std::string>(argv + 1, argv + argc));
}
