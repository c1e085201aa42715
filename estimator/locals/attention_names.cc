#include "estimator/locals/attention_names.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <tuple>
#include <unordered_set>
#include <utility>

#include "estimator/base/index.h"
#include "estimator/libraries/libraries.h"
#include "estimator/locals/forward_steps.h"

namespace onnxfit {
namespace {

constexpr int64_t kNoCall = -1;

// Calls of one forward; `run` is its index, -1 of the outermost one.
struct NamesRoom {
  int32_t run = -1;
  int64_t first = 0;
  int64_t last = 0;
};

// What the names of one attention hold; kNoName where there is no such name.
struct Attention {
  NamesRoom room;
  std::vector<NameId> values;       // by kAttentionNames
  int64_t until = 0;                // the last call that the names are there for
  int64_t weights_until = 0;        // the same of what is returned
  NameId cast = kNoName;            // what softmax casts first
  int64_t cast_until = 0;           // the call that ends its statement
  std::string_view attribute = {};  // that holds the weights that were dropped out, if any
  NameId dropped = kNoName;
  std::vector<NameId> addends = {};  // products that scores are the sum of
};

constexpr std::string_view kAttentionNames[] = {"q", "k", "v", "attn", "scores", "x"};
constexpr const char* kAddendNames[] = {"attn1", "attn2"};
constexpr size_t kWeights = 3;
constexpr size_t kParameter = 5;

bool IsProduct(const AtenCall& call) {
  return call.op == "matmul" || call.op == "bmm" || call.op == "einsum" || call.op == "baddbmm";
}

// What leaves scores and weights what they are: scales, caps, masks, biases, casts, views.
bool LeavesScores(const AtenCall& call) {
  constexpr std::string_view kOps[] = {"add",        "add.Scalar", "sub",         "mul",
                                       "mul.Scalar", "div",        "div.Scalar",  "where",
                                       "view",       "permute",    "masked_fill", "to",
                                       "type_as",    "clone",      "tanh",        "einsum_operand"};
  return std::ranges::find(kOps, call.op) != std::end(kOps);
}

bool IsCast(const AtenCall& call) { return call.op == "to" || call.op == "type_as"; }

class AttentionNameFinder {
 public:
  AttentionNameFinder(const Program& program, const ModuleRuns& runs, int64_t last)
      : program_(program),
        modules_(program.modules),
        calls_(program.calls),
        parameters_(program.parameters),
        runs_(runs),
        last_(last),
        maker_(program.values.size(), kNoCall) {
    for (size_t i = 0; i < calls_.size(); ++i) {
      for (const NameId name : calls_[i].outputs) {
        if (name != kNoName) maker_[Index(name)] = static_cast<int64_t>(i);
      }
    }
  }

  std::vector<KnownName> Find() {
    std::map<int32_t, std::vector<Attention>> found;  // by forward
    for (int64_t i = 0; i <= last_; ++i) {
      if (calls_[Index(i)].op != "softmax") continue;
      if (readers_.empty()) FindReaders();
      Attention attention = Read(i);
      if (!attention.values.empty()) found[attention.room.run].push_back(std::move(attention));
    }
    std::vector<KnownName> names;
    for (const auto& [run, attentions] : found) Bind(attentions, names);
    return names;
  }

 private:
  void FindReaders() {
    readers_.resize(program_.values.size());
    for (size_t i = 0; i < calls_.size(); ++i) {
      for (const NameId name : calls_[i].inputs) {
        if (name != kNoName) readers_[Index(name)].push_back(static_cast<int64_t>(i));
      }
    }
  }

  // The forward that call `i` is a line of, by itself or as all that a module does: nn.Softmax.
  NamesRoom RoomOf(int64_t i) const {
    int32_t run = runs_.RunOf(i);
    const auto is_all = [&](const ModuleRun& one) { return one.first == one.last; };
    while (run >= 0 && is_all(runs_.all()[Index(run)])) run = runs_.all()[Index(run)].caller;
    if (run < 0) return {-1, 0, last_};
    return {run, runs_.all()[Index(run)].first, runs_.all()[Index(run)].last};
  }

