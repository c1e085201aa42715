// Which tensors the variables of a forward are, by the lines of its calls: "y" of "x.to(y.dtype)".
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace onnxfit {

// A tensor as the reader of a file counts them; below 0: none.
using TensorIndex = int32_t;

// The calls of one run of a forward and of the modules that it calls, in their order, as a file has
// them.  Tensors go by the file's names.
class LinedCalls {
 public:
  virtual ~LinedCalls() = default;
  virtual size_t size() const = 0;
  // The forward's own statement on the way to a call: two numbers are equal where it is the same.
  virtual int64_t StatementAt(size_t call) const = 0;
  virtual std::string_view TextAt(size_t call) const = 0;
  virtual std::vector<std::string> TargetsAt(size_t call) const = 0;  // names that it binds
  virtual std::vector<std::string_view> ReadsAt(size_t call) const = 0;
  virtual std::vector<std::string_view> MakesAt(size_t call) const = 0;
  // Of a tensor of floats that is none of the module's own.
  virtual TensorIndex FindPassed(std::string_view tensor) const = 0;
};

// How often a line reads the variable, and not its type alone.  O(length).
size_t CountReads(std::string_view line, std::string_view variable);

// The last call of a statement before that of `call` that binds the variable, be it beside others;
// size() without one.  O(calls).
size_t LastBinding(const LinedCalls& calls, size_t call, std::string_view variable);

// What "q, k, v = self.q(x), self.k(x), self.v(x)", whose last call is `last`, binds to one of
// them: the line makes as many tensors that itself reads no more; "" where it does not.  O(calls).
std::string_view PartBoundTo(const LinedCalls& calls, size_t last, std::string_view variable);

// The tensor of floats that the forward was passed by that name: the only one, or the only one of
// those that lines read which name it.  O(calls).
TensorIndex PassedAs(const LinedCalls& calls, std::string_view variable);

// Of all that has become `tensors`, which `call` reads, the first call that `widens`, casts to
// fp32: a variable that holds a type to go back to has that of what it casts.  size() without one.
// O(calls).
size_t FirstWidened(const LinedCalls& calls, size_t call, std::vector<std::string_view> tensors,
                    const std::function<bool(size_t)>& widens);

}  // namespace onnxfit
