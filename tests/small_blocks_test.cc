#include "estimator/base/small_blocks.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <random>
#include <thread>
#include <utility>
#include <vector>

namespace onnxfit::small_blocks_test {

struct Taken {
  unsigned char* block = nullptr;
  size_t bytes = 0;
  unsigned char mark = 0;  // that all of its bytes hold
};

Taken Take(size_t bytes, unsigned char mark) {
  auto* block = static_cast<unsigned char*>(TakeSmallBlock(bytes));
  REQUIRE(block != nullptr);
  CHECK(IsSmallBlock(block));
  CHECK(reinterpret_cast<uintptr_t>(block) % 16 == 0);
  std::fill_n(block, bytes, mark);
  return {block, bytes, mark};
}

bool HoldsItsMark(const Taken& taken) {
  return std::all_of(taken.block, taken.block + taken.bytes,
                     [&](unsigned char byte) { return byte == taken.mark; });
}

// Takes and gives blocks of random sizes; returns what is left, as another thread's to give.
std::vector<Taken> TakeAndGive(unsigned seed) {
  std::mt19937 random(seed);
  std::vector<Taken> taken;
  for (int i = 0; i < 50'000; ++i) {
    if (taken.size() < 200 || random() % 2 == 0) {
      taken.push_back(Take(random() % (kLargestSmallBlock + 1), static_cast<unsigned char>(i)));
      continue;
    }
    std::swap(taken[random() % taken.size()], taken.back());
    REQUIRE(HoldsItsMark(taken.back()));
    GiveSmallBlock(taken.back().block);
    taken.pop_back();
  }
  return taken;
}

TEST_CASE("a block is nobody else's until it is given back") {
  for (const Taken& taken : TakeAndGive(1)) {
    REQUIRE(HoldsItsMark(taken));
    GiveSmallBlock(taken.block);
  }
}

TEST_CASE("a block that was given back is the next of its size") {
  void* block = TakeSmallBlock(40);
  GiveSmallBlock(block);
  CHECK(TakeSmallBlock(100) != block);
  CHECK(TakeSmallBlock(33) == block);  // 48 bytes, as 40
}

TEST_CASE("blocks of no bytes differ") { CHECK(TakeSmallBlock(0) != TakeSmallBlock(0)); }

TEST_CASE("what malloc gives is no small block, whatever its size") {
  for (const size_t bytes : {size_t{1}, size_t{100}, size_t{1} << 20, size_t{1} << 28}) {
    void* memory = std::malloc(bytes);
    CHECK(!IsSmallBlock(memory));
    std::free(memory);
  }
  CHECK(!IsSmallBlock(nullptr));
}

TEST_CASE("threads take, and give what others took") {
  std::vector<std::vector<Taken>> left(4);
  {
    std::vector<std::jthread> threads;
    for (unsigned i = 0; i < left.size(); ++i) {
      threads.emplace_back([&left, i] { left[i] = TakeAndGive(i); });
    }
  }
  for (const std::vector<Taken>& all : left) {
    for (const Taken& taken : all) {
      REQUIRE(HoldsItsMark(taken));
      GiveSmallBlock(taken.block);
    }
  }
}

TEST_CASE("what a thread leaves when it ends, others take") {
  void* block = nullptr;
  std::jthread([&block] {
    block = TakeSmallBlock(400);
    GiveSmallBlock(block);
  }).join();
  std::vector<void*> taken;  // first what this thread has itself
  while (taken.size() < 100'000 && (taken.empty() || taken.back() != block)) {
    taken.push_back(TakeSmallBlock(400));
  }
  CHECK(taken.back() == block);
}

}  // namespace onnxfit::small_blocks_test