  // No values where no product reads the weights.
  Attention Read(int64_t softmax) const {
    Attention found;
    found.room = RoomOf(softmax);
    const NameId weights = calls_[Index(softmax)].outputs[0];
    const auto [context, value] = ProductOf(weights, softmax, found.room);
    if (context == kNoCall || IsOfParameter(softmax)) return {};
    found.values = {kNoName, kNoName, OperandOf(value), CastOf(weights, softmax), kNoName, kNoName};
    ReadCasts(softmax, found);
    found.until = EndOf(found.room, context);
    if (found.until < found.room.last) found.values[kParameter] = ParameterOf(value, found.room);
    const NameId scores = calls_[Index(softmax)].inputs[0];
    const int64_t product = MakerOfScores(scores, found.room);
    if (product == kNoCall) return found;
    const std::vector<NameId>& read = calls_[Index(product)].inputs;
    found.addends = AddendsOf(scores, found.room);
    const size_t q = read.size() - 2;  // behind what baddbmm adds
    found.values[0] = ReadAgain(Unnormalized(OperandOf(read[q])), product, found.room);
    found.values[1] = Unscaled(Unnormalized(OperandOf(read[q + 1])));
    if (const NamedScores* row = RowOf(found.room); row != nullptr) {
      found.values[4] = Uncast(scores);
      found.attribute = row->attribute;
      found.dropped = DroppedOf(weights, softmax, context);
      if (row->returned_by == 1) found.weights_until = EndOfCaller(found.room);
      if (row->returned_by == 2) found.weights_until = EndOfNextCaller(found.room);
    }
    return found;
  }

  // "x @ self.selectors.softmax(dim=0)" attends to nothing.
  bool IsOfParameter(int64_t softmax) const {
    return std::ranges::find(parameters_, calls_[Index(softmax)].inputs[0]) != parameters_.end();
  }

  // "attn = softmax(attn, dtype=torch.float32).to(q.dtype)", by what is cast in front and behind.
  void ReadCasts(int64_t softmax, Attention& found) const {
    if (softmax == 0 || softmax + 1 >= std::ssize(calls_)) return;
    const auto& [to, call, back] =
        std::tie(calls_[Index(softmax - 1)], calls_[Index(softmax)], calls_[Index(softmax + 1)]);
    if (to.op != "to" || to.outputs != call.inputs || back.op != "type_as") return;
    if (back.inputs[0] != call.outputs[0]) return;
    found.cast = to.inputs[0];
    found.cast_until = softmax + 1;
  }

  // k of "q @ (k.transpose(-2, -1) / scale)"
  NameId Unscaled(NameId value) const {
    const int64_t maker = value == kNoName ? kNoCall : maker_[Index(value)];
    if (maker == kNoCall) return value;
    const AtenCall& scale = calls_[Index(maker)];
    const bool is_scale = scale.op == "mul.Scalar" || scale.op == "div.Scalar";
    if (!is_scale || maker_[Index(scale.inputs[0])] == kNoCall) return value;
    const bool is_permuted = calls_[Index(maker_[Index(scale.inputs[0])])].op == "permute";
    return is_permuted && maker_[Index(scale.inputs[0])] + 1 == maker ? scale.inputs[0] : value;
  }

  // q of "(q * scale) @ k.transpose(-2, -1)" that is read again behind the product, as "q = q *
  // scale" leaves nothing to read.
  NameId ReadAgain(NameId value, int64_t product, const NamesRoom& room) const {
    NameId scaled = value;
    const auto maker = [&] {
      const int64_t call = scaled == kNoName ? kNoCall : maker_[Index(scaled)];
      return call == kNoCall ? nullptr : &calls_[Index(call)];
    };
    while (maker() != nullptr && (maker()->op == "view" || maker()->op == "expand"))
      scaled = maker()->inputs[0];
    if (maker() == nullptr || maker()->op != "mul.Scalar") return value;
    const NameId query = maker()->inputs[0];
    const int64_t reader = ReaderBehind(product, query);
    return reader != kNoCall && reader <= room.last ? query : value;
  }

