// Calls of PyTorch's that torch.export has taken apart before it wrote them.
#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "estimator/base/index.h"
#include "estimator/exporters/bound_graph.h"
#include "estimator/exporters/call_parts.h"
#include "estimator/exporters/exported_groups.h"
#include "estimator/patterns/rewrites.h"
#include "estimator/program/identifiers.h"

namespace onnxfit {
namespace {

// --- The table ------------------------------------------------------------------------------

// `parts`: as PartsMatch reads them.
struct DecomposedRow {
  std::string_view parts;
  std::string_view aten;
  std::string_view operands;         // letters
  bool is_loss = false;              // a mean or a sum may follow: ints[0] is the reduction
  std::array<int64_t, 2> more = {};  // further ints of a loss
};

// Sources: torch/_decomp/decompositions.py and torch/_refs, torch/_refs/nn/functional of
// pytorch v2.11.0; of pairwise distances and the triplet and cosine losses
// aten/src/ATen/native/Loss.cpp, of rms_norm layer_norm.cpp.
constexpr DecomposedRow kDecomposedRows[] = {
    {"where(le(x,#),#,x)", "threshold", "x"},
    {"where(le(abs(x),#),#,x)", "hardshrink", "x"},
    {"where(gt(abs(x),#),sub(x,mul(sign(x),#)),mul(x,#))", "softshrink", "x"},
    {"where(isposinf(x),#,where(isneginf(x),#,where(isnan(x),#,x)))", "nan_to_num", "x"},
    {"sqrt(var(x))", "std", "x"},
    {"mul(v,div(g,linalg_vector_norm(v)))", "_weight_norm", "vg"},
    {"mul(mul(x,rsqrt(add(mean(pow(x,#)),#))),w)", "rms_norm", "xw"},
    {"sub(g:mul(x,y),mul(y,sum(g)))", "_softmax_backward_data", "xy"},
    {"sum(diagonal_copy(x))", "trace", "x"},
    {"sum(where(isnan(x),#,x))", "nansum", "x"},
    {"linalg_vector_norm(sub(x,y))", "dist", "xy"},
    {"linalg_vector_norm(add(sub(x,y),#),#)", "pairwise_distance", "xy"},
    {"index(view(x,_),[i])", "take", "xi"},
    {"mul(x,pow(~,y))", "ldexp", "xy"},
    {"where(isnan(y),#,where(eq(x,#),#,mul(x,log1p(y))))", "special_xlog1py", "xy"},
    {"where(lt(x,#),sub(log(div(special_erfcx(neg(u:mul(x,#))),#)),mul(u,u)),"
     "log1p(div(neg(erfc(u)),#)))",
     "special_log_ndtr", "x"},
    {"index_put(x,[i],mul(v,#),_)", "index_add.alpha", "xiv"},
    {"index_put(x,[_,i],mul(v,#),_)", "index_add.alpha", "xiv"},
    // The gradient of such a value is summed up over places that depend on data.
    {"index_put(x,[_,i],expand(v,_))", kUnknownOp, "xiv"},
    {"masked_fill(x,m,#)", "masked_fill", "xm"},
    {"masked_fill(x,m,v)", kUnknownOp, "xmv"},
    {"instance_norm(x,w,b,m,v)", "instance_norm", "xwbmv"},

    {"where(lt(e:abs(sub(x,y)),#),mul(mul(e,#),e),mul(sub(e,#),#))", "huber_loss", "xy", true},
    {"where(lt(e:abs(sub(x,y)),#),div(mul(pow(e,#),#),#),sub(e,#))", "smooth_l1_loss", "xy", true},
    {"log1p(exp(mul(neg(x),y)))", "soft_margin_loss", "xy", true},
    {"clamp_min(add(mul(neg(t),sub(x,y)),#),#)", "margin_ranking_loss", "xyt", true},
    {"add(where(ne(t,#),clamp_min(sub(~,x),#),z:~),where(ne(t,#),x,z))", "hinge_embedding_loss",
     "xt", true},
    {"mean(clamp_min(sub(add(linalg_vector_norm(add(sub(x,p),#),#),#),linalg_vector_norm(add(sub(x,"
     "n),#),#)),#))",
     "triplet_margin_loss", "xpn"},
    {"clamp_min(sub(add(linalg_vector_norm(add(sub(x,p),#),#),#),linalg_vector_norm(add(sub(x,n),#)"
     ",#)),#)",
     "triplet_margin_loss", "xpn"},
    {"add(where(eq(t,#),sub(~,c:div(sum(mul(x,y)),sqrt(mul(add(sum(mul(x,x)),#),add(sum(mul(y,y)),#"
     "))))),z:~),where(eq(t,#),clamp_min(sub(c,#),#),z))",
     "cosine_embedding_loss", "xyt", true},
    {"sub(mul(sub(y,#),maximum(log1p(neg(x)),#)),mul(y,maximum(log(x),#)))", "binary_cross_entropy",
     "xy", true},
    {"mul(sub(mul(sub(y,#),maximum(log1p(neg(x)),#)),mul(y,maximum(log(x),#))),w)",
     "binary_cross_entropy", "xyw", true},
    {"sub(mul(sub(#,y),x),log_sigmoid(x))", "binary_cross_entropy_with_logits", "xy", true},
    {"mul(sub(mul(sub(#,y),x),log_sigmoid(x)),w)", "binary_cross_entropy_with_logits", "xyw", true},
    {"add(sub(exp(x),mul(t,x)),masked_fill(add(sub(mul(t,log(t)),t),mul(log(mul(t,#)),#)),le(t,#),"
     "#))",
     "poisson_nll_loss",
     "xt",
     true,
     {1, 1}},
    {"mean(where(ne(%,u:unsqueeze(t,#)),clamp_min(add(sub(#,gather(x,#,u)),x),#),#))",
     "multi_margin_loss", "xt"},
    {"mean(where(ne(%,u:unsqueeze(t,#)),mul(clamp_min(add(sub(#,gather(x,#,u)),x),#),index(w,[u])),"
     "#))",
     "multi_margin_loss", "xtw"},
    {"mean(sum(where(any(eq(a:%,unsqueeze(where(l:lt(a,amin(where(eq(t,#),a,#))),t,#),#)),#),#,"
     "div(clamp_min(add(sub(#,unsqueeze(permute(gather(x,#,where(l,t,#)),_),#)),x),#),#))))",
     "multilabel_margin_loss", "xt"},

    // Neighbours of computed places.
    {"_unsafe_index(x,%)", "_upsample_nearest_exact2d", "x"},
    {"add(a:_unsafe_index(x,%),mul(sub(_unsafe_index(x,%),a),%))", "upsample_linear1d", "x"},
    {"mean(index(x,%))", "adaptive_avg_pool2d", "x"},
    {"div(^masked_fill(index(x,%),%,#),%)", "adaptive_avg_pool2d", "x"},
    {"div(^masked_fill(masked_fill(index(x,%),%,#),%,#),%)", "adaptive_avg_pool2d", "x"},
    {"squeeze(mean(index(unsqueeze(x,#),%)),#)", "adaptive_avg_pool1d", "x"},
    {"squeeze(div(^masked_fill(index(unsqueeze(x,#),%),%,#),%),#)", "adaptive_avg_pool1d", "x"},
    {"view(_unsafe_index_put(view(~,_),[view(add(i,%),_)],view(x,_)),_)", "max_unpool2d", "xi"},
};

// --- Calls ----------------------------------------------------------------------------------

class DecomposedCallFinder {
 public:
  explicit DecomposedCallFinder(const ExportedGroups& groups)
      : groups_(groups), bound_(groups.bound()) {}

