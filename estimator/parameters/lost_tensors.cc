// Parameters and buffers that a file does not hold, though something in it or a library tells of
// them.
#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string_view>
#include <unordered_set>
#include <utility>

#include "estimator/base/bytes.h"
#include "estimator/base/index.h"
#include "estimator/exporters/exporter_metadata.h"
#include "estimator/libraries/libraries.h"
#include "estimator/parameters/roles.h"
#include "estimator/parameters/unread_tensors.h"
#include "estimator/program/modules.h"

namespace onnxfit {
namespace {

class LostTensorFinder {
 public:
  LostTensorFinder(const BoundGraph& bound, const std::optional<LostRotary>& rotary,
                   std::vector<ModuleTensor> in_file)
      : rotary_(rotary),
        bound_(bound),
        graph_(bound_.graph()),
        metadata_(bound_.metadata()),
        shapes_(bound_.shapes()),
        tensors_(std::move(in_file)) {}

  LostTensors Find() {
    AddFrequencies();
    AddOriginals();
    AddPositionIds();
    AddSlicedBuffer();
    AddUnusedNorms();
    AddUnread();
    AddOriginals();
    const std::optional<Warning> unsized = FindUnsized(bound_, tensors_);
    if (unsized.has_value()) lost_.warnings.push_back(*unsized);
    return std::move(lost_);
  }

 private:
  std::string_view NameOf(ValueId value) const { return graph_.values[Index(value)].name; }

  // Of what a rotary embedding computes, the file holds results alone.
  void AddFrequencies() {
    if (!rotary_.has_value()) return;
    AddLost(rotary_->module + ".inv_freq", Role::kBuffer,
            {DType::kFloat32, {rotary_->frequencies}});
  }

  // "rope.original_inv_freq", a clone of "rope.inv_freq" that no call reads and the file does
  // not hold; "rope.full_original_inv_freq" of "rope.full_inv_freq".
  void AddOriginals() {
    const std::string_view clone = CloneOfBuffer();
    std::map<std::string, TensorType> found;
    for (const ModuleTensor& tensor : tensors_) found.emplace(tensor.name, tensor.type);
    for (const SignatureEntry& entry : metadata_.signature) {
      const std::string_view child = ChildOf(entry.target);
      const size_t at = child.find(clone);
      if (at == child.npos || found.contains(std::string(entry.target))) continue;
      const auto clone_of = found.find(fmt::format(
          "{}.{}{}", ParentOf(entry.target), child.substr(0, at), child.substr(at + clone.size())));
      if (clone_of == found.end()) continue;
      AddLost(std::string(entry.target), Role::kBuffer, clone_of->second);
    }
  }

  // "embeddings.position_ids", 0 to n - 1 of a table of n positions, and as many token types:
  // exporters compute what is sliced of them.
  void AddPositionIds() {
    std::unordered_set<std::string_view> in_file;
    std::map<std::string_view, int64_t> tables;  // module -> positions
    for (const ModuleTensor& tensor : tensors_) {
      in_file.insert(tensor.name);
      const std::string_view table = ParentOf(tensor.name);
      const bool is_table = std::ranges::any_of(PositionBuffers(), [&](const PositionBuffer& row) {
        return row.table == ChildOf(table);
      });
      if (is_table && tensor.type.dims.size() == 2) {
        tables[ParentOf(table)] = tensor.type.dims[0];
      }
    }
    std::vector<std::pair<std::string, int64_t>> lost;
    for (const SignatureEntry& entry : metadata_.signature) {
      const std::string_view child = ChildOf(entry.target);
      const auto table = tables.find(ParentOf(entry.target));
      const bool counts = std::ranges::any_of(
          PositionBuffers(), [&](const PositionBuffer& row) { return row.buffer == child; });
      if (!counts || table == tables.end() || in_file.contains(entry.target)) continue;
      lost.emplace_back(entry.target, table->second);
    }
    for (const auto& [name, positions] : lost) {
      AddLost(name, Role::kBuffer, {DType::kInt64, {1, positions}});
      AddViews(name);
    }
  }

