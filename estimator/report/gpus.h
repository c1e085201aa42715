// Cards, in all formats: those of the table, with the machines of clouds, and those of this
// machine.
#pragma once

#include <string>
#include <vector>

#include "estimator/base/cards.h"
#include "estimator/base/cloud_instances.h"
#include "estimator/fit/target.h"
#include "estimator/report/formats.h"

namespace onnxfit {

// Cards as a table for people.  One line a card, at most 80 columns wide: alias, name, what CUDA
// shows of its memory, compute capability, multiprocessors, context.  Marks say what was not seen,
// lines below what they mean.
std::string ToText(const std::vector<const Card*>& cards, const TextOptions& options = {});

// The machines of clouds, a line or more for each row: "aws, 4 x t4: g4dn.12xlarge"; "" for none.
std::string ToText(const std::vector<const CloudInstances*>& machines,
                   const TextOptions& options = {});

// Cards as Markdown and as comma-separated values.  The table for people, with what its marks mean
// below it.
std::string ToMarkdown(const std::vector<const Card*>& cards);

// A header and one row a card; sizes in bytes.
std::string ToCsv(const std::vector<const Card*>& cards);

// Cards as JSON for programs.  An array of objects, one a card; sizes in bytes.  A context that was
// measured says where ("evidence"), compute_capability is absent where there is none.
std::string ToJson(const std::vector<const Card*>& cards);

// The cards of this machine for people.  A table of what CUDA shows, then for each card what --gpu
// auto takes of it, who else holds memory, and its row for cards.cc; at most 80 columns wide.
std::string ToText(const std::vector<CardAtHand>& cards, const TextOptions& options = {});

// The cards of this machine as Markdown and as comma-separated values.  The table for people, with
// what is said of each card below it.
std::string ToMarkdown(const std::vector<CardAtHand>& cards);

// A header and one row a card; sizes in bytes.
std::string ToCsv(const std::vector<CardAtHand>& cards);

// The cards of this machine as JSON for programs.  An array of objects, one a card; sizes in bytes,
// what is not known is absent.  usable_bytes is what a process can have, its context included, once
// the shares of others are off.
std::string ToJson(const std::vector<CardAtHand>& cards);

// What the two tables share, internal to the room report/.

// What there is to say below a table of cards: "memory", and a sentence.
struct CardNote {
  std::string about;
  std::string text;
};

// "7.5" of 75, "" where it has none.
std::string CapabilityText(int compute_capability);

}  // namespace onnxfit
