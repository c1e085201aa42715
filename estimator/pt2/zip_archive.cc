#include "estimator/pt2/zip_archive.h"

#include <fmt/format.h>
#include <zlib.h>

#include <algorithm>
#include <functional>
#include <optional>
#include <utility>

#include "estimator/base/bytes.h"
#include "estimator/base/error.h"
#include "estimator/base/quote.h"

namespace onnxfit::pt2 {
namespace {

constexpr uint64_t kMaxMembers = uint64_t{1} << 18;
constexpr uint64_t kMaxReadBytes = uint64_t{256} << 20;
// What a byte of deflate becomes is 1032 bytes at most (zlib's algorithm.txt).
constexpr uint64_t kMostInflated = 1032;
constexpr uint64_t kMethodStored = 0;
constexpr uint64_t kMethodDeflated = 8;
constexpr uint64_t kEncryptedFlag = 1;
constexpr std::string_view kCopyAgain = "copy or export it again, it is damaged";

[[noreturn]] void FailOfMember(const ZipArchive::Member& member, std::string text,
                               std::string_view hint = kCopyAgain) {
  throw Error({.where = fmt::format("member {}", Quote(member.name)),
               .text = std::move(text),
               .hint = std::string(hint)});
}

[[noreturn]] void FailOfArchive() {
  throw Error({.text = "a whole zip archive was expected, found no table of its members at the end",
               .hint = "copy or export it again, it is cut off or damaged"});
}

// --- Records -------------------------------------------------------------------

// A record of an archive: a signature, then numbers at fixed places, least byte first.
struct Record {
  std::string_view bytes;

