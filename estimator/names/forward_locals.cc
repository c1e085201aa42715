#include "estimator/names/forward_locals.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "estimator/base/index.h"
#include "estimator/libraries/libraries.h"
#include "estimator/names/attention_names.h"
#include "estimator/program/like.h"
#include "estimator/program/modules.h"

namespace onnxfit {
namespace {

// One run of a module's forward; `level` modules are around its own calls.
struct Forward {
  int64_t first = 0;
  int64_t last = 0;
  size_t level = 0;
};

// A call of the forward's own, or a run of one of its children.
struct Step {
  std::string_view key;  // the operator, or the child
  int64_t first = 0;
  int64_t last = 0;
  bool is_child = false;
};

class KnownNameFinder {
 public:
  KnownNameFinder(const Program& program, const ModuleRuns& runs)
      : modules_(program.modules),
        calls_(program.calls),
        source_(program.source),
        runs_(runs),
        last_reads_(program.values.size()) {
    for (size_t i = 0; i < calls_.size(); ++i) {
      for (const NameId value : calls_[i].inputs) {
        if (value != kNoName) last_reads_[Index(value)] = static_cast<int64_t>(i);
      }
    }
  }

  std::vector<KnownName> Find(int64_t last) {
    const auto shows_lines = [](const AtenCall& call) { return !call.frames.empty(); };
    if (last < 0) return {};
    last_ = last;
    shows_lines_ = std::ranges::any_of(calls_, shows_lines);
    Read({0, last, 0});
    for (const ModuleRun& run : runs_.all()) {
      if (run.first <= last) Read({run.first, run.last, run.level + 1});
    }
    return std::move(names_);
  }

  bool shows_lines() const { return shows_lines_; }

 private:
  const AtenCall& At(int64_t call) const { return calls_[Index(call)]; }

  void Read(const Forward& forward) {
    const std::vector<Step> steps = StepsOf(forward);
    if (shows_lines_) return FindShared(forward, steps);
    FindByRows(forward, steps);
    FindEmbedded(forward, steps);
    FindShared(forward, steps);
    FindNested(steps);
    FindReadLater(forward, steps);
    FindFeatures(forward, steps);
    FindGathered(forward, steps);
    FindAppended(forward, steps);
    for (const Step& step : steps) {
      if (!step.is_child && step.key == "scaled_dot_product_attention") BindQuery(step, forward);
    }
    FindVariance(forward, steps);
    FindResponse(forward, steps);
  }

  std::vector<Step> StepsOf(const Forward& forward) const {
    std::vector<Step> steps;
    for (int64_t i = forward.first; i <= forward.last; i = steps.back().last + 1) {
      const bool is_child = forward.level < runs_.DepthAt(i);
      const int64_t last = is_child ? runs_.EndOf(i, forward.level) : i;
      const std::string_view key =
          is_child ? std::string_view(modules_.NameAt(At(i).module, forward.level)) : At(i).op;
      steps.push_back({key, i, last, is_child});
    }
    return steps;
  }

  void Bind(const Step& step, int64_t until, std::string_view name) {
    for (const NameId value : At(step.last).outputs) {
      if (value != kNoName) names_.push_back({value, until, std::string(name)});
    }
  }

  // What the step returns: what it makes last, and of a child, what is read behind it.
  void BindAll(const Step& step, int64_t until, std::string_view name) {
    Bind(step, until, name);
    for (int64_t i = step.first; i < step.last; ++i) {
      for (const NameId value : At(i).outputs) {
        if (value == kNoName || last_reads_[Index(value)] <= step.last) continue;
        names_.push_back({value, until, std::string(name)});
      }
    }
  }

  // Whether a row's `name` is that step: "blocks.*" any module of the list.
  static bool Is(const Step& step, std::string_view name) {
    if (!name.ends_with(".*")) return step.key == name;
    name.remove_suffix(2);
    return step.is_child && IsListed(step.key) && ParentOf(step.key) == name;
  }

  // A layer has no "encoder_outputs", but a tensor.
  bool IsLeafCalledOutputs(const KnownNameRow& row, const Forward& forward,
                           const Step& step) const {
    const size_t depth = forward.level + 1;
    return row.name.ends_with("outputs") && runs_.DepthAt(step.first) == depth &&
           runs_.DepthAt(step.last) == depth && step.is_child;
  }

