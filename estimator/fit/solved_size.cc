#include "estimator/fit/solved_size.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <string_view>
#include <utility>

#include "estimator/base/error.h"
#include "estimator/base/index.h"
#include "estimator/base/quote.h"
#include "estimator/fit/predict.h"
#include "estimator/onnx/shapes.h"

namespace onnxfit {

void SetBatch(const Graph& file, int64_t from, int64_t to, EstimateRequest& request) {
  request.binding.batch = to;
  if (request.binding.inputs.empty()) return;
  const auto axis = static_cast<size_t>(BatchAxis(file));
  for (auto& [name, dims] : request.binding.inputs) {
    if (dims.size() <= axis || dims[axis] != from) continue;
    const bool is_first = !file.inputs.empty() && file.values[Index(file.inputs[0])].name == name;
    if (from != 1 || is_first) dims[axis] = to;
  }
}

namespace {

int64_t AskedBatch(const Study& study, const EstimateRequest& request) {
  const DimBinding& binding = request.binding;
  const bool cares = !binding.batch && !binding.inputs.empty();
  return cares ? study.Prepared(request)->file->shapes.batch : binding.batch.value_or(1);
}

}  // namespace

SolvedSize BatchOf(const Study& study, const EstimateRequest& request) {
  const int64_t from = AskedBatch(study, request);
  return {.name = "the batch",
          .set = [&file = study.file(), from](EstimateRequest& own,
                                              int64_t batch) { SetBatch(file, from, batch, own); },
          .asked = request.binding.batch};
}

// What follows finds a size by its name.
namespace {

constexpr int64_t kLongestSolved = int64_t{1} << 24;  // no model takes more tokens at once
constexpr int64_t kImageUnit = 32;      // by which most networks divide an image's sides
constexpr int64_t kMostRank = 1 << 20;  // that --lora takes
constexpr std::string_view kImage = "image";
constexpr std::string_view kRank = "rank";

[[noreturn]] void RefuseSolve(const Graph& file, std::string_view name, std::string text,
                              std::string hint) {
  throw Error({.file = file.path,
               .where = fmt::format("--solve {}", name),
               .text = std::move(text),
               .hint = std::move(hint)});
}

SolvedSize OfDims(std::string name, std::vector<std::string> dims, int64_t unit) {
  return {.name = std::move(name),
          .set =
              [dims = std::move(dims), unit](EstimateRequest& own, int64_t units) {
                for (const std::string& dim : dims) own.binding.dims[dim] = units * unit;
              },
          .unit = unit,
          .most = kLongestSolved / unit,
          .may_end = true};
}

// One of them has its size from elsewhere; what a config says of all models gives way.
void CheckFree(const Graph& file, const std::string& name, const std::vector<std::string>& dims,
               const DimBinding& binding) {
  for (const std::string& dim : dims) {
    if (!binding.dims.contains(dim) || binding.optional.contains(dim)) continue;
    RefuseSolve(
        file, name,
        fmt::format("looks for that size, expected no --dim {}={}", dim, binding.dims.at(dim)), "");
  }
}

struct SizeKind {
  std::string_view name;
  bool (*is_there)(const Graph& file, const EstimateRequest& request);
  SolvedSize (*make)(const Graph& file, const EstimateRequest& request,
                     std::optional<int64_t> unit);
};

SolvedSize ImageSize(const Graph& file, const EstimateRequest& request,
                     std::optional<int64_t> unit) {
  const ImageDims dims = ImageDimsOf(file);
  CheckFree(file, std::string(kImage), dims.free, request.binding);
  return OfDims(std::string(kImage), dims.free, unit.value_or(kImageUnit));
}

SolvedSize RankSize(const Graph& /*file*/, const EstimateRequest& /*request*/,
                    std::optional<int64_t> given) {
  const int64_t unit = given.value_or(1);
  return {
      .name = std::string(kRank),
      .set = [unit](EstimateRequest& own, int64_t units) { own.settings.lora.rank = units * unit; },
      .unit = unit,
      .most = kMostRank / unit,
      .may_end = true};
}

// Beside the dimensions of a file, which go before them.
constexpr SizeKind kSizeKinds[] = {
    {kImage,
     [](const Graph& file, const EstimateRequest&) {
       const ImageDims dims = ImageDimsOf(file);
       return !dims.free.empty() && dims.fixed.empty();
     },
     ImageSize},
    {kRank,
     [](const Graph&, const EstimateRequest& request) { return request.settings.lora.rank > 0; },
     RankSize},
};

// How to export with that dimension free, as --dim says it; "" where another one is meant.
std::string ExportHintOf(const Graph& file, const std::string& name) {
  try {
    BindShapes(file, {.batch = {}, .dims = {{name, 1}}});
  } catch (const Error& error) {
    if (error.parts().hint.starts_with("an export")) return error.parts().hint;
  }
  return "";
}

// What would make possible what is not.
std::string HintFor(const Graph& file, const std::string& name,
                    const std::vector<std::string>& names) {
  const std::vector<ChangedDim> fixed = ImageDimsOf(file).fixed;
  if (name == kRank) return "--lora 8 --solve rank";
  if (name == kImage && !fixed.empty()) {
    return fmt::format("an export with {}, for TorchScript {}", DynamicShapes(file, fixed),
                       DynamicAxes(file, fixed));
  }
  return names.empty() ? ExportHintOf(file, name) : "--solve " + ShellWord(names[0]);
}

[[noreturn]] void RefuseName(const Graph& file, const EstimateRequest& request,
                             const std::string& name) {
  const std::vector<std::string> names = SolvableNames(file, request);
  std::vector<std::string> quoted;
  for (const std::string& other : names) quoted.push_back(Quote(other));
  const std::string text =
      names.empty()
          ? "the file leaves no size free but the batch"
          : fmt::format("no size that is free has this name, there is {}", fmt::join(quoted, ", "));
  RefuseSolve(file, name, text, HintFor(file, name, names));
}

}  // namespace

std::vector<std::string> SolvableNames(const Graph& file, const EstimateRequest& request) {
  std::vector<std::string> names = FreeDimsBesideBatch(file);
  for (const SizeKind& kind : kSizeKinds) {
    if (kind.is_there(file, request)) names.emplace_back(kind.name);
  }
  return names;
}

SolvedSize SizeNamed(const std::string& name, std::optional<int64_t> unit, const Study& study,
                     const EstimateRequest& request) {
  const Graph& file = study.file();
  const std::vector<std::string> dims = FreeDimsBesideBatch(file);
  if (std::ranges::find(dims, name) != dims.end()) {
    CheckFree(file, name, {name}, request.binding);
    return OfDims(name, {name}, unit.value_or(1));
  }
  const auto kind = std::ranges::find(kSizeKinds, name, &SizeKind::name);
  if (kind == std::end(kSizeKinds) || !kind->is_there(file, request))
    RefuseName(file, request, name);
  return kind->make(file, request, unit);
}

}  // namespace onnxfit
