// Which versions of PyTorch's export format are known, what its numbers mean, and where its
// archives have the program.
#pragma once

#include <compare>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "estimator/base/tensor_type.h"
#include "estimator/pt2/zip_archive.h"

namespace onnxfit::pt2 {

// What to try where a file is not usable.
inline constexpr std::string_view kHowToExport =
    "torch.export.save(torch.export.export(model, args), 'model.pt2')";

// torch/_export/serde/schema.py: SCHEMA_VERSION.  A major version is another format; a minor one
// adds to it.
struct SchemaVersion {
  int64_t major = 0;
  int64_t minor = 0;

  auto operator<=>(const SchemaVersion&) const =
      default;  // NOLINT(modernize-use-nullptr): 14 takes it for one
};

// The PyTorch that writes `version`, the last of those that are known to: "2.11"; for programs that
// do not say who wrote them.  A version between two rows is the later one's.
std::string_view TorchOfSchema(const SchemaVersion& version);

// Throws Error (without a file) where `version` is not known.  A minor version from the future adds
// a note: what it brings is left out.
void CheckSchema(const SchemaVersion& version, std::vector<std::string>& notes);

// The same for the archive around the program (torch/csrc/export/pt2_archive_constants.h), by the
// contents of its members `archive_format` and `archive_version`.
void CheckArchive(std::string_view format, std::string_view version);

// "float32" of ScalarType 7, "strided" of Layout 7, "channels_last" of MemoryFormat 2; "" of
// numbers that are not known.
std::string_view ScalarTypeName(int64_t number);
std::string_view LayoutName(int64_t number);
std::string_view MemoryFormatName(int64_t number);

// kUndefined where there is none.
DType ScalarTypeOf(int64_t number);
DType ScalarTypeOf(std::string_view name);

// --- Layouts of archives -------------------------------------------------------

// Where the program is in an archive: torch.export.save has had two layouts.
//   PyTorch 2.8 and later, in one folder       before, in one folder or none
//     models/model.json                          serialized_exported_program.json
//     data/weights/model_weights_config.json     serialized_state_dict.pt
//     data/weights/weight_0 …                    version
//     archive_format, archive_version
// 2.8 has data/weights/model.pt, of torch.save, in place of the table and what it names.  Files
// that users add (extra_files=) are in extra/, before 2.8 in extra_files/.
struct ArchiveLayout {
  const ZipArchive::Member* program = nullptr;
  const ZipArchive::Member* weights_config = nullptr;  // null where the layout has none
  std::string weights_folder = {};                     // with what is in front of it
  const ZipArchive::Member* notes = nullptr;           // kNotesMember; null where there are none
  const ZipArchive::Member* watched = nullptr;         // kWatchedMember; the same
};

// What who exported the program had to assume, and says to whoever asks, and which dimension of
// which input is the batch, where it is not the first, as JSON:
//   {"assumptions": ["net.py:24: if x.sum() > 0: → False (a guess)"], "batch": ["input", 1]}
// python/onnxfit/programs.py writes it; other members of the object are for later versions.
inline constexpr std::string_view kNotesMember = "onnxfit/notes.json";

// The same module's calls as a watched run made them, in the JSON of the program, packed
// (packed_text.h): it is read in the program's place.  python/onnxfit/_export.py writes it.
inline constexpr std::string_view kWatchedMember = "onnxfit/watched.zlib.base64";

// Views of `archive`.  Throws Error where there is no program, or more than one: it says what else
// the archive is, such as TorchScript.
ArchiveLayout FindProgram(const ZipArchive& archive);

}  // namespace onnxfit::pt2