  // The first call behind `call` that reads `name`; kNoCall without one.
  int64_t ReaderBehind(int64_t call, NameId name) const {
    if (name == kNoName) return kNoCall;
    const std::vector<int64_t>& all = readers_[Index(name)];
    const auto found = std::ranges::upper_bound(all, call);
    return found == all.end() ? kNoCall : *found;
  }

  // "softmax(scores.float(), dim=-1).type_as(q)", of which the first and the last have names.
  NameId CastOf(NameId weights, int64_t softmax) const {
    if (softmax + 1 >= std::ssize(calls_)) return weights;
    const AtenCall& next = calls_[Index(softmax + 1)];
    return IsCast(next) && next.inputs[0] == weights ? next.outputs[0] : weights;
  }
  NameId Uncast(NameId scores) const {
    const int64_t call = scores == kNoName ? kNoCall : maker_[Index(scores)];
    return call != kNoCall && IsCast(calls_[Index(call)]) ? calls_[Index(call)].inputs[0] : scores;
  }

  // q of "F.normalize(q, dim=-1) @ F.normalize(k, dim=-1).transpose(-2, -1)".
  NameId Unnormalized(NameId value) const {
    const auto maker = [&](NameId name) {
      const int64_t call = name == kNoName ? kNoCall : maker_[Index(name)];
      return call == kNoCall ? nullptr : &calls_[Index(call)];
    };
    const AtenCall* call = maker(value);
    while (call != nullptr && (call->op == "permute" || call->op == "view" || call->op == "clone"))
      call = maker(call->inputs[0]);
    if (call == nullptr || call->op != "div" || call->inputs.size() != 2) return value;
    const AtenCall* norm = maker(call->inputs[1]);
    if (norm != nullptr && norm->op == "expand") norm = maker(norm->inputs[0]);
    const bool is_clamped = norm != nullptr && norm->op.starts_with("clamp");
    return is_clamped ? call->inputs[0] : value;
  }

  // What einsum makes its own views and copies of has the name.
  NameId OperandOf(NameId value) const {
    NameId from = value;
    while (from != kNoName && maker_[Index(from)] != kNoCall) {
      const AtenCall& call = calls_[Index(maker_[Index(from)])];
      if (call.op == "einsum_operand") return call.inputs[0];
      const bool is_view = call.op == "view" || call.op == "permute" || call.op == "clone";
      if (!is_view || call.inputs.empty()) break;
      from = call.inputs[0];
    }
    return value;
  }

  int64_t EndOf(const NamesRoom& room, int64_t context) const {
    const size_t level = LevelOf(room);
    return EndOfAttention(program_, runs_, {room.first, room.last, level}, context);
  }

  // What a method that attends was given, of which a layer has made `value`.
  NameId ParameterOf(NameId value, const NamesRoom& room) const {
    constexpr std::string_view kPassing[] = {"view",  "permute", "clone", "einsum_operand",
                                             "split", "unbind",  "expand"};
    const size_t level = LevelOf(room);
    while (value != kNoName && maker_[Index(value)] >= room.first) {
      const int64_t call = maker_[Index(value)];
      const AtenCall& made = calls_[Index(call)];
      const bool is_layer = runs_.DepthAt(call) > level;
      if (is_layer) {
        int64_t first = call;
        while (first > room.first && runs_.DepthAt(first - 1) > level &&
               runs_.EndOf(first - 1, level) == call)
          --first;
        const std::vector<NameId>& read = calls_[Index(first)].inputs;
        const bool is_local =
            !read.empty() && read[0] != kNoName && maker_[Index(read[0])] >= room.first;
        return is_local ? read[0] : kNoName;
      }
      if (std::ranges::find(kPassing, made.op) == std::end(kPassing)) return kNoName;
      value = made.inputs[0];
    }
    return kNoName;
  }

