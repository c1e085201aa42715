// Zip archives for tests, wrong ones too.
#pragma once

#include <zlib.h>

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace onnxfit {

struct ZipEntry {
  std::string name;
  std::string contents = {};
  bool deflate = false;
  bool zip64 = false;  // sizes and the offset in 64 bits
  // What the headers say instead of the truth.
  std::optional<uint64_t> said_size = {};
  std::optional<uint32_t> said_sum = {};
  std::optional<uint16_t> said_method = {};
  uint16_t flags = 0;
};

inline std::string Deflated(std::string_view text) {
  z_stream stream = {};
  deflateInit2(&stream, Z_BEST_COMPRESSION, Z_DEFLATED, -MAX_WBITS, 8, Z_DEFAULT_STRATEGY);
  std::string out(deflateBound(&stream, text.size()), '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));
  stream.avail_in = static_cast<uInt>(text.size());
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = static_cast<uInt>(out.size());
  deflate(&stream, Z_FINISH);
  out.resize(stream.total_out);
  deflateEnd(&stream);
  return out;
}

// APPNOTE.TXT of PKWARE, 4.3 and 4.5.3.
class ZipWriter {
 public:
  void Add(const ZipEntry& entry) {
    const std::string stored = entry.deflate ? Deflated(entry.contents) : entry.contents;
    const uint64_t offset = Offset();
    bytes_ += Header(entry, stored.size(), offset, false);
    bytes_ += stored;
    table_ += Header(entry, stored.size(), offset, true);
    ++members_;
  }

  // A stored member of `size` zeros that are not written: a hole in a file.
  void AddHole(const std::string& name, uint64_t size) {
    const ZipEntry entry = {.name = name, .zip64 = true, .said_size = size};
    const uint64_t offset = Offset();
    bytes_ += Header(entry, size, offset, false);
    hole_at_ = bytes_.size();
    hole_ = size;
    table_ += Header(entry, size, offset, true);
    ++members_;
  }

  // What is before the hole, and behind it; all is before where there is none.
  struct Parts {
    std::string before;
    uint64_t hole = 0;
    std::string behind = {};
  };
  // `said_members` is what the end says, in 64 bits, instead of the truth.
  Parts Finish(std::optional<uint64_t> said_members = {}) {
    const uint64_t at = Offset();
    const uint64_t members = said_members.value_or(members_);
    bytes_ += table_;
    if (at > UINT32_MAX || said_members) bytes_ += End64(at, members);
    const std::string count = Number(said_members ? UINT16_MAX : members_, 2);
    bytes_ += "PK\5\6" + Number(0, 4) + count + count + Number(table_.size(), 4) +
              Number(std::min<uint64_t>(at, UINT32_MAX), 4) + Number(0, 2);
    if (hole_ == 0) return {.before = bytes_};
    return {.before = bytes_.substr(0, hole_at_), .hole = hole_, .behind = bytes_.substr(hole_at_)};
  }

 private:
  static std::string Number(uint64_t number, int bytes) {
    std::string text;
    for (int i = 0; i < bytes; ++i, number >>= 8) text += static_cast<char>(number & 0xff);
    return text;
  }
  uint64_t Offset() const { return bytes_.size() + hole_; }

  static std::string Header(const ZipEntry& entry, uint64_t stored_size, uint64_t offset,
                            bool is_row) {
    const uint64_t size = entry.said_size.value_or(entry.contents.size());
    std::string extra;
    if (entry.zip64) {
      const std::string sizes = Number(size, 8) + Number(stored_size, 8);
      const std::string values = is_row ? sizes + Number(offset, 8) : sizes;
      extra = Number(1, 2) + Number(values.size(), 2) + values;
    }
    const auto* const data = reinterpret_cast<const Bytef*>(entry.contents.data());
    const uint64_t sum = crc32(0, data, static_cast<uInt>(entry.contents.size()));
    std::string text = is_row ? "PK\1\2" + Number(45, 2) : "PK\3\4";
    text += Number(45, 2) + Number(entry.flags, 2);
    text += Number(entry.said_method.value_or(entry.deflate ? 8 : 0), 2) + Number(0, 4);
    text += Number(entry.said_sum.value_or(static_cast<uint32_t>(sum)), 4);
    text += Number(entry.zip64 ? UINT32_MAX : stored_size, 4);
    text += Number(entry.zip64 ? UINT32_MAX : size, 4);
    text += Number(entry.name.size(), 2) + Number(extra.size(), 2);
    if (is_row) {
      text += Number(0, 2 + 2 + 2 + 4) + Number(entry.zip64 ? UINT32_MAX : offset, 4);
    }
    return text + entry.name + extra;
  }

  std::string End64(uint64_t at, uint64_t members) const {
    const uint64_t end_at = at + table_.size();
    return "PK\6\6" + Number(44, 8) + Number(45, 2) + Number(45, 2) + Number(0, 8) +
           Number(members, 8) + Number(members, 8) + Number(table_.size(), 8) + Number(at, 8) +
           "PK\6\7" + Number(0, 4) + Number(end_at, 8) + Number(1, 4);
  }

  std::string bytes_;
  std::string table_;
  uint64_t members_ = 0;
  size_t hole_at_ = 0;
  uint64_t hole_ = 0;
};

inline std::string ZipOf(const std::vector<ZipEntry>& entries) {
  ZipWriter writer;
  for (const ZipEntry& entry : entries) writer.Add(entry);
  return writer.Finish().before;
}

}  // namespace onnxfit
