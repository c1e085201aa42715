#include "estimator/fit/tensor_names.h"

#include <fmt/format.h>

#include <algorithm>
#include <span>

#include "estimator/base/index.h"
#include "estimator/base/text.h"

namespace onnxfit {
namespace {

constexpr size_t kListed = 5;  // names in an error

bool IsSeparator(char letter) { return letter == '/' || letter == '.'; }

// What one name stands for.
struct NameMeaning {
  NamedTensor tensor;
  std::vector<NodeId> nodes;

  bool is_tensor() const {
    return tensor.value != kNoValue || !tensor.names.empty() || !tensor.buffers.empty();
  }
};

size_t CountParts(std::string_view name) {
  return static_cast<size_t>(std::ranges::count_if(name, IsSeparator)) + 1;
}

// The last `parts` of `name`: "conv1.weight" of "layer1.conv1.weight" for 2.
std::string_view EndOfParts(std::string_view name, size_t parts) {
  size_t begin = name.size();
  while (begin > 0 && (!IsSeparator(name[begin - 1]) || --parts > 0)) --begin;
  return name.substr(begin);
}

class TensorNames {
 public:
  explicit TensorNames(const Prediction& prediction) : prediction_(prediction) {
    AddValues();
    AddTensors();
    AddBuffers();
    for (size_t i = 0; i < Graph().nodes.size(); ++i) {
      const auto node = static_cast<NodeId>(i);
      At(DisplayName(Graph(), node)).nodes.push_back(node);
    }
  }

  std::vector<NamedTensor> Find(std::string_view asked) const {
    const auto exact = meanings_.find(asked);
    if (exact != meanings_.end()) return TensorsOf(exact->second);
    const std::vector<std::string_view> ends = EndingIn(asked);
    if (ends.size() == 1) return TensorsOf(meanings_.find(ends[0])->second);
    if (ends.size() > 1) RefuseSeveral(asked, ends);
    if (IsGradient(asked)) return {{std::string(asked), kNoValue, {}, {}}};
    RefuseUnknown(asked);
  }

 private:
  const onnxfit::Graph& Graph() const { return prediction_.graph(); }
  const Program& program() const { return prediction_.program; }

  NameMeaning& At(std::string_view name) {
    auto found = meanings_.find(name);
    if (found == meanings_.end()) found = meanings_.emplace(name, NameMeaning()).first;
    found->second.tensor.name = name;
    return found->second;
  }

  void AddValues() {
    for (size_t i = 0; i < Graph().values.size(); ++i) {
      if (Graph().values[i].name.empty()) continue;
      NamedTensor& tensor = At(Graph().values[i].name).tensor;
      tensor.value = static_cast<ValueId>(i);
      AddName(tensor, program().name_of[i]);
    }
  }

  void AddTensors() {
    for (size_t i = 0; i < program().values.size(); ++i) {
      AddName(At(program().values[i].name).tensor, static_cast<NameId>(i));
    }
  }

  void AddBuffers() {
    const Trace& trace = prediction_.trace;
    for (size_t i = 0; i < trace.buffers.size(); ++i) {
      const std::string& label = trace.labels[Index(trace.buffers[i].label)];
      At(label).tensor.buffers.push_back(static_cast<BufferId>(i));
    }
    for (const Holder& holder : prediction_.holders) {
      if (holder.type != Holder::Type::kGradient) continue;
      const std::string& name = program().values[Index(holder.id)].name;
      AddBuffer(At(name + std::string(kGradSuffix)).tensor, holder.buffer);
    }
  }

  static void AddName(NamedTensor& tensor, NameId name) {
    if (name == kNoName || std::ranges::find(tensor.names, name) != tensor.names.end()) return;
    tensor.names.push_back(name);
  }

  static void AddBuffer(NamedTensor& tensor, BufferId buffer) {
    if (std::ranges::find(tensor.buffers, buffer) != tensor.buffers.end()) return;
    tensor.buffers.push_back(buffer);
  }

  std::vector<NamedTensor> TensorsOf(const NameMeaning& meaning) const {
    if (meaning.is_tensor()) return {meaning.tensor};
    std::vector<NamedTensor> results;
    for (const NodeId node : meaning.nodes) {
      for (const ValueId value : Graph().nodes[Index(node)].outputs) {
        if (value == kNoValue) continue;
        results.push_back(meanings_.find(Graph().values[Index(value)].name)->second.tensor);
      }
    }
    return results;
  }

  std::vector<std::string_view> EndingIn(std::string_view asked) const {
    std::vector<std::string_view> names;
    for (const auto& [name, meaning] : meanings_) {
      if (name.size() <= asked.size() || asked.empty() || !name.ends_with(asked)) continue;
      if (IsSeparator(name[name.size() - asked.size() - 1])) names.push_back(name);
    }
    return names;
  }

  bool IsGradient(std::string_view asked) const {
    if (!asked.ends_with(kGradSuffix)) return false;
    const auto of = meanings_.find(asked.substr(0, asked.size() - kGradSuffix.size()));
    return of != meanings_.end() && of->second.is_tensor();
  }

