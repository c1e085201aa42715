#include "estimator/onnx/external_data.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <fstream>
#include <limits>
#include <map>
#include <optional>

#include "estimator/base/bytes.h"
#include "estimator/base/error.h"
#include "estimator/base/quote.h"
#include "estimator/onnx/validate.h"

namespace onnxfit {
namespace {

namespace fs = std::filesystem;

// Of all tensors together: each may lie in the same bytes.
constexpr int64_t kMostReadBytes = 256 * kMiB;

// Where the elements of one tensor lie.
struct Extent {
  std::string location;  // relative to the model's folder
  int64_t offset = 0;
  std::optional<int64_t> length;
};

int64_t ParseNumber(const std::string& text) {
  int64_t number = -1;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc() && end == text.data() + text.size() ? number : -1;
}

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

}  // namespace onnxfit
