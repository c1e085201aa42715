#include "estimator/workspaces/asked_sizes.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <optional>
#include <utility>

#include "estimator/base/calibration.h"
#include "estimator/base/error.h"
#include "estimator/operators/cudnn_recurrent.h"
#include "estimator/workspaces/known_layers.h"
#include "estimator/workspaces/workspace_form.h"

namespace onnxfit {
namespace {

std::vector<std::string_view> Parts(std::string_view text, char between) {
  std::vector<std::string_view> parts;
  while (!text.empty()) {
    const size_t end = std::min(text.find(between), text.size());
    parts.push_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return parts;
}

std::optional<int64_t> NumberIn(std::string_view text) {
  int64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  const bool is_all = error == std::errc() && end == text.data() + text.size();
  return is_all && number >= 0 ? std::optional(number) : std::nullopt;
}

// Empty where one of them is no number.
std::vector<int64_t> NumbersIn(std::string_view text) {
  std::vector<int64_t> numbers;
  for (const std::string_view part : Parts(text, ',')) {
    const std::optional<int64_t> number = NumberIn(part);
    if (!number) return {};
    numbers.push_back(*number);
  }
  return numbers;
}

template <typename Value>
struct Word {
  std::string_view word;
  Value value;
};
constexpr Word<ConvolutionPass> kPasses[] = {{"forward", ConvolutionPass::kForward},
                                             {"data_gradient", ConvolutionPass::kDataGradient},
                                             {"weight_gradient", ConvolutionPass::kWeightGradient}};
constexpr Word<DType> kTypes[] = {
    {"float32", DType::kFloat32}, {"float16", DType::kFloat16}, {"bfloat16", DType::kBFloat16}};
constexpr Word<bool> kOrders[] = {{"first", false}, {"last", true}};

template <typename Value, size_t kCount>
std::optional<Value> ValueOf(std::string_view word, const Word<Value> (&words)[kCount]) {
  for (const Word<Value>& known : words) {
    if (known.word == word) return known.value;
  }
  return std::nullopt;
}

// Whether all its sizes go together.
bool IsWhole(const Convolution& convolution) {
  const size_t rank = convolution.input.size();
  const size_t window = convolution.stride.size();
  return rank >= 3 && convolution.weight.size() == rank && convolution.output.size() == rank &&
         window == rank - 2 && convolution.padding.size() == window &&
         convolution.dilation.size() == window && convolution.weight[1] > 0 &&
         convolution.input[1] % convolution.weight[1] == 0;
}

// PASS TYPE ORDER X W Y STRIDE PADDING DILATION
std::optional<Convolution> ConvolutionIn(const std::vector<std::string_view>& parts) {
  if (parts.size() != 9) return std::nullopt;
  const auto pass = ValueOf(parts[0], kPasses);
  const auto type = ValueOf(parts[1], kTypes);
  const auto is_last = ValueOf(parts[2], kOrders);
  if (!pass || !type || !is_last) return std::nullopt;
  Convolution found = {.pass = *pass,
                       .dtype = *type,
                       .input = NumbersIn(parts[3]),
                       .weight = NumbersIn(parts[4]),
                       .output = NumbersIn(parts[5]),
                       .stride = NumbersIn(parts[6]),
                       .padding = NumbersIn(parts[7]),
                       .dilation = NumbersIn(parts[8]),
                       .is_channels_last = *is_last};
  if (!IsWhole(found)) return std::nullopt;
  found.groups = found.input[1] / found.weight[1];
  return found;
}

// A one-dimensional convolution has a height of 1 there (PyTorch's view1d_as_2d).
std::optional<Convolution> WithoutHeight(Convolution convolution) {
  const bool is_flat = convolution.stride.size() == 2 && convolution.input[2] == 1 &&
                       convolution.weight[2] == 1 && convolution.output[2] == 1 &&
                       convolution.padding[0] == 0;
  if (!is_flat) return std::nullopt;
  for (Dims* dims : {&convolution.input, &convolution.weight, &convolution.output})
    dims->erase(dims->begin() + 2);
  for (auto* window : {&convolution.stride, &convolution.padding, &convolution.dilation})
    window->erase(window->begin());
  return convolution;
}

// The transposed convolution that makes the same call: the gradient by its data is the other's
// forward pass.
Convolution Transposed(Convolution convolution) {
  std::swap(convolution.input, convolution.output);
  if (convolution.pass == ConvolutionPass::kForward) {
    convolution.pass = ConvolutionPass::kDataGradient;
  } else if (convolution.pass == ConvolutionPass::kDataGradient) {
    convolution.pass = ConvolutionPass::kForward;
  }
  convolution.is_transposed = true;
  return convolution;
}

// The calls of PyTorch's that cuDNN sees as this one.
std::vector<Convolution> CallsLike(const Convolution& convolution) {
  std::vector<Convolution> calls = {convolution};
  if (const auto flat = WithoutHeight(convolution)) calls.insert(calls.begin(), *flat);
  const size_t plain = calls.size();
  for (size_t i = 0; i < plain; ++i) calls.push_back(Transposed(calls[i]));
  return calls;
}

// Of that very call, by that very version, on such a card.
std::optional<int64_t> MeasuredBytes(const std::vector<Convolution>& calls,
                                     const DeviceProfile& card, int cudnn) {
  const std::optional<KnownCard> like = KnownCardLike(card, cudnn);
  if (!like || like->cudnn != cudnn) return std::nullopt;
  for (const Convolution& call : calls) {
    const std::optional<KnownLayer> known = FindKnown(call, card, cudnn);
    if (known && known->is_very && known->is_measured) return known->bytes;
  }
  return std::nullopt;
}

int64_t GuessedBytes(const Convolution& call, const DeviceProfile& card, int cudnn) {
  if (const auto known = FindKnown(call, card, cudnn)) return known->bytes;
  return FormedOn(card, call).value_or(0);
}

std::string AnswerToConvolution(const Convolution& convolution, const DeviceProfile& card,
                                int cudnn) {
  const std::vector<Convolution> calls = CallsLike(convolution);
  if (const auto measured = MeasuredBytes(calls, card, cudnn))
    return fmt::format("{} final", *measured);
  const bool is_product = RunsOnCublasLt(calls.front(), card);
  return fmt::format("{}{}", GuessedBytes(calls.front(), card, cudnn), is_product ? " final" : "");
}

const DeviceProfile* CardAt(std::string_view place, const std::vector<DeviceProfile>& cards) {
  const std::optional<int64_t> number = NumberIn(place);
  return number && *number < static_cast<int64_t>(cards.size())
             ? &cards[static_cast<size_t>(*number)]
             : nullptr;
}

using Words = std::vector<std::string_view>;

std::string AboutConvolution(const Words& words, const std::vector<DeviceProfile>& cards) {
  if (words.size() != 12) return "";
  const DeviceProfile* const card = CardAt(words[1], cards);
  const std::optional<int64_t> version = NumberIn(words[2]);
  const auto convolution = ConvolutionIn({words.begin() + 3, words.end()});
  if (card == nullptr || !version || !convolution) return "";
  return AnswerToConvolution(*convolution, *card, static_cast<int>(*version));
}

// cudnnRNNAlgo_t
RecurrentAlgorithm AlgorithmOf(int64_t number) {
  switch (number) {
    case 1:
      return RecurrentAlgorithm::kPersistStatic;
    case 3:
      return RecurrentAlgorithm::kPersistStaticSmallH;
    default:
      return RecurrentAlgorithm::kStandard;
  }
}

std::string AboutRecurrent(const Words& words, const std::vector<DeviceProfile>& cards) {
  if (words.size() != 15) return "";
  const DeviceProfile* const card = CardAt(words[2], cards);
  const auto type = ValueOf(words[1], kTypes);
  std::vector<int64_t> sizes;
  for (size_t i = 3; i < words.size(); ++i) sizes.push_back(NumberIn(words[i]).value_or(-1));
  if (card == nullptr || !type || std::count(sizes.begin(), sizes.end(), -1) > 0) return "";
  RecurrentRun run = {.layers = {.gates = sizes[1],
                                 .input = sizes[2],
                                 .hidden = sizes[3],
                                 .projected = sizes[4],
                                 .layers = sizes[5],
                                 .directions = sizes[6],
                                 .drops_out = sizes[7] != 0},
                      .steps = sizes[9],
                      .batch = sizes[10],
                      .rows = sizes[11],
                      .dtype = *type};
  if (sizes[8] != 0) run.layers.packed_steps = run.steps;
  const RecurrentAlgorithm algorithm = AlgorithmOf(sizes[0]);
  return fmt::format("{} {} {} {}", WeightSpaceNumel(run.layers) * BitsOf(run.dtype) / 8,
                     ReserveBytes(run),
                     RecurrentWorkspaceBytes(run, *card, algorithm, /*in_training=*/true),
                     RecurrentWorkspaceBytes(run, *card, algorithm, /*in_training=*/false));
}

std::string AboutDropout(const Words& words, const std::vector<DeviceProfile>& cards) {
  const DeviceProfile* const card = words.size() == 2 ? CardAt(words[1], cards) : nullptr;
  return card == nullptr ? "" : fmt::format("{}", DropoutStatesBytes(*card));
}

struct QuestionRow {
  std::string_view word;
  std::string (*answer)(const Words&, const std::vector<DeviceProfile>&);
};
constexpr QuestionRow kQuestions[] = {{"convolution", AboutConvolution},
                                      {"recurrent", AboutRecurrent},
                                      {"dropout-states", AboutDropout}};

}  // namespace

std::string AnswerTo(std::string_view question, const std::vector<DeviceProfile>& cards) {
  const Words words = Parts(question, ' ');
  try {
    for (const QuestionRow& row : kQuestions) {
      if (!words.empty() && words[0] == row.word) return row.answer(words, cards);
    }
  } catch (const Error&) {  // more than 63 bits: no card has that
  }
  return "";
}

}  // namespace onnxfit
