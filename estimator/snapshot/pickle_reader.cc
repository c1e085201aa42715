#include "estimator/snapshot/pickle_reader.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <limits>
#include <optional>
#include <string>
#include <utility>

#include "estimator/base/error.h"
#include "estimator/base/index.h"

namespace onnxfit {
namespace {

constexpr size_t kMostNodes = std::numeric_limits<PickleId>::max();
constexpr PickleId kMark = -2;  // on the stack, between values

[[noreturn]] void Refuse(size_t at, std::string text, std::string hint = "") {
  throw Error(
      {.where = fmt::format("byte {}", at), .text = std::move(text), .hint = std::move(hint)});
}

class Reader;

// What an opcode does: by its name in Python's Lib/pickle.py.
struct Opcode {
  uint8_t code = 0;
  std::string_view name = {};
  void (*run)(Reader& reader) = nullptr;  // null: makes what is no plain value
};

class Reader {
 public:
  explicit Reader(std::string_view bytes) { values_.bytes = bytes; }

  PickleValues Read();

  // --- What opcodes are made of -------------------------------------------------------------

  // An unsigned number of `count` bytes, the least one first.
  uint64_t Number(size_t count) {
    const std::string_view bytes = Take(count);
    uint64_t number = 0;
    for (size_t i = 0; i < count; ++i) {
      number |= static_cast<uint64_t>(static_cast<uint8_t>(bytes[i])) << (8 * i);
    }
    return number;
  }

  std::string_view Take(uint64_t count) {
    const size_t left = values_.bytes.size() - at_;
    if (count > left) {
      Refuse(opcode_at_,
             fmt::format("{} more bytes were expected, found the end of the file after "
                         "{}",
                         count, left),
             "copy the file anew: this one is cut");
    }
    const size_t from = at_;
    at_ += static_cast<size_t>(count);
    return values_.bytes.substr(from, static_cast<size_t>(count));
  }

  void Push(PickleType type, int64_t value, size_t at) {
    if (values_.nodes.size() >= kMostNodes) Refuse(at, "fewer than 2^31 values were expected");
    stack_.push_back(static_cast<PickleId>(values_.nodes.size()));
    values_.nodes.push_back({.type = type, .value = value, .at = at});
  }
  void Push(PickleType type, int64_t value = 0) { Push(type, value, opcode_at_); }

  // A text or bytes whose length is written in `count` bytes before them.
  void PushLetters(PickleType type, size_t count) {
    const std::string_view letters = Take(Number(count));
    Push(type, static_cast<int64_t>(letters.size()), at_ - letters.size());
  }

  // Two's complement, of `count` bytes.
  void PushLong(uint64_t count) {
    const std::string_view bytes = Take(count);
    const bool is_negative = !bytes.empty() && (static_cast<uint8_t>(bytes.back()) & 0x80) != 0;
    uint64_t number = is_negative ? ~uint64_t{0} : 0;
    bool fits = true;
    for (size_t i = 0; i < bytes.size(); ++i) {
      const auto byte = static_cast<uint8_t>(bytes[i]);
      if (i >= 8) fits &= byte == (is_negative ? 0xff : 0);
      if (i < 8) number = (number & ~(uint64_t{0xff} << (8 * i))) | uint64_t{byte} << (8 * i);
    }
    fits &= (static_cast<int64_t>(number) < 0) == is_negative;
    using Limits = std::numeric_limits<int64_t>;
    const int64_t nearest = is_negative ? Limits::min() : Limits::max();
    Push(PickleType::kInteger, fits ? static_cast<int64_t>(number) : nearest);
  }

  void PushContainer(PickleType type, std::vector<PickleId> items = {}) {
    values_.items.push_back(std::move(items));
    Push(type, static_cast<int64_t>(values_.items.size() - 1));
  }

  PickleId Pop() {
    if (stack_.empty() || stack_.back() == kMark) RefuseStack();
    const PickleId id = stack_.back();
    stack_.pop_back();
    return id;
  }

  // All above the last mark, which goes, too.
  std::vector<PickleId> PopToMark() {
    const auto mark = std::find(stack_.rbegin(), stack_.rend(), kMark);
    if (mark == stack_.rend()) RefuseStack();
    std::vector<PickleId> items(mark.base(), stack_.end());
    stack_.erase(mark.base() - 1, stack_.end());
    return items;
  }

  void PushTuple(size_t count) {
    std::vector<PickleId> items(count);
    for (size_t i = count; i > 0; --i) items[i - 1] = Pop();
    PushContainer(PickleType::kTuple, std::move(items));
  }