  void FindByRows(const Forward& forward, const std::vector<Step>& steps) {
    for (const KnownNameRow& row : KnownNameRows()) {
      if (!HasChildren(row, steps)) continue;
      const char prefix = row.made_by.empty() ? ' ' : row.made_by.front();
      const bool has_prefix = prefix == '<' || prefix == '+';
      for (size_t i = 0; i < steps.size(); ++i) {
        if (!Is(steps[i], row.made_by.substr(has_prefix ? 1 : 0))) continue;
        if (IsLeafCalledOutputs(row, forward, steps[i])) continue;
        const int64_t until = EndOf(row, forward, steps, i);
        if (prefix == '<') {
          BindArgument(row, steps[i], until);
        } else if (prefix == '+') {
          BindItems(row, steps[i], forward.level + 2, until);
        } else {
          BindByRow(row, steps[i], until);
        }
      }
    }
  }

  void BindByRow(const KnownNameRow& row, const Step& step, int64_t until) {
    BindAll(step, until, row.name);
    const std::vector<NameId>& made = At(step.last).outputs;
    if (!row.until[0].empty()) rebound_.insert(made.begin(), made.end());
  }

  // residual = x; x = self.norm(x)
  void BindArgument(const KnownNameRow& row, const Step& step, int64_t until) {
    const std::vector<NameId>& read = At(step.first).inputs;
    if (!read.empty()) names_.push_back({read[0], until, std::string(row.name)});
  }

  // What the step returns is a list of what its layers make.
  void BindItems(const KnownNameRow& row, const Step& step, size_t level, int64_t until) {
    for (int64_t i = step.first; i <= step.last; ++i) {
      const bool is_layer = runs_.DepthAt(i) >= level &&
                            IsListed(modules_.NameAt(At(i).module, level - 1)) &&
                            runs_.EndOf(i, level - 1) == i;
      if (!is_layer) continue;
      for (const NameId value : At(i).outputs) {
        if (value != kNoName) names_.push_back({value, until, std::string(row.name)});
      }
    }
  }

  // Until when a name of `row` that step `i` binds holds its value.
  int64_t EndOf(const KnownNameRow& row, const Forward& forward, const std::vector<Step>& steps,
                size_t i) const {
    const auto binds_anew = [&](const Step& step) {
      return !row.until[0].empty() && (Is(step, row.until[0]) || Is(step, row.until[1]));
    };
    const auto next =
        std::find_if(steps.begin() + static_cast<std::ptrdiff_t>(i) + 1, steps.end(), binds_anew);
    if (next != steps.end()) return next->last;
    if (!row.is_returned) return forward.last;
    return forward.level < 2 ? last_ : runs_.EndOf(forward.first, forward.level - 2);
  }

  static bool HasChildren(const KnownNameRow& row, const std::vector<Step>& steps) {
    return std::ranges::all_of(row.children, [&](std::string_view child) {
      const bool is_barred = child.starts_with('!');
      if (is_barred) child.remove_prefix(1);
      return child.empty() || is_barred != std::ranges::any_of(steps, [&](const Step& step) {
                                return step.is_child && step.key == child;
                              });
    });
  }

  // embeds = self.embed(ids)
  void FindEmbedded(const Forward& forward, const std::vector<Step>& steps) {
    for (size_t i = 0; i < steps.size(); ++i) {
      const AtenCall& last = At(steps[i].last);
      const size_t depth = forward.level + 1;
      const bool is_leaf =
          runs_.DepthAt(steps[i].first) == depth && runs_.DepthAt(steps[i].last) == depth;
      if (!steps[i].is_child || !is_leaf) continue;
      const bool embeds = last.op == "embedding" || (At(steps[i].first).op == "embedding");
      if (!embeds || IsScaled(last, i + 1 < steps.size() ? &steps[i + 1] : nullptr)) continue;
      if (forward.level > 0) Bind(steps[i], forward.last, steps[i].key);
      BindPositions(forward, steps, steps[i]);
    }
  }

  bool IsScaled(const AtenCall& made, const Step* next) const {
    if (next == nullptr || next->key != "mul.Scalar") return false;
    return At(next->first).inputs[0] == made.outputs[0];
  }

  // pos = torch.arange(n)
  void BindPositions(const Forward& forward, const std::vector<Step>& steps,
                     const Step& embedding) {
    const std::vector<NameId>& read = At(embedding.first).inputs;
    for (const Step& step : steps) {
      const bool is_made_here = !step.is_child && step.first < embedding.first;
      if (!is_made_here || At(step.first).op != "constant") continue;
      const NameId made = At(step.first).outputs[0];
      if (std::ranges::find(read, made) != read.end()) Bind(step, forward.last, "positions");
    }
  }

  void BindQuery(const Step& step, const Forward& forward) {
    constexpr std::string_view kNames[] = {"query", "key", "value"};
    for (size_t i = 0; i < std::size(kNames); ++i) {
      const NameId value = At(step.first).inputs[i];
      if (value != kNoName) names_.push_back({value, forward.last, std::string(kNames[i])});
    }
  }

