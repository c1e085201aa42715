// Slices of cards in MIG mode (Multi-Instance GPU): a row each in slices.cc, targets like cards.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "estimator/base/cards.h"

namespace onnxfit {

// What the mode is called by: a filter, and a part of names.
inline constexpr std::string_view kSliceMode = "mig";

// Every slice, in the order of the table: by card and size.  A slice's alias is its card's with
// the profile ("a100-40gb:1g.5gb"), its name what torch.cuda.get_device_name() says
// ("A100-SXM4-40GB MIG 1g.5gb"), its context assumed: nobody has published one.
std::span<const Card> Slices();

// Those of the card of that alias; none of a card that has none, or of which none is known.
std::vector<const Card*> SlicesOf(std::string_view alias);

// What was typed for a slice.
struct SliceName {
  std::string card;     // "A100-SXM4-40GB" of "NVIDIA A100-SXM4-40GB MIG 1g.5gb", or ""
  std::string profile;  // "1g.5gb" of "MIG-1G.5GB+me": media engines are no memory
};

// Reads "a100-40gb:1g.5gb", "h100 2g.20gb", "mig-1g.10gb" and what CUDA calls a slice; nullopt for
// what names no profile.
std::optional<SliceName> ReadSlice(std::string_view typed);

// The slice of that profile, of that card if one is named ("a100" is enough where one of these
// has it).  Null where there is none, or several.
const Card* FindSlice(const SliceName& name);

// Instead of one that does not exist: what the card has, else the profile of other cards.
std::vector<std::string_view> SuggestSlices(const SliceName& name);

}  // namespace onnxfit
