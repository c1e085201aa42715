// JSON as values.  Texts stay where they are in what was parsed, and are views of it.
#pragma once

#include <rapidjson/document.h>

#include <cstdint>
#include <exception>
#include <string>
#include <string_view>
#include <utility>

#include "estimator/base/error.h"

namespace onnxfit::pt2 {

using Json = rapidjson::Value;

// A value is not what its reader expected: thrown by the functions below, and made an Error that
// says where by JsonDocument::ReadBy.
struct UnexpectedJson : std::exception {
  UnexpectedJson(const Json& value, std::string expected)
      : value(&value), expected(std::move(expected)) {}
  const char* what() const noexcept override { return expected.c_str(); }

  const Json* value;
  std::string expected;  // "a text", "a member 'nodes'"
};

// The value of `name` in an object; the second gives null where there is none, or where it is null.
const Json& MemberOf(const Json& object, std::string_view name);
const Json* OptionalMemberOf(const Json& object, std::string_view name);

// The only member of an object: how PyTorch writes one of several kinds.
const Json::Member& OnlyMemberOf(const Json& object);

// For loops: `for (const Json& item : ItemsOf(list))`, `for (const auto& [name, value] :
// MembersOf(o))`.
Json::ConstArray ItemsOf(const Json& list);
Json::ConstObject MembersOf(const Json& object);

std::string_view Text(const Json& value);
int64_t Whole(const Json& value);  // what is beyond int64_t becomes its limit
double Real(const Json& value);    // also "NaN", "Infinity", "-Infinity", as PyTorch writes them
bool Truth(const Json& value);

struct JsonLimits {
  int depth = 512;                    // PyTorch's is 16, and 8 more for each graph in a graph
  int64_t values = int64_t{1} << 24;  // GPT-2 has 60,000; a value takes up to 48 bytes
};

class JsonDocument {
 public:
  // Parses `text` in place: it changes, and has to outlive the views of it.  `name` is its member
  // of the archive, for errors.  Throws Error for what is no JSON, is no UTF-8 or beyond the
  // limits.
  JsonDocument(std::string& text, std::string name, const JsonLimits& limits = {});

  // What `read` makes of the whole.
  template <typename Read>
  auto ReadBy(Read read) const {
    try {
      return read(static_cast<const Json&>(document_));
    } catch (const UnexpectedJson& unexpected) {
      throw ErrorOf(unexpected);
    }
  }

 private:
  Error ErrorOf(const UnexpectedJson& unexpected) const;

  std::string name_;
  rapidjson::Document document_;
};

}  // namespace onnxfit::pt2
