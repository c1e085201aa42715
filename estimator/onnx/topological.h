// Putting things after what they need.
#pragma once

#include <cstdint>
#include <vector>

namespace onnxfit {

struct Sorted {
  std::vector<int32_t> order;  // complete where `cycle` is empty
  std::vector<int32_t> cycle;  // each needs the next, the last the first; "" if there is none
};

// `needs[i]` lists what i needs (repetitions allowed).  Of all valid orders, the one
// whose first place has the smallest number, and so on: 0, 1, 2 … where that is valid.
// O((items + needs) log items), O(items + needs) for one that is in order.
Sorted SortByNeeds(const std::vector<std::vector<int32_t>>& needs);

}  // namespace onnxfit
