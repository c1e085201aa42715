#include <doctest/doctest.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "estimator/base/error.h"
#include "estimator/base/file_bytes.h"
#include "estimator/pt2/zip_archive.h"
#include "tests/temp_folder.h"
#include "tests/zip_writer.h"

namespace onnxfit::pt2_zip_archive_test {
namespace {

using pt2::ZipArchive;

// What the archive holds: "name: contents" a line.
std::string Dump(std::string_view bytes) {
  const ZipArchive archive(bytes);
  std::string text;
  for (const ZipArchive::Member& member : archive.members()) {
    text += std::string(member.name) + ": " + archive.Read(member) + "\n";
  }
  return text;
}

std::string ErrorOf(std::string_view bytes) {
  try {
    Dump(bytes);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST_CASE("stored and deflated members, small and in 64 bits") {
  const std::string long_text(100'000, 'a');
  CHECK(Dump(ZipOf({{.name = "a", .contents = "one"},
                    {.name = "b/c", .contents = "two", .deflate = true},
                    {.name = "empty"},
                    {.name = "64", .contents = "three", .zip64 = true},
                    {.name = "both", .contents = "four", .deflate = true, .zip64 = true}})) ==
        "a: one\nb/c: two\nempty: \n64: three\nboth: four\n");
  CHECK(Dump(ZipOf({{.name = "a", .contents = long_text, .deflate = true}})) ==
        "a: " + long_text + "\n");
  CHECK(Dump(ZipOf({})).empty());
  CHECK(Dump(ZipOf({{.name = "a", .contents = "one"}}) + "bytes behind") == "a: one\n");
}

TEST_CASE("a member by its name") {
  const std::string bytes = ZipOf({{.name = "b", .contents = "1"},
                                   {.name = "a", .contents = "2"},
                                   {.name = "twice", .contents = "3"},
                                   {.name = "twice", .contents = "4"}});
  const ZipArchive archive(bytes);
  CHECK(archive.Read(*archive.Find("a")) == "2");
  CHECK(archive.Read(*archive.Find("b")) == "1");
  CHECK(archive.Find("c") == nullptr);
  CHECK(archive.Find("") == nullptr);
  CHECK_THROWS_WITH_AS(
      archive.Find("twice"),
      "member 'twice': one member of the name was expected, found several (try: copy or "
      "export it again, it is damaged)",
      Error);
}

TEST_CASE("what is no whole zip archive") {
  constexpr char kNoTable[] =
      "a whole zip archive was expected, found no table of its members at the end (try: copy or "
      "export it again, it is cut off or damaged)";
  const std::string bytes = ZipOf({{.name = "a", .contents = std::string(1000, 'x')}});
  CHECK(ErrorOf("") == kNoTable);
  CHECK(ErrorOf("PK\3\4") == kNoTable);
  for (const size_t kept : {bytes.size() - 1, bytes.size() - 22, bytes.size() / 2, size_t{10}}) {
    CAPTURE(kept);
    CHECK(ErrorOf(std::string_view(bytes).substr(0, kept)) == kNoTable);
  }
}

TEST_CASE("members that are not what the table says") {
  struct Row {
    ZipEntry entry;
    std::string error;
  };
  const std::string text(2000, 'x');
  const std::string again = " (try: copy or export it again, it is damaged)";
  const std::string as_written = " (try: the archive as torch.export.save writes it)";
  const Row rows[] = {
      {{.name = "a", .contents = text, .said_sum = 1},
       "its check sum was expected to be right, it is not" + again},
      {{.name = "a", .contents = text, .deflate = true, .said_sum = 1},
       "its check sum was expected to be right, it is not" + again},
      {{.name = "a", .contents = text, .deflate = true, .said_size = 2001},
       "2001 bytes were expected, found 2000" + again},
      {{.name = "a", .contents = text, .deflate = true, .said_size = 1999},
       "1999 bytes were expected, found 2000 or more" + again},
      {{.name = "a", .contents = text, .said_size = 2001},
       "2001 bytes were expected, found 2000" + again},
      {{.name = "a", .contents = text, .deflate = true, .said_size = 200 << 20},
       "209715200 bytes were expected, its 17 bytes are too few for them" + again},
      {{.name = "a", .contents = text, .said_size = (256 << 20) + 1},
       "at most 256.0 MiB were expected, found 268435457 bytes" + again},
      {{.name = "a", .contents = text, .zip64 = true, .said_size = uint64_t{1} << 50},
       "at most 256.0 MiB were expected, found 1125899906842624 bytes" + again},
      {{.name = "a", .contents = text, .said_method = 12},
       "a stored or deflated member was expected, found method 12" + as_written},
      {{.name = "a", .contents = text, .flags = 1},
       "a member without a password was expected, found an encrypted one" + as_written},
      {{.name = "a", .contents = text, .said_method = 8},
       "2000 bytes were expected, found 0" + again},
  };
  for (const Row& row : rows) {
    CAPTURE(row.error);
    CHECK(ErrorOf(ZipOf({row.entry})) == "member 'a': " + row.error);
  }
}

TEST_CASE("names that lead out of the archive") {
  for (const char* name : {"../a", "b/../../a", "b/..", "..", "/etc/passwd", "b\\..\\a"}) {
    CAPTURE(name);
    CHECK(ErrorOf(ZipOf({{.name = name}})) ==
          "member '" + std::string(name) +
              "': a name inside of the archive was expected (try: copy or export it again, it is "
              "damaged)");
  }
  CHECK(ErrorOf(ZipOf({{.name = "..a/b..c/d.."}})).empty());
}

TEST_CASE("a table that ends early") {
  std::string bytes = ZipOf({{.name = "a"}, {.name = "b"}});
  bytes[bytes.size() - 22 + 8] = 3;  // members on this disk, and in all
  bytes[bytes.size() - 22 + 10] = 3;
  CHECK(ErrorOf(bytes) ==
        "3 members were expected, the table ends after 2 (try: copy or export it again, it is "
        "damaged)");
}

TEST_CASE("a member's own header that says something else") {
  std::string bytes = ZipOf({{.name = "a", .contents = "x"}});
  bytes[8] = 8;  // its method
  CHECK(ErrorOf(bytes) ==
        "member 'a': what the archive's table says of it was expected, found something else (try: "
        "copy or export it again, it is damaged)");
}

TEST_CASE("a file of more than 4 GiB") {
  constexpr uint64_t kHole = (uint64_t{5} << 30) + 7;
  ZipWriter writer;
  writer.Add({.name = "first", .contents = "1"});
  writer.AddHole("weights", kHole);
  writer.Add({.name = "last", .contents = "2", .deflate = true, .zip64 = true});
  const ZipWriter::Parts parts = writer.Finish();
  const TempFolder folder;
  const std::string path = folder.Write("large.zip", parts.before);
  {
    std::ofstream file(path, std::ios::binary | std::ios::in | std::ios::out);
    file.seekp(static_cast<std::streamoff>(parts.before.size() + parts.hole));
    file << parts.behind;
  }
  const FileBytes file(path, [](std::string_view) {});
  const ZipArchive archive(file.bytes());
  CHECK(archive.Find("weights")->size == kHole);
  CHECK(archive.Read(*archive.Find("first")) == "1");
  CHECK(archive.Read(*archive.Find("last")) == "2");
  CHECK_THROWS_WITH_AS(archive.Read(*archive.Find("weights")),
                       doctest::Contains("at most 256.0 MiB were expected, found 5368709127 bytes"),
                       Error);
}

TEST_CASE("what the end says in 64 bits") {
  ZipWriter writer;
  writer.Add({.name = "a", .contents = "x"});
  CHECK(Dump(ZipWriter(writer).Finish(1).before) == "a: x\n");
  CHECK(ErrorOf(ZipWriter(writer).Finish(1'000'000).before) ==
        "at most 262144 members were expected, found 1000000");
  CHECK(ErrorOf(ZipWriter(writer).Finish(UINT64_MAX).before) ==
        "at most 262144 members were expected, found 18446744073709551615");
  std::string damaged = writer.Finish(1).before;
  damaged.replace(damaged.find("PK\6\7"), 2, "KP");
  CHECK(ErrorOf(damaged).starts_with("a whole zip archive was expected"));
}

}  // namespace
}  // namespace onnxfit::pt2_zip_archive_test
