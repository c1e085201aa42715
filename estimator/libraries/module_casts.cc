#include "estimator/libraries/module_casts.h"

#include <algorithm>

#include "estimator/libraries/rows.h"

namespace onnxfit {
namespace {

constexpr SeenIn kLinearAttention = {kTimm, "models/efficientvit_mit.py",
                                     "q, k, v = q.float(), k.float(), v.float()"};

constexpr ModuleCast kModuleCasts[] = {
    // LiteMLA.
    {{"qkv", "aggreg", "proj"}, "MatMul", false, kLinearAttention},
    {{"qkv", "aggreg", "proj"},
     "Div",
     true,
     {kTimm, "models/efficientvit_mit.py", "return out.to(dtype)"}},
};

}  // namespace

std::span<const ModuleCast> ModuleCasts() { return kModuleCasts; }

bool HasChildrenOf(const ModuleCast& row, const std::set<std::string_view>& children) {
  return std::ranges::all_of(row.children, [&](std::string_view child) {
    return child.empty() || children.contains(child);
  });
}

}  // namespace onnxfit
