#include "estimator/fit/oom_message.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <utility>

#include "estimator/base/bytes.h"
#include "estimator/base/phrase_search.h"
#include "estimator/fit/log_lines.h"
#include "estimator/fit/oom_formats.h"

namespace onnxfit {
namespace {

constexpr std::string_view kFieldNames[kOomFields] = {
    "tried",         "total",   "free",  "allowed",    "allocated",   "reserved", "cached",
    "private_pools", "process", "other", "parameters", "temporaries", "plan"};

constexpr size_t kNear =
    80;  // letters between a hit and the head of the message that it is part of
constexpr size_t kGap = 400;  // letters without a number that we know end a message
constexpr size_t kQuoted = 600;
constexpr int64_t kMostBytes = int64_t{1} << 62;  // 4 EiB: more is not a size

struct Unit {
  std::string_view name;
  int64_t bytes;
};

constexpr Unit kUnits[] = {{"bytes", 1},         {"KiB", kKiB}, {"MiB", kMiB}, {"GiB", kGiB},
                           {"TiB", 1024 * kGiB}, {"KB", kKiB},  {"MB", kMiB},  {"GB", kGiB},
                           {"TB", 1024 * kGiB},  {"B", 1}};

// The decimal number at the beginning of `text`: its digits, and how many are behind the point.
struct Decimal {
  double value = 0;
  int64_t whole = 0;  // where there is no point
  int places = 0;
  size_t letters = 0;
};

Decimal ReadDecimal(std::string_view text) {
  Decimal decimal;
  size_t end = 0;
  while (end < text.size() && IsDigit(text[end])) ++end;
  if (end + 1 < text.size() && text[end] == '.' && IsDigit(text[end + 1])) {
    const size_t point = end++;
    while (end < text.size() && IsDigit(text[end])) ++end;
    decimal.places = static_cast<int>(std::min<size_t>(end - point - 1, 18));
  }
  const char* last = text.data() + end;
  std::from_chars(text.data(), last, decimal.value);
  const bool fits = std::from_chars(text.data(), last, decimal.whole).ec == std::errc();
  if (!fits) decimal.whole = kMostBytes;
  decimal.letters = end;
  return decimal;
}

PrintedBytes SizeOf(const Decimal& decimal, int64_t unit) {
  if (unit == 1 && decimal.places == 0) return {std::min(decimal.whole, kMostBytes), 0};
  const double bytes = decimal.value * static_cast<double>(unit);
  const double half = static_cast<double>(unit) / 2 / std::pow(10.0, decimal.places);
  if (!(bytes < static_cast<double>(kMostBytes))) return {kMostBytes, 0};
  return {std::llround(bytes),
          decimal.value == 0 && decimal.places == 0 ? 0 : static_cast<int64_t>(std::ceil(half))};
}

bool EndsWith(std::string_view text, size_t end, std::string_view part) {
  return text.substr(0, end).ends_with(part);
}

// `part` at `begin`, or as much of it as is left of the text; where somebody cut a message off in
// the middle of one, eight letters will do.
bool BeginsWith(std::string_view text, size_t begin, std::string_view part) {
  constexpr size_t kEnough = 8;
  const std::string_view rest = text.substr(begin, std::min(part.size(), kEnough));
  return part.substr(0, rest.size()) == rest;
}

bool TakesBareBytes(OomFamily family) {
  return family == OomFamily::kTheano || family == OomFamily::kOnnxRuntime ||
         family == OomFamily::kTensorFlow;
}

// Reads the numbers of a message of one family, one after the other.
class NumberReader {
 public:
  NumberReader(const Letters& letters, OomFamily family) : letters_(letters), family_(family) {}

  // Reads from `begin` up to `limit`, or to a long gap.  Returns the place behind the last number.
  size_t Read(size_t begin, size_t limit, OomMessage& message) {
    size_t last = begin;
    const std::string_view written = std::string_view(letters_.written).substr(0, limit);
    for (size_t at = begin; at < std::min(limit, last + kGap);) {
      if (!IsDigit(written[at])) {
        ++at;
        continue;
      }
      const auto size = ReadSize(written.substr(at));
      if (Take(at, *size, message)) last = at + size->letters;
      at += size->letters;
    }
    return last;
  }

 private:
  bool Take(size_t at, const ReadSizeResult& size, OomMessage& message) {
    for (const OomPhrase& phrase : OomPhrases()) {
      if (phrase.family != family_ || !EndsWith(letters_.lower, at, phrase.before)) continue;
      if (!BeginsWith(letters_.lower, at + size.letters, phrase.after)) continue;
      const bool is_size = phrase.value == OomPhrase::Value::kSize;
      if (is_size && !size.has_unit && !TakesBareBytes(family_)) continue;
      Put(phrase, size.size, message);
      return true;
    }
    return false;
  }

