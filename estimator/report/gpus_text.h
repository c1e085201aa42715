// Cards as a table for people.
#pragma once

#include <string>
#include <vector>

#include "estimator/base/cards.h"
#include "estimator/base/cloud_instances.h"
#include "estimator/report/text.h"

namespace onnxfit {

// One line a card, at most 80 columns wide: alias, name, what CUDA shows of its memory, compute
// capability, multiprocessors, context.  Marks say what was not seen, lines below what they mean.
std::string ToText(const std::vector<const Card*>& cards, const TextOptions& options = {});

// The machines of clouds, a line or more for each row: "aws, 4 x t4: g4dn.12xlarge"; "" for none.
std::string ToText(const std::vector<const CloudInstances*>& machines,
                   const TextOptions& options = {});

// The columns of that table, and one card's cells as it writes them.
const std::vector<std::string>& CardColumns();
std::vector<std::string> CardCells(const Card& card);

// What its columns and marks mean, of those that the cards have: "memory", and a sentence.
struct CardNote {
  std::string about;
  std::string text;
};
std::vector<CardNote> CardNotes(const std::vector<const Card*>& cards);

// "7.5" of 75, "" where it has none.
std::string CapabilityText(int compute_capability);

}  // namespace onnxfit