  // What several turns of a loop over layers read and one of them, or the forward, has made.
  void FindShared(const Forward& forward, const std::vector<Step>& steps) {
    std::map<NameId, std::set<std::string_view>>
        readers;  // layers that read what they did not make
    std::set<NameId> made;
    for (const Step& step : steps) {
      std::set<NameId> own;
      for (int64_t i = step.first; i <= step.last; ++i) {
        const bool is_layer = step.is_child && IsListed(step.key);
        for (const NameId value : At(i).inputs) {
          if (is_layer && made.contains(value) && !own.contains(value)) {
            readers[value].insert(step.key);
          }
        }
        if (IsUnshown(At(i))) own.insert(At(i).outputs.begin(), At(i).outputs.end());
      }
      made.insert(own.begin(), own.end());
    }
    for (const auto& [value, layers] : readers) {
      if (AreTurns(layers)) names_.push_back({value, forward.last, "what the layers share"});
    }
  }

  // Whether they are of more than one turn: of "for block, res in zip(self.blocks, self.res)" those
  // of one turn have one number.
  static bool AreTurns(const std::set<std::string_view>& layers) {
    const auto number = [](std::string_view layer) { return layer.substr(layer.rfind('.') + 1); };
    return std::ranges::any_of(
        layers, [&](std::string_view layer) { return number(layer) != number(*layers.begin()); });
  }

  // "x = F.relu(self.conv(x))": an activation of a forward's own, of what a child has just made, is
  // in the statement that calls the child, so that x is what it was until then.
  void FindNested(const std::vector<Step>& steps) {
    constexpr std::string_view kFunctions[] = {"relu", "tanh", "sigmoid", "gelu", "silu"};
    std::set<NameId> made;
    for (size_t i = 0; i + 1 < steps.size(); ++i) {
      const Step& next = steps[i + 1];
      const std::vector<NameId>& results = At(steps[i].last).outputs;
      const std::vector<NameId>& read = At(next.first).inputs;
      const bool is_nested = steps[i].is_child && !next.is_child && !read.empty() &&
                             !results.empty() && read[0] == results[0] &&
                             std::ranges::find(kFunctions, next.key) != std::end(kFunctions);
      for (int64_t call = steps[i].first; is_nested && call <= steps[i].last; ++call) {
        for (const NameId value : At(call).inputs) {
          if (made.contains(value)) names_.push_back({value, next.last, "x"});
        }
      }
      made.insert(results.begin(), results.end());
    }
  }

  // Whether no line tells what it binds: the file has none, or that of a graph that torch.export
  // made of a part, the rotary embedding under torch.no_grad().
  bool IsUnshown(const AtenCall& call) const {
    return !shows_lines_ || (!call.frames.empty() && call.frames.back() != kNoStatement &&
                             source_.At(call.frames.back()).is_generated);
  }

  // x1 = self.stem(x): what is read after another child has run has a name of its own, unless a sum
  // or product of it takes the name, "x = x + y".  Names in loops are bound anew.
  void FindReadLater(const Forward& forward, const std::vector<Step>& steps) {
    std::map<NameId, size_t> makers;                     // of what children make: the step
    std::map<NameId, size_t> readers;                    // the last step
    std::map<NameId, std::set<std::string_view>> turns;  // layers of loops that read it
    for (size_t i = 0; i < steps.size(); ++i) {
      for (int64_t call = steps[i].first; call <= steps[i].last; ++call) {
        for (const NameId value : At(call).inputs) {
          if (!makers.contains(value)) continue;
          readers[value] = i;
          if (steps[i].is_child && IsListed(steps[i].key)) turns[value].insert(steps[i].key);
        }
      }
      if (!steps[i].is_child || IsListed(steps[i].key)) continue;
      for (const NameId value : At(steps[i].last).outputs) {
        if (value != kNoName) makers[value] = i;
      }
    }
    for (const auto& [value, last] : readers) {
      const std::span between =
          std::span(steps).subspan(makers[value] + 1, last - makers[value] - 1);
      const bool is_later = std::ranges::any_of(between, &Step::is_child);
      const bool is_of_loop = turns[value].contains(steps[last].key) && !AreTurns(turns[value]);
      if (!is_later || is_of_loop || TakesName(steps[last], value)) continue;
      if (rebound_.contains(value)) continue;
      names_.push_back({value, forward.last, "what is read later"});
    }
  }

  // x = x + y
  bool TakesName(const Step& step, NameId value) const {
    const std::vector<NameId>& inputs = At(step.first).inputs;
    return !step.is_child && step.key != "cat" && inputs.size() <= 2 && inputs[0] == value;
  }