  // The first number of a meaning holds.
  void Put(const OomPhrase& phrase, const PrintedBytes& size, OomMessage& message) {
    using Value = OomPhrase::Value;
    if (phrase.value == Value::kPid) pid_ = size.bytes;
    if (phrase.value == Value::kListed) message.others.push_back({pid_, size});
    if (phrase.value == Value::kGpu && !message.gpu) message.gpu = size.bytes;
    std::optional<PrintedBytes>& field = message.Size(phrase.field);
    if (phrase.value == Value::kSize && !field) field = size;
  }

  const Letters& letters_;
  const OomFamily family_;
  int64_t pid_ = 0;
};

// What stands between `open` and `close` behind `begin`; "" without them.
std::string Between(const Letters& letters, size_t begin, size_t limit, std::string_view open,
                    std::string_view close) {
  const std::string_view text = std::string_view(letters.lower).substr(0, limit);
  const size_t at = text.find(open, begin);
  if (at == std::string_view::npos) return "";
  const size_t from = at + open.size();
  const size_t end = text.find(close, from);
  if (end == std::string_view::npos) return "";
  return letters.written.substr(from, end - from);
}

// "32,1024,64,64", every number from 0; nullopt for anything else.
std::optional<Dims> ReadDims(std::string_view text) {
  Dims dims;
  while (!text.empty()) {
    int64_t dim = 0;
    const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), dim);
    if (code != std::errc() || dim < 0) return std::nullopt;
    dims.push_back(dim);
    text.remove_prefix(static_cast<size_t>(end - text.data()));
    if (!text.empty() && text[0] != ',') return std::nullopt;
    if (!text.empty()) text.remove_prefix(1);
  }
  return dims;
}

DType DTypeOf(std::string_view name) {
  for (const DTypeSpelling& row : OomDTypes()) {
    if (row.name == name) return row.dtype;
  }
  return DType::kUndefined;
}

// The bytes of a tensor with absurd sizes are more than any number says.
int64_t BytesOrMost(const TensorType& type) {
  double bytes = BitsOf(type.dtype) / 8.0;
  for (const int64_t dim : type.dims) bytes *= static_cast<double>(dim);
  return bytes < static_cast<double>(kMostBytes) ? BytesOf(type) : kMostBytes;
}

// "OOM when allocating tensor with shape[32,1024,64,64] and type float on /job…": the size is
// that of the shape.  The oldest say no type: floats were meant.
void ReadTensorFlow(const Letters& letters, size_t begin, size_t limit, OomMessage& message) {
  const std::string shape = Between(letters, begin, limit, "tensorwithshape[", "]");
  const auto dims = ReadDims(shape);
  if (shape.empty() || !dims) return;
  const DType named = DTypeOf(Between(letters, begin, limit, "]andtype", "on/"));
  message.tensor = {named == DType::kUndefined ? DType::kFloat32 : named, *dims};
  message.Size(OomField::kTried) = PrintedBytes{BytesOrMost(message.tensor), 0};
  const std::string gpu = Between(letters, begin, limit, "device:gpu:", "by");
  if (gpu.size() == 1 && IsDigit(gpu[0])) message.gpu = gpu[0] - '0';
}

// The [[node NAME …]] of a graph, or the operation of eager mode.
void ReadTensorFlowNode(const Letters& letters, size_t begin, size_t limit, OomMessage& message) {
  message.node = Between(letters, begin, limit, "[op:", "]");
  if (message.node.empty()) message.node = Between(letters, begin, limit, "[[{{node", "}}");
  if (message.node.empty()) message.node = Between(letters, begin, limit, "[[node:", "=");
  if (message.node.empty()) message.node = Between(letters, begin, limit, "[[node", "(");
}

// The first of "Peak buffers", which is the largest.
void ReadXla(const Letters& letters, size_t begin, size_t limit, OomMessage& message) {
  const size_t peak = letters.lower.find("peakbuffers:", begin);
  if (peak >= limit) return;
  const size_t next = std::min(letters.lower.find("buffer2:", peak), limit);
  message.node = Between(letters, peak, next, "op_name=\"", "\"");
  const std::string shape = Between(letters, peak, next, "shape:", "]");
  const size_t bracket = shape.find('[');
  if (bracket == std::string::npos) return;
  const auto dims = ReadDims(std::string_view(shape).substr(bracket + 1));
  const DType dtype = DTypeOf(std::string_view(shape).substr(0, bracket));
  if (dims && dtype != DType::kUndefined) message.tensor = {dtype, *dims};
}

