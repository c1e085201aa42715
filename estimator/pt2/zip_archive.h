// A zip archive in memory: the table of its members, and what is in those that are asked for.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace onnxfit::pt2 {

// Whether a file that begins so may be a zip archive.
bool MayBeZip(std::string_view first);

// As PKWARE's APPNOTE.TXT says, with sizes and offsets of 64 bits.  Only zlib is asked:
// minizip 1.1, which Debian has, takes 64-bit sizes for 4 GiB - 1 where a long has 64 bits.
class ZipArchive {
 public:
  struct Member {
    std::string_view name;
    uint64_t size = 0;         // of its contents
    uint64_t stored_size = 0;  // of what the archive holds of them
    uint64_t offset = 0;       // of its own header
    uint64_t method = 0;       // 0: stored, 8: deflated
    uint64_t flags = 0;
    uint64_t sum = 0;  // CRC-32 of its contents
  };

  // `bytes` outlive the archive.  Reads the table at their end: O(members), of which there may be
  // 2^18.  Throws Error for what is no zip archive, is cut off, or has names outside of itself
  // ("../x").
  explicit ZipArchive(std::string_view bytes);
  ZipArchive(const ZipArchive&) = delete;
  ZipArchive& operator=(const ZipArchive&) = delete;

  const std::vector<Member>& members() const { return members_; }

  // Null where there is none.  Throws Error where there are several of the name.  O(log members).
  const Member* Find(std::string_view name) const;

  // Stored or deflated, 256 MiB at most, and checked by its sum.  Throws Error for other members,
  // and where what is there is not what the table says.
  std::string Read(const Member& member) const;

 private:
  std::string_view StoredBytes(const Member& member) const;

  std::string_view bytes_;
  std::vector<Member> members_;         // in the order of the table
  std::vector<const Member*> by_name_;  // sorted
};

}  // namespace onnxfit::pt2
