// Where the program is in an archive: torch.export.save has had two layouts.
#pragma once

#include <string>

#include "estimator/pt2/zip_archive.h"

namespace onnxfit::pt2 {

//   PyTorch 2.8 and later, in one folder       before, in one folder or none
//     models/model.json                          serialized_exported_program.json
//     data/weights/model_weights_config.json     serialized_state_dict.pt
//     data/weights/weight_0 …                    version
//     archive_format, archive_version
// 2.8 has data/weights/model.pt, of torch.save, in place of the table and what it names.
struct ArchiveLayout {
  const ZipArchive::Member* program = nullptr;
  const ZipArchive::Member* weights_config = nullptr;  // null where the layout has none
  std::string weights_folder;                          // with what is in front of it
};

// Views of `archive`.  Throws Error where there is no program, or more than one: it says what else
// the archive is, such as TorchScript.
ArchiveLayout FindProgram(const ZipArchive& archive);

}  // namespace onnxfit::pt2
