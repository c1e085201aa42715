#include "estimator/recover/put_backs.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "estimator/base/bytes.h"
#include "estimator/base/index.h"
#include "estimator/base/text.h"
#include "estimator/libraries/libraries.h"
#include "estimator/lost/lost_calls.h"
#include "estimator/program/modules.h"

namespace onnxfit {
namespace {

bool IsDropout(const LostCall& call) { return call.op == "dropout"; }

// Where a dropout may be.
struct DropoutPlace {
  std::vector<std::string> names;  // that a glob may call it
  bool never = false;              // by its library's default
  bool is_rare = false;            // told alone
};

class PutBackFinder {
 public:
  PutBackFinder(const Findings& found, const Roles& roles, const TrainingSettings& settings)
      : file_(found),
        bound_(found.bound),
        graph_(bound_.graph()),
        metadata_(bound_.metadata()),
        roles_(roles),
        settings_(settings) {}

  PutBacks Find() {
    found_.rotary = file_.tensors.rotary;
    if (found_.rotary.has_value()) {
      found_.notes.push_back(found_.rotary->module + " is put back: the export holds its results");
    }
    std::vector<LostCall> dropouts;
    for (LostCall& lost : LostCalls()) {
      if (IsOfRotary(lost) || IsAutocasts(lost) || (lost.is_open && !RunsInHalf())) continue;
      Note(lost);
      if (IsDropout(lost)) dropouts.push_back(lost);
      if (lost.behind != kNoNode) found_.behind.emplace(lost.behind, lost);
      if (lost.before != kNoNode) found_.before.emplace(lost.before, std::move(lost));
    }
    if (!dropouts.empty()) AssumeDropouts(dropouts);
    AssumeOpenCasts();
    if (trains() && settings_.dropout != 0.0) PlanStochasticDepths();
    return std::move(found_);
  }

 private:
  bool trains() const { return settings_.mode == Mode::kTrain; }

  static NodeId ReaderOf(const LostCall& lost) {
    return lost.before == kNoNode ? lost.behind : lost.before;
  }

  void Note(const LostCall& lost) {
    found_.notes.push_back(fmt::format("{} is put back before {}",
                                       lost.repeats == kNoNode ? lost.op : lost.name,
                                       DisplayName(graph_, ReaderOf(lost))));
  }

  // softmax(x.float()): autocast runs it in fp32 anyway.  (Names in files without lines are told by
  // calls that say more.)
  bool IsAutocasts(const LostCall& lost) const {
    return metadata_.lines.size() > 1 && lost.op == "to.inline" && lost.before != kNoNode &&
           AutocastType(settings_.precision) != DType::kUndefined &&
           bound_.At(lost.before).op_type == "Softmax";
  }

  bool RunsInHalf() const {
    return settings_.precision == Precision::kBf16 || settings_.precision == Precision::kFp16;
  }

  // A norm that may compute in fp32 takes more if it does, but under autocast, which runs its
  // square in fp32 anyway: there its result takes more if it is not cast back.
  void AssumeOpenCasts() {
    const bool is_autocast = AutocastType(settings_.precision) != DType::kUndefined;
    if (!RunsInHalf() && !is_autocast) return;
    std::vector<NodeId> norms;
    for (const LostCall& cast : file_.casts) {
      const bool matters = !is_autocast || IsOfLayer(bound_, cast.like);
      if (cast.is_open && cast.op == "type_as" && matters)
        norms.push_back(graph_.values[Index(cast.input)].producer);
    }
    if (norms.empty()) return;
    found_.assumptions.push_back(fmt::format(
        "{} norm{} by hand, the first at {}, may cast to fp32 and back in lines of which an ONNX "
        "file has no trace: {} taken, which is more (a .pt2 has such casts)",
        norms.size(), norms.size() == 1 ? "" : "s", DisplayName(graph_, norms[0]),
        is_autocast ? "neither is" : "both are"));
  }

  // cos * 1.0, which is put back with cos.
  bool IsOfRotary(const LostCall& lost) const {
    if (!found_.rotary.has_value() || lost.op != "mul.Scalar") return false;
    const auto reads = [&](const std::vector<ValueId>& values) {
      return std::ranges::find(values, lost.input) != values.end();
    };
    return reads(found_.rotary->cos) || reads(found_.rotary->sin);
  }

