// torch.nn.LSTM, GRU and RNN behind run_decompositions(): products and gates, step by step.  On a
// card cuDNN runs such a module, so its calls become the one that torch.export had before. Source:
// torch/_decomp/decompositions.py, torch 2.11 (lstm_impl, gru_impl, rnn_tanh_input), whose calls
// keep the module's class; a loop over LSTMCell is of another class, and stays as it is.
#include <algorithm>
#include <charconv>
#include <iterator>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "estimator/pt2/read_program.h"

namespace onnxfit::pt2 {
namespace {

struct LayerRow {
  std::string_view type;
  std::string_view target;
  size_t states;
};

constexpr LayerRow kLayers[] = {
    {"torch.nn.modules.rnn.LSTM", "torch.ops.aten.lstm.input", 2},
    {"torch.nn.modules.rnn.GRU", "torch.ops.aten.gru.input", 1},
    {"torch.nn.modules.rnn.RNN", "torch.ops.aten.rnn_tanh.input", 1},
};

const LayerRow* RowOf(const Call& call) {
  if (call.modules.empty()) return nullptr;
  const auto* row = std::ranges::find(kLayers, call.modules.back().type, &LayerRow::type);
  return row == std::end(kLayers) ? nullptr : row;
}

bool Contains(std::string_view text, std::string_view part) { return text.find(part) != text.npos; }

// Whether cuDNN's layer is in the file as it is: "aten.lstm.input", "aten.rnn_tanh.data".
bool IsWhole(const Call& call) {
  return call.target.ends_with(".input") || call.target.ends_with(".data");
}

// A parameter by its name, in the order in which the call takes them: "weight_hh_l1_reverse".
struct LayerParameter {
  int64_t layer = 0;
  bool is_reverse = false;
  size_t kind = 0;
  std::string_view name = {};  // of the graph's value

  auto operator<=>(const LayerParameter&) const =
      default;  // NOLINT(modernize-use-nullptr): 14 takes it for one
};

constexpr std::string_view kTensorKinds[] = {"weight_ih_l", "weight_hh_l", "bias_ih_l", "bias_hh_l",
                                             "weight_hr_l"};

std::optional<LayerParameter> ParameterOf(const InputSpec& spec) {
  constexpr std::string_view kReverse = "_reverse";
  std::string_view child = spec.target.substr(spec.target.rfind('.') + 1);  // npos + 1 is 0
  LayerParameter found = {.name = spec.name};
  const auto* kind =
      std::ranges::find_if(kTensorKinds, [&](auto k) { return child.starts_with(k); });
  if (kind == std::end(kTensorKinds)) return std::nullopt;
  found.kind = static_cast<size_t>(kind - std::begin(kTensorKinds));
  child.remove_prefix(kind->size());
  found.is_reverse = child.ends_with(kReverse);
  if (found.is_reverse) child.remove_suffix(kReverse.size());
  const auto [end, error] = std::from_chars(child.data(), child.data() + child.size(), found.layer);
  const bool is_number = error == std::errc() && end == child.data() + child.size();
  return is_number ? std::optional(found) : std::nullopt;
}

Argument TensorNamed(std::string_view name) {
  return {.kind = Argument::Kind::kTensor, .text = name};
}
Argument ListOf(const std::vector<std::string_view>& names) {
  Argument list = {.kind = Argument::Kind::kList};
  for (const std::string_view name : names) list.items.push_back(TensorNamed(name));
  return list;
}
Argument Number(int64_t number) { return {.kind = Argument::Kind::kNumber, .number = number}; }
Argument Truth(bool truth) { return {.kind = Argument::Kind::kBool, .number = truth ? 1 : 0}; }

// The calls of one run of a module, from `begin` to `end`, and what is found in them.
struct UnrolledRun {
  const LayerRow* row = nullptr;
  size_t begin = 0;
  size_t end = 0;
  std::vector<LayerParameter> parameters = {};
  std::vector<size_t> zeros = {};             // calls that make the first states
  std::vector<std::string_view> states = {};  // what they make, or what the module is given
  std::string_view x = {};
  bool batch_first = false;
  bool drops_out = false;
  std::vector<std::string_view> results = {};  // that others read
};

class RunFinder {
 public:
  explicit RunFinder(const ExportedProgram& program) : graph_(program.graph) {
    for (const InputSpec& spec : program.inputs) inputs_.emplace(spec.name, &spec);
    for (size_t i = 0; i < graph_.calls.size(); ++i) {
      for (const std::string_view name : OperandsOf(graph_.calls[i])) last_read_[name] = i;
    }
    for (const Argument& output : graph_.outputs) {
      std::set<std::string_view> names;
      AddNames(output, names);
      for (const std::string_view name : names) last_read_[name] = graph_.calls.size();
    }
  }

