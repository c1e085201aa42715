#include "estimator/onnx/other_formats.h"

#include <fmt/format.h>

#include <algorithm>

#include "estimator/base/error.h"

namespace onnxfit {
namespace {

using std::string_view_literals::operator""sv;

constexpr std::string_view kExport = "export it: torch.onnx.export(model, args, 'model.onnx')";
constexpr std::string_view kConvert = "an ONNX export of the same model";

struct Format {
  size_t offset;
  std::string_view magic;
  std::string_view name;
  std::string_view hint;
};

constexpr Format kFormats[] = {
    {0, "version https://git-lfs"sv, "a Git LFS pointer, the model itself is not here",
     "git lfs pull"},
    {0, "PK\x03\x04"sv, "a zip archive, as torch.save and numpy write", kExport},
    {0, "\x80\x02"sv, "a Python pickle, as an old torch.save writes", kExport},
    {0, "\x80\x03"sv, "a Python pickle", kExport},
    {0, "\x80\x04"sv, "a Python pickle", kExport},
    {8, "{\""sv, "safetensors: weights without a graph", kExport},
    {0, "\x89HDF\r\n\x1a\n"sv, "HDF5, as Keras writes", kConvert},
    {4, "TFL3"sv, "a TensorFlow Lite model", kConvert},
    {4, "ORTM"sv, "a model in ONNX Runtime's own format", "the .onnx file it was made from"},
    {0, "GGUF"sv, "GGUF: weights without a graph", kExport},
    {0, "\x93NUMPY"sv, "a NumPy array", kExport},
    {0, "\x1f\x8b"sv, "a gzip archive", "gunzip"},
    {0, "<!DOCTYPE"sv, "a web page, so the download went wrong", "download it again"},
    {0, "<html"sv, "a web page, so the download went wrong", "download it again"},
    {0, "\0\0\0\0\0\0\0\0"sv, "zeros", "copy it again"},
};

bool IsTextByte(char c) {
  const auto byte = static_cast<unsigned char>(c);
  return byte >= 0x20 ? byte != 0x7f : c == '\n' || c == '\r' || c == '\t' || c == '\f';
}

[[noreturn]] void Refuse(std::string_view found, std::string_view hint) {
  throw Error({.text = fmt::format("an ONNX model was expected, found {}", found),
               .hint = std::string(hint)});
}

}  // namespace

void RefuseOtherFormats(std::string_view first) {
  for (const Format& format : kFormats) {
    if (first.size() >= format.offset && first.substr(format.offset).starts_with(format.magic)) {
      Refuse(format.name, format.hint);
    }
  }
  // A model has bytes below 0x20 from the start: lengths, field numbers.
  if (!first.empty() && std::all_of(first.begin(), first.end(), IsTextByte)) {
    Refuse("text", "an .onnx file; ONNX's text form needs the ending .onnxtxt");
  }
}

}  // namespace onnxfit
