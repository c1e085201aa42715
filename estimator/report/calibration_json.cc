#include "estimator/report/calibration_json.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <utility>

#include "estimator/report/json_parts.h"

namespace onnxfit {
namespace {

constexpr int64_t kSchema = 1;
constexpr std::string_view kHint = "delete it; onnxfit verify MODEL.onnx --save measures anew";

constexpr std::string_view kPasses[] = {"forward", "data_gradient", "weight_gradient"};

constexpr DType kDTypes[] = {DType::kFloat32, DType::kFloat16, DType::kBFloat16, DType::kFloat64};

// --- Writing ---

Json WorkspaceJson(const ConvolutionWorkspace& workspace) {
  const Convolution& c = workspace.convolution;
  Json json = {{"pass", kPasses[static_cast<size_t>(c.pass)]},
               {"dtype", Name(c.dtype)},
               {"input", c.input},
               {"weight", c.weight},
               {"output", c.output},
               {"stride", c.stride},
               {"padding", c.padding},
               {"dilation", c.dilation},
               {"groups", c.groups}};
  if (c.is_transposed) json["transposed"] = true;
  if (c.is_channels_last) json["channels_last"] = true;
  json["bytes"] = workspace.bytes;
  return json;
}

Json CardJson(const Calibration& calibration) {
  Json json = {{"card", calibration.card},
               {"compute_capability", calibration.compute_capability},
               {"multiprocessors", calibration.multiprocessors}};
  PutIfKnown(json, "driver", calibration.driver);
  PutIfKnown(json, "cuda", calibration.cuda);
  PutIfKnown(json, "cublas", calibration.cublas);
  PutIfKnown(json, "cudnn", calibration.cudnn);
  json["loaded"] = Json::array();
  for (const LoadedBytes& loaded : calibration.loaded) {
    json["loaded"].push_back({{"what", loaded.what}, {"bytes", loaded.bytes}});
  }
  json["convolutions"] = Json::array();
  for (const ConvolutionWorkspace& workspace : calibration.convolutions) {
    json["convolutions"].push_back(WorkspaceJson(workspace));
  }
  return json;
}

// --- Reading ---

// Runs `read`; what is wrong there is wrong in `where`.
template <typename Read>
auto In(const std::string& where, const Read& read) {
  try {
    return read();
  } catch (const Error& error) {
    Error::Parts parts = error.parts();
    parts.where = parts.where.empty() ? where : fmt::format("{}: {}", where, parts.where);
    throw Error(parts);
  }
}

[[noreturn]] void RefuseText(std::string_view name, std::string_view expected,
                             std::string_view found) {
  throw Error({.where = fmt::format("\"{}\"", name),
               .text = fmt::format("expected {}, found \"{}\"", expected, found)});
}

ConvolutionPass ReadPass(const Json& json) {
  const std::string text = ReadText(json, "pass");
  const auto* found = std::find(std::begin(kPasses), std::end(kPasses), text);
  if (found == std::end(kPasses)) {
    RefuseText("pass", fmt::format("{}", fmt::join(kPasses, " or ")), text);
  }
  return static_cast<ConvolutionPass>(found - std::begin(kPasses));
}

DType ReadDType(const Json& json) {
  const std::string text = ReadText(json, "dtype");
  const auto* found = std::find_if(std::begin(kDTypes), std::end(kDTypes),
                                   [&](DType dtype) { return Name(dtype) == text; });
  if (found == std::end(kDTypes))
    RefuseText("dtype", "float32, float16, bfloat16 or float64", text);
  return *found;
}

std::vector<int64_t> ReadWholes(const Json& json, std::string_view name, size_t count) {
  const Json& array = ReadArray(json, name);
  if (array.size() != count) {
    throw Error({.where = fmt::format("\"{}\"", name),
                 .text = fmt::format("expected {} numbers, found {}", count, array.size())});
  }
  std::vector<int64_t> numbers;
  for (const Json& item : array) numbers.push_back(ReadBytes({{name, item}}, name));
  return numbers;
}

// Batch, channels and at least one dimension in space.
size_t ReadRank(const Json& json) {
  const size_t rank = ReadArray(json, "weight").size();
  if (rank >= 3) return rank;
  throw Error(
      {.where = "\"weight\"", .text = fmt::format("expected at least 3 numbers, found {}", rank)});
}

ConvolutionWorkspace ReadWorkspace(const Json& json) {
  const size_t rank = ReadRank(json);
  const auto says = [&](std::string_view name) {
    return json.contains(name) && ReadSwitch(json, name);
  };
  Convolution convolution = {.pass = ReadPass(json),
                             .dtype = ReadDType(json),
                             .input = ReadWholes(json, "input", rank),
                             .weight = ReadWholes(json, "weight", rank),
                             .output = ReadWholes(json, "output", rank),
                             .stride = ReadWholes(json, "stride", rank - 2),
                             .padding = ReadWholes(json, "padding", rank - 2),
                             .dilation = ReadWholes(json, "dilation", rank - 2),
                             .groups = ReadBytes(json, "groups"),
                             .is_transposed = says("transposed"),
                             .is_channels_last = says("channels_last")};
  return {std::move(convolution), ReadBytes(json, "bytes")};
}

void ReadWorkspaces(const Json& json, Calibration& calibration) {
  size_t number = 0;
  for (const Json& item : ReadArray(json, "convolutions")) {
    calibration.convolutions.push_back(
        In(fmt::format("convolution {}", ++number), [&] { return ReadWorkspace(item); }));
  }
}

// Times ten; no card has one of 100.0.
int ReadCapability(const Json& json) {
  const int64_t capability = ReadBytes(json, "compute_capability");
  if (capability < 1000) return static_cast<int>(capability);
  throw Error(
      {.where = "\"compute_capability\"",
       .text = fmt::format("expected ten times its number, such as 80, found {}", capability)});
}

Calibration ReadCard(const Json& json) {
  Calibration calibration = {.card = ReadText(json, "card"),
                             .compute_capability = ReadCapability(json),
                             .multiprocessors = ReadBytes(json, "multiprocessors"),
                             .driver = ReadTextIfKnown(json, "driver"),
                             .cuda = ReadTextIfKnown(json, "cuda"),
                             .cublas = ReadTextIfKnown(json, "cublas"),
                             .cudnn = ReadTextIfKnown(json, "cudnn")};
  for (const Json& item : ReadArray(json, "loaded")) {
    calibration.loaded.push_back({ReadText(item, "what"), ReadBytes(item, "bytes")});
  }
  ReadWorkspaces(json, calibration);
  return calibration;
}

bool HasTwice(const Calibration& calibration) {
  const auto& all = calibration.convolutions;
  return std::adjacent_find(all.begin(), all.end(),
                            [](const ConvolutionWorkspace& a, const ConvolutionWorkspace& b) {
                              return a.convolution == b.convolution;
                            }) != all.end();
}

// "card 'NVIDIA A100-SXM4-40GB'", or its number where it does not say.
std::string CardName(const Json& item, size_t number) {
  const bool is_named = item.is_object() && item.contains("card") && item["card"].is_string();
  return is_named ? fmt::format("card '{}'", ReadText(item, "card"))
                  : fmt::format("card {}", number);
}

std::vector<Calibration> ReadCards(const Json& json) {
  std::vector<Calibration> calibrations;
  size_t count = 0;
  for (const Json& item : ReadArray(json, "cards")) {
    PutCalibration(In(CardName(item, count + 1), [&] { return ReadCard(item); }), calibrations);
    if (calibrations.size() > count++) continue;
    throw Error({.where = fmt::format("card '{}'", ReadText(item, "card")),
                 .text = "expected each driver and its libraries once, found them twice"});
  }
  for (const Calibration& calibration : calibrations) {
    if (!HasTwice(calibration)) continue;
    throw Error({.where = fmt::format("card '{}'", calibration.card),
                 .text = "expected each convolution once, found one twice"});
  }
  return calibrations;
}

}  // namespace

std::string ToJson(const std::vector<Calibration>& calibrations) {
  Json json = {{"calibration", kSchema}, {"cards", Json::array()}};
  for (const Calibration& calibration : calibrations)
    json["cards"].push_back(CardJson(calibration));
  return InLines(json) + "\n";
}

std::vector<Calibration> ReadCalibrations(std::string_view text) {
  try {
    const Json json = ParseJson(text);
    if (ReadBytes(json, "calibration") == kSchema) return ReadCards(json);
    throw Error(
        {.where = "\"calibration\"",
         .text = fmt::format("expected {}, found the calibration of another onnxfit", kSchema)});
  } catch (const Error& error) {
    Error::Parts parts = error.parts();
    if (parts.hint.empty()) parts.hint = kHint;
    throw Error(parts);
  }
}

}  // namespace onnxfit