  size_t LevelOf(const NamesRoom& room) const {
    return room.run < 0 ? 0 : runs_.all()[Index(room.run)].level + 1;
  }

  int64_t EndOfCaller(const NamesRoom& room) const {
    const int32_t caller = room.run < 0 ? -1 : runs_.all()[Index(room.run)].caller;
    return caller < 0 ? last_ : runs_.all()[Index(caller)].last;
  }

  // "outputs = block(x)" of a loop.
  int64_t EndOfNextCaller(const NamesRoom& room) const {
    const int32_t caller = room.run < 0 ? -1 : runs_.all()[Index(room.run)].caller;
    if (caller < 0) return last_;
    const ModuleRun& layer = runs_.all()[Index(caller)];
    const ForwardRun forward = {layer.first, layer.last, layer.level + 1};
    const int64_t next = EndOfNextLayer(modules_, calls_, runs_, forward, last_);
    if (next >= 0) return next;
    return layer.caller < 0 ? last_ : runs_.all()[Index(layer.caller)].last;
  }

  // Looked for once a forward.
  const NamedScores* RowOf(const NamesRoom& room) const {
    const auto [row, is_new] = rows_.try_emplace(room.run);
    if (is_new) row->second = FindRow(room);
    return row->second;
  }

  const NamedScores* FindRow(const NamesRoom& room) const {
    const size_t level = LevelOf(room);
    std::set<std::string_view> children;
    for (int64_t i = room.first; i <= room.last; ++i) {
      if (level < runs_.DepthAt(i))
        children.insert(modules_.NameAt(calls_[Index(i)].module, level));
    }
    for (const NamedScores& row : NamedScoresOfAttention()) {
      const auto is_there = [&](std::string_view child) {
        return child.empty() || children.contains(child);
      };
      if (std::ranges::all_of(row.children, is_there)) return &row;
    }
    return nullptr;
  }

  // What dropout has made of `weights` between the softmax and their product; themselves without.
  NameId DroppedOf(NameId weights, int64_t softmax, int64_t context) const {
    for (int64_t i = softmax + 1; i < context; ++i) {
      const AtenCall& call = calls_[Index(i)];
      if (call.op == "dropout" && call.inputs[0] == weights) return call.outputs[0];
    }
    return weights;
  }

  // The first product behind call `from` that reads `weights`, and what else it reads.
  std::pair<int64_t, NameId> ProductOf(NameId weights, int64_t from, const NamesRoom& room) const {
    for (int64_t i = ReaderBehind(from, weights); i != kNoCall && i <= room.last;
         i = ReaderBehind(i, weights)) {
      const std::vector<NameId>& read = calls_[Index(i)].inputs;
      const auto place = std::ranges::find(read, weights);
      if (!IsProduct(calls_[Index(i)])) {
        const bool leaves = LeavesScores(calls_[Index(i)]) || calls_[Index(i)].op == "dropout";
        if (!leaves) return {kNoCall, kNoName};
        weights = calls_[Index(i)].outputs[0];
        continue;
      }
      if (read.size() < 2) return {kNoCall, kNoName};
      return {i, place == read.end() - 1 ? *(place - 1) : read.back()};
    }
    return {kNoCall, kNoName};
  }

