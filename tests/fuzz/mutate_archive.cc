// A .pt2 archive: a zip archive of JSON and small texts.
#include <string>
#include <string_view>
#include <vector>

#include "estimator/base/error.h"
#include "estimator/pt2/zip_archive.h"
#include "tests/fuzz/mutate.h"
#include "tests/zip_writer.h"

namespace onnxfit::fuzz {
namespace {

std::vector<ZipEntry> EntriesOf(std::string_view bytes) {
  std::vector<ZipEntry> entries;
  try {
    const pt2::ZipArchive archive(bytes);
    for (const pt2::ZipArchive::Member& member : archive.members()) {
      entries.push_back({.name = std::string(member.name), .contents = archive.Read(member)});
    }
  } catch (const Error&) {
    return {};
  }
  return entries;
}

// The one of the largest text, mostly: that is the program.
ZipEntry& AnyEntry(std::vector<ZipEntry>& entries, Random& random) {
  ZipEntry* largest = &entries.front();
  for (ZipEntry& entry : entries) {
    if (entry.contents.size() > largest->contents.size()) largest = &entry;
  }
  return OneIn(8, random) ? entries[Below(entries.size(), random)] : *largest;
}

}  // namespace

std::string MutateArchive(const std::string& bytes, size_t most, Random& random) {
  std::vector<ZipEntry> entries = EntriesOf(bytes);
  if (entries.empty() || OneIn(20, random)) return MutateBytes(bytes, most);
  ZipEntry& entry = AnyEntry(entries, random);
  entry.contents = MutateText(std::move(entry.contents), most, random);
  const std::string changed = ZipOf(entries);
  return changed.size() > most ? bytes : changed;
}

}  // namespace onnxfit::fuzz
