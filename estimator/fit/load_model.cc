#include "estimator/fit/load_model.h"

#include <fstream>

#include "estimator/base/file_bytes.h"
#include "estimator/graph/loader.h"
#include "estimator/graph/other_formats.h"
#include "estimator/pt2/embedded_program.h"
#include "estimator/pt2/exported_program.h"
#include "estimator/pt2/program_of.h"

namespace onnxfit {
namespace {

constexpr size_t kFirstBytes = 4;

// Of a file that can be read twice; "" of others.
std::string FirstBytes(const std::string& path) {
  std::string first(kFirstBytes, '\0');
  std::ifstream file(path, std::ios::binary);
  file.read(first.data(), kFirstBytes);
  first.resize(static_cast<size_t>(file.gcount()));
  return first;
}

// A pipe is read once.
Graph LoadStandardInput() {
  const auto check = [](std::string_view first) {
    if (!pt2::MayBeExportedProgram(first)) RefuseOtherFormats(first);
  };
  const FileBytes input("-", check);
  return LoadModelFrom(input.bytes(), "-", "<stdin>");
}

}  // namespace

Graph LoadModel(const std::string& path) {
  if (path == "-") return LoadStandardInput();
  const std::string first = FirstBytes(path);
  const bool is_exported =
      first.empty() ? path.ends_with(".pt2") : pt2::MayBeExportedProgram(first);
  return is_exported ? pt2::InputGraph(pt2::LoadExportedProgram(path))
                     : pt2::WithEmbeddedProgram(LoadGraph(path));
}

Graph LoadModelFrom(std::string_view bytes, const std::string& path, const std::string& name) {
  if (!pt2::MayBeExportedProgram(bytes.substr(0, kFirstBytes)))
    return pt2::WithEmbeddedProgram(LoadGraphFrom(bytes, path, name));
  return pt2::InputGraph(pt2::LoadExportedProgramFrom(bytes, name));
}

}  // namespace onnxfit
