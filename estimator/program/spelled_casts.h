// Casts as a line of the model's source spells them: a file has the type of the run that it was
// made from, the line says whose type it is.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace onnxfit {

struct SpelledCast {
  std::string method;         // "to", "float", "type", "type_as"
  std::string receiver = {};  // "x" of "x.to(y.dtype)", "self.w"; "" of one of more than names
  std::string type;           // "y.dtype", "torch.float32", "in_dtype"; "y" of x.type_as(y)
  std::string operand = {};   // what is cast: "F.normalize(x.float(), dim=-1)", "x"
  bool is_whole = false;      // it is all that the line assigns or returns
  bool operator==(const SpelledCast&) const = default;
};

// The casts of `line`, from left to right, which is the order that they run in; not those to a
// device.  O(length).
std::vector<SpelledCast> SpelledCastsOf(std::string_view line);

// "y" of "y.dtype"; "" of other types.
std::string_view TypedTensor(std::string_view type);

}  // namespace onnxfit
