#include "estimator/onnx/tensor_contents.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <fstream>
#include <limits>
#include <map>
#include <set>
#include <tuple>
#include <utility>

#include "estimator/base/bytes.h"
#include "estimator/base/error.h"
#include "estimator/base/index.h"
#include "estimator/base/quote.h"
#include "estimator/onnx/onnx_model.h"

namespace onnxfit {

// --- Files next to the model ---------------------------------------------------

namespace {

namespace fs = std::filesystem;

// Of all tensors together: each may lie in the same bytes.
constexpr int64_t kMostReadBytes = 256 * kMiB;

int64_t ParseNumber(const std::string& text) {
  int64_t number = -1;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc() && end == text.data() + text.size() ? number : -1;
}

}  // namespace

Extent ExtentOf(const onnx::TensorProto& tensor) {
  Extent extent;
  for (const onnx::StringStringEntryProto& entry : tensor.external_data()) {
    if (entry.key() == "location") extent.location = entry.value();
    if (entry.key() == "offset") extent.offset = ParseNumber(entry.value());
    if (entry.key() == "length") extent.length = ParseNumber(entry.value());
  }
  return extent;
}

bool StaysInFolder(const fs::path& location) {
  return !location.empty() && location.is_relative() &&
         std::find(location.begin(), location.end(), "..") == location.end();
}

namespace {

// "" where the file ends before.
std::string ReadAt(const fs::path& path, int64_t offset, int64_t bytes) {
  std::ifstream file(path, std::ios::binary);
  std::string contents(static_cast<size_t>(bytes), '\0');
  file.seekg(offset);
  return file.read(contents.data(), bytes) ? contents : std::string();
}

// What happened to one location.
struct Outcome {
  bool stays_in_folder = false;
  bool exists = false;
  int wanted = 0;  // small integer tensors that lie there
  int read = 0;
};

class ExternalReader {
 public:
  ExternalReader(const std::string& model_path, const LoadOptions& options)
      : folder_(fs::path(model_path).parent_path()), options_(options) {}

  void Visit(onnx::TensorProto& tensor) {
    if (tensor.data_location() != onnx::TensorProto::EXTERNAL) return;
    const Extent extent = ExtentOf(tensor);
    Outcome& outcome = OutcomeAt(extent.location);
    const TensorType type = TypeOfInitializer(tensor);
    if (!IsWanted(type)) return;
    ++outcome.wanted;
    if (outcome.exists && Read(extent, BytesOf(type), tensor)) ++outcome.read;
  }

  std::vector<std::string> Notes() const;

 private:
  Outcome& OutcomeAt(const std::string& location) {
    const auto [entry, is_new] = outcomes_.try_emplace(location);
    if (is_new) {
      std::error_code ignored;
      entry->second.stays_in_folder = StaysInFolder(location);
      entry->second.exists =
          entry->second.stays_in_folder && fs::is_regular_file(folder_ / location, ignored);
    }
    return entry->second;
  }

  bool IsWanted(const TensorType& type) const {
    return (IsInteger(type.dtype) || type.dtype == DType::kBool) &&
           BytesOf(type) <= options_.keep_integer_bytes;
  }

  bool Read(const Extent& extent, int64_t bytes, onnx::TensorProto& tensor) {
    if (extent.offset < 0 || extent.length.value_or(bytes) != bytes) return false;
    read_bytes_ += bytes;
    if (read_bytes_ > kMostReadBytes) {
      throw Error({.where = "external data",
                   .text = fmt::format("at most {} of integers were expected, found more",
                                       FormatBytes(kMostReadBytes))});
    }
    std::string contents = ReadAt(folder_ / extent.location, extent.offset, bytes);
    if (static_cast<int64_t>(contents.size()) != bytes) return false;
    tensor.set_raw_data(std::move(contents));
    tensor.clear_external_data();
    tensor.clear_data_location();
    return true;
  }

