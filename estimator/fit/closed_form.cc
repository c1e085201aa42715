#include "estimator/fit/closed_form.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <utility>

#include "estimator/base/bytes.h"
#include "estimator/base/cards.h"
#include "estimator/base/warnings.h"
#include "estimator/optimizers/optimizer_rule.h"

namespace onnxfit {
namespace {

constexpr int64_t kSequence = 2048;     // GPT-3's
constexpr int64_t kVocabulary = 50257;  // GPT-2's and GPT-3's
constexpr std::string_view kUsualCards[] = {"a100-80gb", "h100"};

// Brown et al. 2020, table 2.1: heads of 128 from 4096 wide on, of 64 in the small ones; wider
// where that is no divisor.
int64_t HeadsOf(int64_t hidden) {
  const int64_t head = hidden >= 4096 ? 128 : 64;
  int64_t heads = std::max<int64_t>(1, hidden / head);
  while (hidden % heads != 0) --heads;
  return heads;
}

// What a layer keeps, in bytes: for each token and unit of width, and for each score of attention.
// Korthikanti et al. count 16 elements and 2 masks of a byte, 2 elements and 1 mask, in 16 bits:
// 34 and 5.  Wider elements are the same tensors.  Autocast runs norms and softmax in fp32: what
// both norms read, and the scores that softmax gives, has 4 bytes.
struct LayerBytes {
  Precision precision;
  int64_t per_unit;
  int64_t per_score;
};

constexpr LayerBytes kLayerBytes[] = {
    {Precision::kFp16, 34, 5},   {Precision::kBf16, 34, 5},    {Precision::kFp32, 66, 9},
    {Precision::kFp64, 130, 17}, {Precision::kAmpFp16, 38, 7}, {Precision::kAmpBf16, 38, 7},
};

static_assert(std::size(kLayerBytes) == std::size(kPrecisions));

const LayerBytes& LayerBytesOf(Precision precision) {
  return *std::ranges::find(kLayerBytes, precision, &LayerBytes::precision);
}

int64_t Product(std::initializer_list<int64_t> factors) {
  int64_t product = 1;
  for (const int64_t factor : factors) product = CheckedMul(product, factor);
  return product;
}

[[noreturn]] void RefuseForm(std::string where, std::string text, std::string hint) {
  throw Error({.where = std::move(where), .text = std::move(text), .hint = std::move(hint)});
}

void CheckRequest(const EstimateRequest& request) {
  const TrainingSettings& settings = request.settings;
  if (settings.mode == Mode::kEval) {
    RefuseForm("--mode", "expected train with --params: the formula is of a training step",
               "a MODEL file");
  }
  const OptimizerRule& rule =
      FindOptimizerRule(settings.optimizer, settings.optimizer_impl, settings.framework);
  if (rule.of_others != Optimizer::kNone) {
    RefuseForm("--optimizer",
               fmt::format("expected one that steps all parameters with --params, found '{}'",
                           ToString(settings.optimizer)),
               fmt::format("--optimizer {}, which keeps more", ToString(rule.of_others)));
  }
  constexpr Optimizer kOfMatrices[] = {Optimizer::kMuSgd, Optimizer::kSoap, Optimizer::kGaLore};
  if (std::ranges::find(kOfMatrices, settings.optimizer) != std::end(kOfMatrices)) {
    RefuseForm("--optimizer",
               fmt::format("expected one whose states do not depend on matrices with --params, "
                           "found '{}'",
                           ToString(settings.optimizer)),
               "a MODEL file");
  }
  const std::pair<std::string_view, bool> by_name[] = {
      {"--label-smoothing", settings.label_smoothing},
      {"--channels-last", settings.channels_last},
      {"--cudnn-benchmark", settings.cudnn_benchmark},
      {"--eval-batch", settings.evaluation.batch > 0},
      {"--loop", settings.loop.library != LoopLibrary::kPlain},
      {"--freeze", !settings.freeze.empty()},
      {"--lora", settings.lora.rank > 0},
      {"--quantize", settings.quantize.kind != Quantization::kNone},
      {"--checkpoint", !settings.checkpoint.empty()},
      {"--compile", settings.compile == Compiling::kInductor}};
  for (const auto& [flag, is_given] : by_name) {
    if (!is_given) continue;
    RefuseForm(std::string(flag), "expected a MODEL file, whose layers have names, found --params",
               "a MODEL file");
  }
  if (StepsOnHost(settings.ranks)) {
    RefuseForm(settings.ranks.zero_offload ? "--zero-offload" : "--fsdp-offload",
               "expected a MODEL file, found --params: the formula has all on the cards",
               "a MODEL file");
  }
  if (!request.binding.dims.empty() || !request.binding.inputs.empty()) {
    RefuseForm(request.binding.dims.empty() ? "--shape" : "--dim",
               "expected a MODEL file, found --params", "--seq N");
  }
  if (!request.why.empty()) {
    RefuseForm("--why", "expected a MODEL file, found --params: a formula has no tensors",
               "a MODEL file");
  }
}

TransformerNumbers Completed(TransformerNumbers numbers) {
  if (!numbers.heads) numbers.heads = HeadsOf(numbers.hidden);
  if (!numbers.sequence) numbers.sequence = kSequence;
  if (!numbers.vocabulary) numbers.vocabulary = kVocabulary;
  return numbers;
}

void CheckHeads(const TransformerNumbers& numbers) {
  if (*numbers.heads <= numbers.hidden && numbers.hidden % *numbers.heads == 0) return;
  RefuseForm(
      "--heads",
      fmt::format("expected a divisor of --hidden {}, found {}", numbers.hidden, *numbers.heads),
      fmt::format("--heads {}", HeadsOf(numbers.hidden)));
}

// --- The products -------------------------------------------------------------------------

class FormMaker {
 public:
  explicit FormMaker(ClosedForm& form) : form_(form) {}

