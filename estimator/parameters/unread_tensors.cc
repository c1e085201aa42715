#include "estimator/parameters/unread_tensors.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <iterator>
#include <optional>
#include <string>
#include <unordered_set>
#include <utility>

#include "estimator/base/index.h"
#include "estimator/base/warnings.h"
#include "estimator/libraries/libraries.h"
#include "estimator/program/modules.h"

namespace onnxfit {
namespace {

std::vector<std::string_view> PartsOf(std::string_view path) {
  std::vector<std::string_view> parts;
  for (size_t start = 0; start <= path.size();) {
    const size_t end = std::min(path.find('.', start), path.size());
    parts.push_back(path.substr(start, end - start));
    start = end + 1;
  }
  return parts;
}

// Whether both differ by the numbers of layers alone.
bool AreOfLayers(std::string_view a, std::string_view b) {
  return std::ranges::equal(PartsOf(a), PartsOf(b), [](std::string_view x, std::string_view y) {
    return x == y || (IsNumbered(x) && IsNumbered(y));
  });
}

// Whether both are tensors of one name in modules of one name below modules of one name.
bool EndAlike(std::string_view a, std::string_view b) {
  const std::vector<std::string_view> x = PartsOf(a);
  const std::vector<std::string_view> y = PartsOf(b);
  size_t names = 0;
  for (size_t i = 1; i <= std::min(x.size(), y.size()); ++i) {
    if (x[x.size() - i] != y[y.size() - i]) break;
    if (!IsNumbered(x[x.size() - i])) ++names;
  }
  return names >= 3;
}

// How many characters both end with alike.
size_t SharedEnd(std::string_view a, std::string_view b) {
  const auto [left, right] = std::mismatch(a.rbegin(), a.rend(), b.rbegin(), b.rend());
  return static_cast<size_t>(left - a.rbegin());
}

// "cpe.proj.weight" of "cpe1.proj.weight"; "layers.0.weight" of itself.
std::string WithoutCounts(std::string_view name) {
  std::string text;
  for (const char c : name) {
    const bool is_digit = std::isdigit(static_cast<unsigned char>(c)) != 0;
    const bool is_behind =
        !text.empty() && std::isalpha(static_cast<unsigned char>(text.back())) != 0;
    if (!is_digit || !is_behind) text += c;
  }
  return text;
}

size_t SharedModules(std::string_view a, std::string_view b) {
  const std::vector<std::string_view> x = PartsOf(a);
  const std::vector<std::string_view> y = PartsOf(b);
  const auto [left, right] = std::ranges::mismatch(x, y);
  return static_cast<size_t>(left - x.begin());
}

bool IsScalar(const ModuleTensor& tensor) { return tensor.type.dims.empty(); }

bool IsNormsWeight(const ModuleTensor& tensor) {
  const std::string_view norm = ChildOf(ParentOf(tensor.name));
  const bool is_norm =
      norm.find("norm") != std::string_view::npos || norm.find("Norm") != std::string_view::npos;
  return is_norm && tensor.type.dims.size() == 1 && ChildOf(tensor.name) == "weight";
}

class UnreadSizes {
 public:
  UnreadSizes(const BoundGraph& bound, const std::vector<ModuleTensor>& known)
      : metadata_(bound.metadata()), known_(known) {
    for (const ModuleTensor& tensor : known) names_.insert(tensor.name);
    for (const FxGroup& group : metadata_.groups) {
      for (const std::string_view name : References(group.call)) read_.insert(name);
    }
    for (const NodeOrigin& origin : metadata_.origins) {
      runs_.insert(metadata_.modules.PathOf(origin.module));
    }
  }

  std::vector<LostTensor> Find() const {
    std::vector<LostTensor> found;
    for (const SignatureEntry& entry : metadata_.signature) {
      if (names_.contains(entry.target) || read_.contains(entry.name)) continue;
      const bool is_buffer = entry.kind == SignatureEntry::Kind::kBuffer;
      const auto type = TypeOf(entry.target, is_buffer);
      if (!type.has_value()) continue;
      const Role role = is_buffer ? Role::kBuffer : Role::kParameter;
      found.push_back({role, std::string(entry.target), *type});
    }
    return found;
  }