  // The product in the forward that made `scores`, the first in the order of operands; kNoCall
  // without one.  Each value is followed once, as sums of sums read some of them again and again.
  int64_t MakerOfScores(NameId scores, const NamesRoom& room) const {
    std::unordered_set<NameId> seen;
    std::vector<NameId> left = {scores};
    while (!left.empty()) {
      const NameId name = left.back();
      left.pop_back();
      const int64_t maker = name == kNoName ? kNoCall : maker_[Index(name)];
      if (maker < room.first || !seen.insert(name).second) continue;
      const AtenCall& call = calls_[Index(maker)];
      if (IsProduct(call) && call.inputs.size() >= 2) return maker;
      if (!IsProduct(call) && LeavesScores(call))
        left.insert(left.end(), call.inputs.rbegin(), call.inputs.rend());
    }
    return kNoCall;
  }

  // "attn1 = q @ k; attn2 = r_q @ r_k; attn = (attn1 + attn2) / scale": what two products make for
  // one sum has names, as in the relative attention of Shaw et al. and Transformer-XL.
  std::vector<NameId> AddendsOf(NameId scores, const NamesRoom& room) const {
    const int64_t maker = scores == kNoName ? kNoCall : maker_[Index(scores)];
    if (maker < room.first || !LeavesScores(calls_[Index(maker)])) return {};
    const std::vector<NameId>& read = calls_[Index(maker)].inputs;
    const auto is_of_product = [&](NameId name) { return IsOfProduct(name, room); };
    const bool are_products =
        read.size() == 2 && read[0] != read[1] && std::ranges::all_of(read, is_of_product);
    return are_products ? read : AddendsOf(read[0], room);
  }

  // Whether a product in the forward makes it, but for views and copies.
  bool IsOfProduct(NameId value, const NamesRoom& room) const {
    constexpr std::string_view kPassing[] = {"view", "permute", "clone", "contiguous"};
    const int64_t maker = value == kNoName ? kNoCall : maker_[Index(value)];
    if (maker < room.first) return false;
    const AtenCall& call = calls_[Index(maker)];
    const bool passes = std::ranges::find(kPassing, call.op) != std::end(kPassing);
    return IsProduct(call) || (passes && IsOfProduct(call.inputs[0], room));
  }

  // Those of one forward, in order: the next one takes the names of the one before.
  void Bind(const std::vector<Attention>& attentions, std::vector<KnownName>& names) const {
    for (size_t i = 0; i < attentions.size(); ++i) {
      const NameId cast = attentions[i].cast;
      if (cast != kNoName) names.push_back({cast, attentions[i].cast_until, "attn"});
      for (size_t k = 0; k < std::size(kAttentionNames); ++k) {
        const NameId value = attentions[i].values[k];
        if (value == kNoName || maker_[Index(value)] == kNoCall) continue;
        const NameId next = i + 1 < attentions.size() ? attentions[i + 1].values[k] : kNoName;
        const bool is_anew = next != kNoName && maker_[Index(next)] > maker_[Index(value)];
        int64_t until = attentions[i].until;
        if (is_anew) until = std::min(until, maker_[Index(next)]);
        if (k == kWeights) until = std::max(until, attentions[i].weights_until);
        names.push_back({value, until, std::string(kAttentionNames[k])});
      }
      for (size_t k = 0; k < attentions[i].addends.size(); ++k) {
        names.push_back({attentions[i].addends[k], attentions[i].until, kAddendNames[k]});
      }
      if (attentions[i].attribute.empty()) continue;
      names.push_back(
          {attentions[i].dropped, attentions[i].until, std::string(attentions[i].attribute)});
    }
  }

  const Program& program_;
  const ModuleTree& modules_;
  const std::vector<AtenCall>& calls_;
  const std::vector<NameId>& parameters_;
  const ModuleRuns& runs_;
  int64_t last_;                                        // the model's
  std::vector<int64_t> maker_;                          // by name: the call
  std::vector<std::vector<int64_t>> readers_;           // the same, where there is a softmax
  mutable std::map<int32_t, const NamedScores*> rows_;  // by forward
};

}  // namespace

std::vector<KnownName> FindAttentionNames(const Program& program, const ModuleRuns& runs,
                                          int64_t last) {
  return AttentionNameFinder(program, runs, last).Find();
}

}  // namespace onnxfit