  void Make() {
    const TrainingSettings& settings = form_.settings;
    const DType type = ParameterType(settings.precision);
    const std::string of_type = fmt::format(" bytes ({})", Name(type));
    const int64_t width = BitsOf(type) / 8;
    const int64_t weights = Product({form_.numbers.parameters, width});
    const std::string times = fmt::format("{} x {}", form_.numbers.parameters, width);
    Add("parameters", weights, Basis::kModelled, times + of_type);
    Add("gradients", weights, Basis::kModelled, times + of_type);
    AddStates(type);
    AddCopies();
    if (settings.ema) Add("average", weights, Basis::kModelled, times + of_type + ", --ema");
    AddActivations();
    AddLogits();
  }

 private:
  void Add(std::string kind, int64_t bytes, Basis basis, std::string text) {
    if (bytes == 0) return;
    form_.breakdown.push_back({.kind = kind, .bytes = bytes, .basis = basis});
    form_.products.push_back({std::move(kind), std::move(text)});
    form_.total_bytes = CheckedAdd(form_.total_bytes, bytes);
  }

  // By the table's row, for matrices of hidden x hidden: that tells what Adafactor keeps, too.
  void AddStates(DType type) {
    const TrainingSettings& settings = form_.settings;
    const TensorType matrix = {type, {form_.numbers.hidden, form_.numbers.hidden}};
    const OptimizerRule& rule = FindOptimizerRule(settings.optimizer, settings.optimizer_impl,
                                                  settings.framework, settings.optimizer_args);
    int64_t bytes = 0;
    for (const StateTensor& state : rule.states) {
      if (state.shared) continue;
      const TensorType own = StateType(state, matrix);
      const bool is_counter = own.dims.empty();  // of steps, for each tensor
      if (own.dtype != DType::kUndefined && !is_counter) bytes += BytesOf(own);
    }
    const int64_t elements = Numel(matrix.dims);
    const int64_t parameters = form_.numbers.parameters;
    const std::string of = fmt::format("({})", ToString(settings.optimizer));
    if (bytes % elements == 0) {
      Add("optimizer_state", Product({parameters, bytes / elements}), Basis::kModelled,
          fmt::format("{} x {} bytes {}", parameters, bytes / elements, of));
      return;
    }
    const double each = static_cast<double>(bytes) / static_cast<double>(elements);
    Add("optimizer_state",
        static_cast<int64_t>(std::llround(each * static_cast<double>(parameters))),
        Basis::kModelled, fmt::format("{} x {:.4f} bytes {}", parameters, each, of));
  }

  // Autocast casts each weight once and keeps that for backward.
  void AddCopies() {
    const DType lower = AutocastType(form_.settings.precision);
    if (lower == DType::kUndefined) return;
    Add("weight_copies", Product({form_.numbers.parameters, BitsOf(lower) / 8}), Basis::kAssumed,
        fmt::format("{} x {} bytes (autocast's, in {})", form_.numbers.parameters,
                    BitsOf(lower) / 8, Name(lower)));
  }

  // Without scores at the low end: kernels such as FlashAttention keep none.
  void AddActivations() {
    const TransformerNumbers& n = form_.numbers;
    const LayerBytes& each = LayerBytesOf(form_.settings.precision);
    const int64_t tokens = Product({*n.sequence, form_.batch});
    const int64_t units = Product({n.layers, tokens, n.hidden, each.per_unit});
    const int64_t scores = Product({n.layers, tokens, *n.sequence, *n.heads, each.per_score});
    Add("activations", CheckedAdd(units, scores), Basis::kAssumed,
        fmt::format("{} layers x {} x {} x {} x ({} + {} x {} x {} / {}) bytes", n.layers,
                    *n.sequence, form_.batch, n.hidden, each.per_unit, each.per_score, *n.heads,
                    *n.sequence, n.hidden));
    if (form_.settings.attention == AttentionUse::kEager) return;
    form_.breakdown.back().low = units;
    form_.breakdown.back().high = form_.breakdown.back().bytes;
    form_.assumptions.push_back(
        fmt::format("attention keeps its scores; a kernel that keeps none, such as FlashAttention, "
                    "takes {} less",
                    FormatBytes(scores)));
  }

