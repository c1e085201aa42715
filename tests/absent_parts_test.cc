// Parts of the card that is not there that need no program: which addresses it hands out, what it
// knows of its contents, and which convolution a plan of cuDNN's is about.
#include <doctest/doctest.h>

#include <array>
#include <cstring>
#include <optional>
#include <string>
#include <vector>

#include "estimator/absent/addresses.h"
#include "estimator/absent/contents.h"
#include "estimator/absent/cudnn_layers.h"
#include "estimator/absent/images.h"
#include "estimator/absent/memory.h"
#include "estimator/absent/process_stat.h"
#include "estimator/absent/reductions.h"
#include "estimator/absent/run_folder.h"

namespace onnxfit::absent_parts_test {
namespace {

using absent::Addresses;

constexpr uint64_t kPage = 2 << 20;

TEST_CASE("addresses rise, then fall") {
  Addresses addresses(0, 10 * kPage, 4 * kPage);
  std::vector<uint64_t> pages;
  for (const uint64_t count : {1U, 2U, 2U, 1U, 1U})
    pages.push_back(addresses.Take(count * kPage) / kPage);
  // 6 to 9 rise: of two pages only one is left, so that two lie below.
  CHECK(pages == std::vector<uint64_t>{6, 7, 4, 9, 3});
}

TEST_CASE("addresses that were given back are handed out again") {
  Addresses addresses(0, 10 * kPage, 4 * kPage);
  CHECK(addresses.Take(4 * kPage) == 6 * kPage);
  CHECK(addresses.Take(3 * kPage) == 3 * kPage);
  addresses.Give(7 * kPage, kPage);
  addresses.Give(8 * kPage, kPage);
  CHECK(addresses.Take(2 * kPage) == 7 * kPage);  // both, as one
  addresses.Give(4 * kPage, 2 * kPage);
  CHECK(addresses.Take(kPage) == 5 * kPage);  // the highest below
  CHECK(addresses.Take(20 * kPage) == 0);
}

TEST_CASE("cards whose addresses all rise") {
  Addresses addresses(kPage, 10 * kPage, absent::RisingBytes(86));
  CHECK(addresses.Take(kPage) == kPage);
  CHECK(addresses.Take(kPage) == 2 * kPage);
  CHECK(absent::RisingBytes(90) < absent::RisingBytes(86));
}

using absent::Image;

TEST_CASE("the image of a kernel that a card runs") {
  // Those of PyTorch 2.11.0+cu130, vLLM 0.33.0's attention (2, 3) and its products of 4 bits.
  const std::vector<Image> torch = {{.capability = 75}, {.capability = 80},  {.capability = 86},
                                    {.capability = 90}, {.capability = 100}, {.capability = 120}};
  const std::vector<Image> second = {{.is_ptx = true, .capability = 80}, {.capability = 80}};
  const std::vector<Image> third = {{.is_for_one = true, .capability = 90}};
  struct Row {
    const std::vector<Image>& images;
    int capability;
    std::optional<Image> chosen;
  };
  const Row rows[] = {
      {torch, 75, Image{.capability = 75}},
      {torch, 89, Image{.capability = 86}},  // an L4: none is for it alone
      {torch, 90, Image{.capability = 90}},
      {torch, 103, Image{.capability = 100}},
      {torch, 70, std::nullopt},
      {torch, 110, std::nullopt},  // another generation's machine code does not run
      {second, 89, Image{.capability = 80}},
      {second, 90, Image{.is_ptx = true, .capability = 80}},
      {second, 75, std::nullopt},
      {third, 90, Image{.is_for_one = true, .capability = 90}},
      {third, 100, std::nullopt},
  };
  for (const Row& row : rows) {
    CAPTURE(row.capability);
    CHECK(absent::ChosenImage(row.images, row.capability) == row.chosen);
  }
}

// As nvcc 13.0.88 writes them: the first words of an image, at 40 whether it is for one card alone.
struct FatBinary {
  struct Words {
    uint32_t words[18];
  };
  uint32_t magic = 0xBA55ED50;
  uint16_t version = 1;
  uint16_t header_bytes = 16;
  uint64_t bytes = sizeof images;
  Words images[3] = {{{0x01010002, 64, 8, 0, 0, 0, 0x10008, 80, 0, 0, 0x11}},
                     {{0x01010001, 64, 8, 0, 0, 0, 0x90000, 86, 0, 0, 0x8011}},
                     {{0x01010002, 64, 8, 0, 0, 0, 0x10008, 90, 0, 0, 0x100011}}};
};

struct FatBinaryWrapper {
  uint32_t magic = 0x466243B1;
  uint32_t version = 1;
  const void* data = nullptr;
  void* rest = nullptr;
};

TEST_CASE("the images of a fat binary") {
  const FatBinary binary;
  FatBinaryWrapper wrapper = {.data = &binary};
  CHECK(absent::ImagesOf(&wrapper) == std::vector<Image>{{.capability = 80},
                                                         {.is_ptx = true, .capability = 86},
                                                         {.is_for_one = true, .capability = 90}});
  absent::RegisterKernel(&wrapper, &binary);  // any address that the host calls it by
  CHECK(absent::ImageOf(&binary, 89) == Image{.capability = 80});
  CHECK(!absent::ImageOf(&wrapper, 89));
  wrapper.magic = 0;
  CHECK(absent::ImagesOf(&wrapper).empty());
}

using absent::Basis;
using absent::Value;

// Eight bytes of a card, of which nothing is known.
void* Forgotten(uint64_t place) {
  const uint64_t address = absent::kFirstAddress + place;
  absent::ForgetContents(address, 8);
  void* device = nullptr;
  std::memcpy(&device, &address, sizeof device);
  return device;
}

// As they are read: '.' for what is unknown.
std::string BytesOf(void* device) {
  std::string text;
  for (uint64_t i = 0; i < 8; ++i) {
    char byte = 0;
    const auto address = reinterpret_cast<uint64_t>(device) + i;
    text += onnxfit_peek(&byte, address, 1) == 1 ? byte : '.';
  }
  return text;
}

TEST_CASE("what is unknown stays unknown where it is copied to") {
  void* const from = Forgotten(0);
  void* const to = Forgotten(64);
  absent::CopyBytes(to, "ABCDEFGH", 8);
  absent::CopyBytes(static_cast<char*>(from) + 2, "xy", 2);
  absent::CopyBytes(to, from, 6);
  CHECK(BytesOf(to) == "..xy..GH");
  absent::CopyBytes(static_cast<char*>(to) + 1, to, 7);  // they overlap
  CHECK(BytesOf(to) == "...xy..G");
}

TEST_CASE("a guess is read as one, and stays one") {
  void* const from = Forgotten(0);
  void* const to = Forgotten(64);
  absent::WriteBytes(from, "ABCD", 4, Basis::kGuess);
  absent::CopyBytes(to, from, 8);
  CHECK(BytesOf(to) == "........");
  CHECK(absent::ReadValue(to, 8) == std::nullopt);
  const std::optional<Value> value = absent::ReadValue(to, 4);
  REQUIRE(value);
  CHECK(value->bytes == "ABCD");
  CHECK(value->basis == Basis::kGuess);
  absent::CopyBytes(to, "EFGH", 4);
  absent::Doubt(static_cast<char*>(to) + 1, 2);
  CHECK(BytesOf(to) == "E..H....");
}

TEST_CASE("a kernel may write to all that lies behind an address, up to the next block") {
  void* const block = Forgotten(0);
  void* const next = Forgotten(512);
  absent::CopyBytes(block, "ABCDEFGH", 8);  // of an earlier tensor
  absent::CopyBytes(block, "xy", 2);
  absent::CopyBytes(next, "ABCDEFGH", 8);
  absent::ForgetAround(absent::kFirstAddress);
  CHECK(BytesOf(block) == "........");
  CHECK(BytesOf(next) == "ABCDEFGH");
}

std::optional<Value> Float(float number, Basis basis = Basis::kKnown) {
  Value value = {std::string(sizeof number, '\0'), basis};
  std::memcpy(value.bytes.data(), &number, sizeof number);
  return value;
}

TEST_CASE("a reduction of a guess is a guess") {
  constexpr int kFloat = 7;
  constexpr int kSum = 0;
  struct Row {
    std::optional<Value> other;
    std::optional<Basis> expected;
  };
  const std::array<Row, 3> rows = {Row{Float(2), Basis::kKnown},
                                   Row{Float(2, Basis::kGuess), Basis::kGuess},
                                   Row{std::nullopt, std::nullopt}};
  for (const Row& row : rows) {
    const std::optional<Value> sum = absent::Reduced({Float(1), row.other}, kFloat, kSum);
    REQUIRE(sum.has_value() == row.expected.has_value());
    if (!sum) continue;
    CHECK(sum->basis == *row.expected);
    CHECK(sum->bytes == Float(3)->bytes);
  }
}

TEST_CASE("what Linux says of a process") {
  struct Row {
    const char* line;
    const char* name;
    char state;
    pid_t parent;
  };
  const Row rows[] = {
      {"12 (python) S 3 12 12 0", "python", 'S', 3},
      {"12 (a (b) c) Z 1 0", "a (b) c", 'Z', 1},
      {"12 (ends) Z) R 7", "ends) Z", 'R', 7},
  };
  for (const Row& row : rows) {
    CAPTURE(row.line);
    const auto stat = absent::ParseProcessStat(row.line);
    REQUIRE(stat);
    CHECK(stat->name == row.name);
    CHECK(stat->state == row.state);
    CHECK(stat->parent == row.parent);
  }
  const char* const line = "12 (python) S 3 12 12 0 -1 4194304 7 0 0 0 250 50 0 0 20 0";
  CHECK(absent::ParseProcessStat(line)->ticks == 300);
  CHECK(absent::ParseProcessStat("12 (python) S 3 12")->ticks == 0);
  CHECK(!absent::ParseProcessStat(""));
  CHECK(!absent::ParseProcessStat("12 (python"));
  CHECK(!absent::ParseProcessStat("12 (python) S"));
}

TEST_CASE("a socket's address is short wherever the folder lies") {
  CHECK(std::string(absent::AsksAddress(7).sun_path) == "/proc/self/fd/7/asks");
}

// Sets what PyTorch sets, by the numbers of cudnn_graph.h.
struct Described {
  int x = 0, w = 0, y = 0, window = 0, operation = 0, graph = 0, heuristics = 0, config = 0,
      plan = 0;

