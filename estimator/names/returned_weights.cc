#include "estimator/names/returned_weights.h"

#include <algorithm>
#include <iterator>
#include <string_view>
#include <utility>

#include "estimator/base/index.h"
#include "estimator/libraries/libraries.h"
#include "estimator/program/modules.h"

namespace onnxfit {
namespace {

// What reads weights, and what may stand between it and the softmax.
constexpr std::string_view kWeighing[] = {"matmul", "bmm", "baddbmm", "einsum"};
constexpr std::string_view kOnTheWay[] = {"dropout", "to",    "type_as", "view",
                                          "expand",  "slice", "reshape"};

// What an einsum does to an operand first (program/einsum.h).
constexpr std::string_view kOfEinsum[] = {"einsum_operand", "permute", "view"};

// What a router's linear layer runs.
constexpr std::string_view kLinear[] = {"linear", "matmul"};

// "attn_weights", "attention_probs", "self.attn", or what nobody wants.
bool IsOfWeights(std::string_view name) {
  return name == "_" || name.starts_with("self.") || name.find("weights") != name.npos ||
         name.find("probs") != name.npos;
}

bool IsAmong(std::string_view op, auto&& ops) {
  return std::ranges::find(ops, op) != std::end(ops);
}

class HeldWeightsFinder {
 public:
  HeldWeightsFinder(const Program& program, const ModuleRuns& runs,
                    const std::vector<ModuleCall>& modules)
      : program_(program), runs_(runs), modules_(modules), makers_(program.values.size(), -1) {
    for (size_t i = 0; i < program.calls.size(); ++i) {
      for (const NameId name : program.calls[i].outputs) {
        if (name != kNoName) makers_[Index(name)] = static_cast<int64_t>(i);
      }
    }
  }

  std::vector<HeldWeights> Find() {
    for (size_t i = 0; i < modules_.size(); ++i) {
      for (const Statement& statement : modules_[i].statements) FollowLogits(i, statement);
    }
    for (size_t i = 0; i < program_.calls.size(); ++i) {
      const AtenCall& call = program_.calls[i];
      if (!IsAmong(call.op, kWeighing)) continue;
      const NameId weights = BehindOwnViews(call.inputs[0], static_cast<int64_t>(i));
      if (AreWeights(weights)) Follow(weights, static_cast<int64_t>(i));
    }
    return std::move(held_);
  }

 private:
  // What an einsum that makes `call` reads by views of its own.
  NameId BehindOwnViews(NameId name, int64_t call) const {
    const int32_t run = runs_.RunOf(call);
    const Statement* einsum = run < 0 ? nullptr : StatementAt(modules_[Index(run)], call);
    if (einsum == nullptr || einsum->source == kNoStatement ||
        !program_.source.At(einsum->source).Mentions("torch.einsum(")) {
      return name;
    }
    while (name != kNoName && makers_[Index(name)] >= einsum->first) {
      const AtenCall& maker = program_.calls[Index(makers_[Index(name)])];
      if (!IsAmong(maker.op, kOfEinsum)) break;
      name = maker.inputs[0];
    }
    return name;
  }

  bool AreWeights(NameId name) const {
    while (name != kNoName && makers_[Index(name)] >= 0) {
      const AtenCall& maker = program_.calls[Index(makers_[Index(name)])];
      if (maker.op == "softmax") return true;
      if (!IsAmong(maker.op, kOnTheWay)) return false;
      name = maker.inputs[0];
    }
    return false;
  }

  // "_, scores, indices = self.router(x)": what a router's first product makes is among what it
  // returns.
  void FollowLogits(size_t module, const Statement& statement) {
    const auto unwanted = std::ranges::find(statement.targets, "_");
    if (statement.targets.size() != 3 || unwanted == statement.targets.end()) return;
    NameId logits = kNoName;
    for (int64_t i = statement.first; i <= statement.last; ++i) {
      const AtenCall& call = program_.calls[Index(i)];
      if (call.op == "topk" && logits != kNoName) {
        const auto place = unwanted - statement.targets.begin();
        return Add(logits, module, statement, static_cast<size_t>(place));
      }
      const bool is_linear = IsAmong(call.op, kLinear);
      if (is_linear && logits != kNoName) return;  // no router has two
      const bool casts = call.op == "to" && call.inputs[0] == logits;
      if (is_linear || casts) logits = call.outputs[0];
    }
  }

  // From the forward that weighs outwards.
  void Follow(NameId weights, int64_t call) {
    int32_t run = runs_.RunOf(call);
    const Statement* statement = run < 0 ? nullptr : StatementAt(modules_[Index(run)], call);
    if (statement == nullptr) return;
    const bool is_named_before = makers_[Index(weights)] < statement->first;
    if (is_named_before && KeepsThem(*statement, weights)) return;
    bool is_passed_on = !is_named_before;
    if (is_passed_on && !Hold(weights, run, *statement, /*is_passed_on=*/false)) return;
    for (bool is_layer = IsLayer(run); (run = runs_.all()[Index(run)].caller) >= 0;) {
      statement = StatementAt(modules_[Index(run)], call);
      if (statement == nullptr || !Hold(weights, run, *statement, is_passed_on) || is_layer) return;
      is_passed_on = true;
      is_layer = IsLayer(run);
    }
  }

  // Whether a view of them, which is what is returned, stands between the softmax and them.
  bool IsView(NameId weights) const {
    const AtenCall* maker = &program_.calls[Index(makers_[Index(weights)])];
    while (maker->op != "softmax" && maker->op != "view") {
      maker = &program_.calls[Index(makers_[Index(maker->inputs[0])])];
    }
    return maker->op == "view";
  }

  bool KeepsThem(const Statement& product, NameId weights) const {
    return product.source != kNoStatement && !IsView(weights) &&
           KeepsWeightsUnlessAsked(program_.source.At(product.source).text);
  }

  // Whether the statement binds them, or passes them on: to a lone name only what another name
  // shows to be returned.
  bool Hold(NameId weights, int32_t run, const Statement& statement, bool is_passed_on) {
    const std::vector<std::string>& targets = statement.targets;
    if (statement.source == kNoStatement) return false;
    const SourceStatement& line = program_.source.At(statement.source);
    if (line.Mentions("output_attentions")) return false;
    if (targets.empty()) return line.returns;
    const bool is_tuple =
        targets[0].ends_with("outputs") &&
        (is_passed_on ? !ReturnsWeightsIfAsked(line.file) : ReturnsWeights(line.text, line.file));
    if (targets.size() > 1 ? !IsOfWeights(targets[1]) : !is_tuple) return false;
    Add(weights, Index(run), statement, std::min<size_t>(targets.size() - 1, 1));
    return true;
  }

  void Add(NameId weights, size_t module, const Statement& statement, size_t place) {
    const auto index = &statement - modules_[module].statements.data();
    held_.push_back({weights, module, static_cast<size_t>(index), place});
  }

  // "model.layers.3", of a loop over them.
  bool IsLayer(int32_t run) const {
    const ModuleRun& one = runs_.all()[Index(run)];
    return IsListed(program_.modules.NameAt(one.module, one.level));
  }

  const Program& program_;
  const ModuleRuns& runs_;
  const std::vector<ModuleCall>& modules_;
  std::vector<int64_t> makers_;  // by name: the call that makes it, or -1
  std::vector<HeldWeights> held_;
};

}  // namespace

std::vector<HeldWeights> FindHeldWeights(const Program& program, const ModuleRuns& runs,
                                         const std::vector<ModuleCall>& modules) {
  return HeldWeightsFinder(program, runs, modules).Find();
}

}  // namespace onnxfit
