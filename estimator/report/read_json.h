// Fields of JSON that people may have changed.  Internal to the room report/.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "estimator/report/json_parts.h"

namespace onnxfit {

// The value of `text`.  Throws Error, without a file, with line and column for what is no JSON;
// marks that a merge left ("<<<<<<< HEAD") are told as such, as are numbers and depths beyond any
// report's.
Json ParseJson(std::string_view text);

// A field of `object`.  Throw Error that names it where it is missing or of another type: bytes and
// counts are integers from 0.
const Json& ReadField(const Json& object, std::string_view name);
const Json& ReadObject(const Json& object, std::string_view name);
const Json& ReadArray(const Json& object, std::string_view name);
std::string ReadText(const Json& object, std::string_view name);
int64_t ReadBytes(const Json& object, std::string_view name);
bool ReadSwitch(const Json& object, std::string_view name);

// "" where there is none.
std::string ReadTextIfKnown(const Json& object, std::string_view name);

}  // namespace onnxfit
