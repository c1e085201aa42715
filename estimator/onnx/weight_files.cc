#include "estimator/onnx/weight_files.h"

#include <fmt/format.h>
#include <onnx/onnx_pb.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <string_view>

#include "estimator/base/error.h"
#include "estimator/base/file_bytes.h"
#include "estimator/onnx/onnx_model.h"
#include "estimator/onnx/tensor_contents.h"

namespace onnxfit {
namespace {

namespace fs = std::filesystem;

// Shapes and scalars; the weights of layers are larger.
constexpr int64_t kSmallBytes = 4096;

bool MayBePlaces(DType dtype) {
  constexpr DType kPlaces[] = {DType::kInt32, DType::kInt64, DType::kUint32, DType::kUint64,
                               DType::kBool};
  return std::ranges::find(kPlaces, dtype) != std::end(kPlaces);
}

class WeightReader {
 public:
  explicit WeightReader(const std::string& path) : path_(path) {}

  void Visit(const onnx::GraphProto& graph) {
    for (const onnx::TensorProto& tensor : graph.initializer()) Visit(tensor);
    for (const onnx::NodeProto& node : graph.node()) Visit(node);
  }

  void Visit(const onnx::FunctionProto& function) {
    for (const onnx::NodeProto& node : function.node()) Visit(node);
  }

  std::vector<WeightFile> files() const {
    std::vector<WeightFile> files;
    for (const auto& [name, tensors] : tensors_) files.push_back({name, tensors});
    return files;
  }

 private:
  void Visit(const onnx::NodeProto& node) {
    for (const onnx::AttributeProto& attribute : node.attribute()) {
      if (attribute.has_t()) Visit(attribute.t());
      if (attribute.has_g()) Visit(attribute.g());
      for (const onnx::GraphProto& graph : attribute.graphs()) Visit(graph);
    }
  }

  void Visit(const onnx::TensorProto& tensor) {
    if (tensor.data_location() != onnx::TensorProto::EXTERNAL) return;
    const Extent stored = ExtentOf(tensor);
    if (!StaysInFolder(stored.location)) {
      throw Error(
          {.file = path_,
           .text = fmt::format("expected weights in files beside it, found {}", stored.location)});
    }
    StoredExtent extent = {.offset = std::max<int64_t>(stored.offset, 0),
                           .bytes = std::max<int64_t>(stored.length.value_or(0), 0)};
    if (extent.bytes == 0) extent.bytes = BytesOf(TypeOfInitializer(tensor));
    extent.is_small = extent.bytes <= kSmallBytes;
    extent.is_index = MayBePlaces(static_cast<DType>(tensor.data_type()));
    tensors_[stored.location].push_back(extent);
  }

  const std::string& path_;
  std::map<std::string, std::vector<StoredExtent>> tensors_;
};

// The digits of `count` in bytes from 0x30 on: as floats of 2, 4 and 8 bytes they are below 1.
std::array<char, 8> MarkOf(uint64_t count) {
  std::array<char, 8> mark;
  for (char& byte : mark) {
    byte = static_cast<char>(0x30 + count % 8);
    count /= 8;
  }
  return mark;
}

// Counts the weights of `to`; `count` goes on from file to file.
void MarkWeights(const WeightFile& file, const fs::path& to, uint64_t& count) {
  std::fstream copy(to, std::ios::binary | std::ios::in | std::ios::out);
  for (const StoredExtent& tensor : file.tensors) {
    if (tensor.is_small || tensor.is_index) continue;
    const std::array<char, 8> mark = MarkOf(count++);
    copy.seekp(tensor.offset);
    copy.write(mark.data(), mark.size());
  }
}

// The elements of small tensors of `from` at their places in `to`.
void CopySmall(const WeightFile& file, const fs::path& from, const fs::path& to) {
  std::ifstream source(from, std::ios::binary);
  std::fstream copy(to, std::ios::binary | std::ios::in | std::ios::out);
  for (const StoredExtent& tensor : file.tensors) {
    if (!tensor.is_small || !source) continue;
    std::string bytes(static_cast<size_t>(tensor.bytes), '\0');
    source.seekg(tensor.offset);
    if (!source.read(bytes.data(), tensor.bytes)) return;
    copy.seekp(tensor.offset);
    copy.write(bytes.data(), tensor.bytes);
  }
}

}  // namespace

int64_t WeightFile::bytes() const {
  int64_t most = 0;
  for (const StoredExtent& tensor : tensors) most = std::max(most, tensor.offset + tensor.bytes);
  return most;
}

std::vector<WeightFile> ReadWeightFiles(const std::string& path) {
  const FileBytes file(path, &RefuseOtherFormats);
  return file.ReadBy([&](std::string_view bytes) {
    const Shortened shortened = ShortenModel(bytes, {.keep_bytes = 0, .keep_integer_bytes = 0});
    const std::string_view rest = shortened.copy ? *shortened.copy : bytes;
    onnx::ModelProto model;
    if (!model.ParseFromArray(rest.data(), static_cast<int>(rest.size()))) {
      throw Error({.file = path, .text = "expected an ONNX file, found one that cannot be read"});
    }
    WeightReader reader(path);
    reader.Visit(model.graph());
    for (const onnx::FunctionProto& function : model.functions()) reader.Visit(function);
    return reader.files();
  });
}

std::string CopyWithoutWeights(const std::string& path, const std::vector<WeightFile>& files,
                               const std::string& folder) {
  if (files.empty()) return fs::absolute(path).string();
  const fs::path copy = fs::path(folder) / fs::path(path).filename();
  uint64_t count = 0;
  try {
    fs::copy_file(path, copy);
    for (const WeightFile& file : files) {
      const fs::path made = fs::path(folder) / file.name;
      fs::create_directories(made.parent_path());
      std::ofstream(made, std::ios::binary).close();
      fs::resize_file(made, static_cast<uintmax_t>(file.bytes()));
      MarkWeights(file, made, count);
      CopySmall(file, fs::absolute(path).parent_path() / file.name, made);
    }
  } catch (const fs::filesystem_error& error) {
    throw Error({.file = folder, .text = error.code().message()});
  }
  return copy.string();
}

}  // namespace onnxfit
