#include "estimator/pt2/json_text.h"

#include <fmt/format.h>
#include <rapidjson/error/en.h>
#include <rapidjson/reader.h>

#include <cmath>
#include <limits>
#include <utility>

#include "estimator/base/quote.h"
#include "estimator/base/text.h"

namespace onnxfit::pt2 {
namespace {

constexpr std::string_view kAgain = "copy or export it again, it is damaged";

// Passes on what the parser finds, up to the limits.
template <typename Handler>
class LimitedHandler {
 public:
  using Ch = char;
  using Size = rapidjson::SizeType;

  LimitedHandler(Handler& handler, const JsonLimits& limits) : handler_(handler), limits_(limits) {}

  bool Null() { return Count() && handler_.Null(); }
  bool Bool(bool b) { return Count() && handler_.Bool(b); }
  bool Int(int i) { return Count() && handler_.Int(i); }
  bool Uint(unsigned i) { return Count() && handler_.Uint(i); }
  bool Int64(int64_t i) { return Count() && handler_.Int64(i); }
  bool Uint64(uint64_t i) { return Count() && handler_.Uint64(i); }
  bool Double(double d) { return Count() && handler_.Double(d); }
  bool RawNumber(const char* text, Size size, bool copy) { return String(text, size, copy); }
  bool String(const char* text, Size size, bool copy) {
    return Count() && handler_.String(text, size, copy);
  }
  bool Key(const char* text, Size size, bool copy) { return handler_.Key(text, size, copy); }
  bool StartObject() { return Enter() && handler_.StartObject(); }
  bool EndObject(Size size) { return Leave() && handler_.EndObject(size); }
  bool StartArray() { return Enter() && handler_.StartArray(); }
  bool EndArray(Size size) { return Leave() && handler_.EndArray(size); }

 private:
  bool Count() { return ++values_ <= limits_.values; }
  bool Enter() { return ++depth_ <= limits_.depth && Count(); }
  bool Leave() { return depth_-- > 0; }

  Handler& handler_;
  JsonLimits limits_;
  int64_t values_ = 0;
  int depth_ = 0;
};

// rapidjson's Document takes what a "generator" tells it.
struct JsonGenerator {
  // The iterative parser: the stack is not the input's to fill.
  static constexpr unsigned kFlags = rapidjson::kParseInsituFlag | rapidjson::kParseIterativeFlag |
                                     rapidjson::kParseNanAndInfFlag |
                                     rapidjson::kParseFullPrecisionFlag;

  bool operator()(rapidjson::Document& document) {
    LimitedHandler<rapidjson::Document> handler(document, limits);
    rapidjson::InsituStringStream stream(text);
    result = rapidjson::Reader().Parse<kFlags>(stream, handler);
    read = stream.Tell();
    return !result.IsError();
  }