  // x = self.forward_features(x); x = self.forward_head(x)
  void FindFeatures(const Forward& forward, const std::vector<Step>& steps) {
    for (const Step& step : steps) {
      const bool has_parts = runs_.DepthAt(step.first) > forward.level + 1;
      if (!step.is_child || !has_parts || !BeginsHead(step.key)) continue;
      for (const NameId value : At(step.first).inputs) {
        if (value != kNoName) names_.push_back({value, forward.last, "features"});
      }
      return;
    }
  }

  // xs = [conv(x) for conv in self.convs]; x = torch.cat(xs, dim=1)
  void FindGathered(const Forward& forward, const std::vector<Step>& steps) {
    std::map<NameId, const Step*> makers;  // of what layers of lists make
    for (const Step& step : steps) {
      if (step.is_child && IsListed(step.key)) {
        for (const NameId value : At(step.last).outputs) makers[value] = &step;
      }
      if (step.is_child || step.key != "cat") continue;
      std::set<std::string_view> layers;
      for (const NameId value : At(step.first).inputs) {
        if (makers.contains(value)) layers.insert(makers[value]->key);
      }
      const std::string_view list = layers.empty() ? "" : ParentOf(*layers.begin());
      const auto is_of_list = [&](std::string_view layer) { return ParentOf(layer) == list; };
      if (layers.size() < 2 || !std::ranges::all_of(layers, is_of_list)) continue;
      for (const NameId value : At(step.first).inputs) {
        if (makers.contains(value)) names_.push_back({value, forward.last, "what a list gathers"});
      }
    }
  }

  // "for stage in self.stages: x = stage(x); xs.append(x)", of which the file shows that some are
  // read behind the loop and others are not, so that nothing takes them out of the list.
  void FindAppended(const Forward& forward, const std::vector<Step>& steps) {
    std::map<std::string_view, std::vector<const Step*>> lists;
    for (const Step& step : steps) {
      if (step.is_child && IsListed(step.key)) lists[ParentOf(step.key)].push_back(&step);
    }
    for (const auto& [list, turns] : lists) {
      if (turns.size() < 3 || turns.back()->key == turns.front()->key) continue;
      const int64_t end = turns.back()->last;
      const auto is_read_behind = [&](const Step* turn) {
        const std::vector<NameId>& made = At(turn->last).outputs;
        if (made.size() != 1 || made[0] == kNoName) return false;
        const int64_t read = last_reads_[Index(made[0])];
        return read > end && read <= forward.last;
      };
      const auto behind = std::count_if(turns.begin(), turns.end() - 1, is_read_behind);
      const auto most = static_cast<std::ptrdiff_t>(turns.size()) - 1;
      if (behind < 1 || behind == most) continue;
      for (const Step* turn : turns) Bind(*turn, forward.last, "what a list holds");
    }
  }

  // variance = hidden_states.pow(2).mean(-1, keepdim=True), of an RMS norm.
  void FindVariance(const Forward& forward, const std::vector<Step>& steps) {
    const auto is = [](std::string_view op) {
      return [=](const Step& step) { return !step.is_child && step.key == op; };
    };
    if (std::ranges::none_of(steps, is("rsqrt"))) return;
    const auto mean = std::ranges::find_if(steps, is("mean"));
    if (mean != steps.end()) Bind(*mean, forward.last, "variance");
  }

  // x_n = x_g / (x_g.mean(…) + eps), of a global response norm, where x_g is a norm.
  void FindResponse(const Forward& forward, const std::vector<Step>& steps) {
    for (size_t i = 0; i + 3 < steps.size(); ++i) {
      const auto is = [&](size_t step, std::string_view op) {
        return !steps[step].is_child && RuleNameOf(steps[step].key) == op;
      };
      if (!is(i, "norm") || !is(i + 1, "mean") || !is(i + 3, "div")) continue;
      Bind(steps[i], forward.last, "x_g");
      Bind(steps[i + 3], forward.last, "x_n");
    }
  }

  const ModuleTree& modules_;
  const std::vector<AtenCall>& calls_;
  const SourceLines& source_;
  const ModuleRuns& runs_;
  std::vector<int64_t> last_reads_;  // by value: the call
  int64_t last_ = 0;                 // the model's last call
  bool shows_lines_ = false;
  std::vector<KnownName> names_;
  std::set<NameId> rebound_;  // what rows say until when names hold
};

}  // namespace

std::vector<KnownName> FindKnownNames(const Program& program, const ModuleRuns& runs,
                                      int64_t last) {
  KnownNameFinder finder(program, runs);
  std::vector<KnownName> names = finder.Find(last);
  if (finder.shows_lines()) return names;
  std::ranges::move(FindAttentionNames(program, runs, last), std::back_inserter(names));
  return names;
}

}  // namespace onnxfit