  // The same paper, section 4.3: a mask of the first dropout, what the last norm and the head
  // read, and logits in fp32.
  void AddLogits() {
    const TransformerNumbers& n = form_.numbers;
    const int64_t width = BitsOf(ComputeType(form_.settings.precision)) / 8;
    const int64_t tokens = Product({*n.sequence, form_.batch});
    const int64_t per_token =
        CheckedAdd(Product({n.hidden, 1 + 2 * width}), Product({*n.vocabulary, 4}));
    Add("logits", Product({tokens, per_token}), Basis::kAssumed,
        fmt::format("{} x {} x ({} x {} + {} x 4) bytes, with the embedding's mask and the last "
                    "norm",
                    *n.sequence, form_.batch, n.hidden, 1 + 2 * width, *n.vocabulary));
  }

  ClosedForm& form_;
};

// --- Cards --------------------------------------------------------------------------------

CardCount CountOf(const Target& target, int64_t total_bytes, bool is_asked) {
  const int64_t room = target.capacity_bytes();
  return {target, room > 0 ? std::max<int64_t>(1, DivideUp(total_bytes, room)) : 0, is_asked};
}

std::vector<CardCount> CountCards(const EstimateRequest& request, int64_t total_bytes) {
  std::vector<CardCount> counts;
  for (const Target& target : request.targets) counts.push_back(CountOf(target, total_bytes, true));
  if (!counts.empty()) return counts;
  for (const std::string_view alias : kUsualCards) {
    TargetRequest usual = {.card = FindCard(alias), .overhead_bytes = request.overhead_bytes};
    counts.push_back(CountOf(MakeTarget(usual), total_bytes, false));
  }
  return counts;
}

// --- What is to be said -------------------------------------------------------------------

std::vector<std::string> Given(const TransformerNumbers& given, const TransformerNumbers& all) {
  std::vector<std::string> texts;
  if (!given.sequence) texts.push_back(fmt::format("{} tokens a sample (--seq)", *all.sequence));
  if (!given.heads) texts.push_back(fmt::format("{} heads (--heads)", *all.heads));
  if (!given.vocabulary) {
    texts.push_back(fmt::format("a vocabulary of {} (--vocab)", *all.vocabulary));
  }
  return texts;
}

void AddAssumptions(const TransformerNumbers& given, ClosedForm& form) {
  std::vector<std::string>& texts = form.assumptions;
  texts.insert(
      texts.begin(),
      "activations as in Korthikanti et al. 2022, \"Reducing Activation Recomputation in "
      "Large Transformer Models\": a layer of attention and an MLP of 4 x hidden, dropout, "
      "nothing recomputed");
  if (form.settings.framework_choice.basis == FrameworkBasis::kUnknown) {
    texts.push_back(fmt::format("PyTorch is {} (--framework)", form.settings.framework.name));
  }
  const std::vector<std::string> assumed = Given(given, form.numbers);
  if (!assumed.empty()) texts.push_back(fmt::format("{}", fmt::join(assumed, ", ")));
  texts.emplace_back(
      "not in it: what the optimizer's step allocates meanwhile, rounding and PyTorch's cache; an "
      "exported MODEL file is played with all of them");
  texts.emplace_back(
      "cards: all of it divided evenly, which no way of training quite does, and a CUDA context on "
      "each: at least so many");
}

// Three times more or less: a slip in the number, or no plain transformer.
void WarnOfParameters(ClosedForm& form) {
  const double likely = static_cast<double>(LikelyParameters(form.numbers));
  const double ratio = static_cast<double>(form.numbers.parameters) / likely;
  if (ratio > 1.0 / 3 && ratio < 3) return;
  form.warnings.push_back(
      {warning::kNumbersDisagree,
       fmt::format("12 x {} x {} x {} + {} x {} is {:.3g} parameters, --params says {:.3g}: is a "
                   "number wrong, or is it no plain transformer (experts)?",
                   form.numbers.layers, form.numbers.hidden, form.numbers.hidden,
                   *form.numbers.vocabulary, form.numbers.hidden, likely,
                   static_cast<double>(form.numbers.parameters))});
}

}  // namespace

int64_t LikelyParameters(const TransformerNumbers& numbers) {
  const int64_t blocks = Product({12, numbers.layers, numbers.hidden, numbers.hidden});
  return CheckedAdd(blocks, Product({numbers.vocabulary.value_or(kVocabulary), numbers.hidden}));
}

ClosedForm MakeClosedForm(const TransformerNumbers& numbers, const EstimateRequest& request) {
  CheckRequest(request);
  ClosedForm form;
  form.numbers = Completed(numbers);
  CheckHeads(form.numbers);
  form.settings = request.settings;
  form.batch = request.binding.batch.value_or(1);
  FormMaker(form).Make();
  form.cards = CountCards(request, form.total_bytes);
  AddAssumptions(numbers, form);
  WarnOfParameters(form);
  return form;
}

}  // namespace onnxfit