  std::optional<Warning> WarnOfUnsized() const {
    std::vector<std::string_view> unsized;
    size_t aliases = 0;
    for (const SignatureEntry& entry : metadata_.signature) {
      const bool is_missing = entry.kind == SignatureEntry::Kind::kParameter &&
                              !names_.contains(entry.target) && !read_.contains(entry.name);
      if (!is_missing || MayBeAlias(entry.target)) continue;
      if (runs_.contains(ParentOf(entry.target))) ++aliases;
      if (!runs_.contains(ParentOf(entry.target))) unsized.push_back(entry.target);
    }
    if (unsized.size() <= aliases) return std::nullopt;
    return Warning{
        warning::kUnsizedTensors,
        fmt::format("{} {} in modules that no node runs, such as {}: the file has names, "
                    "and no sizes, so that what they take is missing here (a .pt2 of "
                    "torch.export.save has them)",
                    unsized.size(), unsized.size() == 1 ? "parameter is" : "parameters are",
                    unsized[0])};
  }

 private:
  std::optional<TensorType> TypeOf(std::string_view name, bool is_buffer) const {
    std::optional<TensorType> type;
    const bool runs = !is_buffer && runs_.contains(ParentOf(name));
    if (!runs) type = TypeOfAll([&](std::string_view other) { return AreOfLayers(name, other); });
    if (!runs && !type) type = TypeOfAlike(name);
    if (!type && is_buffer) type = TypeOfMask(name);
    if (!type && is_buffer) type = TypeOfVector(name);
    if (!type && is_buffer) type = TypeOfIntegers(name);
    if (!type && is_buffer) {
      type = TypeOfAll([&](std::string_view other) { return ChildOf(name) == ChildOf(other); });
      if (type && !IsFloat(type->dtype)) type.reset();  // position ids are as long as a table
    }
    return type || is_buffer ? type : TypeByRow(name);
  }

  // "cpe1.proj.weight", which blocks have as "blocks1.0.cpe.proj.weight".
  bool MayBeAlias(std::string_view name) const {
    const std::string plain = WithoutCounts(name);
    return std::ranges::any_of(known_, [&](const ModuleTensor& tensor) {
      return EndAlike(plain, WithoutCounts(tensor.name));
    });
  }

  // "crossattention.output.dense.weight" is like "attention.output.dense.weight", and less like
  // "output.dense.weight".
  std::optional<TensorType> TypeOfAlike(std::string_view name) const {
    size_t most = 0;
    for (const ModuleTensor& tensor : known_) {
      if (EndAlike(name, tensor.name)) most = std::max(most, SharedEnd(name, tensor.name));
    }
    return TypeOfAll([&](std::string_view other) {
      return EndAlike(name, other) && SharedEnd(name, other) == most;
    });
  }

  // That of all known tensors of such names; nothing where there is none, or they differ.
  std::optional<TensorType> TypeOfAll(auto&& is_like) const {
    std::optional<TensorType> found;
    for (const ModuleTensor& tensor : known_) {
      if (!is_like(tensor.name)) continue;
      if (found.has_value() && *found != tensor.type) return std::nullopt;
      found = tensor.type;
    }
    return found;
  }

  std::optional<TensorType> TypeOfMask(std::string_view name) const {
    for (const UnreadMask& row : UnreadMasks()) {
      if (!name.ends_with("." + std::string(row.buffer))) continue;
      std::string_view module = ParentOf(name);
      const bool is_deep = std::ranges::count(module, '.') >= row.up;
      for (int level = 0; level < row.up; ++level) module = ParentOf(module);
      if (!is_deep) continue;
      const ModuleTensor* table = Find(std::string(module) + "." + std::string(row.table));
      if (table == nullptr || table->type.dims.size() != 2) continue;
      return TensorType{DType::kBool, {table->type.dims[0], table->type.dims[0]}};
    }
    return std::nullopt;
  }

