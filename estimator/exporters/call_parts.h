// What one call became when it was taken apart, as a text to find it by.  Internal to recovery.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

#include "estimator/exporters/exported_groups.h"

namespace onnxfit {

// "where" of "aten.where.self"
std::string_view NameInTarget(std::string_view target);

// Whether a line of the source reads or writes at an index: x[i], f(x)[i].
bool HasSubscript(std::string_view line);

// The groups that a text of parts takes, and what its letters are.  The text: calls by their names
// without namespace and overload, and of their arguments
//   x          a tensor; the same one wherever the letter stands
//   e:abs(x)   the same of a part, which is read again as e
//   #          a number, or a tensor that is made of one
//   ~          a tensor that is filled with a number
//   %          one that is made of numbers alone (places: arange, …), or a list of these
//   ^f(x)      a sum of parts of f (x)
//   [x,_]      a list
//   _          a number or a size, a list of these, a word
// Further arguments of a call are numbers and words.
class PartsMatch {
 public:
  // Both must outlive it.
  PartsMatch(const ExportedGroups& groups, std::string_view parts)
      : groups_(groups), rest_(parts) {}

  // Whether all of the text is what leads to the call of `index`.  Once.  O(length).
  bool Root(int32_t index) { return Call(index) && rest_.empty(); }

  const std::vector<int32_t>& taken() const { return taken_; }
  void Take(int32_t index);
  ValueId Letter(char letter) const;

 private:
  bool IsSize(const FxArgument& argument) const;
  bool HasTensor(const FxArgument& argument) const;
  bool Call(int32_t index);
  bool Items(const std::vector<FxArgument>& arguments, char close);
  bool Term(const FxArgument& argument);
  bool Bind(char letter, const FxArgument& argument);
  bool TakeFilled(const FxArgument& argument, bool is_number);
  bool TakeSums(const FxArgument& argument, FxArgument& whole);
  bool TakeMadeOfNumbers(const FxArgument& argument);
  std::string_view TakeName();

  const ExportedGroups& groups_;
  std::string_view rest_;
  std::vector<int32_t> taken_;
  std::array<std::string_view, 26> letters_ = {};
};

}  // namespace onnxfit
