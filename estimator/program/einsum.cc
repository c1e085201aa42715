#include "estimator/program/einsum.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <string>
#include <utility>

#include "estimator/base/bytes.h"
#include "estimator/base/index.h"

namespace onnxfit {
namespace {

// A letter a dimension; those of "..." are numbers from 1, the last dimension's the highest.
using Letters = std::string;

struct Equation {
  std::vector<Letters> operands;
  Letters result;
};

constexpr std::string_view kEllipsis = "...";
constexpr size_t kMostDims = 32;  // of "..."

bool Has(const Letters& letters, char c) { return letters.find(c) != Letters::npos; }

bool AreOnce(Letters letters) {
  std::ranges::sort(letters);
  return std::ranges::adjacent_find(letters) == letters.end();
}

// `text` with `count` letters in place of "...", those of the last dimensions of `most`.
std::optional<Letters> Spelled(std::string_view text, size_t count, size_t most) {
  const size_t at = text.find(kEllipsis);
  Letters letters(text);
  if (at != std::string_view::npos) {
    Letters dots;
    for (size_t i = most - count; i < most; ++i) dots.push_back(static_cast<char>(i + 1));
    letters.replace(at, kEllipsis.size(), dots);
  }
  const auto is_letter = [](char c) {
    const bool is_dot = c > 0 && c <= static_cast<char>(kMostDims);
    return is_dot || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
  };
  if (!std::ranges::all_of(letters, is_letter) || !AreOnce(letters)) return std::nullopt;
  return letters;
}

std::vector<std::string_view> SplitAtCommas(std::string_view text) {
  std::vector<std::string_view> parts;
  for (size_t start = 0; start <= text.size();) {
    const size_t end = std::min(text.find(',', start), text.size());
    parts.push_back(text.substr(start, end - start));
    start = end + 1;
  }
  return parts;
}

// Without "->": the dimensions of "...", then the letters that are there once, in their order.
Letters ImplicitResult(const std::vector<Letters>& operands) {
  std::map<char, int> counts;
  for (const Letters& letters : operands) {
    for (const char c : letters) ++counts[c];
  }
  Letters result;
  for (const auto& [c, count] : counts) {
    if (count == 1 || c <= static_cast<char>(kMostDims)) result.push_back(c);
  }
  return result;
}

std::optional<Equation> ParseEquation(std::string_view text, const std::vector<Dims>& operands) {
  std::string plain;
  std::ranges::copy_if(text, std::back_inserter(plain), [](char c) { return c != ' '; });
  const size_t arrow = std::min(plain.find("->"), plain.size());
  const std::vector<std::string_view> parts =
      SplitAtCommas(std::string_view(plain).substr(0, arrow));
  if (parts.size() != operands.size()) return std::nullopt;
  std::vector<size_t> dotted(parts.size());  // dimensions of each "..."
  for (size_t i = 0; i < parts.size(); ++i) {
    if (parts[i].find(kEllipsis) == std::string_view::npos) continue;
    const size_t named = parts[i].size() - kEllipsis.size();
    if (named > operands[i].size()) return std::nullopt;
    dotted[i] = operands[i].size() - named;
  }
  const size_t most = *std::ranges::max_element(dotted);
  if (most > kMostDims) return std::nullopt;
  Equation equation;
  for (size_t i = 0; i < parts.size(); ++i) {
    const std::optional<Letters> letters = Spelled(parts[i], dotted[i], most);
    if (!letters || letters->size() != operands[i].size()) return std::nullopt;
    equation.operands.push_back(*letters);
  }
  if (arrow == plain.size()) {
    equation.result = ImplicitResult(equation.operands);
    return equation;
  }
  const std::optional<Letters> result =
      Spelled(std::string_view(plain).substr(arrow + 2), most, most);
  if (!result) return std::nullopt;
  equation.result = *result;
  return equation;
}

// What is there of an operand or a product: a step or an operand, and its dimensions, each of
// which is one of a letter.
struct Tensor {
  int32_t id = 0;
  Letters letters;
  std::map<char, int64_t> sizes;