  // "slice_1", as torch.export calls the result of a slice: of position ids, or, being zeros, of
  // token types.
  void AddViews(const std::string& buffer) {
    constexpr std::string_view kViews[] = {"slice", "expand", "view", "unsqueeze", "select"};
    for (const Initializer& initializer : graph_.initializers) {
      const std::string_view name = NameOf(initializer.value);
      const std::string_view call = name.substr(0, name.find('_'));
      const auto& known = shapes_.known[Index(initializer.value)];
      const bool is_view =
          std::find(std::begin(kViews), std::end(kViews), call) != std::end(kViews);
      if (!is_view || initializer.type.dtype != DType::kInt64 || !known.has_value()) continue;
      const bool is_zeros =
          std::ranges::all_of(known->elements(), [](int64_t i) { return i == 0; });
      if (is_zeros == (ChildOf(buffer) == "token_type_ids")) {
        lost_.views.emplace_back(initializer.value, buffer);
      }
    }
  }

  // A norm whose result is not used: its name alone is in the file (transformers 5.17,
  // post_layernorm of CLIPVisionTransformer).  Taken to be as wide as one beside it.
  void AddUnusedNorms() {
    std::map<std::string_view, const ModuleTensor*> in_file;
    for (const ModuleTensor& tensor : tensors_) in_file.emplace(tensor.name, &tensor);
    const bool has_computed = std::ranges::any_of(
        in_file, [](const auto& entry) { return entry.first.starts_with("add"); });
    std::vector<std::pair<std::string, TensorType>> lost;
    for (const SignatureEntry& entry : metadata_.signature) {
      const bool is_lost = entry.kind == SignatureEntry::Kind::kParameter &&
                           !in_file.contains(entry.target) && IsOfNorm(entry.target);
      if (!is_lost || has_computed) continue;
      const auto sibling = std::ranges::find_if(
          in_file, [&](const auto& other) { return AreSiblings(entry.target, other.first); });
      if (sibling == in_file.end()) continue;
      lost.emplace_back(entry.target, sibling->second->type);
      AssumeWidth(lost.back().first, sibling->first);
    }
    for (const auto& [name, type] : lost) AddLost(name, Role::kParameter, type);
  }

  void AddUnread() {
    const std::vector<LostTensor> unread = SizeUnreadTensors(bound_, tensors_);
    for (const auto& [role, name, type] : unread) AddLost(name, role, type);
  }

  void AssumeWidth(const std::string& name, std::string_view sibling) {
    lost_.assumptions.push_back(
        fmt::format("{}, of which the file has only the name, is as large as {}", name, sibling));
  }

  static bool IsOfNorm(std::string_view tensor) {
    return ChildOf(ParentOf(tensor)).find("norm") != std::string_view::npos;
  }

  // "m.post_layernorm.weight" and "m.pre_layernorm.weight".
  static bool AreSiblings(std::string_view a, std::string_view b) {
    return IsOfNorm(b) && ChildOf(a) == ChildOf(b) &&
           ParentOf(ParentOf(a)) == ParentOf(ParentOf(b));
  }

  // A buffer of floats of which the file holds what torch.export's optimizer sliced of it alone
  // ("pe", "slice_1"): nothing says how large it is, but as large as that.
  void AddSlicedBuffer() {
    std::unordered_set<std::string_view> in_file;
    for (const ModuleTensor& tensor : tensors_) in_file.insert(tensor.name);
    std::vector<std::string_view> lost;
    for (const SignatureEntry& entry : metadata_.signature) {
      const bool is_buffer = entry.kind == SignatureEntry::Kind::kBuffer;
      if (is_buffer && !in_file.contains(entry.target)) lost.push_back(entry.target);
    }
    if (lost.size() != 1) return;
    const std::string buffer(lost[0]);
    for (const Initializer& initializer : graph_.initializers) {
      const bool is_slice = NameOf(initializer.value).starts_with("slice_");
      if (!is_slice || !IsFloat(initializer.type.dtype)) continue;
      AddLost(buffer, Role::kBuffer, initializer.type);
      lost_.views.emplace_back(initializer.value, buffer);
      lost_.assumptions.push_back(fmt::format(
          "{} is taken to be no larger than the part of it that the model reads, {}: the export "
          "has lost the rest",
          buffer, FormatBytes(BytesOf(initializer.type))));
      return;
    }
  }