  std::vector<UnrolledRun> Find() {
    std::vector<UnrolledRun> runs;
    for (size_t at = 0; at < graph_.calls.size();) {
      const size_t end = EndOf(at);
      if (RowOf(graph_.calls[at]) != nullptr && IsTakenApart(at, end)) {
        std::optional<UnrolledRun> run = RunIn(at, end);
        if (run.has_value()) runs.push_back(*std::move(run));
      }
      at = end;
    }
    return runs;
  }

 private:
  // Behind the calls of the same run of the same module.
  size_t EndOf(size_t begin) const {
    const auto path = [&](size_t i) {
      const Call& call = graph_.calls[i];
      return call.modules.empty() ? std::string_view() : call.modules.back().path;
    };
    size_t end = begin + 1;
    while (end < graph_.calls.size() && path(end) == path(begin) &&
           RowOf(graph_.calls[end]) == RowOf(graph_.calls[begin])) {
      ++end;
    }
    return end;
  }

  // Whether calls from `begin` on read parameters, and none is cuDNN's.
  bool IsTakenApart(size_t begin, size_t end) const {
    bool reads = false;
    for (size_t i = begin; i < end; ++i) {
      if (IsWhole(graph_.calls[i])) return false;
      for (const std::string_view name : OperandsOf(graph_.calls[i])) {
        const auto input = inputs_.find(name);
        reads =
            reads || (input != inputs_.end() && input->second->kind == InputSpec::Kind::kParameter);
      }
    }
    return reads;
  }

  std::optional<UnrolledRun> RunIn(size_t begin, size_t end) const {
    UnrolledRun run = {.row = RowOf(graph_.calls[begin]), .begin = begin, .end = end};
    std::vector<std::string_view> given;  // from elsewhere, in the order of use
    std::set<std::string_view> made;
    for (size_t i = begin; i < end; ++i) {
      const Call& call = graph_.calls[i];
      run.drops_out = run.drops_out || Contains(call.target, "dropout") ||
                      Contains(call.target, "bernoulli") || Contains(call.target, ".rand");
      const std::vector<std::string_view> operands = OperandsOf(call);
      for (const std::string_view name : operands) {
        if (!made.contains(name) && !Take(name, run, given)) return std::nullopt;
      }
      AddResults(call, i, operands.empty(), run, made);
    }
    return TakeGiven(given, run) && TakeResults(run) ? std::optional(std::move(run)) : std::nullopt;
  }

  // A parameter, or something from elsewhere; false for a parameter of another kind of layer.
  bool Take(std::string_view name, UnrolledRun& run, std::vector<std::string_view>& given) const {
    const auto input = inputs_.find(name);
    if (input != inputs_.end() && input->second->kind == InputSpec::Kind::kParameter) {
      const std::optional<LayerParameter> parameter = ParameterOf(*input->second);
      if (!parameter.has_value()) return false;
      if (std::ranges::find(run.parameters, *parameter) == run.parameters.end()) {
        run.parameters.push_back(*parameter);
      }
      return true;
    }
    if (std::ranges::find(given, name) == given.end()) given.push_back(name);
    return true;
  }

  void AddResults(const Call& call, size_t i, bool is_of_numbers, UnrolledRun& run,
                  std::set<std::string_view>& made) const {
    std::set<std::string_view> names;
    for (const Argument& result : call.results) AddNames(result, names);
    made.insert(names.begin(), names.end());
    if (is_of_numbers && names.size() == 1 && run.states.size() < run.row->states) {
      run.zeros.push_back(i);
      run.states.push_back(*names.begin());
      return;
    }
    for (const std::string_view name : names) {
      const auto read = last_read_.find(name);
      if (read != last_read_.end() && read->second >= run.end) run.results.push_back(name);
    }
  }

  // The module reads its states first, then x.
  bool TakeGiven(const std::vector<std::string_view>& given, UnrolledRun& run) const {
    std::ranges::sort(run.parameters);
    if (given.empty() || run.parameters.size() < 2) return false;
    run.x = given.back();
    run.states.insert(run.states.end(), given.begin(), given.end() - 1);
    for (size_t i = run.begin; i < run.end; ++i) {
      const Call& call = graph_.calls[i];
      const bool turns = Contains(call.target, ".permute.") || Contains(call.target, ".transpose.");
      const std::vector<std::string_view> operands = OperandsOf(call);
      if (turns && !operands.empty() && operands[0] == run.x) run.batch_first = true;
    }
    return run.states.size() == run.row->states && RankOf(run.x) == 3 && RankOf(run.states[0]) == 3;
  }

  size_t RankOf(std::string_view name) const {
    const auto tensor = graph_.tensors.find(name);
    return tensor == graph_.tensors.end() ? 0 : tensor->second.sizes.size();
  }

  // y, which has x's steps, then the states that are read.
  bool TakeResults(UnrolledRun& run) const {
    if (run.results.size() > 1 + run.row->states) return false;
    const auto is_y = [&](std::string_view name) {
      const std::vector<Size>& sizes = graph_.tensors.at(name).sizes;
      const std::vector<Size>& of_x = graph_.tensors.at(run.x).sizes;
      return sizes.size() == 3 && AreSame(sizes[0], of_x[0]) && AreSame(sizes[1], of_x[1]);
    };
    for (const std::string_view name : run.results) {
      if (RankOf(name) != 3) return false;
    }
    const auto y = std::ranges::find_if(run.results, is_y);
    if (y == run.results.end() || y == run.results.begin()) return true;
    std::rotate(run.results.begin(), y, y + 1);
    return true;
  }

