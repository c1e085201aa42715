#include "estimator/pt2/cast_ways.h"

#include <algorithm>
#include <set>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "estimator/libraries/libraries.h"
#include "estimator/program/source_statement.h"
#include "estimator/pt2/call_rows.h"

namespace onnxfit::pt2 {
namespace {

constexpr std::string_view kCasts[] = {"torch.ops.aten.to.dtype", "torch.ops.aten._to_copy.default",
                                       "torch.ops.aten.to.dtype_layout"};
constexpr std::string_view kAten = "torch.ops.aten.";
constexpr std::string_view kTypeAs = "torch.ops.aten.type_as.default";
constexpr std::string_view kSoftmax = "torch.ops.aten.softmax.int";

// Whose operands have to be of one type.
constexpr std::string_view kProducts[] = {
    "torch.ops.aten.linear.default",      "torch.ops.aten.matmul.default",
    "torch.ops.aten.mm.default",          "torch.ops.aten.bmm.default",
    "torch.ops.aten.conv1d.default",      "torch.ops.aten.conv2d.default",
    "torch.ops.aten.conv3d.default",      "torch.ops.aten.einsum.default",
    "torch.ops.aten._grouped_mm.default", "torch.ops.transformers.grouped_mm_fallback.default"};

// Whose input has to have the type of its weights, on a card.
constexpr std::string_view kNorms[] = {"torch.ops.aten.layer_norm.default",
                                       "torch.ops.aten.group_norm.default"};

// Whose result is in 32 bits where one operand is.
constexpr std::string_view kPromoting[] = {"torch.ops.aten.add.Tensor", "torch.ops.aten.sub.Tensor",
                                           "torch.ops.aten.mul.Tensor", "torch.ops.aten.div.Tensor",
                                           "torch.ops.aten.cat.default"};

constexpr std::string_view kViews[] = {
    "torch.ops.aten.transpose.int",     "torch.ops.aten.permute.default",
    "torch.ops.aten.view.default",      "torch.ops.aten.reshape.default",
    "torch.ops.aten.unsqueeze.default", "torch.ops.aten.t.default"};

bool IsAmong(std::string_view target, auto&& targets) {
  return std::ranges::find(targets, target) != std::end(targets);
}

// "slice" of "torch.ops.aten.slice.Tensor".
std::string_view NameOf(const Call& call) {
  std::string_view name = call.target;
  name.remove_prefix(std::min(kAten.size(), name.size()));
  return name.substr(0, name.find('.'));
}

bool IsView(const Call& call) { return IsAmong(call.target, kViews); }

// A view, or a check, which makes nothing.
bool MakesNoTensor(const Call& call) { return IsView(call) || call.results.empty(); }

bool IsAround(const CastRow& row, const Call& call) {
  return std::ranges::any_of(call.lines, [&](const SourceLine& line) {
    return line.file.find(row.file) != line.file.npos && line.text.find(row.line) != line.text.npos;
  });
}

// Whether a row says that of the call: of its result, that it goes back to the type that was read.
bool IsInRows(const Call& call, bool is_result) {
  return std::ranges::any_of(CastRows(), [&](const CastRow& row) {
    const bool is_back = row.of == CastRow::Of::kResult && row.to == CastRow::To::kRead;
    const bool is_asked = is_result ? is_back : row.of != CastRow::Of::kResult;
    return is_asked && NameOf(call) == row.op && IsAround(row, call);
  });
}

// Whether `call` runs in the module of `cast`, or in one that the line of `cast` calls.
bool IsInsideLine(const Call& call, const Call& cast) {
  const size_t depth = cast.modules.size();
  if (cast.lines.size() != depth || depth == 0 || call.modules.size() < depth) return false;
  return call.lines.size() >= depth && call.modules[depth - 1].path == cast.modules.back().path &&
         call.lines[depth - 1].line == cast.lines.back().line;
}

class CastWayFinder {
 public:
  explicit CastWayFinder(const Graph& graph) : graph_(graph) {
    for (const Call& call : graph.calls) Add(call);
  }

  std::map<const Call*, CastWay> Find() {
    for (const Call* cast : casts_) {
      if (HidesTypes(*cast)) helpers_[lines_[cast]].push_back(cast);
      if (IsLocal(*cast) && SpellsCastBack(*cast)) ways_[cast] = CastWay::kBack;
      if (EndsStatement(*cast)) NoteSoftmax(*cast);
    }
    for (const auto& [line, casts] : helpers_) ReadHelper(casts);
    for (const Call* cast : casts_) {
      if (HidesTypes(*cast) && cast->method == kToFloat) ways_.try_emplace(cast, ToFloat(*cast));
    }
    for (const Call* cast : casts_) ReadRows(*cast);
    for (const Call& call : graph_.calls) {
      if (IsProduct(call) || IsAmong(call.target, kNorms)) KeepTypesEqual(call);
    }
    return std::move(ways_);
  }

 private:
  struct Turn {
    std::string_view file = {};
    int64_t line = 0;
    int64_t number = 0;
  };