  // To the container below them on the stack.
  void Append(PickleType type, const std::vector<PickleId>& items) {
    const PickleId into = Top();
    if (values_.TypeOf(into) != type) {
      Refuse(opcode_at_, fmt::format("{} was expected to take values, found {}", ToString(type),
                                     ToString(values_.TypeOf(into))));
    }
    if (type == PickleType::kDict && items.size() % 2 != 0) RefuseStack();
    std::vector<PickleId>& held = values_.items[Index(values_.At(into).value)];
    held.insert(held.end(), items.begin(), items.end());
  }

  PickleId Top() const {
    if (stack_.empty() || stack_.back() == kMark) RefuseStack();
    return stack_.back();
  }
  void PushMark() { stack_.push_back(kMark); }

  // Numbers of the memo begin at 0 and leave none out, but for what a hostile file does: more than
  // there are bytes is never needed.
  void Memoize(uint64_t number) {
    if (number >= values_.bytes.size()) {
      Refuse(opcode_at_, fmt::format("a smaller number of a value was expected, found {}", number));
    }
    const auto place = static_cast<size_t>(number);
    if (place >= memo_.size()) memo_.resize(place + 1, kNoPickle);
    memo_[place] = Top();
    next_memo_ = std::max(next_memo_, place + 1);
  }
  void MemoizeNext() { Memoize(next_memo_); }

  void PushMemoized(uint64_t number) {
    if (number >= memo_.size() || memo_[static_cast<size_t>(number)] == kNoPickle) {
      Refuse(opcode_at_, fmt::format("a value kept before was expected, found number {}, which is "
                                     "none",
                                     number));
    }
    stack_.push_back(memo_[static_cast<size_t>(number)]);
  }

  void CheckProtocol() {
    constexpr uint64_t kHighestProtocol = 5;  // of Python 3.8 and later (PEP 574)
    const uint64_t protocol = Number(1);
    if (protocol <= kHighestProtocol) return;
    Refuse(opcode_at_, fmt::format("a pickle of protocols 2 to {} was expected, found {}",
                                   kHighestProtocol, protocol));
  }

  void Stop() { is_done_ = true; }

 private:
  [[noreturn]] void RefuseStack() const {
    Refuse(opcode_at_, "a value was expected before this opcode, found none",
           "copy the file anew: this one is damaged");
  }

  void RunNext();