  std::vector<Rewritten> Find() const {
    std::vector<Rewritten> calls;
    for (int32_t i = 0; i < groups_.count(); ++i) {
      auto found = FindSeveral(i, groups_.At(i).call.target);
      if (found.has_value()) calls.push_back(std::move(*found));
    }
    for (int32_t i = groups_.count() - 1; i >= 0; --i) {
      const std::string_view target = groups_.At(i).call.target;
      const std::string_view name = NameInTarget(target);
      for (const DecomposedRow& row : kDecomposedRows) {
        if (row.parts.substr(0, row.parts.find('(')) != name) continue;
        auto call = Read(row, i);
        if (call.has_value()) calls.push_back(std::move(*call));
      }
    }
    return calls;
  }

 private:
  std::optional<Rewritten> Read(const DecomposedRow& row, int32_t root) const {
    PartsMatch match(groups_, row.parts);
    if (!match.Root(root)) return std::nullopt;
    Rewritten call = {.aten = row.aten};
    if (row.is_loss) {
      const auto [reduction, last] = ReductionBehind(root);
      if (reduction != 0) match.Take(last);
      root = last;
      call.ints = {reduction, row.more[0], row.more[1]};
    }
    TakeNodes(match, call);
    call.last = ResultNode(root);
    const bool is_whole =
        call.last != kNoNode && IsOneLine(call, row.parts) && AreInner(call, match.taken());
    if (!is_whole) return std::nullopt;
    for (const char letter : row.operands) call.inputs.push_back(match.Letter(letter));
    const bool has_all = std::ranges::find(call.inputs, kNoValue) == call.inputs.end();
    return has_all && FitsRule(groups_.bound(), call) ? std::optional(std::move(call))
                                                      : std::nullopt;
  }