  // A line of a forward, the module's path before it, and which time in a row it runs.
  using Line = std::tuple<std::string_view, std::string_view, int64_t, int64_t>;

  // A module that a line makes and calls, and that is none of the model's, is part of the line.
  void Add(const Call& call) {
    if (call.lines.empty()) return;
    const std::string_view module = call.modules.empty() ? "" : call.modules.back().path;
    Turn& last = last_[module];
    const bool goes_on = std::ranges::any_of(call.lines, [&](const SourceLine& line) {
      return line.file == last.file && line.line == last.line;
    });
    if (!goes_on) last = {call.lines.back().file, call.lines.back().line, last.number + 1};
    lines_[&call] = {module, last.file, last.line, last.number};
    nth_[&call] = counts_[{lines_[&call], NameOf(call)}]++;
    std::set<std::string_view> made;
    for (const Argument& result : call.results) AddNames(result, made);
    for (const std::string_view tensor : made) makers_[tensor] = &call;
    const std::vector<std::string_view> operands = OperandsOf(call);
    for (size_t i = 0; i < operands.size(); ++i) first_readers_.try_emplace(operands[i], &call, i);
    const bool is_cast = IsAmong(call.target, kCasts) || call.target == kTypeAs;
    const bool has_both = !call.arguments.empty() && !call.results.empty();
    if (is_cast && has_both && IsFloat32(call.arguments[0].second.text) &&
        IsFloat32(call.results[0].text)) {
      casts_.push_back(&call);
    }
  }

  // ").type_as(weights)" of a statement that began in a line above.
  static bool EndsStatement(const Call& cast) {
    return !cast.lines.empty() && cast.lines.back().text.starts_with(")");
  }

  // What is cast behind a softmax with a type of its own was in another.
  void NoteSoftmax(const Call& cast) {
    const Call* maker = MakerOf(cast.arguments[0].second.text);
    if (maker != nullptr && maker->target == kSoftmax) ways_[maker] = CastWay::kToFloat32;
  }

  void ReadHelper(const std::vector<const Call*>& casts) {
    const Call* before = nullptr;  // which changes the type
    for (const Call* cast : casts) {
      if (IsLocal(*cast)) NoteSoftmax(*cast);
      if (cast == casts.back() || cast->target == kTypeAs) continue;
      if (CastsAgain(*cast)) {
        ways_[cast] = CastWay::kAgainOfArgument;
        continue;
      }
      const bool is_next = before != nullptr && std::all_of(before + 1, cast, MakesNoTensor) &&
                           cast->arguments[0].second.text != before->results[0].text;
      if (IsLocal(*cast)) {
        ways_[cast] = is_next ? CastWay::kSameOfLocal : CastWay::kOtherOfLocal;
      } else {
        ways_[cast] = is_next             ? CastWay::kSameOfArgument
                      : IsForPower(*cast) ? CastWay::kForPower
                                          : CastWay::kOtherOfArgument;
      }
      before = cast;
    }
  }

  // A cast that does nothing returns what it was given, so that in the export what is cast once
  // more has the first cast's name.
  bool CastsAgain(const Call& cast) const {
    const Call* maker = MakerOf(cast.arguments[0].second.text);
    const auto way = ways_.find(maker);
    const bool is_first = way != ways_.end() && way->second == CastWay::kOtherOfArgument;
    return is_first && IsLocal(cast) && IsAmong(maker->target, kCasts);
  }

  // --- What libraries are known for ---

  void ReadRows(const Call& cast) {
    const Call* maker = MakerOf(cast.arguments[0].second.text);
    for (const CastRow& row : CastRows()) {
      if (!IsAround(row, cast)) continue;
      const bool is_result = row.of == CastRow::Of::kResult;
      const bool is_behind = is_result && maker != nullptr && IsOf(row, *maker);
      if (is_behind || (!is_result && IsBefore(row, cast))) ways_[&cast] = WayOf(row, cast);
    }
  }

  CastWay WayOf(const CastRow& row, const Call& cast) const {
    if (row.to != CastRow::To::kFloat) return CastWay::kBack;
    return ToFloat(cast);
  }

  CastWay ToFloat(const Call& cast) const {
    return IsLocal(cast) ? CastWay::kFloatOfLocal : CastWay::kFloatOfArgument;
  }

  bool IsOf(const CastRow& row, const Call& call) const {
    const auto nth = nth_.find(&call);
    const bool is_nth = row.nth < 0 || (nth != nth_.end() && nth->second == row.nth);
    return is_nth && NameOf(call) == row.op;
  }

  // Whether the first call that reads the cast is the row's, and reads it as the row has it.
  bool IsBefore(const CastRow& row, const Call& cast) const {
    const auto found = first_readers_.find(cast.results[0].text);
    if (found == first_readers_.end() || !IsOf(row, *found->second.first)) return false;
    return row.of == CastRow::Of::kFirst && found->second.second == 0;
  }

  // Of a helper, whose next line may go on with what it was given, and keep both: T5's norm.
  bool IsForPower(const Call& cast) const {
    const auto found = first_readers_.find(cast.results[0].text);
    return found != first_readers_.end() && IsPower(*found->second.first);
  }