  fs::path folder_;
  const LoadOptions& options_;
  std::map<std::string, Outcome> outcomes_;
  int64_t read_bytes_ = 0;
};

std::vector<std::string> ExternalReader::Notes() const {
  // One line for all files of a kind: some exporters write a file for each tensor.
  const auto describe = [&](auto belongs, std::string_view what) -> std::string {
    int64_t files = 0;
    std::string first;
    for (const auto& [location, outcome] : outcomes_) {
      if (belongs(outcome) && files++ == 0) first = Quote(location);
    }
    if (files == 0) return "";
    return files == 1
               ? fmt::format("external data {} {}", first, what)
               : fmt::format("external data {} and {} more: each {}", first, files - 1, what);
  };
  const std::string lines[] = {
      describe([](const Outcome& o) { return !o.stays_in_folder; },
               "was not opened: its path leads out of the model's folder"),
      describe([](const Outcome& o) { return o.stays_in_folder && !o.exists && o.wanted == 0; },
               "is not there; nothing in it was needed"),
      describe([](const Outcome& o) { return o.stays_in_folder && !o.exists && o.wanted > 0; },
               "is not there; small integer tensors in it may be needed for shapes"),
      describe([](const Outcome& o) { return o.exists && o.wanted == 0; },
               "holds nothing that shapes need"),
      describe([](const Outcome& o) { return o.exists && o.wanted > 0 && o.read == o.wanted; },
               "was opened for its small integer tensors"),
      describe([](const Outcome& o) { return o.exists && o.read < o.wanted; },
               "does not hold all the small integer tensors that it should"),
  };
  std::vector<std::string> notes;
  std::copy_if(std::begin(lines), std::end(lines), std::back_inserter(notes),
               [](const std::string& line) { return !line.empty(); });
  return notes;
}

void VisitGraph(onnx::GraphProto& graph, ExternalReader& reader) {
  for (onnx::TensorProto& tensor : *graph.mutable_initializer()) reader.Visit(tensor);
  for (onnx::NodeProto& node : *graph.mutable_node()) {
    for (onnx::AttributeProto& attribute : *node.mutable_attribute()) {
      if (attribute.has_g()) VisitGraph(*attribute.mutable_g(), reader);
      for (onnx::GraphProto& inner : *attribute.mutable_graphs()) VisitGraph(inner, reader);
    }
  }
}

}  // namespace

std::string ReadExternalBytes(const onnx::TensorProto& tensor, const std::string& model_path,
                              int64_t offset, int64_t size) {
  const Extent extent = ExtentOf(tensor);
  const fs::path file = fs::path(model_path).parent_path() / extent.location;
  std::error_code ignored;
  const bool is_there = StaysInFolder(extent.location) && fs::is_regular_file(file, ignored);
  const bool is_far = extent.offset > std::numeric_limits<int64_t>::max() - offset;
  if (!is_there || extent.offset < 0 || is_far) return {};
  return ReadAt(file, extent.offset + offset, size);
}

void ReadSmallExternalTensors(onnx::GraphProto& graph, const std::string& model_path,
                              const LoadOptions& options, std::vector<std::string>& notes) {
  ExternalReader reader(model_path, options);
  VisitGraph(graph, reader);
  for (std::string& note : reader.Notes()) notes.push_back(std::move(note));
}

// --- A few bytes of what was cut out -------------------------------------------

namespace {

// The numbers of a tensor without raw_data, as they would lie there.
std::string_view TypedFloats(const onnx::TensorProto& tensor) {
  const auto& floats = tensor.float_data();
  return {reinterpret_cast<const char*>(floats.data()),
          static_cast<size_t>(floats.size()) * sizeof(float)};
}

std::string_view KeptBytes(const onnx::TensorProto& tensor) {
  const bool is_typed = !tensor.has_raw_data() && tensor.data_type() == onnx::TensorProto::FLOAT;
  return is_typed ? TypedFloats(tensor) : std::string_view(tensor.raw_data());
}

}  // namespace

StoredContents::StoredContents(const onnx::GraphProto& graph, const std::vector<CutTensor>& cut,
                               const std::string& model_path)
    : model_path_(model_path) {
  for (const CutTensor& tensor : cut) cut_.emplace(tensor.name, tensor.raw_data);
  for (const onnx::TensorProto& tensor : graph.initializer()) {
    kept_.emplace(tensor.name(), &tensor);
  }
}

std::string StoredContents::Read(std::string_view name, const TensorType& type, int64_t offset,
                                 int64_t size) const {
  const auto kept = kept_.find(name);
  if (kept == kept_.end()) return {};
  if (kept->second->data_location() == onnx::TensorProto::EXTERNAL) {
    return ReadExternalBytes(*kept->second, model_path_, offset, size);
  }
  const auto cut = cut_.find(name);
  const std::string_view bytes = cut == cut_.end() ? KeptBytes(*kept->second) : cut->second;
  if (static_cast<int64_t>(bytes.size()) != BytesOf(type)) return {};
  return std::string(bytes.substr(static_cast<size_t>(offset), static_cast<size_t>(size)));
}

// --- Diagonals -----------------------------------------------------------------

namespace {

constexpr int64_t kMostElements = 16;

// The matrix of floats that input `place` of `node` is; else null.
const Initializer* StoredMatrix(const Graph& graph, const Node& node, size_t place) {
  if (place >= node.inputs.size() || node.inputs[place] == kNoValue) return nullptr;
  const int32_t stored = graph.values[Index(node.inputs[place])].initializer;
  if (stored < 0) return nullptr;
  const Initializer& initializer = graph.initializers[Index(stored)];
  const bool is_matrix = IsFloat(initializer.type.dtype) && initializer.type.dims.size() == 2 &&
                         BitsOf(initializer.type.dtype) % 8 == 0;
  return is_matrix ? &initializer : nullptr;
}

// Matrices by type and sizes.
using BySizes = std::map<std::tuple<DType, int64_t, int64_t>, std::set<const Initializer*>>;

BySizes MatricesOf(const Graph& graph, std::string_view op_type, size_t place, bool transposed) {
  BySizes found;
  for (const Node& node : graph.nodes) {
    const Initializer* matrix =
        node.op_type == op_type ? StoredMatrix(graph, node, place) : nullptr;
    if (matrix == nullptr) continue;
    const Dims& dims = matrix->type.dims;
    found[{matrix->type.dtype, dims[transposed ? 1 : 0], dims[transposed ? 0 : 1]}].insert(matrix);
  }
  return found;
}

std::set<const Initializer*> MatricesToCompare(const Graph& graph) {
  const BySizes tables = MatricesOf(graph, "Gather", 0, false);
  const BySizes factors = MatricesOf(graph, "MatMul", 1, true);
  std::set<const Initializer*> found;
  for (const auto& [sizes, of_tables] : tables) {
    const auto of_factors = factors.find(sizes);
    if (of_factors == factors.end()) continue;
    found.insert(of_tables.begin(), of_tables.end());
    found.insert(of_factors->second.begin(), of_factors->second.end());
  }
  return found;
}

// "" where an element is missing.
std::string DiagonalOf(const Initializer& matrix, std::string_view name,
                       const StoredContents& contents) {
  const int64_t element_bytes = BitsOf(matrix.type.dtype) / 8;
  const int64_t rows = std::min({matrix.type.dims[0], matrix.type.dims[1], kMostElements});
  std::string diagonal;
  for (int64_t i = 0; i < rows; ++i) {
    const std::string element = contents.Read(
        name, matrix.type, (i * matrix.type.dims[1] + i) * element_bytes, element_bytes);
    if (static_cast<int64_t>(element.size()) != element_bytes) return {};
    diagonal += element;
  }
  return diagonal;
}

// What is one number over and over, was filled rather than trained.
bool RepeatsItself(std::string_view diagonal, size_t element_bytes) {
  return diagonal.substr(element_bytes) == diagonal.substr(0, diagonal.size() - element_bytes);
}

}  // namespace

Diagonals ReadDiagonals(const Graph& graph, const StoredContents& contents) {
  Diagonals diagonals;
  for (const Initializer* matrix : MatricesToCompare(graph)) {
    const std::string_view name = graph.values[Index(matrix->value)].name;
    std::string diagonal = DiagonalOf(*matrix, name, contents);
    const auto element_bytes = static_cast<size_t>(BitsOf(matrix->type.dtype) / 8);
    if (diagonal.empty() || RepeatsItself(diagonal, element_bytes)) continue;
    diagonals.emplace(name, std::move(diagonal));
  }
  return diagonals;
}

}  // namespace onnxfit
