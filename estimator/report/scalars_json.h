// The numbers, words and switches of a JSON object that other programs write.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace onnxfit {

// By name, as text: "8", "true", "adamw_torch"; a list that has items as JSON; those of an object
// in it as "object.name", and what is deeper as JSON under that name.  What is null or empty is
// left out.  Throws Error, without a file, for what is no JSON object.
std::map<std::string, std::string> ReadScalars(std::string_view text);

// The texts of a JSON list.  Throws Error, without a file, for what is none.
std::vector<std::string> ReadTexts(std::string_view text);

}  // namespace onnxfit