  static bool AreSame(const Size& a, const Size& b) {
    return a.number == b.number && a.expression == b.expression;
  }

  const Graph& graph_;
  std::map<std::string_view, const InputSpec*> inputs_;
  std::map<std::string_view, size_t> last_read_;  // the last call; behind all: an output
};

// Writes the one call for the calls of a run.
class RunWriter {
 public:
  RunWriter(Graph& graph, TextPool& pool) : graph_(graph), pool_(pool) {}

  Call CallOf(const UnrolledRun& run) {
    const Call& last = graph_.calls[run.end - 1];
    Call call = {.target = run.row->target, .name = last.name};
    call.modules = last.modules;
    call.lines = last.lines;
    std::vector<std::string_view> parameters;
    for (const LayerParameter& parameter : run.parameters) parameters.push_back(parameter.name);
    const auto has = [&](size_t kind) {
      return std::ranges::find(run.parameters, kind, &LayerParameter::kind) != run.parameters.end();
    };
    const bool is_bidirectional = std::ranges::any_of(
        run.parameters, [](const LayerParameter& parameter) { return parameter.is_reverse; });
    const int64_t layers = run.parameters.back().layer + 1;
    call.arguments = {
        {"input", TensorNamed(run.x)},
        {"hx", run.row->states == 2 ? ListOf(run.states) : TensorNamed(run.states[0])},
        {"params", ListOf(parameters)},
        {"has_biases", Truth(has(2))},
        {"num_layers", Number(layers)},
        {"dropout", {.kind = Argument::Kind::kReal, .real = run.drops_out ? 0.5 : 0}},
        {"train", Truth(true)},
        {"bidirectional", Truth(is_bidirectional)},
        {"batch_first", Truth(run.batch_first)}};
    AddResults(run, is_bidirectional, call);
    return call;
  }

 private:
  // y, and states of the sizes of the first ones, whether they are read or not.
  void AddResults(const UnrolledRun& run, bool is_bidirectional, Call& call) {
    std::vector<std::string_view> results = run.results;
    const bool has_y = !results.empty() && IsY(run, results[0]);
    if (!has_y) results.insert(results.begin(), NewY(run, is_bidirectional));
    for (size_t i = results.size() - 1; i < run.row->states; ++i) {
      const std::string_view name = pool_.Keep(std::string(run.states[i]) + "_last");
      const Tensor like = graph_.tensors.at(run.states[i]);
      graph_.tensors.emplace(name, like);
      results.push_back(name);
    }
    for (const std::string_view name : results) call.results.push_back(TensorNamed(name));
  }

  bool IsY(const UnrolledRun& run, std::string_view name) const {
    const std::vector<Size>& sizes = graph_.tensors.at(name).sizes;
    const std::vector<Size>& of_x = graph_.tensors.at(run.x).sizes;
    return sizes[0].number == of_x[0].number && sizes[0].expression == of_x[0].expression &&
           sizes[1].number == of_x[1].number && sizes[1].expression == of_x[1].expression;
  }

  std::string_view NewY(const UnrolledRun& run, bool is_bidirectional) {
    const std::string_view name = pool_.Keep(std::string(run.x) + "_steps");
    Tensor y = graph_.tensors.at(run.x);
    y.sizes[2] = graph_.tensors.at(run.states[0]).sizes[2];
    y.sizes[2].number *= is_bidirectional ? 2 : 1;
    y.strides.clear();
    graph_.tensors.emplace(name, std::move(y));
    return name;
  }

  Graph& graph_;
  TextPool& pool_;
};

}  // namespace

void RollUpLayers(ExportedProgram& program, TextPool& pool) {
  RunFinder finder(program);
  const std::vector<UnrolledRun> runs = finder.Find();
  if (runs.empty()) return;
  Graph& graph = program.graph;
  RunWriter writer(graph, pool);
  std::vector<Call> calls;
  size_t next = 0;
  for (const UnrolledRun& run : runs) {
    Call call = writer.CallOf(run);
    std::move(graph.calls.begin() + static_cast<std::ptrdiff_t>(next),
              graph.calls.begin() + static_cast<std::ptrdiff_t>(run.begin),
              std::back_inserter(calls));
    for (const size_t zeros : run.zeros) calls.push_back(graph.calls[zeros]);
    calls.push_back(std::move(call));
    next = run.end;
  }
  std::move(graph.calls.begin() + static_cast<std::ptrdiff_t>(next), graph.calls.end(),
            std::back_inserter(calls));
  graph.calls = std::move(calls);
  program.notes.push_back(
      "recurrent layers that run_decompositions() took apart are cuDNN's again");
}

}  // namespace onnxfit::pt2
