// Cuts big tensors out of the bytes of a model, in one walk over its fields.
#include <fmt/format.h>

#include <utility>

#include "estimator/base/bytes.h"
#include "estimator/base/error.h"
#include "estimator/base/quote.h"
#include "estimator/base/text.h"
#include "estimator/onnx/tensor_contents.h"
#include "estimator/onnx/wire_format.h"

namespace onnxfit {
namespace {

// Real names have a hundred bytes; these keep hostile files from eating time and memory.
constexpr uint64_t kMaxNameBytes = 64 * kKiB;
constexpr uint64_t kMaxFieldTextBytes = 16 * kMiB;
constexpr uint64_t kMaxKeptBytes = 256 * kMiB;
constexpr uint64_t kMaxKeptContents = 64 * kMiB;  // of tensors above LoadOptions::keep_bytes
constexpr int64_t kMaxFields = 64 << 20;
constexpr int64_t kMaxMessages = 2 << 20;
constexpr int64_t kMaxStrings = 8 << 20;
// What protobuf's parser takes (CodedInputStream, default recursion limit).
constexpr int kMaxMessageDepth = 100;
// Every touch of a mapped file maps 16 pages around it (Linux, fault_around_bytes), 64 KiB
// for each tensor; so they are given back from time to time.
constexpr uint64_t kPassBytes = 16 * kMiB;

constexpr std::string_view kExpected[] = {"anything", "a number", "numbers",  "a float",  "floats",
                                          "a name",   "a text",   "contents", "a message"};

bool Fits(FieldKind kind, WireType type) {
  switch (kind) {
    case FieldKind::kNumber:
      return type == WireType::kVarint;
    case FieldKind::kNumbers:
      return type == WireType::kVarint || type == WireType::kLength;
    case FieldKind::kFloat:
      return type == WireType::kFixed32;
    case FieldKind::kFloats:
      return type == WireType::kFixed32 || type == WireType::kLength;
    case FieldKind::kName:
    case FieldKind::kText:
    case FieldKind::kMessage:
      return type == WireType::kLength;
    case FieldKind::kUnknown:
    case FieldKind::kContents:
      return true;
  }
  return false;
}

std::string Found(const WireField& field) {
  if (field.type == WireType::kVarint) return "a number";
  if (field.type == WireType::kLength) return fmt::format("a string of {} bytes", field.size());
  return fmt::format("a float of {} bytes", field.size());
}

// `file[begin, end)` is to be replaced by `bytes`.
struct Edit {
  uint64_t begin;
  uint64_t end;
  std::string bytes;
};

using Passed = std::function<void(std::string_view)>;

class Walker {
 public:
  Walker(std::string_view file, const LoadOptions& options, const Passed& passed)
      : file_(file), options_(options), passed_(passed) {}

  Shortened Run() {
    const uint64_t cut = Walk(MessageKind::kModel, 0, file_.size(), true, 0);
    const uint64_t kept = file_.size() - cut;
    if (kept > kMaxKeptBytes) {
      throw Error({.text = fmt::format("at most {} besides weights were expected, found {}",
                                       FormatBytes(kMaxKeptBytes),
                                       FormatBytes(static_cast<int64_t>(kept)))});
    }
    Shortened result;
    result.cut_texts = cut_texts_;
    result.cut_tensors = std::move(cut_tensors_);
    if (!edits_.empty()) result.copy = Assemble(kept);
    return result;
  }

 private:
  // Returns by how much the message in [begin, end) becomes shorter.
  uint64_t Walk(MessageKind message, uint64_t begin, uint64_t end, bool keep_contents, int depth) {
    if (++messages_ > kMaxMessages) FailAtSize(begin, kMaxMessages, "messages");
    WireReader reader(file_, begin, end, NameOf(message));
    WireField field;
    uint64_t cut = 0;
    while (reader.Next(field)) {
      if (++fields_ > kMaxFields) FailAtSize(field.tag, kMaxFields, "fields");
      const FieldRow& row = FieldOf(message, field.number);
      if (!Fits(row.kind, field.type)) FailAtField(message, row, field);
      cut += Visit(message, row, field, keep_contents, depth);
    }
    return cut;
  }

  uint64_t Visit(MessageKind message, const FieldRow& row, const WireField& field,
                 bool keep_contents, int depth) {
    switch (row.kind) {
      case FieldKind::kMessage:
        return Descend(row, field, depth + 1);
      case FieldKind::kContents:
        return keep_contents ? 0 : CutContents(field);
      case FieldKind::kUnknown:
        return Cut(field);
      case FieldKind::kName:
        CheckName(message, row, field);
        return 0;
      case FieldKind::kText:
        if (++strings_ > kMaxStrings) FailAtSize(field.tag, kMaxStrings, "strings");
        if (field.size() <= kMaxFieldTextBytes) return 0;
        ++cut_texts_;
        return Cut(field);
      default:
        return 0;
    }
  }

  // One behind the other are one edit: a file may have millions of small ones.
  uint64_t Cut(const WireField& field) {
    if (edits_.size() == last_cut_ + 1 && edits_.back().end == field.tag) {
      edits_.back().end = field.end;
    } else {
      last_cut_ = edits_.size();
      edits_.push_back({field.tag, field.end, {}});
    }
    return field.end - field.tag;
  }

  uint64_t CutContents(const WireField& field) {
    Pass(field.end);
    return Cut(field);
  }

