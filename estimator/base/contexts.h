// What CUDA takes of a card for a process: the figures that people published, a row each in
// contexts.cc, and the range that follows from them for any card.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "estimator/base/cards.h"
#include "estimator/base/device.h"

namespace onnxfit {

// What a process held of a card beside PyTorch's own memory.
struct ContextReport {
  std::string_view alias;          // of the card
  int64_t mib;                     // known to 10 MiB: sums of figures of 0.01 GiB
  bool has_kernels;                // false: of a process that had run nothing
  std::string_view source;         // "owner/repository#issue" or "…:file" on GitHub, or a page
  std::string_view versions = {};  // "torch 2.10.0+cu130", "" where nobody tells
};

// In the order of the cards' table.
std::span<const ContextReport> ContextReports();

// Sets the context of each card.  Of its chip (the same compute capability and multiprocessors)
// what was seen (measured): the middle of the processes that had run something, from the least to
// the most of all; of a chip with one such report the range has that of the rule, too.  Else the
// rule.
void SetContexts(std::span<Card> cards);

// Of a slice with that profile, whose own context nobody has published (assumed).  Kernels are as
// large there as on the whole card, the rest is scaled by the threads that run at once; from all of
// it scaled to nothing of it.
ContextBytes ContextOfSlice(const DeviceProfile& slice, const Card& whole);

// The sources of what was seen on a card's chip, "" where nothing was: "a/b#1, c/d#2".
std::string ContextEvidence(const Card& card);

// The rule (assumed).  CUDA allots a stack (and more) for every thread that a card runs at once,
// so reports are scaled by these threads: the middle of those of the same compute capability, from
// the least to the most of those of cards with half to twice as many.  Cards smaller or larger
// than all that were seen are taken as the smallest or largest of these.
ContextBytes ContextByRule(const DeviceProfile& device, std::span<const Card> cards = Cards());

// Of boards whose memory is the CPU's, too: libraries and kernels lie there beside the context.
ContextBytes SharedRuntime();

}  // namespace onnxfit