  int64_t SizeOf(char c) const {
    const auto found = sizes.find(c);
    return found == sizes.end() ? 1 : found->second;
  }
  bool IsWide(char c) const { return SizeOf(c) != 1; }
  Dims DimsOf(const Letters& of) const {
    Dims dims;
    for (const char c : of) dims.push_back(SizeOf(c));
    return dims;
  }
  int64_t Product(const Letters& of) const {
    int64_t product = 1;
    for (const char c : of) product = CheckedMul(product, SizeOf(c));
    return product;
  }
};

class Planner {
 public:
  Planner(const Equation& equation, const std::vector<Dims>& operands)
      : result_(equation.result), order_(equation.result) {
    std::map<char, int64_t> sizes;
    for (size_t i = 0; i < operands.size(); ++i) {
      Tensor tensor = {static_cast<int32_t>(i), equation.operands[i], {}};
      for (size_t d = 0; d < operands[i].size(); ++d) {
        const char c = tensor.letters[d];
        tensor.sizes[c] = operands[i][d];
        int64_t& size = sizes.try_emplace(c, operands[i][d]).first->second;
        fits_ = fits_ && (size == operands[i][d] || size == 1 || operands[i][d] == 1);
        size = std::max(size, operands[i][d]);
        if (operands[i][d] != 1) ++wide_[c];
      }
      tensors_.push_back(std::move(tensor));
    }
    for (const char c : result_) fits_ = fits_ && sizes.contains(c);
    for (const auto& [c, size] : sizes) {
      if (!Has(result_, c)) order_.push_back(c);
    }
  }

  std::optional<std::vector<EinsumStep>> Plan() {
    if (!fits_) return std::nullopt;
    Tensor made = tensors_[0];
    for (size_t i = 1; i < tensors_.size(); ++i) made = Contract(made, tensors_[i]);
    const Letters left = Summed(made.letters);
    if (tensors_.size() == 1 && !left.empty()) made = Sum(made, left);
    if (made.id >= 0 || made.letters != result_ + Summed(made.letters)) Order(made, result_);
    if (made.letters != result_) Make("view", {made.id}, made.DimsOf(result_));
    return std::move(steps_);
  }

 private:
  // Those of `letters` that the result does not have.
  Letters Summed(const Letters& letters) const {
    Letters summed;
    for (const char c : letters) {
      if (!Has(result_, c)) summed.push_back(c);
    }
    return summed;
  }

  int32_t Make(std::string_view op, std::vector<int32_t> inputs, Dims dims,
               std::vector<int64_t> ints = {}) {
    steps_.push_back({op, std::move(inputs), std::move(dims), std::move(ints)});
    return -static_cast<int32_t>(steps_.size());
  }

  // Its dimensions in the order of `letters`, which may have others, too.
  void Order(Tensor& tensor, const Letters& letters) {
    Letters to;
    std::ranges::copy_if(letters, std::back_inserter(to),
                         [&](char c) { return Has(tensor.letters, c); });
    std::ranges::copy_if(tensor.letters, std::back_inserter(to),
                         [&](char c) { return !Has(letters, c); });
    std::vector<int64_t> order;
    for (const char c : to) order.push_back(static_cast<int64_t>(tensor.letters.find(c)));
    tensor.id = Make("permute", {tensor.id}, tensor.DimsOf(to), std::move(order));
    tensor.letters = to;
  }

  // keepdim, but for what follows those dimensions are gone.
  Tensor Sum(Tensor tensor, const Letters& letters) {
    Order(tensor, order_);
    for (const char c : letters) {
      tensor.sizes.erase(c);
      tensor.letters.erase(tensor.letters.find(c), 1);
    }
    tensor.id = Make("sum", {tensor.id}, tensor.DimsOf(tensor.letters));
    return tensor;
  }