  // Those that leave a trace, and dropouts of transformers, where they are likely or told.
  std::vector<LostCall> LostCalls() {
    std::vector<LostCall> calls = FindLostCalls(graph_, metadata_, file_.operands, roles_.folded);
    for (LostCall& call : FindDetachedMaxima(bound_)) calls.push_back(std::move(call));
    calls.insert(calls.end(), file_.casts.begin(), file_.casts.end());
    // 1 + weight.float(): what is made of a weight comes behind its cast.
    std::stable_partition(calls.begin(), calls.end(), [&](const LostCall& call) {
      return call.op == "to" && IsParameter(call.input);
    });
    LostDropouts found;
    if (trains()) found = file_.dropouts;
    const bool drops = DropsOutElsewhere(std::ranges::any_of(calls, &IsDropout));
    for (LostCall& call : found.calls) {
      const bool is_there = std::ranges::any_of(calls, [&](const LostCall& other) {
        return other.before == call.before && other.input == call.input;
      });
      if (!is_there) calls.push_back(std::move(call));
    }
    DecideDropouts(drops, calls, found.attention);
    return calls;
  }

  // By its own name or a tied one.
  bool IsParameter(ValueId value) const {
    for (const auto& [copy, tensor] : roles_.ties) {
      if (copy == value) value = tensor;
    }
    return std::ranges::find(roles_.parameters, value, &ModuleTensor::value) !=
           roles_.parameters.end();
  }

  // Where no place is told: everywhere, where such models have it, and the file shows a dropout or
  // would show none, and was likely exported for inference.
  bool DropsOutElsewhere(bool is_traced) const {
    if (!trains()) return false;
    if (settings_.dropout.has_value()) return *settings_.dropout != 0;
    const std::optional<bool> likely = file_.likely_drops_out;
    if (is_traced) return likely.value_or(true);
    return !ShowsDropouts(graph_, metadata_) && likely.value_or(false) && !IsUnfoldedExport(graph_);
  }

  // Takes dropouts with p = 0 out of `calls`; `attention` (rewrites) drops out where p is above 0.
  void DecideDropouts(bool elsewhere, std::vector<LostCall>& calls,
                      const std::vector<size_t>& attention) {
    std::vector<DropoutPlace> places;
    for (const LostCall& call : calls) {
      if (IsDropout(call)) places.push_back(PlaceOfDropout(call));
    }
    for (const size_t call : attention) places.push_back(PlaceOfAttention(call));
    DoubtDropouts(places);
    const std::vector<bool> drops = DropsOutAt(places, elsewhere);
    const size_t lost = places.size() - attention.size();
    for (size_t i = 0; i < attention.size(); ++i) found_.attention[attention[i]] = drops[lost + i];
    size_t place = 0;
    std::erase_if(calls, [&](const LostCall& call) { return IsDropout(call) && !drops[place++]; });
  }

  DropoutPlace PlaceOfDropout(const LostCall& call) const {
    std::vector<std::string> names = NamesAt(call.before);
    names.insert(names.end(), {call.name, PathOf(call)});
    return {std::move(names),
            NeverDropsOut(ClassesAround(call.input, call.before), /*weighs=*/false), call.is_rare};
  }

  DropoutPlace PlaceOfAttention(size_t call) const {
    const NodeId node = file_.rewrites[call].last;
    return {NamesAt(node), NeverDropsOut(metadata_.ClassesOf(node), /*weighs=*/true)};
  }

  std::vector<std::string> NamesAt(NodeId node) const {
    return {DisplayName(graph_, node), metadata_.PathOf(node)};
  }

  std::string PathOf(const LostCall& call) const {
    std::vector<std::string> names = metadata_.modules.NamesOf(call.caller);
    if (!call.module.empty()) names.push_back(call.module);
    return ModulePath(names);
  }

  // Classes of the modules around a dropout that stood between `input` and `reader`: those that
  // both are in.
  std::vector<std::string> ClassesAround(ValueId input, NodeId reader) const {
    std::vector<std::string> classes = metadata_.ClassesOf(reader);
    const NodeId maker = graph_.values[Index(input)].producer;
    if (maker == kNoNode) return classes;
    const size_t shared =
        metadata_.modules.Shared(metadata_.ModuleOf(maker), metadata_.ModuleOf(reader));
    classes.resize(std::min(shared, classes.size()));
    return classes;
  }

