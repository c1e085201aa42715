// Parameters with several names.  Internal to the room pt2/.
#pragma once

#include <map>
#include <string_view>

#include "estimator/pt2/exported_program.h"

namespace onnxfit::pt2 {

// torch.export lists a tied parameter under each of its names, in the order of
// named_parameters(remove_duplicate=False): the names of graph inputs that are not the first of
// theirs, and that first one.  Tied are those that the file stores once; where it stores nothing,
// one that no call reads is the one that a call of its module reads instead.
// O(calls × log calls).
std::map<std::string_view, std::string_view> FindFirstNames(const ExportedProgram& exported);

}  // namespace onnxfit::pt2
