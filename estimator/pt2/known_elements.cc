#include "estimator/pt2/known_elements.h"

#include <algorithm>
#include <string>
#include <utility>

#include "estimator/base/index.h"
#include "estimator/pt2/call_rows.h"

namespace onnxfit::pt2 {
namespace {

using Kind = Argument::Kind;

constexpr int64_t kMostElements = 1 << 22;
constexpr int kMostCalls = 256;  // that lead from one to another

bool HasUpTo(const Dims& dims, int64_t limit) {
  int64_t count = 1;
  for (const int64_t dim : dims) {
    if (dim != 0 && count > limit / dim) return false;
    count *= dim;
  }
  return true;
}

const Argument* FindArgument(const Call& call, std::string_view name) {
  for (const auto& [given, argument] : call.arguments) {
    if (given == name && argument.kind != Kind::kNone) return &argument;
  }
  return nullptr;
}

Known Number(int64_t value) { return {{}, {}, {value}}; }

// Where element `index` of `dims` lies in `known`, whose dimensions are the last of these.
size_t PlaceIn(const Known& known, const std::vector<int64_t>& index) {
  const size_t shift = index.size() - known.stored.size();
  int64_t place = 0;
  for (size_t axis = 0; axis < known.stored.size(); ++axis) {
    const int64_t at = known.stored[axis] == 1 ? 0 : index[axis + shift];
    place = place * known.stored[axis] + at;
  }
  return Index(place);
}

// The next index, the last dimension first; false behind the last one.
bool Advance(std::vector<int64_t>& index, const Dims& dims) {
  for (size_t axis = dims.size(); axis-- > 0;) {
    if (++index[axis] < dims[axis]) return true;
    index[axis] = 0;
  }
  return false;
}

// Calls `visit` with each index of `dims`, in order.
template <typename Visit>
void ForEach(const Dims& dims, Visit visit) {
  if (std::ranges::find(dims, 0) != dims.end()) return;
  std::vector<int64_t> index(dims.size(), 0);
  do {
    visit(index);
  } while (Advance(index, dims));
}

// The last dimensions of both, as operands of one call are joined.
Dims Joined(const Dims& a, const Dims& b) {
  Dims joined(std::max(a.size(), b.size()), 1);
  for (const Dims* dims : {&a, &b}) {
    const size_t shift = joined.size() - dims->size();
    for (size_t axis = 0; axis < dims->size(); ++axis) {
      if ((*dims)[axis] != 1) joined[axis + shift] = (*dims)[axis];
    }
  }
  return joined;
}

template <typename Apply>
std::optional<Known> Elementwise(const Known& a, const Known& b, Apply apply) {
  Known result = {Joined(a.dims, b.dims), Joined(a.stored, b.stored), {}};
  if (!HasUpTo(result.stored, kMostElements)) return std::nullopt;
  ForEach(result.stored, [&](const std::vector<int64_t>& index) {
    result.elements.push_back(apply(a.elements[PlaceIn(a, index)], b.elements[PlaceIn(b, index)]));
  });
  return result;
}

using Binary = int64_t (*)(int64_t, int64_t);

// Wrapping: what overflows in PyTorch wraps around, too.
int64_t Wrapped(uint64_t value) { return static_cast<int64_t>(value); }

struct BinaryRow {
  std::string_view op;  // of all overloads
  Binary apply;
};

constexpr BinaryRow kBinaryRows[] = {
    {"add", [](int64_t a, int64_t b) { return Wrapped(uint64_t(a) + uint64_t(b)); }},
    {"sub", [](int64_t a, int64_t b) { return Wrapped(uint64_t(a) - uint64_t(b)); }},
    {"mul", [](int64_t a, int64_t b) { return Wrapped(uint64_t(a) * uint64_t(b)); }},
    {"eq", [](int64_t a, int64_t b) { return int64_t{a == b}; }},
    {"ne", [](int64_t a, int64_t b) { return int64_t{a != b}; }},
    {"lt", [](int64_t a, int64_t b) { return int64_t{a < b}; }},
    {"le", [](int64_t a, int64_t b) { return int64_t{a <= b}; }},
    {"gt", [](int64_t a, int64_t b) { return int64_t{a > b}; }},
    {"ge", [](int64_t a, int64_t b) { return int64_t{a >= b}; }},
    {"__and__", [](int64_t a, int64_t b) { return a & b; }},
    {"__or__", [](int64_t a, int64_t b) { return a | b; }},
    {"bitwise_and", [](int64_t a, int64_t b) { return a & b; }},
    {"bitwise_or", [](int64_t a, int64_t b) { return a | b; }},
    {"logical_and", [](int64_t a, int64_t b) { return int64_t{a != 0 && b != 0}; }},
    {"logical_or", [](int64_t a, int64_t b) { return int64_t{a != 0 || b != 0}; }},
    {"minimum", [](int64_t a, int64_t b) { return std::min(a, b); }},
    {"maximum", [](int64_t a, int64_t b) { return std::max(a, b); }},
};

// "add" of "torch.ops.aten.add.Tensor".
std::string_view OperatorOf(std::string_view target) {
  if (!target.starts_with(kAtenNamespace)) return "";
  target.remove_prefix(kAtenNamespace.size());
  return target.substr(0, target.find('.'));
}

// As views that put in or take out dimensions of 1 have it, and expansions.
std::optional<Known> Reshaped(const Known& known, const Dims& to) {
  Known result = {to, Dims(to.size(), 1), known.elements};
  size_t from = 0;
  for (size_t axis = 0; axis < to.size(); ++axis) {
    while (from < known.dims.size() && known.dims[from] == 1 && to[axis] != 1) ++from;
    if (to[axis] == 1) continue;
    if (from == known.dims.size() || known.dims[from] != to[axis]) return std::nullopt;
    result.stored[axis] = known.stored[from++];
  }
  while (from < known.dims.size() && known.dims[from] == 1) ++from;
  return from == known.dims.size() ? std::optional(std::move(result)) : std::nullopt;
}

// Dimensions of 1 are repeated, and there may be more of them in front.
std::optional<Known> Expanded(const Known& known, const Dims& to) {
  if (to.size() < known.dims.size()) return std::nullopt;
  Known result = {to, Dims(to.size() - known.dims.size(), 1), known.elements};
  result.stored.insert(result.stored.end(), known.stored.begin(), known.stored.end());
  return result;
}

// A part of one dimension.
std::optional<Known> Narrowed(const Known& known, int64_t axis, int64_t first, const Dims& to) {
  if (axis < 0 || axis >= std::ssize(known.dims) || to.size() != known.dims.size()) {
    return std::nullopt;
  }
  Known result = {to, known.stored, {}};
  if (known.stored[Index(axis)] == 1) return Known{to, known.stored, known.elements};
  if (first < 0 || first + to[Index(axis)] > known.dims[Index(axis)]) return std::nullopt;
  result.stored[Index(axis)] = to[Index(axis)];
  ForEach(result.stored, [&](std::vector<int64_t> index) {
    index[Index(axis)] += first;
    result.elements.push_back(known.elements[PlaceIn(known, index)]);
  });
  return result;
}

// Every element of the last dimension written out.
std::optional<Known> FullAlongLast(const Known& known) {
  if (known.dims.empty()) return std::nullopt;
  Known full = {known.dims, known.stored, {}};
  full.stored.back() = full.dims.back();
  if (!HasUpTo(full.stored, kMostElements)) return std::nullopt;
  ForEach(full.stored, [&](const std::vector<int64_t>& index) {
    full.elements.push_back(known.elements[PlaceIn(known, index)]);
  });
  return full;
}

std::optional<Known> SumsAlongLast(const Known& known) {
  std::optional<Known> sums = FullAlongLast(known);
  for (size_t i = 1; sums && i < sums->elements.size(); ++i) {
    const bool is_first = static_cast<int64_t>(i) % sums->dims.back() == 0;
    if (!is_first) sums->elements[i] += sums->elements[i - 1];
  }
  return sums;
}

// What each element changes by from the one before, of the first in a row from `before`, where
// that is given: [..., 1].
std::optional<Known> ChangesAlongLast(const Known& known, const std::optional<Known>& before) {
  const std::optional<Known> full = FullAlongLast(known);
  if (!full || (before && (before->dims.size() != known.dims.size() || before->dims.back() != 1))) {
    return std::nullopt;
  }
  Known changes = {full->dims, full->stored, {}};
  if (!before) changes.dims.back() = changes.stored.back() = full->dims.back() - 1;
  if (changes.dims.back() < 0) return std::nullopt;
  size_t i = 0;
  ForEach(full->stored, [&](const std::vector<int64_t>& index) {
    const size_t here = i++;
    if (index.back() > 0) {
      changes.elements.push_back(full->elements[here] - full->elements[here - 1]);
    } else if (before) {
      changes.elements.push_back(full->elements[here] - before->elements[PlaceIn(*before, index)]);
    }
  });
  return changes;
}

// table[i, j, …]: an index along a dimension whose elements repeat does not matter.
std::optional<Known> Indexed(const Known& table, const std::vector<Known>& indices,
                             const Dims& dims) {
  if (indices.size() != table.dims.size()) return std::nullopt;
  Known result = {dims, {}, {}};
  for (size_t axis = 0; axis < indices.size(); ++axis) {
    if (table.stored[axis] != 1) result.stored = Joined(result.stored, indices[axis].stored);
  }
  if (result.stored.size() > dims.size()) return std::nullopt;
  result.stored.insert(result.stored.begin(), dims.size() - result.stored.size(), 1);
  if (!HasUpTo(result.stored, kMostElements)) return std::nullopt;
  bool is_inside = true;
  ForEach(result.stored, [&](const std::vector<int64_t>& index) {
    std::vector<int64_t> at;
    for (size_t axis = 0; axis < indices.size(); ++axis) {
      const bool matters = table.stored[axis] != 1;
      int64_t place = matters ? indices[axis].elements[PlaceIn(indices[axis], index)] : 0;
      if (place < 0) place += table.dims[axis];
      is_inside = is_inside && place >= 0 && place < table.dims[axis];
      at.push_back(is_inside ? place : 0);
    }
    result.elements.push_back(table.elements[PlaceIn(table, at)]);
  });
  return is_inside ? std::optional(std::move(result)) : std::nullopt;
}

Known Filled(const Dims& dims, int64_t value) { return {dims, Dims(dims.size(), 1), {value}}; }

}  // namespace

KnownElements::KnownElements(const Graph& graph, std::function<int64_t(const Argument&)> number,
                             std::function<std::optional<Dims>(std::string_view)> dims)
    : number_(std::move(number)), dims_(std::move(dims)) {
  for (const Call& call : graph.calls) {
    const bool is_one = call.results.size() == 1 && call.results[0].kind == Kind::kTensor;
    if (is_one) makers_.emplace(call.results[0].text, &call);
  }
}

const Known* KnownElements::Find(std::string_view tensor) { return Find(tensor, kMostCalls); }

const Known* KnownElements::Find(std::string_view tensor, int depth) {
  const auto found = known_.find(tensor);
  if (found != known_.end()) return found->second ? &*found->second : nullptr;
  const auto maker = makers_.find(tensor);
  std::optional<Known> known;
  if (maker != makers_.end() && depth > 0) known = Evaluate(*maker->second, depth - 1);
  const auto& kept = known_[tensor] = std::move(known);
  return kept ? &*kept : nullptr;
}

std::optional<Known> KnownElements::Operand(const Argument* argument, int depth) {
  if (argument == nullptr || argument->kind == Kind::kReal) return std::nullopt;
  if (argument->kind != Kind::kTensor) return Number(number_(*argument));
  const Known* known = Find(argument->text, depth);
  return known == nullptr ? std::nullopt : std::optional(*known);
}

std::optional<Known> KnownElements::Evaluate(const Call& call, int depth) {
  const std::string_view op = OperatorOf(call.target);
  const std::optional<Dims> dims = dims_(call.results[0].text);
  if (!dims) return std::nullopt;
  const auto number = [&](std::string_view name, int64_t absent) {
    const Argument* argument = FindArgument(call, name);
    return argument == nullptr ? absent : number_(*argument);
  };
  if (op == "arange") {
    if (dims->size() != 1 || !HasUpTo(*dims, kMostElements)) return std::nullopt;
    Known range = {*dims, *dims, {}};
    for (int64_t i = 0; i < (*dims)[0]; ++i) {
      range.elements.push_back(number("start", 0) + i * number("step", 1));
    }
    return range;
  }
  if (op == "ones" || op == "new_ones" || op == "ones_like") return Filled(*dims, 1);
  if (op == "zeros" || op == "new_zeros" || op == "zeros_like") return Filled(*dims, 0);
  std::optional<Known> self = Operand(FindArgument(call, "self"), depth);
  if (!self) return std::nullopt;
  for (const BinaryRow& row : kBinaryRows) {
    if (row.op != op) continue;
    const std::optional<Known> other = Operand(FindArgument(call, "other"), depth);
    return other ? Elementwise(*self, *other, row.apply) : std::nullopt;
  }
  if (op == "to" || op == "clone" || op == "contiguous" || op == "alias") return self;
  if (op == "logical_not" || op == "bitwise_not") {
    return Elementwise(*self, Number(0), [](int64_t a, int64_t) { return int64_t{a == 0}; });
  }
  if (op == "unsqueeze" || op == "squeeze" || op == "view" || op == "reshape") {
    return Reshaped(*self, *dims);
  }
  if (op == "expand") return Expanded(*self, *dims);
  const auto rank = std::ssize(self->dims);
  int64_t axis = number("dim", 0);
  if (axis < 0) axis += rank;
  if (op == "slice" && number("step", 1) == 1) {
    return Narrowed(*self, axis, number("start", 0), *dims);
  }
  const int64_t along = number("dim", op == "diff" ? -1 : 0);
  const bool is_last = along == -1 || along == rank - 1;
  if (op == "cumsum" && is_last) return SumsAlongLast(*self);
  if (op == "diff" && is_last && number("n", 1) == 1 && !FindArgument(call, "append")) {
    const Argument* prepended = FindArgument(call, "prepend");
    const std::optional<Known> before = Operand(prepended, depth);
    if (prepended != nullptr && !before) return std::nullopt;
    return ChangesAlongLast(*self, before);
  }
  const Argument* listed = FindArgument(call, "indices");
  if (op != "index" || listed == nullptr) return std::nullopt;
  std::vector<Known> indices;
  for (const Argument& item : listed->items) {
    std::optional<Known> index = Operand(&item, depth);
    if (!index) return std::nullopt;
    indices.push_back(std::move(*index));
  }
  return Indexed(*self, indices, *dims);
}

bool AreAllTrue(const Known& mask) {
  return std::ranges::all_of(mask.elements, [](int64_t element) { return element != 0; });
}

bool IsCausal(const Known& mask) {
  const size_t rank = mask.stored.size();
  if (rank < 2 || mask.stored[rank - 1] != mask.stored[rank - 2] || mask.stored[rank - 1] < 2) {
    return false;
  }
  for (size_t axis = 0; axis + 2 < rank; ++axis) {
    if (mask.stored[axis] != 1) return false;
  }
  const int64_t size = mask.stored[rank - 1];
  for (int64_t row = 0; row < size; ++row) {
    for (int64_t column = 0; column < size; ++column) {
      const bool is_shown = mask.elements[Index(row * size + column)] != 0;
      if (is_shown != (column <= row)) return false;
    }
  }
  return true;
}

}  // namespace onnxfit::pt2