  static void Set(int& of, int attribute, const std::vector<int64_t>& numbers) {
    absent::FollowCudnn(&of, attribute, static_cast<int64_t>(numbers.size()), numbers.data());
  }
  static void Point(int& of, int attribute, int& to) {
    void* const descriptor = &to;
    absent::FollowCudnn(&of, attribute, 1, &descriptor);
  }
  static void Tensor(int& of, const std::vector<int64_t>& dims,
                     const std::vector<int64_t>& strides) {
    const int bfloat16 = 9;
    absent::FollowCudnn(&of, 901, 1, &bfloat16);
    Set(of, 902, dims);
    Set(of, 903, strides);
  }
  Described() {
    Tensor(x, {4, 8, 6, 6}, {288, 1, 48, 8});
    Tensor(w, {16, 4, 3, 3}, {36, 1, 12, 4});
    Tensor(y, {4, 16, 3, 3}, {144, 1, 48, 16});
    Set(window, 102, {1, 1});
    Set(window, 103, {2, 2});
    Set(window, 105, {1, 0});
    for (const auto& [attribute, part] :
         {std::pair(714, &window), std::pair(715, &w), std::pair(716, &x), std::pair(717, &y)}) {
      Point(operation, attribute, *part);
    }
    Point(graph, 801, operation);
    Point(heuristics, 201, graph);
    absent::FollowEngine(&heuristics, &config, 0);
    Point(plan, 401, config);
  }
  ~Described() {
    for (int* part : {&x, &w, &y, &window, &operation, &graph, &heuristics, &config, &plan})
      absent::ForgetCudnn(part);
  }
};

TEST_CASE("a plan is followed to its convolution") {
  Described described;
  const auto layer = absent::LayerOf(&described.plan);
  REQUIRE(layer != nullptr);
  CHECK(absent::LayerText(*layer) ==
        "weight_gradient bfloat16 last 4,8,6,6 16,4,3,3 4,16,3,3 2,2 1,0 1,1");
  CHECK(!absent::IsPoint(*layer));
  CHECK(absent::ConfigOf(&described.plan) == &described.config);
  CHECK(absent::LayerOf(&described.x) == nullptr);
}

TEST_CASE("the first plan is the one that a program takes which does not try them") {
  Described described;
  int config = 0;
  int plan = 0;
  absent::FollowEngine(&described.heuristics, &config, 1);
  Described::Point(plan, 401, config);
  absent::NotePlan(&plan, 512);  // place 0 could not be made
  absent::NotePlan(&described.plan, std::nullopt);
  CHECK(absent::IsFirstPlan(&plan));
  CHECK(!absent::IsFirstPlan(&described.plan));
  CHECK(absent::NotedBytes(&plan) == 512);
  CHECK(absent::NotedBytes(&described.plan) == std::nullopt);
  absent::ForgetCudnn(&config);
  absent::ForgetCudnn(&plan);
}

TEST_CASE("a graph of several operations is none that is known") {
  Described described;
  int graph = 0;
  void* const both[] = {&described.operation, &described.operation};
  absent::FollowCudnn(&graph, 801, 2, both);
  CHECK(absent::LayerOf(&graph) == nullptr);
  absent::ForgetCudnn(&graph);
}

}  // namespace
}  // namespace onnxfit::absent_parts_test
