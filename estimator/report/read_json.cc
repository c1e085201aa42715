#include <fmt/format.h>

#include <algorithm>

#include "estimator/report/json_parts.h"

namespace onnxfit {
namespace {

constexpr int kMostLevels = 64;  // reports have ten; what has very many overflows the stack

bool RefuseDepth(int depth, Json::parse_event_t /*event*/, const Json& /*json*/) {
  if (depth < kMostLevels) return true;
  throw Error({.text = fmt::format("expected JSON of at most {} levels, found more", kMostLevels)});
}

// Where byte `offset` of `text` is, as editors count: "line 3, column 7".
std::string PlaceOf(std::string_view text, size_t offset) {
  const std::string_view before = text.substr(0, std::min(offset, text.size()));
  const auto line = std::count(before.begin(), before.end(), '\n') + 1;
  const size_t begin = before.rfind('\n');
  const size_t column = before.size() - (begin == std::string_view::npos ? 0 : begin + 1) + 1;
  return fmt::format("line {}, column {}", line, column);
}

// A line that a merge wrote.
void RefuseConflict(std::string_view text) {
  for (const std::string_view mark : {"<<<<<<< ", "=======", ">>>>>>> "}) {
    const size_t at = text.starts_with(mark) ? 0 : text.find(fmt::format("\n{}", mark));
    if (at == std::string_view::npos) continue;
    throw Error({.where = PlaceOf(text, at == 0 ? 0 : at + 1),
                 .text = "expected JSON, found the marks of a merge that was not finished"});
  }
}

std::string TypeOf(const Json& json) {
  if (json.is_number()) return json.dump();
  return json.is_null() ? "null" : fmt::format("a value of type {}", json.type_name());
}

[[noreturn]] void Refuse(std::string_view name, std::string_view expected, const Json& found) {
  throw Error({.where = fmt::format("\"{}\"", name),
               .text = fmt::format("expected {}, found {}", expected, TypeOf(found))});
}

}  // namespace

Json ParseJson(std::string_view text) {
  try {
    return Json::parse(text, RefuseDepth);
  } catch (const Json::parse_error& error) {
    RefuseConflict(text);
    const size_t offset = error.byte == 0 ? 0 : error.byte - 1;
    const bool is_cut = offset >= text.size();
    throw Error({.where = PlaceOf(text, offset),
                 .text = fmt::format("expected JSON, found {}",
                                     is_cut ? "the end of the file" : "something else")});
  } catch (const Json::out_of_range&) {
    throw Error({.text = "expected JSON, found a number too large for it"});
  }
}

const Json& ReadField(const Json& object, std::string_view name) {
  const auto field = object.is_object() ? object.find(std::string(name)) : object.end();
  if (field == object.end()) {
    throw Error({.where = fmt::format("\"{}\"", name), .text = "expected this field, found none"});
  }
  return *field;
}

const Json& ReadObject(const Json& object, std::string_view name) {
  const Json& field = ReadField(object, name);
  if (!field.is_object()) Refuse(name, "an object", field);
  return field;
}

const Json& ReadArray(const Json& object, std::string_view name) {
  const Json& field = ReadField(object, name);
  if (!field.is_array()) Refuse(name, "an array", field);
  return field;
}

std::string ReadText(const Json& object, std::string_view name) {
  const Json& field = ReadField(object, name);
  if (!field.is_string()) Refuse(name, "a text", field);
  return field.get<std::string>();
}

int64_t ReadBytes(const Json& object, std::string_view name) {
  const Json& field = ReadField(object, name);
  const bool is_whole = field.is_number_integer() && field >= 0 && field <= INT64_MAX;
  if (!is_whole) Refuse(name, "a whole number from 0", field);
  return field.get<int64_t>();
}

bool ReadSwitch(const Json& object, std::string_view name) {
  const Json& field = ReadField(object, name);
  if (!field.is_boolean()) Refuse(name, "true or false", field);
  return field.get<bool>();
}

std::string ReadTextIfKnown(const Json& object, std::string_view name) {
  return object.is_object() && object.contains(std::string(name)) ? ReadText(object, name) : "";
}

}  // namespace onnxfit