  // What is more than one call, or has more than one result.
  std::optional<Rewritten> FindSeveral(int32_t index, std::string_view target) const {
    if (target == "prims.div.default") return FindMoments(index);
    if (target == "aten.bilinear.default") return FindBilinear(index);
    return std::nullopt;
  }

  // _trilinear (x1, weight, x2) + bias
  std::optional<Rewritten> FindBilinear(int32_t index) const {
    PartsMatch match(groups_, "bilinear(x,y,w,b)");
    if (!match.Root(index)) return std::nullopt;
    const ValueId x1 = match.Letter('x');
    const ValueId x2 = match.Letter('y');
    const ValueId weight = match.Letter('w');
    const ValueId bias = match.Letter('b');
    Rewritten call = {.aten = "add", .inputs = {x1, bias}, .last = ResultNode(index)};
    call.nodes = groups_.NodesOf(index);
    if (std::min({x1, x2, weight, bias}) == kNoValue || call.last == kNoNode) return std::nullopt;
    const TensorType& type = bound_.TypeOf(bound_.At(call.last).outputs[0]);
    if (type.dims.size() != 2 || bound_.DimsOf(weight).size() != 3) return std::nullopt;
    call.before.push_back({.aten = "_trilinear",
                           .inputs = {{.value = x1}, {.value = weight}, {.value = x2}},
                           .type = type,
                           .takes_place_of = 0});
    return call;
  }

  // var_mean (x) or std_mean (x): beside the variance a sum that is divided, both without an
  // operator of the code's.
  std::optional<Rewritten> FindMoments(int32_t mean) const {
    PartsMatch of_mean(groups_, "div(sum(x),#)");
    if (!of_mean.Root(mean)) return std::nullopt;
    for (int32_t i = mean - 1; i >= 0; --i) {
      PartsMatch of_variance(groups_, "var(x)");
      const bool is_beside = groups_.At(i).call.target == "prims.var.default" &&
                             of_variance.Root(i) && of_variance.Letter('x') == of_mean.Letter('x');
      if (is_beside) return Moments(i, mean, of_mean);
    }
    return std::nullopt;
  }

  std::optional<Rewritten> Moments(int32_t variance, int32_t mean, PartsMatch& match) const {
    Rewritten call = {.aten = "var_mean", .inputs = {match.Letter('x')}};
    match.Take(variance);
    const int32_t root = ReaderOf(variance, "aten.sqrt.default");
    if (root >= 0) {
      match.Take(root);
      call.aten = "std_mean";
    }
    TakeNodes(match, call);
    const NodeId first = ResultNode(root >= 0 ? root : variance);
    const NodeId second = ResultNode(mean);
    if (first == kNoNode || second == kNoNode || call.inputs[0] == kNoValue) return std::nullopt;
    call.last = std::max(first, second);
    call.results = {bound_.At(first).outputs[0], bound_.At(second).outputs[0]};
    return call;
  }