  // What the libraries' defaults leave open is a doubt; what they decide is told.
  void DoubtDropouts(const std::vector<DropoutPlace>& places) {
    if (!trains() || settings_.dropout.has_value()) return;
    const auto never = std::ranges::count_if(places, &DropoutPlace::never);
    if (never < std::ssize(places)) found_.doubts.push_back(Doubt::kDropout);
    if (never == 0) return;
    found_.assumptions.push_back(
        fmt::format("{} dropout{} of a library that makes them with p = 0 are taken to be so "
                    "(--dropout 0.1, if yours drop out)",
                    never, never == 1 ? "" : "s"));
  }

  // By place, which has several names: whether p is above 0 there.
  std::vector<bool> DropsOutAt(const std::vector<DropoutPlace>& places, bool elsewhere) const {
    std::vector<bool> drops(places.size(), elsewhere);
    if (!trains()) return drops;
    for (size_t i = 0; i < places.size() && !settings_.dropout.has_value(); ++i) {
      drops[i] = elsewhere && !places[i].never && !places[i].is_rare;
    }
    std::vector<std::string> names;
    std::vector<size_t> place_of;
    for (size_t i = 0; i < places.size(); ++i) {
      names.insert(names.end(), places[i].names.begin(), places[i].names.end());
      place_of.resize(names.size(), i);
    }
    for (const auto& [glob, p] : settings_.placed_dropouts) {
      const std::vector<bool> picked = PickNames(
          names, {&glob, 1}, {"--dropout", "lost dropouts, their nodes or modules", graph_.path});
      for (size_t i = 0; i < names.size(); ++i) {
        if (picked[i]) drops[place_of[i]] = p > 0;
      }
    }
    return drops;
  }

  // A call that several nodes read is one.
  void AssumeDropouts(const std::vector<LostCall>& dropouts) {
    std::map<std::string, int64_t> kept;  // by name
    for (const LostCall& lost : dropouts) {
      kept[lost.name] = KeptByDropout(bound_.DimsOf(lost.input));
    }
    int64_t bytes = 0;
    for (const auto& [name, of_one] : kept) bytes = CheckedAdd(bytes, of_one);
    const bool is_one = kept.size() == 1;
    found_.assumptions.push_back(fmt::format(
        "{} dropout{} that the export has lost {} put back, the first before {}: {} more are kept "
        "for backward (--dropout 0, if there is none)",
        kept.size(), is_one ? "" : "s", is_one ? "is" : "are",
        DisplayName(graph_, dropouts[0].before), FormatBytes(bytes)));
  }

  // Its mask, a byte an element, and its result; in place, noise in the result's type.
  int64_t KeptByDropout(const Dims& dims) const {
    const int64_t result = BytesOf({ComputeType(settings_.precision), dims});
    return settings_.assumed.in_place_dropout ? result : CheckedAdd(result, Numel(dims));
  }

  void PlanStochasticDepths() {
    int64_t bytes = 0;  // of noise, a number a sample
    for (const auto& [sum, branch] : file_.stochastic_depths) {
      found_.stochastic_depths.emplace(sum, branch);
      const Dims& dims = bound_.DimsOf(branch);
      const Dims per_sample = {dims.empty() ? 1 : dims[0]};
      bytes = CheckedAdd(bytes, BytesOf({ComputeType(settings_.precision), per_sample}));
    }
    const auto& depths = found_.stochastic_depths;
    if (depths.empty()) return;
    found_.assumptions.push_back(fmt::format(
        "stochastic depth, which the export has lost, is put back in {} residual block{} like "
        "torchvision's MBConv, the first at {}: {} more are kept for backward (--dropout 0, if "
        "there is none)",
        depths.size(), depths.size() == 1 ? "" : "s", DisplayName(graph_, depths.begin()->first),
        FormatBytes(bytes)));
  }

  const Findings& file_;
  const BoundGraph& bound_;
  const Graph& graph_;
  const ExporterMetadata& metadata_;
  const Roles& roles_;
  const TrainingSettings& settings_;
  PutBacks found_;
};

}  // namespace

PutBacks FindPutBacks(const Findings& found, const Roles& roles, const TrainingSettings& settings) {
  return PutBackFinder(found, roles, settings).Find();
}

}  // namespace onnxfit