// "while running Mul node. Name:'Mul_8702'" stands before the size.
void ReadOnnxRuntime(const Letters& letters, size_t begin, size_t /*limit*/, OomMessage& message) {
  const size_t at = std::string_view(letters.lower).substr(0, begin).rfind("node.name:");
  if (at == std::string_view::npos) return;
  std::string name = Between(letters, at, begin, "'", "'");
  if (name.ends_with('\\')) name.pop_back();
  message.node = name;
}

// What is no number.
struct Extra {
  OomFamily family;
  void (*read)(const Letters& letters, size_t begin, size_t limit, OomMessage& message);
};
constexpr Extra kExtras[] = {{OomFamily::kTensorFlow, ReadTensorFlow},
                             {OomFamily::kTensorFlow, ReadTensorFlowNode},
                             {OomFamily::kXla, ReadXla},
                             {OomFamily::kOnnxRuntime, ReadOnnxRuntime}};

// A message of PyTorch that says how much its process holds says all of it.
bool IsCut(const OomMessage& message) {
  if (message.format->family != OomFamily::kPyTorch) return false;
  if (message.format->rank != OomRank::kFailure) return false;
  const bool has_reserved = message.Size(OomField::kReserved) || message.Size(OomField::kCached);
  return !message.Size(OomField::kAllocated) || !has_reserved;
}

// Where the words begin that lead to a head: "torch.OutOfMemoryError: CUDA out of memory".  They
// may begin in the line before, if a terminal broke the line between them.
size_t SentenceBegin(const Letters& letters, size_t head) {
  constexpr size_t kSomeWords = 11;  // "outofmemory"
  size_t begin = head;
  while (begin > 0 && head - begin < kNear) {
    if (letters.gap[begin] == '\n' && head - begin >= kSomeWords) break;
    --begin;
  }
  return begin;
}

// The words that belong to the last number are still quoted.
size_t SentenceEnd(const Letters& letters, size_t last) {
  const size_t end = letters.written.find_first_of(".)", last);
  return end == std::string::npos || end > last + kNear ? last : end + 1;
}

std::optional<OomMessage> ReadAs(const OomFormat& format, const Letters& letters, size_t& end) {
  const size_t first = letters.place - std::min(letters.place, kNear);
  const size_t head = letters.lower.find(format.head, first);
  if (head == std::string::npos || head > letters.place + kNear / 2) return std::nullopt;
  OomMessage message = {.format = &format, .process = letters.process};
  const size_t behind = head + format.head.size();
  // The next message of the same kind is another one.
  const size_t limit = std::min(letters.lower.find(format.head, behind), letters.lower.size());
  const size_t last =
      std::max(behind, NumberReader(letters, format.family).Read(head, limit, message));
  const size_t furthest = std::min(limit, last + kGap);
  const size_t mark = letters.lower.find(format.mark, first);
  if (mark == std::string::npos || mark + format.mark.size() > furthest) return std::nullopt;
  for (const Extra& extra : kExtras) {
    if (extra.family == format.family) extra.read(letters, head, furthest, message);
  }
  const bool has_number = message.Size(OomField::kTried).has_value();
  if (format.rank == OomRank::kFailure && !has_number) return std::nullopt;
  message.cut = IsCut(message);
  message.text =
      letters.Sentence(SentenceBegin(letters, head), SentenceEnd(letters, last), kQuoted);
  end = letters.at[last - 1] + 1;
  return message;
}

}  // namespace

std::string_view ToString(OomField field) { return kFieldNames[static_cast<size_t>(field)]; }

std::optional<ReadSizeResult> ReadSize(std::string_view text) {
  const Decimal decimal = ReadDecimal(text);
  if (decimal.letters == 0) return std::nullopt;
  for (const Unit& unit : kUnits) {
    if (!text.substr(decimal.letters).starts_with(unit.name)) continue;
    return ReadSizeResult{SizeOf(decimal, unit.bytes), decimal.letters + unit.name.size(), true};
  }
  return ReadSizeResult{SizeOf(decimal, 1), decimal.letters, false};
}

std::optional<OomMessage> ReadOomMessage(const Letters& letters, size_t& end) {
  for (const OomFormat& format : OomFormats()) {
    auto message = ReadAs(format, letters, end);
    if (message) return message;
  }
  return std::nullopt;
}

}  // namespace onnxfit
