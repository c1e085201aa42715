// To whom a buffer of a run belongs: a node, a parameter, an input.  Internal to the room fit/.
#pragma once

#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>

#include "estimator/fit/predict.h"
#include "estimator/memory/timeline.h"

namespace onnxfit {

struct Owner {
  std::string name;
  std::string_view op;      // of a node ATen's; else "parameter", "buffer", "input" …
  std::string_view module;  // path of the module around it; "": the loop, or a file without any
};

class Owners {
 public:
  // `prediction` must outlive it.  O(calls).
  explicit Owners(const Prediction& prediction);

  Owner Of(const LiveBuffer& live) const;

 private:
  Owner OfParameter(const std::string& label) const;
  Owner OfOperator(int32_t born, const std::string& label) const;

  const Trace& trace_;
  std::unordered_map<std::string_view, Owner> of_operators_;  // by what the trace calls them
  std::unordered_set<std::string_view> parameters_;
};

}  // namespace onnxfit