  NodeId ResultNode(int32_t index) const { return groups_.ResultOf(index, groups_.NodesOf(index)); }

  void TakeNodes(const PartsMatch& match, Rewritten& call) const {
    for (const int32_t index : match.taken()) {
      const std::vector<NodeId> nodes = groups_.NodesOf(index);
      call.nodes.insert(call.nodes.end(), nodes.begin(), nodes.end());
    }
    std::ranges::sort(call.nodes);
  }

  // The group that alone reads the result of another one, and is a call of `target`; else -1.
  int32_t ReaderOf(int32_t index, std::string_view target) const {
    const NodeId last = ResultNode(index);
    if (last == kNoNode) return -1;
    const std::span<const NodeId> readers = bound_.AllReadersOf(bound_.At(last).outputs[0]);
    const int32_t reader = readers.size() == 1 ? bound_.metadata().GroupOf(readers[0]) : -1;
    return reader >= 0 && groups_.At(reader).call.target == target ? reader : -1;
  }

  // at::Reduction, and the group of its result.
  std::pair<int64_t, int32_t> ReductionBehind(int32_t root) const {
    const std::string_view line = groups_.LineOf(root);
    const int32_t mean = ReaderOf(root, "aten.mean.default");
    if (mean >= 0 && !Spells(line, "mean")) return {1, mean};
    const int32_t sum = ReaderOf(root, "aten.sum.default");
    if (sum >= 0 && !Spells(line, "sum")) return {2, sum};
    return {0, root};
  }

  // Whether the code itself calls `name` there.
  static bool IsWritten(std::string_view line, std::string_view name) {
    if (name.starts_with("index") && HasSubscript(line)) return true;
    const bool is_norm = name == "linalg_vector_norm";
    return Spells(line, name) || (is_norm && (Spells(line, "norm") || Spells(line, "vector_norm")));
  }

  static bool Spells(std::string_view line, std::string_view name) {
    for (size_t at = line.find(name); at != std::string_view::npos; at = line.find(name, at + 1)) {
      const bool begins = at == 0 || !IsPartOfIdentifier(line[at - 1]);
      const size_t end = at + name.size();
      if (begins && end < line.size() && line[end] == '(') return true;
    }
    return false;
  }

  // A line that runs all parts and does not spell them: F.threshold (x, …), and not
  // torch.where (x <= …).
  bool IsOneLine(const Rewritten& call, std::string_view parts) const {
    const ExporterMetadata& metadata = bound_.metadata();
    const std::string_view line = metadata.LinesOf(call.last).innermost;
    if (line.empty()) return false;
    for (const NodeId node : call.nodes) {
      if (metadata.LinesOf(node).innermost != line) return false;
    }
    if (parts.find('(') == parts.rfind('(')) return true;  // one call, which the line may spell
    for (size_t at = parts.find('('); at != std::string_view::npos; at = parts.find('(', at + 1)) {
      size_t first = at;
      while (first > 0 && IsPartOfIdentifier(parts[first - 1])) --first;
      if (IsWritten(line, parts.substr(first, at - first))) return false;
    }
    return true;
  }

  // Nobody but these groups reads what is made on the way.
  bool AreInner(const Rewritten& call, const std::vector<int32_t>& taken) const {
    return std::ranges::all_of(call.nodes, [&](NodeId node) {
      return node == call.last || std::ranges::all_of(bound_.At(node).outputs, [&](ValueId value) {
               return value == kNoValue || IsInner(value, taken);
             });
    });
  }
  bool IsInner(ValueId value, const std::vector<int32_t>& taken) const {
    return !bound_.graph().values[Index(value)].is_output &&
           std::ranges::all_of(bound_.ReadersOf(value), [&](NodeId reader) {
             return std::ranges::find(taken, bound_.metadata().GroupOf(reader)) != taken.end();
           });
  }

  const ExportedGroups& groups_;
  const BoundGraph& bound_;
};

}  // namespace

std::vector<Rewritten> FindDecomposedCalls(const ExportedGroups& groups) {
  return DecomposedCallFinder(groups).Find();
}

}  // namespace onnxfit
