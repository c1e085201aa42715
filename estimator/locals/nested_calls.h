// What forwards write in one line though they call several things for it, in files that show no
// lines.  Internal to the room locals/.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "estimator/locals/forward_locals.h"
#include "estimator/locals/forward_steps.h"

namespace onnxfit {

// Adds to `names`: what a name holds until a statement that reads it binds it anew, "x =
// self.conv(F.relu(self.norm(x)))" and "x = F.gelu(self.gate(x)) * self.up(x)".  `last_reads` are
// calls, by value.  O(calls × log).
void FindNestedNames(const std::vector<AtenCall>& calls, const std::vector<int64_t>& last_reads,
                     const std::vector<ForwardStep>& steps, std::vector<KnownName>& names);

// The same of the last line of the outermost forward, "return self.head(x.mean(dim=1))" and "return
// self.head(self.norm(x))", and of what lines have written into, "x[:, i] = y; return x + z".  What
// `names` tell from `known` on is told by rows.  O(steps + names).
void FindLastLine(const std::vector<AtenCall>& calls, const ForwardRun& forward,
                  const std::vector<ForwardStep>& steps, size_t known,
                  std::vector<KnownName>& names);

}  // namespace onnxfit