  Tensor Contract(Tensor a, Tensor b) {
    Letters of_a;
    Letters of_b;
    Letters both;
    for (const char c : order_.substr(result_.size())) {
      int& count = wide_[c];
      if (a.IsWide(c) && b.IsWide(c)) {
        if (--count > 1) continue;
        both.push_back(c);
      } else if (count == 1 && (a.IsWide(c) || b.IsWide(c))) {
        (a.IsWide(c) ? of_a : of_b).push_back(c);
      } else {
        continue;
      }
      count = 0;
    }
    if (!of_a.empty()) a = Sum(std::move(a), of_a);
    if (!of_b.empty()) b = Sum(std::move(b), of_b);
    return both.empty() ? Multiply(std::move(a), std::move(b))
                        : MultiplyMatrices(std::move(a), std::move(b), both);
  }

  Tensor Multiply(Tensor a, Tensor b) {
    Letters all;
    std::map<char, int64_t> sizes;
    for (const char c : order_) {
      if (!Has(a.letters, c) && !Has(b.letters, c)) continue;
      all.push_back(c);
      sizes[c] = std::max(a.SizeOf(c), b.SizeOf(c));
    }
    for (Tensor* tensor : {&a, &b}) {
      Order(*tensor, all);
      if (tensor->letters.size() != all.size()) {
        tensor->id = Make("view", {tensor->id}, tensor->DimsOf(all));
      }
    }
    Tensor product = {0, all, sizes};
    product.id = Make("mul", {a.id, b.id}, product.DimsOf(all));
    return product;
  }

  // bmm of [batch, rows, summed] and [batch, summed, columns].
  Tensor MultiplyMatrices(Tensor a, Tensor b, const Letters& summed) {
    Letters batch;
    Letters rows;
    Letters columns;
    for (const char c : order_) {
      if (Has(summed, c)) continue;
      if (a.IsWide(c) && b.IsWide(c)) {
        batch.push_back(c);
      } else if (a.IsWide(c)) {
        rows.push_back(c);
      } else if (Has(a.letters, c) || Has(b.letters, c)) {
        columns.push_back(c);
      }
    }
    Order(a, batch + rows + summed);
    a.id = Make("view", {a.id}, {a.Product(batch), a.Product(rows), a.Product(summed)});
    Order(b, batch + summed + columns);
    b.id = Make("view", {b.id}, {b.Product(batch), b.Product(summed), b.Product(columns)});
    Tensor product = {0, batch + rows + columns, {}};
    for (const char c : product.letters) product.sizes[c] = std::max(a.SizeOf(c), b.SizeOf(c));
    const int32_t matrices =
        Make("bmm", {a.id, b.id}, {a.Product(batch), a.Product(rows), b.Product(columns)});
    product.id = Make("view", {matrices}, product.DimsOf(product.letters));
    return product;
  }

  const Letters result_;
  Letters order_;  // the result's, then those that are summed up, in theirs
  bool fits_ = true;
  std::map<char, int> wide_;  // how many tensors have the letter, of more than one element
  std::vector<Tensor> tensors_;
  std::vector<EinsumStep> steps_;
};

}  // namespace

std::optional<std::vector<EinsumStep>> PlanEinsum(std::string_view equation,
                                                  const std::vector<Dims>& operands) {
  if (operands.empty()) return std::nullopt;
  const std::optional<Equation> parsed = ParseEquation(equation, operands);
  return parsed ? Planner(*parsed, operands).Plan() : std::nullopt;
}

void WriteSteps(const std::vector<EinsumStep>& steps, const std::vector<NameId>& operands,
                const std::vector<Dims>& dims, const EmitStep& emit) {
  std::vector<NameId> given;
  for (size_t i = 0; i < operands.size(); ++i) {
    given.push_back(emit({.op = "einsum_operand", .inputs = {}, .dims = dims[i]}, {operands[i]}));
  }
  std::vector<NameId> made;
  for (const EinsumStep& step : steps) {
    std::vector<NameId> inputs;
    for (const int32_t input : step.inputs) {
      inputs.push_back(input >= 0 ? given[Index(input)] : made[Index(-input - 1)]);
    }
    made.push_back(emit(step, std::move(inputs)));
  }
}

}  // namespace onnxfit