  // What is multiplied with something that has the run's type has it, too.
  void KeepTypesEqual(const Call& product) {
    std::set<std::string_view> operands;
    for (const auto& [name, argument] : product.arguments) AddNames(argument, operands);
    std::vector<const Call*> casts;
    bool are_all = true;
    for (const std::string_view tensor : operands) {
      if (!IsFloat32(tensor) || changed_.contains(tensor)) continue;
      const size_t before = casts.size();
      AddChangingMakers(tensor, casts);
      are_all = are_all && casts.size() > before;
    }
    if (are_all) return NoteChanged(product);
    for (const Call* cast : casts) {
      const bool is_operand = operands.contains(cast->results[0].text);
      ways_.erase(cast);
      if (is_operand && IsLocal(*cast)) ways_[cast] = CastWay::kForProduct;
    }
  }

  // A product of what casts have made has their type.
  void NoteChanged(const Call& product) {
    for (const Argument& result : product.results) AddNames(result, changed_);
  }

  // Adds the casts to the other width that make `tensor`, what it is a view of, or a sum of.
  void AddChangingMakers(std::string_view tensor, std::vector<const Call*>& casts) {
    std::vector<std::string_view> left = {tensor};
    std::set<std::string_view> seen;
    const size_t before = casts.size();
    while (!left.empty()) {
      const std::string_view next = left.back();
      left.pop_back();
      if (unchanged_.contains(next) || !seen.insert(next).second) continue;
      const Call* maker = MakerOf(next);
      if (maker == nullptr || maker->arguments.empty()) continue;
      if (ChangesType(*maker)) {
        casts.push_back(maker);
      } else if (IsView(*maker)) {
        left.push_back(maker->arguments[0].second.text);
      } else if (IsAmong(maker->target, kPromoting)) {
        for (const std::string_view operand : OperandsOf(*maker)) left.push_back(operand);
      }
    }
    if (casts.size() == before) unchanged_.merge(seen);
  }

  // Whether it is a cast to the other width.
  bool ChangesType(const Call& call) const {
    const auto way = ways_.find(&call);
    return way != ways_.end() && way->second != CastWay::kBack &&
           way->second != CastWay::kForProduct && IsAmong(call.target, kCasts);
  }

  // Whether it casts what its own line has made.
  bool IsLocal(const Call& cast) const {
    const Call* maker = MakerOf(cast.arguments[0].second.text);
    return maker != nullptr && lines_.contains(maker) && lines_.at(maker) == lines_.at(&cast);
  }

  bool IsFloat32(std::string_view tensor) const {
    const auto found = graph_.tensors.find(tensor);
    return found != graph_.tensors.end() && found->second.dtype == DType::kFloat32;
  }

  const Call* MakerOf(std::string_view tensor) const {
    const auto maker = makers_.find(tensor);
    return maker == makers_.end() ? nullptr : maker->second;
  }

  const Graph& graph_;
  std::map<std::string_view, Turn> last_;  // by module
  std::map<const Call*, Line> lines_;
  std::map<std::pair<Line, std::string_view>, int> counts_;  // by operator
  std::map<const Call*, int> nth_;                           // of its operator's on its line
  std::map<std::string_view, const Call*> makers_;           // by result
  // By operand, with its place among the call's tensors.
  std::map<std::string_view, std::pair<const Call*, size_t>> first_readers_;
  std::vector<const Call*> casts_;  // of 32 bits to 32 bits
  std::map<Line, std::vector<const Call*>> helpers_;
  std::map<const Call*, CastWay> ways_;
  std::set<std::string_view> changed_;    // by products
  std::set<std::string_view> unchanged_;  // which no cast to the other width is a part of
};

}  // namespace

const Call* FirstOfCastLine(const std::vector<Call>& calls, const Call& cast) {
  const bool is_own = &cast >= calls.data() && &cast < calls.data() + calls.size();
  if (!is_own || cast.arguments.empty()) return nullptr;
  const Call* first = nullptr;
  bool goes_back = false;
  for (const Call* call = &cast; call != calls.data() && IsInsideLine(*(call - 1), cast);) {
    --call;
    if (call->arguments.empty() || call->results.empty()) continue;
    if (call->results[0].text == cast.arguments[0].second.text) goes_back = IsInRows(*call, true);
    if (IsInRows(*call, false)) first = call;
  }
  return goes_back ? first : nullptr;
}

bool SpellsCastBack(const Call& call) {
  if (call.lines.empty()) return false;
  const std::string line = WithFloat32(call.lines.back().text);
  const size_t up = std::max(line.rfind("float32") + 1, line.rfind(".float(") + 1);
  if (up == 0) return false;
  return line.find(".to(", up) != line.npos || line.find("type_as(", up) != line.npos;
}

bool IsProduct(const Call& call) { return IsAmong(call.target, kProducts); }

bool IsPower(const Call& call) { return NameOf(call) == "pow"; }

std::map<const Call*, CastWay> FindCastWays(const Graph& graph) {
  return CastWayFinder(graph).Find();
}

}  // namespace onnxfit::pt2