  void AddLost(const std::string& name, Role role, const TensorType& type) {
    lost_.tensors.push_back({role, name, type});
    tensors_.push_back({name, kNoValue, type});
  }

  const std::optional<LostRotary>& rotary_;
  const BoundGraph& bound_;
  const Graph& graph_;
  const ExporterMetadata& metadata_;
  const Shapes& shapes_;
  std::vector<ModuleTensor> tensors_;  // in the file, and those found
  LostTensors lost_;
};

// The one parameter that the file does not hold and no call refers to, else null.
const SignatureEntry* NameOfUnread(const Graph& graph, const ExporterMetadata& metadata) {
  std::unordered_set<std::string_view> stored;
  for (const Initializer& initializer : graph.initializers) {
    stored.insert(graph.values[Index(initializer.value)].name);
  }
  std::unordered_set<std::string_view> read;
  for (const FxGroup& group : metadata.groups) {
    for (const std::string_view name : References(group.call)) read.insert(name);
  }
  const SignatureEntry* unread = nullptr;
  for (const SignatureEntry& entry : metadata.signature) {
    const bool is_lost = entry.kind == SignatureEntry::Kind::kParameter &&
                         !stored.contains(entry.target) && !read.contains(entry.name);
    if (!is_lost) continue;
    if (unread != nullptr) return nullptr;
    unread = &entry;
  }
  return unread;
}

// n of a buffer [n, n] of the module.
int64_t PositionsMasked(const Graph& graph, const ExporterMetadata& metadata) {
  std::unordered_set<std::string_view> buffers;
  for (const SignatureEntry& entry : metadata.signature) {
    if (entry.kind == SignatureEntry::Kind::kBuffer) buffers.insert(entry.target);
  }
  int64_t positions = 0;
  for (const Initializer& initializer : graph.initializers) {
    const Dims& dims = initializer.type.dims;
    if (!buffers.contains(graph.values[Index(initializer.value)].name)) continue;
    if (dims.size() < 2 || dims.back() != dims[dims.size() - 2]) continue;
    positions = std::max(positions, dims.back());
  }
  return positions;
}

// --- Tensors of known libraries -------------------------------------------------------------

constexpr std::string_view kTensors[] = {".weight", ".bias"};

// What a row says of the tensor `name` of the child that it shows: "layer.*.a" of a number.
struct ShownChild {
  std::string_view module;
  std::string lost;
};

// A row of a file that has what it wants beside its children, and one of their tensors.
struct WantedChild {
  const UnreadChild& row;
  std::string_view tensor;
  std::string head;  // in front of the number; "" where the row shows none
  std::string tail;

