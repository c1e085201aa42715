#include "estimator/pt2/known_elements.h"

#include <algorithm>
#include <iterator>
#include <string>
#include <utility>

#include "estimator/base/index.h"
#include "estimator/base/strided_loops.h"
#include "estimator/pt2/call_rows.h"

namespace onnxfit::pt2 {

// A call whose elements are asked for.
struct KnownCall {
  int64_t Int(std::string_view name, int64_t absent) const {
    const Argument* argument = FindArgument(call, name);
    return argument == nullptr ? absent : all.number_(*argument);
  }
  // Null where it is left out, or not known.
  std::shared_ptr<const Known> Operand(const Argument* argument) const {
    if (argument == nullptr || argument->kind == Argument::Kind::kReal) return nullptr;
    if (argument->kind == Argument::Kind::kTensor) return all.Find(argument->text, depth);
    return std::make_shared<const Known>(Known{{}, {}, {all.number_(*argument)}});
  }
  std::shared_ptr<const Known> Operand(std::string_view name) const {
    return Operand(FindArgument(call, name));
  }

  KnownElements& all;
  const Call& call;
  const Dims& dims;  // of its result
  int depth = 0;     // of calls that may lead to it
};

namespace {

// What a call makes; null where that is not known.
using Made = std::shared_ptr<const Known>;

Made MadeOf(std::optional<Known> known) {
  return known ? std::make_shared<const Known>(*std::move(known)) : nullptr;
}

constexpr int64_t kMostElements = 1 << 22;
constexpr int kMostCalls = 256;  // that lead from one to another

bool IsTooLarge(const Dims& stored) { return NumelOrHuge(stored) > kMostElements; }

// The elements of `known` over `stored`, to which what it stores broadcasts.
std::vector<int64_t> ElementsOver(const Known& known, const Dims& stored) {
  return Gathered(known.elements, stored, BroadcastStrides(known.stored, stored));
}

template <typename Apply>
std::optional<Known> Elementwise(const Known& a, const Known& b, Apply apply) {
  Known result = {BroadcastDims(a.dims, b.dims), BroadcastDims(a.stored, b.stored), {}};
  const bool fits = BroadcastsTo(a.dims, result.dims) && BroadcastsTo(b.dims, result.dims);
  if (!fits || IsTooLarge(result.stored)) return std::nullopt;
  result.elements =
      Zipped<int64_t>(result.stored, a.elements, BroadcastStrides(a.stored, result.stored),
                      b.elements, BroadcastStrides(b.stored, result.stored), apply);
  return result;
}

// What overflows wraps around, as in PyTorch.
int64_t Sum(int64_t a, int64_t b) {
  return static_cast<int64_t>(static_cast<uint64_t>(a) + static_cast<uint64_t>(b));
}
int64_t Difference(int64_t a, int64_t b) {
  return static_cast<int64_t>(static_cast<uint64_t>(a) - static_cast<uint64_t>(b));
}
int64_t Product(int64_t a, int64_t b) {
  return static_cast<int64_t>(static_cast<uint64_t>(a) * static_cast<uint64_t>(b));
}

// "add" of "torch.ops.aten.add.Tensor".
std::string_view OperatorOf(std::string_view target) {
  if (!target.starts_with(kAtenNamespace)) return "";
  target.remove_prefix(kAtenNamespace.size());
  return target.substr(0, target.find('.'));
}

// As views that put in or take out dimensions of 1 have it, and expansions.
std::optional<Known> Reshaped(const Known& known, const Dims& to) {
  if (known.elements.size() == 1) return Known{to, Dims(to.size(), 1), known.elements};
  std::optional<Dims> stored = ViewedStored(known.dims, known.stored, to);
  if (!stored) return std::nullopt;
  return Known{to, *std::move(stored), known.elements};
}

// Dimensions of 1 are repeated, and there may be more of them in front.
std::optional<Known> Expanded(const Known& known, const Dims& to) {
  const std::optional<Dims> stored = ExpandedStored(known.dims, known.stored, to);
  if (!stored) return std::nullopt;
  return Known{to, *stored, ElementsOver(known, *stored)};
}

// A part of one dimension.
std::optional<Known> Narrowed(const Known& known, int64_t axis, int64_t first, const Dims& to) {
  if (axis < 0 || axis >= std::ssize(known.dims)) return std::nullopt;
  Dims whole = to;
  if (whole.size() == known.dims.size()) whole[Index(axis)] = known.dims[Index(axis)];
  if (whole != known.dims || first < 0 || first > known.dims[Index(axis)] - to[Index(axis)]) {
    return std::nullopt;
  }
  if (known.stored[Index(axis)] == 1) return Known{to, known.stored, known.elements};
  Known result = {to, known.stored, {}};
  result.stored[Index(axis)] = to[Index(axis)];
  const Strides strides = RowMajor(known.stored);
  result.elements = Gathered(known.elements, result.stored, strides, first * strides[Index(axis)]);
  return result;
}

// What is at one place of a dimension, which goes.
std::optional<Known> Selected(const Known& known, int64_t axis, int64_t place, const Dims& to) {
  if (axis < 0 || axis >= std::ssize(known.dims)) return std::nullopt;
  Dims one = known.dims;
  one[Index(axis)] = 1;
  const std::optional<Known> part = Narrowed(known, axis, place, one);
  return part ? Reshaped(*part, to) : std::nullopt;
}

// Every element of the last dimension written out.
std::optional<Known> FullAlongLast(const Known& known) {
  if (known.dims.empty()) return std::nullopt;
  Known full = {known.dims, known.stored, {}};
  full.stored.back() = full.dims.back();
  if (IsTooLarge(full.stored)) return std::nullopt;
  full.elements = ElementsOver(known, full.stored);
  return full;
}

std::optional<Known> SumsAlongLast(const Known& known) {
  std::optional<Known> sums = FullAlongLast(known);
  for (size_t i = 1; sums && i < sums->elements.size(); ++i) {
    const bool is_first = static_cast<int64_t>(i) % sums->dims.back() == 0;
    if (!is_first) sums->elements[i] = Sum(sums->elements[i], sums->elements[i - 1]);
  }
  return sums;
}

// What each element changes by from the one before, of the first in a row from `before`, where
// that is given: [..., 1].
std::optional<Known> ChangesAlongLast(const Known& known, const Known* before) {
  const std::optional<Known> full = FullAlongLast(known);
  if (!full || (!before && full->dims.back() < 1)) return std::nullopt;
  std::vector<int64_t> first;
  if (before) {
    Dims column = full->stored;
    column.back() = 1;
    if (before->dims.size() != full->dims.size() || before->dims.back() != 1 ||
        !BroadcastsTo(before->stored, column))
      return std::nullopt;
    first = ElementsOver(*before, column);
  }
  Known changes = {full->dims, full->stored, {}};
  if (!before) changes.dims.back() = --changes.stored.back();
  const auto width = Index(full->dims.back());
  const std::vector<int64_t>& elements = full->elements;
  for (size_t i = 0; i < elements.size(); ++i) {
    const bool is_first = i % width == 0;
    if (is_first && !before) continue;
    const int64_t previous = is_first ? first[i / width] : elements[i - 1];
    changes.elements.push_back(Difference(elements[i], previous));
  }
  return changes;
}

// table[i, j, …]: an index along a dimension whose elements repeat does not matter.
std::optional<Known> Indexed(const Known& table,
                             const std::vector<std::shared_ptr<const Known>>& indices,
                             const Dims& dims) {
  if (indices.size() != table.dims.size()) return std::nullopt;
  Dims stored;
  for (size_t axis = 0; axis < indices.size(); ++axis) {
    if (table.stored[axis] != 1) stored = BroadcastDims(stored, indices[axis]->stored);
  }
  stored.insert(stored.begin(), dims.size() - std::min(dims.size(), stored.size()), 1);
  if (!BroadcastsTo(stored, dims) || IsTooLarge(stored)) return std::nullopt;
  std::vector<int64_t> places(Index(Numel(stored)), 0);
  const Strides strides = RowMajor(table.stored);
  for (size_t axis = 0; axis < indices.size(); ++axis) {
    if (table.stored[axis] == 1) continue;
    if (!BroadcastsTo(indices[axis]->stored, stored)) return std::nullopt;
    const std::vector<int64_t> along = ElementsOver(*indices[axis], stored);
    for (size_t i = 0; i < places.size(); ++i) {
      const int64_t place = along[i] < 0 ? along[i] + table.dims[axis] : along[i];
      if (place < 0 || place >= table.dims[axis]) return std::nullopt;
      places[i] += place * strides[axis];
    }
  }
  Known result = {dims, std::move(stored), {}};
  for (const int64_t place : places) result.elements.push_back(table.elements[Index(place)]);
  return result;
}

// --- One operator each -------------------------------------------------------------------------

template <int64_t kValue>
Made MakeFilled(const KnownCall& call) {
  return MadeOf(Known{call.dims, Dims(call.dims.size(), 1), {kValue}});
}

Made MakeRange(const KnownCall& call) {
  if (call.dims.size() != 1 || IsTooLarge(call.dims)) return nullptr;
  Known range = {call.dims, call.dims, {}};
  const int64_t step = call.Int("step", 1);
  int64_t next = call.Int("start", 0);
  for (int64_t i = 0; i < call.dims[0]; ++i, next = Sum(next, step)) {
    range.elements.push_back(next);
  }
  return MadeOf(std::move(range));
}

using Binary = int64_t (*)(int64_t, int64_t);

int64_t Equal(int64_t a, int64_t b) { return a == b ? 1 : 0; }
int64_t Unequal(int64_t a, int64_t b) { return a != b ? 1 : 0; }
int64_t Less(int64_t a, int64_t b) { return a < b ? 1 : 0; }
int64_t LessOrEqual(int64_t a, int64_t b) { return a <= b ? 1 : 0; }
int64_t Greater(int64_t a, int64_t b) { return a > b ? 1 : 0; }
int64_t GreaterOrEqual(int64_t a, int64_t b) { return a >= b ? 1 : 0; }
int64_t BitsOfBoth(int64_t a, int64_t b) { return a & b; }
int64_t BitsOfEither(int64_t a, int64_t b) { return a | b; }
int64_t Both(int64_t a, int64_t b) { return a != 0 && b != 0 ? 1 : 0; }
int64_t Either(int64_t a, int64_t b) { return a != 0 || b != 0 ? 1 : 0; }
int64_t Lower(int64_t a, int64_t b) { return std::min(a, b); }
int64_t Higher(int64_t a, int64_t b) { return std::max(a, b); }
// Rounded down; by 0, which PyTorch refuses, 0.
int64_t Quotient(int64_t a, int64_t b) {
  if (b == 0 || b == -1) return b == 0 ? 0 : Difference(0, a);
  return a / b - (a % b != 0 && (a < 0) != (b < 0) ? 1 : 0);
}

template <Binary kApply>
Made MakeBinary(const KnownCall& call) {
  const Made self = call.Operand("self");
  const Made other = self == nullptr ? nullptr : call.Operand("other");
  return other == nullptr ? nullptr : MadeOf(Elementwise(*self, *other, kApply));
}

Made MakeNot(const KnownCall& call) {
  const Made self = call.Operand("self");
  return self == nullptr ? nullptr : MadeOf(Elementwise(*self, Known{{}, {}, {0}}, Equal));
}

Made MakeAbsolute(const KnownCall& call) {
  const Made self = call.Operand("self");
  if (self == nullptr) return nullptr;
  const std::optional<Known> negative = Elementwise(Known{{}, {}, {0}}, *self, Difference);
  return negative ? MadeOf(Elementwise(*self, *negative, Higher)) : nullptr;
}

// The highest of parts of what is the same everywhere.
Made MakePooled(const KnownCall& call) {
  const Made self = call.Operand("self");
  if (self == nullptr || self->elements.size() != 1) return nullptr;
  return MadeOf(Reshaped(*self, call.dims));
}

Made ReturnSelf(const KnownCall& call) { return call.Operand("self"); }

// What follows from its operand and its own dimensions.
template <std::optional<Known> (*kChange)(const Known&, const Dims&)>
Made MakeView(const KnownCall& call) {
  const Made self = call.Operand("self");
  return self == nullptr ? nullptr : MadeOf(kChange(*self, call.dims));
}

// Its nearest elements, where all are the same.
Made MakeResized(const KnownCall& call) {
  const Made self = call.Operand("input");
  if (self == nullptr || self->elements.size() != 1) return nullptr;
  return MadeOf(Reshaped(*self, call.dims));
}

Made MakeSlice(const KnownCall& call) {
  const Made self = call.Operand("self");
  if (self == nullptr || call.Int("step", 1) != 1) return nullptr;
  const int64_t axis = call.Int("dim", 0);
  return MadeOf(Narrowed(*self, axis < 0 ? axis + std::ssize(self->dims) : axis,
                         call.Int("start", 0), call.dims));
}

Made MakeSelected(const KnownCall& call) {
  const Made self = call.Operand("self");
  if (self == nullptr) return nullptr;
  const int64_t dim = call.Int("dim", 0);
  const int64_t axis = dim < 0 ? dim + std::ssize(self->dims) : dim;
  const int64_t index = call.Int("index", 0);
  const bool is_from_end = index < 0 && axis >= 0 && axis < std::ssize(self->dims);
  const int64_t place = is_from_end ? index + self->dims[Index(axis)] : index;
  return MadeOf(Selected(*self, axis, place, call.dims));
}

bool IsAlongLast(const KnownCall& call, const Known& self, int64_t absent) {
  const int64_t axis = call.Int("dim", absent);
  return axis == -1 || axis == std::ssize(self.dims) - 1;
}

Made MakeSums(const KnownCall& call) {
  const Made self = call.Operand("self");
  return self == nullptr || !IsAlongLast(call, *self, 0) ? nullptr : MadeOf(SumsAlongLast(*self));
}

Made MakeDiff(const KnownCall& call) {
  const Made self = call.Operand("self");
  const bool is_simple = call.Int("n", 1) == 1 && FindArgument(call.call, "append") == nullptr;
  if (self == nullptr || !is_simple || !IsAlongLast(call, *self, -1)) return nullptr;
  const Made before = call.Operand("prepend");
  const bool is_given = FindArgument(call.call, "prepend") != nullptr;
  if (is_given && before == nullptr) return nullptr;
  return MadeOf(ChangesAlongLast(*self, before.get()));
}

Made MakeIndexed(const KnownCall& call) {
  const Made self = call.Operand("self");
  const Argument* listed = FindArgument(call.call, "indices");
  if (self == nullptr || listed == nullptr) return nullptr;
  std::vector<Made> indices;
  for (const Argument& item : listed->items) {
    indices.push_back(call.Operand(&item));
    if (indices.back() == nullptr) return nullptr;
  }
  return MadeOf(Indexed(*self, indices, call.dims));
}

struct KnownRow {
  std::string_view op;  // of all overloads
  Made (*make)(const KnownCall&);
};

constexpr KnownRow kKnownRows[] = {
    {"arange", MakeRange},
    {"ones", MakeFilled<1>},
    {"new_ones", MakeFilled<1>},
    {"ones_like", MakeFilled<1>},
    {"zeros", MakeFilled<0>},
    {"new_zeros", MakeFilled<0>},
    {"zeros_like", MakeFilled<0>},

    {"add", MakeBinary<Sum>},
    {"sub", MakeBinary<Difference>},
    {"mul", MakeBinary<Product>},
    {"minimum", MakeBinary<Lower>},
    {"maximum", MakeBinary<Higher>},
    {"floor_divide", MakeBinary<Quotient>},
    {"eq", MakeBinary<Equal>},
    {"ne", MakeBinary<Unequal>},
    {"lt", MakeBinary<Less>},
    {"le", MakeBinary<LessOrEqual>},
    {"gt", MakeBinary<Greater>},
    {"ge", MakeBinary<GreaterOrEqual>},
    {"__and__", MakeBinary<BitsOfBoth>},
    {"__or__", MakeBinary<BitsOfEither>},
    {"bitwise_and", MakeBinary<BitsOfBoth>},
    {"bitwise_or", MakeBinary<BitsOfEither>},
    {"logical_and", MakeBinary<Both>},
    {"logical_or", MakeBinary<Either>},
    {"logical_not", MakeNot},
    {"bitwise_not", MakeNot},
    {"abs", MakeAbsolute},
    {"cumsum", MakeSums},
    {"diff", MakeDiff},
    {"max_pool1d", MakePooled},

    {"to", ReturnSelf},
    {"clone", ReturnSelf},
    {"contiguous", ReturnSelf},
    {"alias", ReturnSelf},
    {"unsqueeze", MakeView<Reshaped>},
    {"squeeze", MakeView<Reshaped>},
    {"view", MakeView<Reshaped>},
    {"reshape", MakeView<Reshaped>},
    {"flatten", MakeView<Reshaped>},
    {"expand", MakeView<Expanded>},
    {"repeat", MakeView<Expanded>},  // of dimensions of 1
    {"slice", MakeSlice},
    {"select", MakeSelected},
    {"index", MakeIndexed},
    {"upsample_nearest2d", MakeResized},
};

}  // namespace

KnownElements::KnownElements(const Graph& graph, std::function<int64_t(const Argument&)> number,
                             std::function<std::optional<Dims>(std::string_view)> dims)
    : number_(std::move(number)), dims_(std::move(dims)) {
  for (const Call& call : graph.calls) {
    const bool is_one = call.results.size() == 1 && call.results[0].kind == Argument::Kind::kTensor;
    if (is_one) makers_.emplace(call.results[0].text, &call);
  }
}

const Known* KnownElements::Find(std::string_view tensor) { return Find(tensor, kMostCalls).get(); }

KnownElements::KnownPtr KnownElements::Find(std::string_view tensor, int depth) {
  const auto found = known_.find(tensor);
  if (found != known_.end()) return found->second;
  const auto maker = makers_.find(tensor);
  const bool is_made = maker != makers_.end() && depth > 0;
  return known_[tensor] = is_made ? Evaluate(*maker->second, depth - 1) : nullptr;
}

KnownElements::KnownPtr KnownElements::Evaluate(const Call& call, int depth) {
  const auto* row = std::ranges::find(kKnownRows, OperatorOf(call.target), &KnownRow::op);
  if (row == std::end(kKnownRows)) return nullptr;
  const std::optional<Dims> dims = dims_(call.results[0].text);
  return dims ? row->make({*this, call, *dims, depth}) : nullptr;
}

}  // namespace onnxfit::pt2
