// Casts that an fp32 export has left out.
#include <algorithm>
#include <iterator>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "estimator/base/index.h"
#include "estimator/base/text.h"
#include "estimator/exporters/bound_graph.h"
#include "estimator/libraries/libraries.h"
#include "estimator/lost/lost_calls.h"
#include "estimator/program/modules.h"
#include "estimator/program/source_statement.h"

namespace onnxfit {
namespace {

// weight * (x * rsqrt(mean(x ** 2) + ε)), by its nodes.
struct Norm {
  NodeId pow = kNoNode;
  NodeId product = kNoNode;
  NodeId scaled = kNoNode;  // the product with the weight; kNoNode: there is none
};

// The one node that reads `value`; kNoNode where there are more.
NodeId OnlyReader(const BoundGraph& bound, ValueId value) {
  const std::span<const NodeId> readers = bound.ReadersOf(value);
  return readers.size() == 1 ? readers[0] : kNoNode;
}

NodeId Next(const BoundGraph& bound, NodeId node, std::string_view op_type) {
  if (node == kNoNode) return kNoNode;
  const NodeId reader = OnlyReader(bound, bound.At(node).outputs[0]);
  return reader != kNoNode && bound.At(reader).op_type == op_type ? reader : kNoNode;
}

std::optional<Norm> FindNorm(const BoundGraph& bound, NodeId pow) {
  if (bound.NumberOf(bound.At(pow).inputs[1]) != 2) return std::nullopt;
  const NodeId add = Next(bound, Next(bound, pow, "ReduceMean"), "Add");
  const NodeId sqrt = Next(bound, add, "Sqrt");
  const NodeId inverse = Next(bound, sqrt, "Reciprocal");
  const NodeId product = Next(bound, inverse, "Mul");
  if (product == kNoNode) return std::nullopt;
  const NodeId scaled = Next(bound, product, "Mul");
  const std::vector<ValueId>& factors = bound.At(product).inputs;
  const ValueId x = bound.At(pow).inputs[0];
  const bool is_norm = std::find(factors.begin(), factors.end(), x) != factors.end();
  return is_norm ? std::optional(Norm{pow, product, scaled}) : std::nullopt;
}

bool Has(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

// "(self.weight * x).to(dtype)", not "self.weight * x.to(dtype)".
bool CastsProduct(std::string_view line) {
  const size_t cast = line.find(").to(");
  if (cast == std::string_view::npos) return false;
  const size_t open = line.substr(0, cast).rfind('(');
  return open != std::string_view::npos && Has(line.substr(open, cast - open), "*");
}

// What a line passes to softmax, and what it does with the result.
struct SoftmaxLine {
  std::string_view arguments;
  std::string_view behind;
};

SoftmaxLine ReadSoftmax(std::string_view line) {
  constexpr std::string_view kCall = "softmax(";
  const size_t call = line.find(kCall);
  if (call == std::string_view::npos) return {};
  line.remove_prefix(call + kCall.size());
  size_t open = 1;
  for (size_t i = 0; i < line.size(); ++i) {
    if (line[i] == '(') ++open;
    if (line[i] == ')' && --open == 0) return {line.substr(0, i), line.substr(i + 1)};
  }
  return {};
}

// Lines of the node's own forward, of helpers too.
std::string_view LinesOf(const BoundGraph& bound, NodeId node) {
  return bound.metadata().LinesOf(node).text;
}

std::string_view LineOf(const BoundGraph& bound, NodeId node) {
  return bound.metadata().LinesOf(node).innermost;
}

class LostCastFinder {
 public:
  LostCastFinder(const BoundGraph& bound, std::vector<LostCall>& calls)
      : bound_(bound), calls_(calls) {}

  void AddSoftmax(NodeId softmax) {
    const ValueId x = bound_.At(softmax).inputs[0];
    const int casts_behind = CastsBehind(softmax);
    const ValueId values = casts_behind == 1 ? ValuesOf(softmax, kNoValue) : kNoValue;
    if (values != kNoValue) return AddBackInLine(softmax, values);
    if (RunsInFloat(softmax) || IsToldFloat(softmax) || casts_behind == 2) {
      AddInLine(softmax, x, ResultOf(softmax));
      return AddBackInLine(softmax, ValuesOf(softmax, x));
    }
    const std::string line = WithFloat32(LineOf(bound_, softmax));
    const auto [arguments, behind] = ReadSoftmax(line);
    const bool casts = Has(arguments, ".float()") || Has(arguments, "dtype=torch.float32");
    const bool returns_cast = behind.starts_with(".to(") || behind.starts_with(".type_as(");
    if (!casts || !returns_cast || Has(behind, "float32")) return;
    AddInLine(softmax, x, ResultOf(softmax));
    AddBackInLine(softmax, NamesOther(arguments, behind) ? ValuesOf(softmax, x) : x);
  }

  // "x + table.type_as(x)" of a table that is no tensor of the module's: a copy in fp32 remains.
  void AddTable(NodeId node) {
    if (!Has(LineOf(bound_, node), ".type_as(")) return;
    const std::vector<ValueId>& terms = bound_.At(node).inputs;
    for (size_t i = 0; i < terms.size(); ++i) {
      const Value& term = bound_.graph().values[Index(terms[i])];
      if (!term.name.starts_with("_to_copy") || terms.size() != 2) continue;
      calls_.push_back({.before = node,
                        .input = terms[i],
                        .name = NameOf(terms[i], ".cast"),
                        .op = "type_as.inline",
                        .like = terms[1 - i]});
    }
  }

  // "return cos.to(dtype=x.dtype), sin.to(dtype=x.dtype)" of a rotary embedding, which autocast
  // does not reach: x is what the layers are about to read.
  void AddRotary(NodeId wave) {
    const std::string& path = bound_.metadata().PathOf(wave);
    if (!IsRotaryEmbedding(ChildOf(path))) return;
    const std::vector<std::string>& classes = bound_.metadata().ClassesOf(wave);
    if (std::ranges::any_of(classes, KeepsRotaryInFloat)) return AddFrequencies(wave);
    NodeId maker = wave;
    if (const NodeId scaled = Next(bound_, wave, "Mul");
        scaled != kNoNode && bound_.metadata().PathOf(scaled) == path)
      maker = scaled;
    const ValueId states = GivenToNextModule(maker);
    if (states != kNoValue) AddBackInLine(maker, states);
  }

  // "inv_freq.float() @ position_ids.float()", of which the cosine, and then the sine, is made.
  void AddFrequencies(NodeId wave) {
    NodeId node = wave;
    while (node != kNoNode && bound_.At(node).op_type != "MatMul") {
      const std::vector<ValueId>& read = bound_.At(node).inputs;
      node = read.empty() ? kNoNode : bound_.graph().values[Index(read[0])].producer;
    }
    if (node == kNoNode || bound_.At(wave).op_type != "Cos") return;
    for (const ValueId factor : bound_.At(node).inputs) AddInLine(node, factor, factor);
  }

  // "return self._norm(x.float()).type_as(x)", a norm without a weight.
  bool AddWithinLine(const Norm& norm) {
    const std::string_view line = LineOf(bound_, norm.pow);
    const bool casts = Has(line, ".float()).type_as(") || Has(line, ".float()).to(");
    if (!casts || LineOf(bound_, norm.product) != line) return false;
    const ValueId x = bound_.At(norm.pow).inputs[0];
    for (const NodeId reader : {norm.pow, norm.product}) AddInLine(reader, x, ResultOf(norm.pow));
    AddBackInLine(norm.product, x);
    return true;
  }

  void Add(const Norm& norm) {
    if (AddWithinLine(norm) || norm.scaled == kNoNode) return;
    const std::string squaring = WithFloat32(LineOf(bound_, norm.pow));
    const std::string scaling = WithFloat32(LineOf(bound_, norm.scaled));
    const bool is_helped = IsInHelper(norm);
    const bool squares_cast =
        Has(squaring, ".to(torch.float32)") || (is_helped && IsWeightFirst(norm));
    const bool takes_float = Has(LinesOf(bound_, norm.pow), ".float()");
    const bool casts_result = CastsProduct(scaling);
    const bool is_behind = IsNamedForTypeAs(bound_, norm.scaled);
    const bool returns_cast = is_helped || is_behind || Has(scaling, ".to(") ||
                              Has(LinesOf(bound_, norm.pow), "type_as") ||
                              IsNamedForTypeAs(bound_, norm.product);
    if (!squares_cast && !takes_float && !returns_cast) return;
    const ValueId x = bound_.At(norm.pow).inputs[0];
    AddToFloat(norm.pow, x);
    if (!squares_cast) AddToFloat(norm.product, x);
    const bool casts_weight =
        Has(scaling, "self.weight.float()") || Has(scaling, "self.weight.to(torch.float32)");
    if (casts_weight) AddWeightToFloat(norm);
    const ValueId product = ResultOf(norm.product);
    if (squares_cast) {
      AddBack(norm.scaled, product, WeightOf(norm));
    } else if (casts_result) {
      AddBackInLine(norm.scaled, x);
    } else if (returns_cast && !is_behind) {
      AddBack(norm.scaled, product, x);
    } else {
      for (const NodeId reader : bound_.ReadersOf(ResultOf(norm.scaled))) {
        AddBack(reader, ResultOf(norm.scaled), x);
        calls_.back().behind = norm.scaled;
      }
    }
  }

 private:
  // Whether "softmax(scores.float()).to(values.dtype)" casts to the type of another tensor.
  static bool NamesOther(std::string_view arguments, std::string_view behind) {
    constexpr std::string_view kCast = ".to(";
    const size_t end = behind.find(".dtype");
    if (!behind.starts_with(kCast) || end == std::string_view::npos) return false;
    return !Has(arguments, behind.substr(kCast.size(), end - kCast.size()));
  }

  // Casts that do nothing, of which TorchScript's files have each: the first of two is that of
  // "softmax(x, dtype=torch.float32).to(q.dtype)", one alone that of "weights.type(v.dtype)", which
  // a product reads, or of "softmax(x, dtype=torch.float32)", as routers of experts have it.
  int CastsBehind(NodeId softmax) const {
    int casts = 0;
    if (!IsNamedByTorchScript(bound_.At(softmax))) return casts;
    for (NodeId cast = Next(bound_, softmax, "Cast"); cast != kNoNode;
         cast = Next(bound_, cast, "Cast")) {
      if (bound_.TypeOf(ResultOf(cast)) != bound_.TypeOf(ResultOf(softmax))) break;
      ++casts;
    }
    return casts;
  }

  // What the weights of `softmax` multiply, which has the type of queries and keys, too;
  // `otherwise` where no product reads them.
  ValueId ValuesOf(NodeId softmax, ValueId otherwise) const {
    constexpr std::string_view kPassing[] = {"Dropout", "Reshape", "Cast", "Expand", "Identity"};
    NodeId node = softmax;
    while (true) {
      const ValueId made = ResultOf(node);
      node = OnlyReader(bound_, made);
      if (node == kNoNode) return otherwise;
      const Node& reader = bound_.At(node);
      if (reader.op_type == "MatMul") {
        return MadeBefore(softmax, reader.inputs[reader.inputs[0] == made ? 1 : 0], otherwise);
      }
      if (std::ranges::find(kPassing, reader.op_type) == std::end(kPassing)) return otherwise;
    }
  }

  // `value`, or what it is a view of, which node `reader` could ask.
  ValueId MadeBefore(NodeId reader, ValueId value, ValueId otherwise) const {
    constexpr int kMostViews = 8;
    for (int view = 0; view < kMostViews && value != kNoValue; ++view) {
      const NodeId maker = bound_.graph().values[Index(value)].producer;
      if (maker < reader) return value;
      if (bound_.At(maker).inputs.empty()) break;
      value = bound_.At(maker).inputs[0];
    }
    return otherwise;
  }

  // "softmax(scores, dim=-1, dtype=torch.float32)" of a helper whose lines the file does not show:
  // torch.export tells the type; a product, whose operands are of one type, wants it cast back.
  bool IsToldFloat(NodeId softmax) const {
    const FxNode* call = bound_.metadata().CallOf(softmax);
    const bool is_told = call != nullptr && call->target == "aten.softmax.int" &&
                         call->arguments.size() > 2 && call->arguments[2].text == "torch.float32";
    return is_told && !Has(LinesOf(bound_, softmax), "softmax(") &&
           ValuesOf(softmax, kNoValue) != kNoValue;
  }

  // Of a file without lines, by the children of the module that attends.
  bool RunsInFloat(NodeId softmax) {
    const std::string& path = bound_.metadata().PathOf(softmax);
    if (bound_.metadata().lines.size() > 1 || path.empty()) return false;
    if (children_.empty()) {
      for (const NodeOrigin& origin : bound_.metadata().origins) {
        const std::string& module = bound_.metadata().modules.PathOf(origin.module);
        children_[ParentOf(module)].insert(ChildOf(module));
      }
    }
    const std::set<std::string_view>& children = children_[path];
    return std::ranges::any_of(NamedScoresOfAttention(), [&](const NamedScores& row) {
      const auto is_there = [&](std::string_view child) {
        return child.empty() || children.contains(child);
      };
      return MatchesGlob(path, row.in_float) && std::ranges::all_of(row.children, is_there);
    });
  }

  // What the first module behind `maker`, called by the same forward, reads first, or what that is
  // made of, if it is made before; kNoValue without one.
  ValueId GivenToNextModule(NodeId maker) const {
    const Graph& graph = bound_.graph();
    const std::string& path = bound_.metadata().PathOf(maker);
    const std::string_view caller = ParentOf(path) == path ? "" : ParentOf(path);
    auto node = maker + 1;
    const auto is_next = [&](NodeId id) {
      const std::string& other = bound_.metadata().PathOf(id);
      const std::vector<ValueId>& read = bound_.At(id).inputs;
      return other != path && other != caller && !read.empty() && read[0] != kNoValue &&
             graph.values[Index(read[0])].producer != kNoNode;
    };
    while (node < std::ssize(graph.nodes) && !is_next(node)) ++node;
    while (node < std::ssize(graph.nodes) && !bound_.At(node).inputs.empty()) {
      const ValueId read = bound_.At(node).inputs[0];
      node = read == kNoValue ? kNoNode : graph.values[Index(read)].producer;
      if (node == kNoNode) return kNoValue;
      if (node < maker) return IsFloat(bound_.TypeOf(read).dtype) ? read : kNoValue;
    }
    return kNoValue;
  }

  ValueId ResultOf(NodeId node) const { return bound_.At(node).outputs[0]; }

  ValueId WeightOf(const Norm& norm) const {
    const std::vector<ValueId>& factors = bound_.At(norm.scaled).inputs;
    return factors[factors[0] == ResultOf(norm.product) ? 1 : 0];
  }

  // Of a function or method, whose lines the file does not show, a caller's line alone tells: as
  // all that transformers and Llama's first code have, it is taken to compute in fp32.
  bool IsInHelper(const Norm& norm) const {
    const std::string_view line = LineOf(bound_, norm.pow);
    const auto is_spelled = [&](std::string_view part) { return Has(line, part); };
    constexpr std::string_view kParts[] = {"rsqrt", "sqrt", "pow(", "**", "square", "rms_norm("};
    return !line.empty() && LineOf(bound_, norm.scaled) == line &&
           std::ranges::none_of(kParts, is_spelled);
  }

  // "weight * (x * rsqrt(variance)).to(weight.dtype)", where x is cast for its squares alone (T5).
  bool IsWeightFirst(const Norm& norm) const {
    return bound_.At(norm.scaled).inputs[1] == ResultOf(norm.product);
  }

  std::string NameOf(ValueId value, std::string_view suffix) const {
    return std::string(bound_.graph().values[Index(value)].name) + std::string(suffix);
  }

  // Named after what `reader` makes first.
  void AddInLine(NodeId reader, ValueId x, ValueId made) {
    calls_.push_back(
        {.before = reader, .input = x, .name = NameOf(made, ".float"), .op = "to.inline"});
  }

  // What `maker` makes, to the type of `like`, or, where that was cast so itself, of what it was
  // cast to.
  void AddBackInLine(NodeId maker, ValueId like) {
    const ValueId made = ResultOf(maker);
    if (const auto cast = cast_to_.find(like); cast != cast_to_.end()) like = cast->second;
    cast_to_.emplace(made, like);
    for (const NodeId reader : bound_.ReadersOf(made)) {
      calls_.push_back({.before = reader,
                        .input = made,
                        .name = NameOf(made, ".cast"),
                        .op = "type_as.inline",
                        .behind = maker,
                        .like = like});
    }
  }

  // Named after the squares: x may be normed more than once.
  void AddToFloat(NodeId before, ValueId x) {
    if (calls_.empty() || calls_.back().input != x || calls_.back().op != "to") {
      name_ = NameOf(ResultOf(before), ".float");
    }
    calls_.push_back({.before = before, .input = x, .name = name_, .op = "to"});
  }

  // Before 1 + weight, where the file has that sum, else before the product: the sum is lost, too.
  void AddWeightToFloat(const Norm& norm) {
    const ValueId factor = WeightOf(norm);
    const NodeId sum = bound_.Inner(factor, "Add");
    NodeId before = norm.scaled;
    ValueId weight = factor;
    if (sum != kNoNode) {
      const std::vector<ValueId>& terms = bound_.At(sum).inputs;
      before = sum;
      weight = terms[bound_.IsStored(terms[0], 1) ? 0 : 1];
    }
    calls_.push_back(
        {.before = before, .input = weight, .name = NameOf(factor, ".float"), .op = "to"});
  }

  void AddBack(NodeId before, ValueId value, ValueId like) {
    calls_.push_back({.before = before,
                      .input = value,
                      .name = NameOf(value, ".cast"),
                      .op = "type_as",
                      .like = like});
  }

  const BoundGraph& bound_;
  std::vector<LostCall>& calls_;
  std::string name_;
  std::map<std::string_view, std::set<std::string_view>> children_;  // by module
  std::map<ValueId, ValueId> cast_to_;  // what was cast within its line, and to the type of what
};

}  // namespace

std::vector<LostCall> FindLostCasts(const BoundGraph& bound) {
  const Graph& graph = bound.graph();
  std::vector<LostCall> calls;
  LostCastFinder finder(bound, calls);
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    const Node& node = graph.nodes[i];
    const auto id = static_cast<NodeId>(i);
    if (node.op_type == "Softmax") finder.AddSoftmax(id);
    if (node.op_type == "Add") finder.AddTable(id);
    if (node.op_type == "Cos" || node.op_type == "Sin") finder.AddRotary(id);
    if (node.op_type != "Pow" || LinesOf(bound, id).empty()) continue;
    const auto norm = FindNorm(bound, id);
    if (norm.has_value()) finder.Add(*norm);
  }
  for (LostCall& call : FindKnownCasts(bound)) calls.push_back(std::move(call));
  AddLineCasts(bound, calls);
  AddOpenNorms(bound, calls);
  return calls;
}

}  // namespace onnxfit
