// The elements of masks and indices, where they follow from the inputs' sizes alone.  Internal to
// the room pt2/.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "estimator/base/tensor_type.h"
#include "estimator/pt2/exported_program.h"

namespace onnxfit::pt2 {

// Whole numbers, bools among them, row-major over `stored`.
struct Known {
  Dims dims;
  Dims stored;  // each dimension as in `dims`, or 1 where the elements repeat
  std::vector<int64_t> elements;
};

class KnownElements {
 public:
  // `number` says what an argument is that may be a symbol, `dims` what sizes a tensor has in this
  // run.  All must outlive it.
  KnownElements(const Graph& graph, std::function<int64_t(const Argument&)> number,
                std::function<std::optional<Dims>(std::string_view)> dims);

  // What the calls that lead to `tensor` make of numbers; null where they read the module's tensors
  // or inputs, where one has no rule here, and of more than 2^22 elements.  Which tensors are known
  // does not depend on the batch, unless elements differ along it.
  const Known* Find(std::string_view tensor);

 private:
  friend struct KnownCall;
  using KnownPtr = std::shared_ptr<const Known>;  // null: not known

  KnownPtr Find(std::string_view tensor, int depth);
  KnownPtr Evaluate(const Call& call, int depth);

  std::function<int64_t(const Argument&)> number_;
  std::function<std::optional<Dims>(std::string_view)> dims_;
  std::unordered_map<std::string_view, const Call*> makers_;  // by result
  std::map<std::string_view, KnownPtr> known_;
};

bool AreAllTrue(const Known& mask);

// Whether the last two dimensions, of one size, show each row itself and what is before it.
bool IsCausal(const Known& mask);

}  // namespace onnxfit::pt2
