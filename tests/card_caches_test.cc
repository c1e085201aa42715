// What cards say of their L2 and their memory's bus.
#include "estimator/base/card_caches.h"

#include <doctest/doctest.h>

#include "estimator/base/cards.h"

namespace onnxfit::card_caches_test {
namespace {

TEST_CASE("cards have the L2 of their chip") {
  struct Row {
    const char* card;
    int l2_bytes;
    int bus_bits;
  };
  // As public outputs of deviceQuery show them.
  const Row rows[] = {
      {"gtx1060", 1572864, 192},  {"gtx1070", 2097152, 256}, {"p100", 4194304, 4096},
      {"rtx2050", 1048576, 64},   {"rtx2060", 3145728, 192}, {"a100-40gb", 41943040, 5120},
      {"rtx4090", 75497472, 384},
  };
  for (const Row& row : rows) {
    CAPTURE(row.card);
    const Card* const card = FindCard(row.card);
    REQUIRE(card != nullptr);
    CHECK(CachesOf(card->device).l2_bytes == row.l2_bytes);
    CHECK(CachesOf(card->device).bus_bits == row.bus_bits);
  }
}

TEST_CASE("a card without a row has that of its generation") {
  CHECK(CachesOf({.name = "of nobody", .compute_capability = 90}).l2_bytes == 50 << 20);
  CHECK(CachesOf({.name = "of nobody", .compute_capability = 121}).l2_bytes == 48 << 20);
  for (const Card& card : Cards()) {
    CAPTURE(card.alias);
    CHECK(CachesOf(card.device).l2_bytes > 0);
    CHECK(CachesOf(card.device).bus_bits > 0);
  }
}

}  // namespace
}  // namespace onnxfit::card_caches_test