  PickleValues values_;
  std::vector<PickleId> stack_;
  std::vector<PickleId> memo_;
  size_t next_memo_ = 0;
  size_t at_ = 0;
  size_t opcode_at_ = 0;
  bool is_done_ = false;
};

using enum PickleType;

constexpr Opcode kOpcodes[] = {
    // Of the whole.
    {0x80, "PROTO", [](Reader& r) { r.CheckProtocol(); }},
    {0x95, "FRAME", [](Reader& r) { r.Number(8); }},  // how much to read at once
    {'.', "STOP", [](Reader& r) { r.Stop(); }},

    // Values.
    {'N', "NONE", [](Reader& r) { r.Push(kNone); }},
    {0x88, "NEWTRUE", [](Reader& r) { r.Push(kBool, 1); }},
    {0x89, "NEWFALSE", [](Reader& r) { r.Push(kBool, 0); }},
    {'J', "BININT", [](Reader& r) { r.Push(kInteger, static_cast<int32_t>(r.Number(4))); }},
    {'K', "BININT1", [](Reader& r) { r.Push(kInteger, static_cast<int64_t>(r.Number(1))); }},
    {'M', "BININT2", [](Reader& r) { r.Push(kInteger, static_cast<int64_t>(r.Number(2))); }},
    {0x8a, "LONG1", [](Reader& r) { r.PushLong(r.Number(1)); }},
    {0x8b, "LONG4", [](Reader& r) { r.PushLong(r.Number(4)); }},
    {'G', "BINFLOAT", [](Reader& r) { r.Push(kFloat, std::bit_cast<int64_t>(r.Number(8))); }},
    {0x8c, "SHORT_BINUNICODE", [](Reader& r) { r.PushLetters(kText, 1); }},
    {'X', "BINUNICODE", [](Reader& r) { r.PushLetters(kText, 4); }},
    {0x8d, "BINUNICODE8", [](Reader& r) { r.PushLetters(kText, 8); }},
    {'C', "SHORT_BINBYTES", [](Reader& r) { r.PushLetters(kBytes, 1); }},
    {'B', "BINBYTES", [](Reader& r) { r.PushLetters(kBytes, 4); }},
    {0x8e, "BINBYTES8", [](Reader& r) { r.PushLetters(kBytes, 8); }},

    // Containers.
    {'(', "MARK", [](Reader& r) { r.PushMark(); }},
    {']', "EMPTY_LIST", [](Reader& r) { r.PushContainer(kList); }},
    {'a', "APPEND",
     [](Reader& r) {
       const PickleId item = r.Pop();
       r.Append(kList, {item});
     }},
    {'e', "APPENDS", [](Reader& r) { r.Append(kList, r.PopToMark()); }},
    {')', "EMPTY_TUPLE", [](Reader& r) { r.PushTuple(0); }},
    {0x85, "TUPLE1", [](Reader& r) { r.PushTuple(1); }},
    {0x86, "TUPLE2", [](Reader& r) { r.PushTuple(2); }},
    {0x87, "TUPLE3", [](Reader& r) { r.PushTuple(3); }},
    {'t', "TUPLE", [](Reader& r) { r.PushContainer(kTuple, r.PopToMark()); }},
    {'}', "EMPTY_DICT", [](Reader& r) { r.PushContainer(kDict); }},
    {'s', "SETITEM",
     [](Reader& r) {
       const PickleId value = r.Pop();
       const PickleId key = r.Pop();
       r.Append(kDict, {key, value});
     }},
    {'u', "SETITEMS", [](Reader& r) { r.Append(kDict, r.PopToMark()); }},

    // What is kept and found again.
    {0x94, "MEMOIZE", [](Reader& r) { r.MemoizeNext(); }},
    {'q', "BINPUT", [](Reader& r) { r.Memoize(r.Number(1)); }},
    {'r', "LONG_BINPUT", [](Reader& r) { r.Memoize(r.Number(4)); }},
    {'h', "BINGET", [](Reader& r) { r.PushMemoized(r.Number(1)); }},
    {'j', "LONG_BINGET", [](Reader& r) { r.PushMemoized(r.Number(4)); }},
    {'0', "POP", [](Reader& r) { r.Pop(); }},
    {'1', "POP_MARK", [](Reader& r) { r.PopToMark(); }},

    // Classes, functions and what is made by them.
    {'c', "GLOBAL"},
    {0x93, "STACK_GLOBAL"},
    {'R', "REDUCE"},
    {'b', "BUILD"},
    {'i', "INST"},
    {'o', "OBJ"},
    {0x81, "NEWOBJ"},
    {0x92, "NEWOBJ_EX"},
    {0x82, "EXT1"},
    {0x83, "EXT2"},
    {0x84, "EXT4"},
    {'P', "PERSID"},
    {'Q', "BINPERSID"},
    {0x97, "NEXT_BUFFER"},
    {0x98, "READONLY_BUFFER"},
};

constexpr std::array<const Opcode*, 256> OpcodesByCode() {
  std::array<const Opcode*, 256> by_code = {};
  for (const Opcode& row : kOpcodes) by_code[row.code] = &row;
  return by_code;
}
constexpr std::array<const Opcode*, 256> kByCode = OpcodesByCode();

[[noreturn]] void RefuseOpcode(size_t at, uint8_t code) {
  const Opcode* row = kByCode[code];
  if (row != nullptr) {
    Refuse(at,
           fmt::format("plain values were expected, found {}, which makes an object of a class",
                       row->name),
           "torch.cuda.memory._dump_snapshot(\"snapshot.pickle\") writes none");
  }
  Refuse(at, fmt::format("an opcode of a pickle was expected, found byte 0x{:02x}", code));
}

void Reader::RunNext() {
  opcode_at_ = at_;
  const auto code = static_cast<uint8_t>(Take(1)[0]);
  const Opcode* row = kByCode[code];
  if (row == nullptr || row->run == nullptr) RefuseOpcode(opcode_at_, code);
  row->run(*this);
}

PickleValues Reader::Read() {
  while (!is_done_) RunNext();
  values_.root = Pop();
  return std::move(values_);
}

}  // namespace

std::string_view ToString(PickleType type) {
  constexpr std::string_view kNames[] = {"None",  "a bool", "an integer", "a float", "a text",
                                         "bytes", "a list", "a tuple",    "a dict"};
  return kNames[static_cast<size_t>(type)];
}

PickleId PickleValues::Find(PickleId dict, std::string_view key) const {
  const std::vector<PickleId>& held = ItemsOf(dict);
  for (size_t i = held.size(); i >= 2; i -= 2) {
    if (TypeOf(held[i - 2]) == PickleType::kText && TextOf(held[i - 2]) == key) return held[i - 1];
  }
  return kNoPickle;
}

bool LooksLikePickle(std::string_view bytes) {
  return bytes.size() >= 2 && bytes[0] == '\x80' && bytes[1] >= 2 && bytes[1] <= 5;
}

PickleValues ReadPickle(std::string_view bytes) { return Reader(bytes).Read(); }

}  // namespace onnxfit
