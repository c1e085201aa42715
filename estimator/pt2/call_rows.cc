#include "estimator/pt2/call_rows.h"

#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

namespace onnxfit::pt2 {

void WriteUnary(CallWriter& writer, const Call& call, std::string_view op) {
  const std::vector<NameId> tensors = writer.Tensors(call);
  if (tensors.empty()) return writer.WriteUnknown(call);
  writer.Emit(op, {tensors[0]}, {writer.Result(call)});
}

void WriteAll(CallWriter& writer, const Call& call, std::string_view op) {
  std::vector<NameId> tensors = writer.Tensors(call);
  writer.Emit(op, std::move(tensors), {writer.Result(call)});
}

void WriteConstant(CallWriter& writer, const Call& call, std::string_view op) {
  writer.Emit(op, {}, {writer.Result(call)});
}

void ReturnFirst(CallWriter& writer, const Call& call, std::string_view) {
  const std::vector<NameId> tensors = writer.Tensors(call);
  if (tensors.empty()) return writer.WriteUnknown(call);
  writer.ReturnSame(call, tensors[0]);
}

void WriteParts(CallWriter& writer, const Call& call, std::string_view op) {
  const NameId self = writer.TensorAt(call, "self");
  if (self == kNoName) return writer.WriteUnknown(call);
  writer.Emit(op, {self}, writer.Results(call));
}

namespace {

// "relu.default" of "relu_.default"; "" where the call is not in place.
std::string OutOfPlace(std::string_view target) {
  const size_t dot = target.find('.');
  if (dot == std::string_view::npos || dot == 0 || target[dot - 1] != '_' || target[0] == '_') {
    return "";
  }
  return std::string(target.substr(0, dot - 1)) + std::string(target.substr(dot));
}

const CallRow* FindByTarget(std::string_view target) {
  static const auto index = [] {
    std::unordered_map<std::string_view, const CallRow*> rows;
    for (const auto family :
         {LayerRows(), LossRows(), ElementwiseRows(), ReductionRows(), MovementRows(), ViewRows(),
          IndexingRows(), MakingRows(), FourierRows()}) {
      for (const CallRow& row : family) rows.emplace(row.target, &row);
    }
    return rows;
  }();
  const auto found = index.find(target);
  return found == index.end() ? nullptr : found->second;
}

constexpr std::string_view kOps = "torch.ops.";

// What other namespaces have keeps theirs: "transformers.grouped_mm_fallback.default".
std::string_view WithoutNamespace(std::string_view target) {
  if (target.starts_with(kAtenNamespace)) return target.substr(kAtenNamespace.size());
  return target.starts_with(kOps) ? target.substr(kOps.size()) : std::string_view();
}

}  // namespace

const CallRow* FindCallRow(std::string_view target) {
  static constexpr CallRow kCopy = {"", "", WriteCopyOfView};
  const std::string_view own = WithoutNamespace(target);
  const CallRow* row = FindByTarget(own);
  if (row == nullptr) row = FindByTarget(OutOfPlace(own));
  return row == nullptr && ViewOfCopy(target) != nullptr ? &kCopy : row;
}

const CallRow* ViewOfCopy(std::string_view target) {
  constexpr std::string_view kSuffix = "_copy.";
  const std::string_view own = WithoutNamespace(target);
  const size_t at = own.find(kSuffix);
  if (at == own.npos) return nullptr;
  return FindByTarget(std::string(own.substr(0, at)) + "." +
                      std::string(own.substr(at + kSuffix.size())));
}

bool RunsOnHost(std::string_view target) {
  const std::string_view own = WithoutNamespace(target);
  const bool asserts = own.starts_with("_assert") || own.starts_with("sym_");
  return asserts || target.starts_with("_operator.") || target.starts_with("math.") ||
         target.starts_with("torch.sym_");
}

bool WritesInPlace(std::string_view target) {
  return !OutOfPlace(WithoutNamespace(target)).empty();
}

}  // namespace onnxfit::pt2