  char* text;
  JsonLimits limits;
  rapidjson::ParseResult result = {};
  size_t read = 0;
};

std::string WrongJson(const rapidjson::ParseResult& result, const JsonLimits& limits) {
  if (result.Code() == rapidjson::kParseErrorTermination) {
    return fmt::format("JSON nested at most {} deep, with at most {} values, was expected",
                       limits.depth, limits.values);
  }
  return fmt::format("JSON was expected, its parser says: {}",
                     rapidjson::GetParseError_En(result.Code()));
}

[[noreturn]] void FailToParse(const std::string& name, size_t byte, std::string text) {
  throw Error({.where = fmt::format("{}: byte {}", name, byte),
               .text = std::move(text),
               .hint = std::string(kAgain)});
}

// "a list of 3", "the text 'abc'".
std::string DescribeJson(const Json& value) {
  if (value.IsNull()) return "null";
  if (value.IsBool()) return value.GetBool() ? "true" : "false";
  if (value.IsString()) return fmt::format("the text {}", Quote(Text(value)));
  if (value.IsArray()) return fmt::format("a list of {}", value.Size());
  if (value.IsDouble()) return fmt::format("{}", value.GetDouble());
  if (value.IsUint64()) return fmt::format("{}", value.GetUint64());
  if (value.IsNumber()) return fmt::format("{}", value.GetInt64());
  if (value.ObjectEmpty()) return "an empty object";
  return fmt::format("an object with {}", Quote(Text(value.MemberBegin()->name)));
}

// Puts the way from `from` to `to` in front of `path`: ".graph.nodes[3]".  False where there is
// none.
bool FindPlace(const Json& from, const Json* to, std::string& path) {
  if (&from == to) return true;
  if (from.IsArray()) {
    for (rapidjson::SizeType i = 0; i < from.Size(); ++i) {
      if (!FindPlace(from[i], to, path)) continue;
      path = fmt::format("[{}]{}", i, path);
      return true;
    }
  } else if (from.IsObject()) {
    for (const auto& member : from.GetObject()) {
      if (!FindPlace(member.value, to, path)) continue;
      path = fmt::format(".{}{}", Text(member.name), path);
      return true;
    }
  }
  return false;
}

}  // namespace

const Json* OptionalMemberOf(const Json& object, std::string_view name) {
  if (!object.IsObject()) throw UnexpectedJson(object, "an object");
  for (const auto& member : object.GetObject()) {
    if (Text(member.name) == name) return member.value.IsNull() ? nullptr : &member.value;
  }
  return nullptr;
}

const Json& MemberOf(const Json& object, std::string_view name) {
  const Json* const found = OptionalMemberOf(object, name);
  if (found == nullptr) throw UnexpectedJson(object, fmt::format("a member '{}'", name));
  return *found;
}

const Json::Member& OnlyMemberOf(const Json& object) {
  if (!object.IsObject() || object.MemberCount() != 1) {
    throw UnexpectedJson(object, "an object with one member, its kind,");
  }
  return *object.MemberBegin();
}

Json::ConstArray ItemsOf(const Json& list) {
  if (!list.IsArray()) throw UnexpectedJson(list, "a list");
  return list.GetArray();
}

Json::ConstObject MembersOf(const Json& object) {
  if (!object.IsObject()) throw UnexpectedJson(object, "an object");
  return object.GetObject();
}

std::string_view Text(const Json& value) {
  if (!value.IsString()) throw UnexpectedJson(value, "a text");
  return {value.GetString(), value.GetStringLength()};
}

int64_t Whole(const Json& value) {
  constexpr double kLimit = 0x1p63;
  if (value.IsInt64()) return value.GetInt64();
  if (value.IsUint64()) return std::numeric_limits<int64_t>::max();
  if (!value.IsDouble() || !(std::abs(value.GetDouble()) >= kLimit)) {
    throw UnexpectedJson(value, "a whole number");
  }
  return value.GetDouble() > 0 ? std::numeric_limits<int64_t>::max()
                               : std::numeric_limits<int64_t>::min();
}

double Real(const Json& value) {
  if (value.IsNumber()) return value.GetDouble();
  const std::string_view text = value.IsString() ? Text(value) : "";
  if (text == "NaN") return std::numeric_limits<double>::quiet_NaN();
  if (text == "Infinity") return std::numeric_limits<double>::infinity();
  if (text == "-Infinity") return -std::numeric_limits<double>::infinity();
  throw UnexpectedJson(value, "a number");
}

bool Truth(const Json& value) {
  if (!value.IsBool()) throw UnexpectedJson(value, "true or false");
  return value.GetBool();
}

JsonDocument::JsonDocument(std::string& text, std::string name, const JsonLimits& limits)
    : name_(std::move(name)) {
  if (!IsUtf8(text)) {
    throw Error({.where = name_, .text = "UTF-8 was expected", .hint = std::string(kAgain)});
  }
  JsonGenerator generator = {.text = text.data(), .limits = limits};
  document_.Populate(generator);
  if (generator.result.IsError()) {
    FailToParse(name_, generator.result.Offset(), WrongJson(generator.result, limits));
  }
  if (generator.read != text.size()) {
    FailToParse(name_, generator.read, "the end was expected, found more text");
  }
}

Error JsonDocument::ErrorOf(const UnexpectedJson& unexpected) const {
  std::string place;
  FindPlace(document_, unexpected.value, place);
  if (place.starts_with('.')) place.erase(0, 1);
  return Error({.where = place.empty() ? name_ : fmt::format("{}: {}", name_, place),
                .text = fmt::format("{} was expected, found {}", unexpected.expected,
                                    DescribeJson(*unexpected.value)),
                .hint = std::string(kAgain)});
}

}  // namespace onnxfit::pt2