  uint64_t Number(size_t at, size_t size) const {
    uint64_t number = 0;
    for (size_t i = size; i > 0; --i) {
      number = number << 8 | static_cast<unsigned char>(bytes[at + i - 1]);
    }
    return number;
  }
};

// The record of `size` bytes at `at`; nothing where none with this signature is there.
std::optional<Record> RecordAt(std::string_view bytes, uint64_t at, size_t size,
                               std::string_view signature) {
  if (at > bytes.size() || bytes.size() - at < size) return std::nullopt;
  const std::string_view record = bytes.substr(at, size);
  return record.starts_with(signature) ? std::optional(Record{record}) : std::nullopt;
}

// A number that is all ones stands in another record, with 64 bits.
constexpr uint64_t kNone16 = 0xffff;
constexpr uint64_t kNone32 = 0xffffffff;

struct ZipTable {
  uint64_t offset = 0;
  uint64_t size = 0;
  uint64_t members = 0;
};

// APPNOTE 4.3.14 and 4.3.15, in front of the end at `end`.
ZipTable Table64(std::string_view bytes, size_t end) {
  constexpr size_t kLocatorBytes = 20;
  constexpr size_t kEndBytes = 56;
  if (end < kLocatorBytes) FailOfArchive();
  const auto locator = RecordAt(bytes, end - kLocatorBytes, kLocatorBytes, "PK\6\7");
  if (!locator) FailOfArchive();
  const auto record = RecordAt(bytes, locator->Number(8, 8), kEndBytes, "PK\6\6");
  if (!record) FailOfArchive();
  return {.offset = record->Number(48, 8),
          .size = record->Number(40, 8),
          .members = record->Number(32, 8)};
}

// Where the archive's last record is, APPNOTE 4.3.16: a comment of up to 65,535 bytes is behind it.
size_t FindEnd(std::string_view bytes, size_t size) {
  const size_t first = bytes.size() - std::min<size_t>(bytes.size(), size + kNone16);
  const std::string_view tail = bytes.substr(first);
  size_t at = tail.rfind("PK\5\6");
  while (at != tail.npos) {
    const auto end = RecordAt(tail, at, size, "PK\5\6");
    if (end && end->Number(20, 2) <= tail.size() - at - size) return first + at;
    at = at == 0 ? tail.npos : tail.rfind("PK\5\6", at - 1);
  }
  FailOfArchive();
}

ZipTable FindTable(std::string_view bytes) {
  constexpr size_t kEndBytes = 22;
  const size_t at = FindEnd(bytes, kEndBytes);
  const Record end = {bytes.substr(at)};
  ZipTable table = {
      .offset = end.Number(16, 4), .size = end.Number(12, 4), .members = end.Number(10, 2)};
  const bool is_64 = table.offset == kNone32 || table.size == kNone32 || table.members == kNone16;
  if (is_64) table = Table64(bytes, at);
  if (table.offset > at || table.size > at - table.offset) FailOfArchive();
  return table;
}

// Replaces the sizes and the offset that have 64 bits: APPNOTE 4.5.3.
void TakeNumbers64(std::string_view extra, ZipArchive::Member& member) {
  constexpr size_t kHeaderBytes = 4;
  constexpr uint64_t kId = 1;
  while (extra.size() >= kHeaderBytes) {
    const Record header = {extra};
    const uint64_t id = header.Number(0, 2);
    const uint64_t size = header.Number(2, 2);
    std::string_view values = extra.substr(kHeaderBytes, size);
    extra.remove_prefix(std::min<uint64_t>(extra.size(), kHeaderBytes + size));
    if (id != kId) continue;
    for (uint64_t* number : {&member.size, &member.stored_size, &member.offset}) {
      if (*number != kNone32 || values.size() < 8) continue;
      *number = Record{values}.Number(0, 8);
      values.remove_prefix(8);
    }
  }
}

// Takes the next member from `table`, APPNOTE 4.3.12; nothing where there is none.
std::optional<ZipArchive::Member> TakeMember(std::string_view& table) {
  constexpr size_t kRowBytes = 46;
  const auto row = RecordAt(table, 0, kRowBytes, "PK\1\2");
  if (!row) return std::nullopt;
  const uint64_t name = row->Number(28, 2);
  const uint64_t extra = row->Number(30, 2);
  const uint64_t comment = row->Number(32, 2);
  if (table.size() - kRowBytes < name + extra + comment) return std::nullopt;
  ZipArchive::Member member = {.name = table.substr(kRowBytes, name),
                               .size = row->Number(24, 4),
                               .stored_size = row->Number(20, 4),
                               .offset = row->Number(42, 4),
                               .method = row->Number(10, 2),
                               .flags = row->Number(8, 2),
                               .sum = row->Number(16, 4)};
  TakeNumbers64(table.substr(kRowBytes + name, extra), member);
  table.remove_prefix(kRowBytes + name + extra + comment);
  return member;
}

// --- Checks --------------------------------------------------------------------

bool IsOutside(std::string_view name) {
  if (name.starts_with('/')) return true;
  while (true) {
    const size_t end = std::min(name.find_first_of("/\\"), name.size());
    if (name.substr(0, end) == "..") return true;
    if (end == name.size()) return false;
    name.remove_prefix(end + 1);
  }
}

void CheckReadable(const ZipArchive::Member& member) {
  constexpr std::string_view kAsWritten = "the archive as torch.export.save writes it";
  if ((member.flags & kEncryptedFlag) != 0) {
    FailOfMember(member, "a member without a password was expected, found an encrypted one",
                 kAsWritten);
  }
  if (member.method != kMethodStored && member.method != kMethodDeflated) {
    FailOfMember(
        member,
        fmt::format("a stored or deflated member was expected, found method {}", member.method),
        kAsWritten);
  }
  if (member.size > kMaxReadBytes || member.stored_size > kMaxReadBytes) {
    FailOfMember(member, fmt::format("at most {} were expected, found {} bytes",
                                     FormatBytes(static_cast<int64_t>(kMaxReadBytes)),
                                     std::max(member.size, member.stored_size)));
  }
  if (member.size / kMostInflated > member.stored_size) {  // a lie takes no memory
    FailOfMember(member, fmt::format("{} bytes were expected, its {} bytes are too few for them",
                                     member.size, member.stored_size));
  }
}

// --- Contents ------------------------------------------------------------------

class Inflater {
 public:
  Inflater() { inflateInit2(&stream_, -MAX_WBITS); }  // no header of zlib's
  ~Inflater() { inflateEnd(&stream_); }
  Inflater(const Inflater&) = delete;
  Inflater& operator=(const Inflater&) = delete;

