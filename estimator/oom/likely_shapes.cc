#include "estimator/oom/likely_shapes.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <iterator>

namespace onnxfit {
namespace {

enum class Form : uint8_t { kMaps, kScores, kLogits, kMatrix };
constexpr size_t kForms = 4;

struct Guess {
  TensorType type;
  Form form = Form::kMaps;
  int score = 0;
};

bool IsPower(int64_t n) { return n > 0 && std::has_single_bit(static_cast<uint64_t>(n)); }

// How often people choose a size, from 0.
int BatchScore(int64_t n) {
  if (IsPower(n)) return n <= 256 ? 4 : 1;
  if (n % 50 == 0 && n <= 500) return 3;
  if (n % 8 == 0 || n % 10 == 0) return n <= 1024 ? 2 : 0;
  return n <= 64 ? 1 : -2;
}

int SideScore(int64_t n) {
  const bool from_image = n % 7 == 0 && IsPower(n / 7);  // 224 halved: 112, 56, 28, 14, 7
  if ((IsPower(n) && n >= 4) || from_image) return 4;
  if (n > 256) return -1;
  return n % 2 == 0 ? 1 : 0;
}

struct Choice {
  int64_t size;
  int score;
};

constexpr Choice kChannels[] = {{3, 2},   {16, 3},  {24, 1},  {32, 3},   {48, 1},
                                {64, 4},  {96, 2},  {128, 3}, {192, 2},  {256, 3},
                                {384, 2}, {512, 3}, {768, 2}, {1024, 3}, {2048, 3}};
constexpr Choice kHeads[] = {{8, 3}, {12, 4}, {16, 3}, {20, 2}, {32, 3}, {40, 2}, {64, 2}};

// Widths of layers: powers of two, what language models take, and round numbers.
constexpr Choice kWidths[] = {{768, 3},   {1000, 3},  {1024, 4},  {1280, 3},  {1536, 3},
                              {2000, 3},  {2048, 4},  {2560, 3},  {2816, 2},  {3072, 4},
                              {4096, 4},  {5000, 3},  {5120, 3},  {8192, 4},  {10000, 3},
                              {11008, 4}, {14336, 4}, {16384, 3}, {25088, 2}, {28672, 3}};

// Vocabularies: BERT, GPT-2, Llama, T5, Llama 3, Qwen, mT5, Gemma (config.json of each).
constexpr int64_t kVocabularies[] = {30522, 50257, 32000, 32128, 128256, 151936, 250112, 256000};

// The multiple of `step` from `low` to `high` that people choose most; 0 where there is none.
int64_t NicestMultiple(double low, double high, double step) {
  constexpr int64_t kTried = 64;
  const auto first = static_cast<int64_t>(std::ceil(std::max(low / step, 1.0)));
  const auto last = static_cast<int64_t>(std::min(std::floor(high / step), 1e7));
  int64_t nicest = 0;
  for (int64_t n = first; n <= std::min(last, first + kTried); ++n) {
    if (nicest == 0 || BatchScore(n) > BatchScore(nicest)) nicest = n;
  }
  return nicest;
}

// Guesses of one element type, of `low` to `high` elements.
class Guesser {
 public:
  Guesser(DType dtype, double low, double high) : dtype_(dtype), low_(low), high_(high) {}

  std::vector<Guess> Guesses() {
    for (const Choice& channels : kChannels) AddMaps(Form::kMaps, channels, 4);
    for (const Choice& heads : kHeads) AddMaps(Form::kScores, heads, 128);
    for (const int64_t vocabulary : kVocabularies) AddLogits(vocabulary);
    for (const Choice& rows : kWidths) {
      for (const Choice& columns : kWidths) AddMatrix(rows, columns);
    }
    return std::move(guesses_);
  }

 private:
  void Add(Form form, Dims dims, int score) {
    guesses_.push_back({{dtype_, std::move(dims)}, form, score});
  }

  // [N, C, S, S]: maps of features, and the scores of C heads of attention.
  void AddMaps(Form form, const Choice& channels, int64_t least) {
    for (int64_t side = least; side <= 65536; side += side < 512 ? 1 : 256) {
      const double step = static_cast<double>(channels.size) * static_cast<double>(side) *
                          static_cast<double>(side);
      if (step > high_) return;
      const int64_t batch = NicestMultiple(low_, high_, step);
      if (batch == 0 || batch > 4096) continue;
      Add(form, {batch, channels.size, side, side},
          BatchScore(batch) + channels.score + SideScore(side));
    }
  }

  void AddLogits(int64_t vocabulary) {
    const int64_t rows = NicestMultiple(low_, high_, 128 * static_cast<double>(vocabulary));
    if (rows > 0 && rows <= 4096)
      Add(Form::kLogits, {128 * rows, vocabulary}, BatchScore(rows) + 4);
  }

  void AddMatrix(const Choice& rows, const Choice& columns) {
    const double numel = static_cast<double>(rows.size) * static_cast<double>(columns.size);
    if (rows.size > columns.size || numel < low_ || numel > high_) return;
    const int square = rows.size == columns.size ? 3 : 0;
    Add(Form::kMatrix, {rows.size, columns.size}, rows.score + columns.score + square);
  }

  const DType dtype_;
  const double low_;
  const double high_;
  std::vector<Guess> guesses_;
};

}  // namespace

std::vector<TensorType> LikelyShapes(int64_t low, int64_t high, size_t most) {
  std::vector<Guess> guesses;
  for (const DType dtype : {DType::kFloat32, DType::kBFloat16}) {
    const double each = BitsOf(dtype) / 8.0;
    for (Guess& guess :
         Guesser(dtype, static_cast<double>(low) / each, static_cast<double>(high) / each)
             .Guesses()) {
      if (dtype != DType::kFloat32) guess.score -= 1;
      guesses.push_back(std::move(guess));
    }
  }
  std::stable_sort(guesses.begin(), guesses.end(),
                   [](const Guess& a, const Guess& b) { return a.score > b.score; });
  const int worth_saying = low == high ? 7 : 9;  // few shapes have one exact size
  constexpr int kOfOneForm = 2;
  std::array<int, kForms> said = {};
  std::vector<TensorType> shapes;
  for (const Guess& guess : guesses) {
    if (shapes.size() == most || guess.score < worth_saying) break;
    const bool is_said = std::find(shapes.begin(), shapes.end(), guess.type) != shapes.end();
    if (is_said) continue;  // maps of features are also scores of as many heads
    if (++said[static_cast<size_t>(guess.form)] <= kOfOneForm) shapes.push_back(guess.type);
  }
  return shapes;
}

std::string FactorText(int64_t bytes) {
  constexpr int64_t kLargestPrime = 1000000;
  if (bytes <= 0 || bytes % 4 != 0) return "";
  int64_t rest = bytes / 4;
  std::string text = "4";
  for (int64_t prime = 2; prime * prime <= rest && prime <= kLargestPrime; ++prime) {
    int power = 0;
    for (; rest % prime == 0; rest /= prime) ++power;
    if (power == 1) text += fmt::format(" * {}", prime);
    if (power > 1) text += fmt::format(" * {}^{}", prime, power);
  }
  if (rest > kLargestPrime) return "";
  return rest > 1 ? fmt::format("{} * {}", text, rest) : text;
}

int64_t RootOf(int64_t bytes, int64_t bytes_each, int power) {
  const double numel = static_cast<double>(bytes) / static_cast<double>(bytes_each);
  return std::llround(std::pow(numel, 1.0 / power));
}

}  // namespace onnxfit
