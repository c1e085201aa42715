// Views, copies and joins.  Sources: pytorch v2.6.0 derivatives.yaml; torch 2.11 events.
#include "estimator/eager/op_families.h"

namespace onnxfit {
namespace {

constexpr OpRule kRules[] = {
    {.name = "view", .alias = Alias::kReshape, .gradients = {ViewOfGradient()}},
    {.name = "permute", .alias = Alias::kPermute, .gradients = {ViewOfGradient()}},
    {.name = "expand", .alias = Alias::kExpand, .gradients = {PassThrough()}},
    // The gradient of a part is a tensor of the whole, zero elsewhere.
    {.name = "slice", .alias = Alias::kNarrow, .gradients = {Reads({})}},
    {.name = "split", .alias = Alias::kNarrow, .gradients = {Reads({})}},
    // Each part's gradient is a narrow view of the incoming one.
    {.name = "cat", .promotes = true, .variadic = true, .gradients = {ViewOfGradient()}},
    {.name = "pad", .gradients = {Reads({})}},
    {.name = "upsample", .autocast = AutocastPolicy::kFp32, .gradients = {Reads({})}},
    {.name = "bernoulli"},  // empty(...).bernoulli_(p).div_(p), in the type of its first input
    {.name = "constant"},   // made from numbers: zeros, full, arange, rand
    {.name = "tile", .gradients = {Reads({})}},
    {.name = "index_select", .gradients = {Reads(In(1))}},
};

}  // namespace

std::span<const OpRule> ViewRules() { return kRules; }

}  // namespace onnxfit