  // Nothing before `at` is looked at again in this round over the file.
  void Pass(uint64_t at) {
    if (at < passed_to_ + kPassBytes || !passed_) return;
    passed_(file_.substr(passed_to_, at - passed_to_));
    passed_to_ = at;
  }

  uint64_t Descend(const FieldRow& row, const WireField& field, int depth) {
    if (depth > kMaxMessageDepth) {
      throw Error({.where = fmt::format("byte {}", field.tag),
                   .text = fmt::format("at most {} messages inside one another were expected, "
                                       "found more",
                                       kMaxMessageDepth)});
    }
    const bool keep = row.message != MessageKind::kTensor || KeepsContents(field);
    const size_t header = edits_.size();
    edits_.push_back({field.tag, field.begin, {}});
    const uint64_t cut = Walk(row.message, field.begin, field.end, keep, depth);
    if (cut == 0) {
      edits_.pop_back();
      return 0;
    }
    std::string& bytes = edits_[header].bytes;
    AppendVarint(bytes, uint64_t{field.number} << 3 | static_cast<uint64_t>(WireType::kLength));
    AppendVarint(bytes, field.size() - cut);
    return cut + (field.begin - field.tag) - bytes.size();
  }

  bool KeepsContents(const WireField& tensor) {
    if (tensor.size() <= static_cast<uint64_t>(options_.keep_bytes)) return true;
    WireReader reader(file_, tensor.begin, tensor.end, NameOf(MessageKind::kTensor));
    WireField field;
    uint64_t contents = 0;
    uint64_t type = 0;
    CutTensor cut;
    while (reader.Next(field)) {
      if (++fields_ > kMaxFields) FailAtSize(field.tag, kMaxFields, "fields");
      if (field.number == kTensorName) cut.name = ValueOf(field);
      if (field.number == kTensorRawData) cut.raw_data = ValueOf(field);
      if (FieldOf(MessageKind::kTensor, field.number).kind == FieldKind::kContents) {
        contents += field.size();
      } else if (field.number == kTensorDataType && field.type == WireType::kVarint) {
        type = reader.Varint(field);
      }
    }
    if (KeepsContents(contents, type)) return true;
    cut_tensors_.push_back(cut);
    return false;
  }

  std::string_view ValueOf(const WireField& field) const {
    return file_.substr(field.begin, field.size());
  }

  bool KeepsContents(uint64_t contents, uint64_t type) {
    if (contents <= static_cast<uint64_t>(options_.keep_bytes)) return true;
    const auto dtype = static_cast<DType>(type < 256 ? type : 0);
    const bool whole_numbers = IsInteger(dtype) || dtype == DType::kBool;
    if (!whole_numbers || contents > static_cast<uint64_t>(options_.keep_integer_bytes)) {
      return false;
    }
    kept_contents_ += contents;
    return kept_contents_ <= kMaxKeptContents;
  }

  void CheckName(MessageKind message, const FieldRow& row, const WireField& field) {
    if (++strings_ > kMaxStrings) FailAtSize(field.tag, kMaxStrings, "strings");
    const std::string_view name = ValueOf(field);
    if (name.size() <= kMaxNameBytes && IsUtf8(name)) return;
    const std::string found =
        name.size() <= kMaxNameBytes
            ? "a name in UTF-8 was expected, found other bytes"
            : fmt::format("a name of at most {} bytes was expected, found one of {}: {}",
                          kMaxNameBytes, name.size(), Quote(name.substr(0, 64)));
    throw Error({.where = fmt::format("byte {}", field.tag),
                 .text = fmt::format("{}.{}: {}", NameOf(message), row.name, found)});
  }

  [[noreturn]] static void FailAtField(MessageKind message, const FieldRow& row,
                                       const WireField& field) {
    throw Error({.where = fmt::format("byte {}", field.tag),
                 .text = fmt::format("{}.{}: {} was expected, found {}", NameOf(message), row.name,
                                     kExpected[static_cast<size_t>(row.kind)], Found(field)),
                 .hint = "copy or export it again, it is damaged or no ONNX model"});
  }

  [[noreturn]] static void FailAtSize(uint64_t at, int64_t limit, std::string_view what) {
    throw Error({.where = fmt::format("byte {}", at),
                 .text = fmt::format("at most {} {} were expected, found more", limit, what)});
  }

  std::string Assemble(uint64_t size) {
    std::string out;
    passed_to_ = 0;
    out.reserve(size);
    uint64_t at = 0;
    for (const Edit& edit : edits_) {
      out += file_.substr(at, edit.begin - at);
      out += edit.bytes;
      at = edit.end;
      Pass(at);
    }
    out += file_.substr(at);
    return out;
  }

  std::string_view file_;
  const LoadOptions& options_;
  const Passed& passed_;
  uint64_t passed_to_ = 0;
  size_t last_cut_ = SIZE_MAX - 1;  // place of the last edit that is no header
  std::vector<Edit> edits_;         // by place; that of a message before those inside it
  std::vector<CutTensor> cut_tensors_;
  uint64_t kept_contents_ = 0;
  int64_t fields_ = 0;
  int64_t messages_ = 0;
  int64_t strings_ = 0;
  int64_t cut_texts_ = 0;
};

}  // namespace

Shortened ShortenModel(std::string_view file, const LoadOptions& options,
                       const std::function<void(std::string_view)>& passed) {
  return Walker(file, options, passed).Run();
}

}  // namespace onnxfit
