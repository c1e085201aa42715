// The cards of this machine for people.
#pragma once

#include <string>
#include <vector>

#include "estimator/fit/card_at_hand.h"
#include "estimator/report/gpus_text.h"
#include "estimator/report/text.h"

namespace onnxfit {

// A table of what CUDA shows, then for each card what --gpu auto takes of it, who else holds
// memory, and its row for cards.cc; at most 80 columns wide.
std::string ToText(const std::vector<CardAtHand>& cards, const TextOptions& options = {});

// The columns of that table, and one card's cells as it writes them.
const std::vector<std::string>& DetectedColumns();
std::vector<std::string> DetectedCells(const CardAtHand& card);

// What is said of one card below the table, and of the table's columns.
std::vector<CardNote> DetectedNotes(const CardAtHand& card);
std::vector<CardNote> ColumnNotes(const std::vector<CardAtHand>& cards);

}  // namespace onnxfit