  // Inflates `from` into `to`; how many bytes that made.  A byte more than expected shows more.
  size_t Inflate(std::string_view from, std::string& to) {
    stream_.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(from.data()));
    stream_.avail_in = static_cast<uInt>(from.size());
    stream_.next_out = reinterpret_cast<Bytef*>(to.data());
    stream_.avail_out = static_cast<uInt>(to.size());
    inflate(&stream_, Z_FINISH);
    return stream_.total_out;
  }

 private:
  z_stream stream_ = {};
};

std::string ContentsOf(const ZipArchive::Member& member, std::string_view stored) {
  if (member.method == kMethodStored) return std::string(stored);
  std::string contents(member.size + 1, '\0');
  contents.resize(Inflater().Inflate(stored, contents));
  return contents;
}

}  // namespace

bool MayBeZip(std::string_view first) { return first.starts_with("PK\x03\x04"); }

ZipArchive::ZipArchive(std::string_view bytes) : bytes_(bytes) {
  const ZipTable table = FindTable(bytes);
  if (table.members > kMaxMembers) {
    throw Error({.text = fmt::format("at most {} members were expected, found {}", kMaxMembers,
                                     table.members)});
  }
  std::string_view rows = bytes.substr(table.offset, table.size);
  while (members_.size() < table.members) {
    const std::optional<ZipArchive::Member> member = TakeMember(rows);
    if (!member) {
      throw Error({.text = fmt::format("{} members were expected, the table ends after {}",
                                       table.members, members_.size()),
                   .hint = std::string(kCopyAgain)});
    }
    if (IsOutside(member->name)) {
      FailOfMember(*member, "a name inside of the archive was expected");
    }
    members_.push_back(*member);
  }
  for (const ZipArchive::Member& member : members_) by_name_.push_back(&member);
  std::ranges::stable_sort(by_name_, std::less<>(), &Member::name);
}

const ZipArchive::Member* ZipArchive::Find(std::string_view name) const {
  const auto found = std::ranges::lower_bound(by_name_, name, std::less<>(), &Member::name);
  if (found == by_name_.end() || (*found)->name != name) return nullptr;
  const auto next = found + 1;
  if (next != by_name_.end() && (*next)->name == name) {
    FailOfMember(**found, "one member of the name was expected, found several");
  }
  return *found;
}

// What is behind the member's own header, APPNOTE 4.3.7, which names it again.
std::string_view ZipArchive::StoredBytes(const ZipArchive::Member& member) const {
  constexpr size_t kHeaderBytes = 30;
  const auto header = RecordAt(bytes_, member.offset, kHeaderBytes, "PK\3\4");
  const std::string_view rest =
      header ? bytes_.substr(member.offset + kHeaderBytes) : std::string_view();
  const uint64_t before = header ? header->Number(26, 2) + header->Number(28, 2) : 0;
  if (!header || header->Number(8, 2) != member.method || !rest.starts_with(member.name) ||
      header->Number(26, 2) != member.name.size() || rest.size() < before ||
      rest.size() - before < member.stored_size) {
    FailOfMember(member, "what the archive's table says of it was expected, found something else");
  }
  return rest.substr(before, member.stored_size);
}

std::string ZipArchive::Read(const ZipArchive::Member& member) const {
  CheckReadable(member);
  std::string contents = ContentsOf(member, StoredBytes(member));
  if (contents.size() != member.size) {
    const std::string_view most = contents.size() > member.size ? " or more" : "";
    FailOfMember(member, fmt::format("{} bytes were expected, found {}{}", member.size,
                                     contents.size(), most));
  }
  const auto* const data = reinterpret_cast<const Bytef*>(contents.data());
  if (crc32(0, data, static_cast<uInt>(contents.size())) != member.sum) {
    FailOfMember(member, "its check sum was expected to be right, it is not");
  }
  return contents;
}

}  // namespace onnxfit::pt2
