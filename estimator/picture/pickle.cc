#include "estimator/picture/pickle.h"

#include <utility>

#include "estimator/report/layout.h"

namespace onnxfit {
namespace {

// Opcodes, by their names in Python's Lib/pickle.py.
constexpr char kProto = '\x80';
constexpr char kMark = '(';
constexpr char kStop = '.';
constexpr char kEmptyDict = '}';
constexpr char kSetItems = 'u';
constexpr char kEmptyList = ']';
constexpr char kAppends = 'e';
constexpr char kTuple = 't';
constexpr char kBinUnicode = 'X';
constexpr char kBinInt = 'J';
constexpr char kLong1 = '\x8a';
constexpr char kNewTrue = '\x88';
constexpr char kNewFalse = '\x89';

void AppendLittleEndian(uint64_t number, int count, std::string& bytes) {
  for (int i = 0; i < count; ++i) bytes += static_cast<char>(number >> (8 * i) & 0xff);
}

}  // namespace

PickleWriter::PickleWriter() { bytes_ = {kProto, '\x02'}; }

PickleWriter& PickleWriter::BeginDict() {
  bytes_ += {kEmptyDict, kMark};
  return *this;
}

PickleWriter& PickleWriter::EndDict() {
  bytes_ += kSetItems;
  return *this;
}

PickleWriter& PickleWriter::BeginList() {
  bytes_ += {kEmptyList, kMark};
  return *this;
}

PickleWriter& PickleWriter::EndList() {
  bytes_ += kAppends;
  return *this;
}

PickleWriter& PickleWriter::NextBatch() {
  bytes_ += {kAppends, kMark};
  return *this;
}

PickleWriter& PickleWriter::BeginTuple() {
  bytes_ += kMark;
  return *this;
}

PickleWriter& PickleWriter::EndTuple() {
  bytes_ += kTuple;
  return *this;
}

PickleWriter& PickleWriter::Text(std::string_view text) {
  const std::string clean = Clean(text, false);
  bytes_ += kBinUnicode;
  AppendLittleEndian(clean.size(), 4, bytes_);
  bytes_ += clean;
  return *this;
}

PickleWriter& PickleWriter::Integer(int64_t number) {
  const auto bits = static_cast<uint64_t>(number);
  if (number == static_cast<int32_t>(number)) {
    bytes_ += kBinInt;
    AppendLittleEndian(bits, 4, bytes_);
  } else {
    bytes_ += {kLong1, '\x08'};
    AppendLittleEndian(bits, 8, bytes_);
  }
  return *this;
}

PickleWriter& PickleWriter::Switch(bool value) {
  bytes_ += value ? kNewTrue : kNewFalse;
  return *this;
}

PickleWriter& PickleWriter::Item(std::string_view key, std::string_view text) {
  return Text(key).Text(text);
}

PickleWriter& PickleWriter::Item(std::string_view key, const char* text) {
  return Text(key).Text(text);
}

PickleWriter& PickleWriter::Item(std::string_view key, int64_t number) {
  return Text(key).Integer(number);
}

std::string PickleWriter::Finish() {
  bytes_ += kStop;
  return std::move(bytes_);
}

}  // namespace onnxfit