  [[noreturn]] void RefuseSeveral(std::string_view asked,
                                  const std::vector<std::string_view>& names) const {
    const std::span shown = std::span(names).first(std::min(kListed, names.size()));
    std::string list = fmt::format("{}", fmt::join(shown, ", "));
    if (names.size() > kListed) list += fmt::format(" and {} more", names.size() - kListed);
    throw Error({.file = Graph().path,
                 .where = "--why",
                 .text = fmt::format("expected one tensor, found {} names that end in '{}': {}",
                                     names.size(), asked, list)});
  }

  [[noreturn]] void RefuseUnknown(std::string_view asked) const {
    const std::string_view near = NearestTo(asked);
    throw Error({.file = Graph().path,
                 .where = "--why",
                 .text = fmt::format("no tensor and no node is called '{}'", asked),
                 .hint = near.empty() ? "a name of the largest tensors" : std::string(near)});
  }

  // The nearest name; else the one whose end, of as many parts as `asked` has, is nearest;
  // else one that holds it.
  std::string_view NearestTo(std::string_view asked) const {
    std::vector<std::string_view> names;
    std::vector<std::string_view> ends;
    for (const auto& [name, meaning] : meanings_) {
      names.push_back(name);
      ends.push_back(EndOfParts(name, CountParts(asked)));
    }
    const std::string_view whole = Nearest(asked, names);
    if (!whole.empty()) return whole;
    const std::string_view near = Nearest(asked, ends);
    for (size_t i = 0; i < ends.size() && !near.empty(); ++i) {
      if (ends[i].data() == near.data()) return names[i];
    }
    const auto holds = std::ranges::find_if(names, [&](std::string_view name) {
      return !asked.empty() && name.find(asked) != std::string_view::npos;
    });
    return holds == names.end() ? std::string_view() : *holds;
  }

  const Prediction& prediction_;
  std::map<std::string, NameMeaning, std::less<>> meanings_;
};

}  // namespace

std::vector<NamedTensor> FindTensors(const Prediction& prediction, std::string_view asked) {
  return TensorNames(prediction).Find(asked);
}

// What follows says why a name is no tensor of the device.
namespace {

std::string InsideText(const Prediction& prediction, const Rewritten& rewritten) {
  std::vector<std::string_view> ops;
  for (const NodeId node : rewritten.nodes) {
    ops.push_back(prediction.graph().nodes[Index(node)].op_type);
  }
  return fmt::format("PyTorch has no such tensor: {} are one call, {}, at {}",
                     fmt::join(ops, " + "), rewritten.aten,
                     DisplayName(prediction.graph(), rewritten.last));
}

// Why a value of the file is no tensor of the program.
std::string AbsentValue(const Prediction& prediction, ValueId value) {
  const Value& found = prediction.graph().values[Index(value)];
  if (prediction.shapes().known[Index(value)].has_value()) {
    return "a number on the host: it follows from shapes and constants, so the device never "
           "has it";
  }
  for (const Rewritten& rewritten : prediction.rewrites()) {
    if (std::ranges::find(rewritten.nodes, found.producer) == rewritten.nodes.end()) continue;
    return InsideText(prediction, rewritten);
  }
  for (const FoldedBatchNorm& folded : prediction.roles().folded) {
    const Node& node = prediction.graph().nodes[Index(folded.convolution)];
    if (node.inputs.size() < 3 || node.inputs[2] != value) continue;
    return fmt::format(
        "the exporter made it when it folded batch norm {} into {}: PyTorch has {} "
        "instead",
        folded.module, DisplayName(prediction.graph(), folded.convolution),
        folded.module + ".bias");
  }
  if (found.initializer >= 0) {
    return "a constant of the file that no call of PyTorch takes as a tensor";
  }
  return "no call of PyTorch makes it";
}

bool IsFrozen(const Program& program, std::string_view parameter) {
  return std::ranges::any_of(
      program.frozen, [&](NameId name) { return program.values[Index(name)].name == parameter; });
}

std::string AbsentGradient(const Program& program, std::string_view tensor) {
  if (!HasBackward(program)) return "no backward runs, so there are no gradients";
  if (IsFrozen(program, tensor)) return "its parameter is frozen, so it gets no gradient";
  return "no memory of its own: it is the gradient that came in, or a view of it, or nobody "
         "wants it";
}

}  // namespace

std::string WhyAbsent(const Prediction& prediction, const NamedTensor& tensor) {
  if (tensor.value != kNoValue && tensor.names.empty()) {
    return AbsentValue(prediction, tensor.value);
  }
  const std::string_view name = tensor.name;
  if (name.ends_with(kGradSuffix)) {
    return AbsentGradient(prediction.program, name.substr(0, name.size() - kGradSuffix.size()));
  }
  return "nothing reads it, so PyTorch does not make it";
}

}  // namespace onnxfit