  WantedChild(const UnreadChild& of, std::string_view its_tensor) : row(of), tensor(its_tensor) {
    const size_t star = row.shows.find('*');
    const bool is_listed = star != std::string_view::npos;
    if (is_listed) head = fmt::format(".{}", row.shows.substr(0, star));
    tail = fmt::format("{}{}{}", is_listed ? "" : ".",
                       is_listed ? row.shows.substr(star + 1) : row.shows, tensor);
  }
};

std::vector<WantedChild> WantedIn(const std::set<std::string_view>& names) {
  std::vector<WantedChild> wanted;
  for (const UnreadChild& row : UnreadChildren()) {
    const auto is_beside = [&](std::string_view name) { return name.ends_with(row.beside); };
    if (!std::ranges::any_of(names, is_beside)) continue;
    for (const std::string_view tensor : kTensors) wanted.emplace_back(row, tensor);
  }
  return wanted;
}

std::optional<ShownChild> ShownBy(const WantedChild& wanted, std::string_view name) {
  if (!name.ends_with(wanted.tail)) return std::nullopt;
  name.remove_suffix(wanted.tail.size());
  std::string lost(wanted.row.lost);
  if (wanted.head.empty()) return ShownChild{name, std::move(lost)};
  const size_t list = name.rfind(wanted.head);
  if (list == std::string_view::npos) return std::nullopt;
  lost.replace(lost.find('*'), 1, name.substr(list + wanted.head.size()));
  return ShownChild{name.substr(0, list), std::move(lost)};
}

Dims SizesOf(const UnreadParameter& row) {
  Dims sizes;
  std::ranges::copy_if(row.sizes, std::back_inserter(sizes), [](int16_t size) { return size > 0; });
  return sizes;
}

void AddUnreadParameters(const std::set<std::string_view>& names,
                         const std::set<std::string>& operators, std::vector<UnreadTensor>& found) {
  for (const std::string_view name : names) {
    for (const UnreadParameter& row : UnreadParameters()) {
      if (!name.ends_with(row.shows)) continue;
      const std::string_view module = name.substr(0, name.size() - row.shows.size());
      if (!module.ends_with('.')) continue;
      if (!row.runs.empty() && !operators.contains(fmt::format("{}{}", module, row.runs))) continue;
      const auto like = names.find(fmt::format("{}{}", module, row.like));
      const auto rows = names.find(fmt::format("{}{}", module, row.rows_of));
      std::string lost = fmt::format("{}{}", module, row.lost);
      const bool has_rows = row.rows_of.empty() || rows != names.end();
      const bool is_number = row.like.empty();
      if (names.contains(lost) || !has_rows) continue;
      if (!is_number && like == names.end()) continue;
      const std::string_view beside = is_number ? name : *like;
      found.push_back({std::move(lost), ParentOf(beside), is_number ? std::string_view() : beside,
                       row.rows_of.empty() ? std::string_view() : *rows, SizesOf(row)});
    }
  }
}

}  // namespace

std::optional<FoldedTable> FindFoldedTable(const Graph& graph, const ExporterMetadata& metadata) {
  const SignatureEntry* lost = NameOfUnread(graph, metadata);
  if (lost == nullptr) return std::nullopt;
  std::optional<FoldedTable> found;
  for (const Initializer& initializer : graph.initializers) {
    const std::string_view name = graph.values[Index(initializer.value)].name;
    const bool is_rows = IsFloat(initializer.type.dtype) && initializer.type.dims.size() == 2;
    if (!is_rows || !name.starts_with("embedding")) continue;
    if (found.has_value()) return std::nullopt;
    TensorType type = initializer.type;
    type.dims[0] = std::max(type.dims[0], PositionsMasked(graph, metadata));
    found = {initializer.value, {Role::kParameter, std::string(lost->target), std::move(type)}};
  }
  return found;
}

LostTensors FindLostTensors(const BoundGraph& bound, const std::optional<LostRotary>& rotary,
                            std::vector<ModuleTensor> in_file) {
  return LostTensorFinder(bound, rotary, std::move(in_file)).Find();
}

std::vector<UnreadTensor> FindUnreadTensors(const std::set<std::string_view>& names,
                                            const std::set<std::string>& operators) {
  std::vector<UnreadTensor> found;
  const std::vector<WantedChild> wanted = WantedIn(names);
  for (const std::string_view name : names) {
    for (const WantedChild& one : wanted) {
      const std::optional<ShownChild> child = ShownBy(one, name);
      if (!child.has_value()) continue;
      std::string lost = fmt::format("{}.{}{}", child->module, child->lost, one.tensor);
      if (!names.contains(lost))
        found.insert(found.begin(), {std::move(lost), child->module, name});
    }
  }
  AddUnreadParameters(names, operators, found);
  return found;
}

}  // namespace onnxfit
