#include "estimator/absent/card.h"

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <sstream>

#include "estimator/absent/run_folder.h"

namespace onnxfit::absent {
namespace {

AbsentCard CardOf(const std::string& line, int place) {
  AbsentCard card;
  std::istringstream words(line);
  std::getline(words, card.name, '\t');
  words >> card.capability >> card.multiprocessors >> card.threads >> card.total_bytes >>
      card.context_bytes >> card.l2_bytes >> card.bus_bits;
  card.place = place;
  return card;
}

std::vector<AbsentCard> CardsIn(const std::string& file) {
  std::vector<AbsentCard> cards;
  std::ifstream lines(file);
  for (std::string line; std::getline(lines, line) && cards.size() < kMostCards;) {
    cards.push_back(CardOf(line, static_cast<int>(cards.size())));
  }
  return cards;
}

// CUDA reads numbers up to the first that names no card (Programming Guide, "CUDA Environment
// Variables"); names of cards ("GPU-…") are taken for all of them.
std::vector<AbsentCard> Visible(const std::vector<AbsentCard>& all) {
  const char* const text = std::getenv("CUDA_VISIBLE_DEVICES");
  if (text == nullptr || std::string(text).find("GPU-") != std::string::npos) return all;
  std::vector<AbsentCard> cards;
  std::istringstream words(text);
  for (std::string word; std::getline(words, word, ',');) {
    char* end = nullptr;
    const long number = std::strtol(word.c_str(), &end, 10);
    if (end == word.c_str() || number < 0 || number >= static_cast<long>(all.size())) break;
    cards.push_back(all[static_cast<size_t>(number)]);
  }
  return cards;
}

AbsentMachine ReadMachine() {
  const char* const folder = std::getenv(kFolderVariable);
  if (folder == nullptr) return {};
  const std::vector<AbsentCard> all = CardsIn(std::string(folder) + "/" + kCardsFile);
  return {.folder = folder, .cards = Visible(all), .all = all};
}

// As driver_types.h numbers them (CUDA 13.0); those of one value for every card.
struct AttributeRow {
  int attribute = 0;
  int value = 0;
};

constexpr AttributeRow kAttributes[] = {
    {1, kThreadsPerBlock},
    {2, kBlockSides[0]},
    {3, kBlockSides[1]},
    {4, kBlockSides[2]},
    {5, kGridSides[0]},
    {6, kGridSides[1]},
    {7, kGridSides[2]},
    {8, kSharedBytes},
    {9, 64 << 10},  // constant memory
    {10, kWarp},
    {12, kRegisters},  // of a block
    {13, 1755000},     // clock, kHz
    {14, 512},         // alignment of textures
    {15, 1},           // copies while kernels run
    {19, 1},           // maps host memory
    {31, 1},           // concurrent kernels
    {36, 1593000},     // clock of the memory, kHz
    {40, 3},           // engines that copy
    {41, 1},           // unified addresses
    {78, 1},           // streams have priorities
    {82, kRegisters},  // of a multiprocessor
    {83, 1},           // managed memory
    {89, 1},           // concurrent managed access
    {95, 1},           // cooperative launches
    {99, 1},           // host memory can be registered
    {102, 1},          // virtual memory management
    {103, 1},          // handles as file descriptors
    {115, 1},          // memory pools
};

}  // namespace

const AbsentMachine& Machine() {
  static const auto* const machine = new AbsentMachine(ReadMachine());  // outlives destructors
  return *machine;
}

const CapabilityLimits& LimitsOf(const AbsentCard& card) {
  return CapabilityLimitsOf(card.capability);
}

int AttributeOf(const AbsentCard& card, int attribute) {
  switch (attribute) {
    case 16:
      return card.multiprocessors;
    case 33:
      return card.place + 1;  // bus
    case 37:
      return card.bus_bits;
    case 38:
      return card.l2_bytes;
    case 39:
      return card.threads;
    case 75:
      return card.capability / 10;
    case 76:
      return card.capability % 10;
    case 81:
      return LimitsOf(card).shared_bytes_per_multiprocessor;
    case 97:
      return LimitsOf(card).shared_bytes_opt_in;
    case 108:  // persisting L2: 30 of an A100's 40 MiB, and none before it (deviceQuery)
      return card.capability >= 80 ? card.l2_bytes / 4 * 3 : 0;
    case 106:
      return LimitsOf(card).blocks_per_multiprocessor;
    default:
      break;
  }
  const auto* const row =
      std::find_if(std::begin(kAttributes), std::end(kAttributes),
                   [&](const AttributeRow& known) { return known.attribute == attribute; });
  return row == std::end(kAttributes) ? 0 : row->value;
}

int BlocksOf(const AbsentCard& card, int threads_of_block) {
  const int most = LimitsOf(card).blocks_per_multiprocessor;
  return threads_of_block <= 0 ? 1 : std::clamp(card.threads / threads_of_block, 1, most);
}

}  // namespace onnxfit::absent