  // "weight.0._u" of "weight.0._v" and "weight.original".
  std::optional<TensorType> TypeOfVector(std::string_view name) const {
    const NormedVectors& row = VectorsOfSpectralNorm();
    if (ChildOf(name) != row.replaced) return std::nullopt;
    const std::string_view norm = ParentOf(name);
    const ModuleTensor* kept = Find(fmt::format("{}.{}", norm, row.kept));
    const ModuleTensor* weight = Find(fmt::format("{}.{}", ParentOf(norm), row.weight));
    if (kept == nullptr || weight == nullptr) return std::nullopt;
    const int64_t others = Numel(kept->type.dims);
    if (others == 0) return std::nullopt;
    return TensorType{kept->type.dtype, {Numel(weight->type.dims) / others}};
  }

  static std::optional<TensorType> TypeOfIntegers(std::string_view name) {
    for (const UnreadIntegersRow& row : UnreadIntegers()) {
      if (!name.ends_with("." + std::string(row.tail))) continue;
      TensorType type = {DType::kInt64, {}};
      std::ranges::copy_if(row.sizes, std::back_inserter(type.dims),
                           [](int16_t size) { return size > 0; });
      return type;
    }
    return std::nullopt;
  }

  std::optional<TensorType> TypeByRow(std::string_view name) const {
    for (const UnreadTensorRow& row : UnreadTensorRows()) {
      if (!name.ends_with("." + std::string(row.tail))) continue;
      const std::string_view module = name.substr(0, name.size() - row.tail.size());
      const ModuleTensor* like = Find(std::string(module) + std::string(row.like));
      const ModuleTensor* rows = Find(std::string(module) + std::string(row.rows_of));
      const bool is_missing = (!row.like.empty() && like == nullptr) ||
                              (!row.rows_of.empty() && (rows == nullptr || IsScalar(*rows)));
      if (is_missing) continue;
      const std::optional<int64_t> width = WidthAround(name);
      TensorType type = {DType::kFloat32, {}};
      if (!row.rows_of.empty()) type.dims.push_back(rows->type.dims[0]);
      for (const int16_t size : row.sizes) {
        if (size > 0 && !width.has_value()) return std::nullopt;
        if (size != 0) type.dims.push_back(size < 0 ? -size : size * *width);
      }
      if (like == nullptr) return type;
      type.dims.insert(type.dims.end(), like->type.dims.begin(), like->type.dims.end());
      return type;
    }
    return std::nullopt;
  }

  // What the norms that share the most modules with `name` are wide; nothing where they differ.
  std::optional<int64_t> WidthAround(std::string_view name) const {
    size_t shared = 0;
    std::optional<int64_t> width;
    for (const ModuleTensor& tensor : known_) {
      if (!IsNormsWeight(tensor)) continue;
      const size_t with = SharedModules(name, tensor.name);
      if (with < shared) continue;
      const bool is_other = with == shared && width.has_value() && *width != tensor.type.dims[0];
      width = is_other ? 0 : tensor.type.dims[0];
      shared = with;
    }
    return width == 0 ? std::nullopt : width;
  }

  const ModuleTensor* Find(std::string_view name) const {
    const auto found = std::ranges::find(known_, name, &ModuleTensor::name);
    return found == known_.end() ? nullptr : &*found;
  }

  const ExporterMetadata& metadata_;
  const std::vector<ModuleTensor>& known_;
  std::unordered_set<std::string_view> names_;
  std::unordered_set<std::string_view> read_;
  // Modules with nodes: what such a module does not read is another name of what it reads.
  std::unordered_set<std::string_view> runs_;
};

}  // namespace

std::optional<Warning> FindUnsized(const BoundGraph& bound,
                                   const std::vector<ModuleTensor>& known) {
  return UnreadSizes(bound, known).WarnOfUnsized();
}

std::vector<LostTensor> SizeUnreadTensors(const BoundGraph& bound,
                                          const std::vector<ModuleTensor>& known) {
  return UnreadSizes(bound, known).Find();
}

}  // namespace onnxfit
