#include "estimator/parameters/lost_rotary.h"

#include <algorithm>
#include <span>
#include <string_view>
#include <unordered_set>
#include <utility>

#include "estimator/base/index.h"
#include "estimator/exporters/exporter_metadata.h"
#include "estimator/program/modules.h"

namespace onnxfit {
namespace {

class LostRotaryFinder {
 public:
  explicit LostRotaryFinder(const BoundGraph& bound)
      : bound_(bound), graph_(bound.graph()), metadata_(bound.metadata()) {}

  std::optional<LostRotary> Find() {
    found_.module = LostModule();
    if (found_.module.empty()) return std::nullopt;
    for (const Initializer& initializer : graph_.initializers) Add(initializer);
    if (found_.positions == 0 || !FindPlace()) return std::nullopt;
    for (const NodeId node : found_.nodes) AddResult(node);
    return std::move(found_);
  }

 private:
  // The one module whose inv_freq is named and not stored, else "".
  std::string LostModule() const {
    std::unordered_set<std::string_view> stored;
    for (const Initializer& initializer : graph_.initializers) {
      stored.insert(graph_.values[Index(initializer.value)].name);
    }
    std::string module;
    for (const SignatureEntry& entry : metadata_.signature) {
      if (ChildOf(entry.target) != "inv_freq" || stored.contains(entry.target)) continue;
      if (!module.empty()) return "";
      module = ParentOf(entry.target);
    }
    return module;
  }

  void Add(const Initializer& initializer) {
    const std::span<const NodeId> readers = bound_.AllReadersOf(initializer.value);
    if (readers.empty() || !IsFloat(initializer.type.dtype)) return;
    const std::string_view name = graph_.values[Index(initializer.value)].name;
    const std::string_view op = bound_.At(readers[0]).op_type;
    const Dims& dims = initializer.type.dims;
    if (dims.size() < 3 || dims[0] != 1) return;
    if (name.starts_with("matmul") && op == "Transpose") {
      (void)Fits(dims[2], dims[1]);
    } else if (name.starts_with("cat") && (op == "Cos" || op == "Sin")) {
      (void)Fits(dims[1], dims[2] / 2);
    } else if (name.starts_with("unsqueeze") && op == "Mul" && dims.size() == 4 && dims[1] == 1) {
      if (Fits(dims[2], dims[3] / 2)) AddToLayer(initializer.value);
    }
  }

  // One embedding has one size.
  bool Fits(int64_t positions, int64_t frequencies) {
    if (found_.positions == 0) {
      found_.positions = positions;
      found_.frequencies = frequencies;
    }
    return found_.positions == positions && found_.frequencies == frequencies;
  }

  // q * cos + rotate_half(q) * sin: cos comes first.
  void AddToLayer(ValueId value) {
    (found_.cos.size() == found_.sin.size() ? found_.cos : found_.sin).push_back(value);
  }

  // The caller passes cos and sin to all of its layers.
  bool FindPlace() {
    const std::string caller(CallerOf(found_.module));
    for (size_t i = 0; i < graph_.nodes.size() && found_.layer == kNoNode; ++i) {
      const auto id = static_cast<NodeId>(i);
      const ModuleId called = CalledBy(caller, metadata_.ModuleOf(id));
      if (called == kOutside) continue;
      const std::string& name = metadata_.modules.NameOf(called);
      if (name == found_.module) found_.nodes.push_back(id);
      if (!IsLayer(name)) continue;
      found_.layer = id;
      found_.caller = metadata_.modules.CallerOf(called);
    }
    return found_.layer != kNoNode;
  }

  // cos or sin, scaled and cast where the file shows that.
  void AddResult(NodeId id) {
    const Node& node = graph_.nodes[Index(id)];
    if (node.op_type != "Cos" && node.op_type != "Sin") return;
    ValueId value = node.outputs[0];
    while (!bound_.AllReadersOf(value).empty()) {
      const NodeId reader = bound_.AllReadersOf(value)[0];
      if (std::ranges::find(found_.nodes, reader) == found_.nodes.end()) break;
      value = bound_.At(reader).outputs[0];
    }
    (node.op_type == "Cos" ? found_.cos : found_.sin).push_back(value);
  }

  // What the outermost module with the path `caller` calls on the way to `module`; else kOutside.
  ModuleId CalledBy(const std::string& caller, ModuleId module) const {
    const ModuleTree& modules = metadata_.modules;
    ModuleId called = kOutside;
    for (; modules.DepthOf(module) > 1; module = modules.CallerOf(module)) {
      if (modules.PathOf(modules.CallerOf(module)) == caller) called = module;
    }
    return called;
  }

  static std::string_view CallerOf(std::string_view module) {
    const size_t dot = module.rfind('.');
    return dot == std::string_view::npos ? std::string_view() : module.substr(0, dot);
  }

  // "model.layers.0".
  static bool IsLayer(std::string_view module) { return IsNumbered(ChildOf(module)); }

  const BoundGraph& bound_;
  const Graph& graph_;
  const ExporterMetadata& metadata_;
  LostRotary found_;
};

}  // namespace

std::optional<LostRotary> FindLostRotary(const BoundGraph& bound) {
  return LostRotaryFinder(bound).Find();
}

}  // namespace onnxfit
