// A rotary embedding that an exporter has computed: found in a file, and written as its library
// runs it.
#include <algorithm>
#include <span>
#include <string_view>
#include <unordered_set>
#include <utility>

#include "estimator/base/index.h"
#include "estimator/program/modules.h"
#include "estimator/recover/exporter_metadata.h"
#include "estimator/recover/lost_calls.h"
#include "estimator/recover/put_backs.h"

namespace onnxfit {
namespace {

// --- What the file has left of one ----------------------------------------------------------

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

// --- Its calls ------------------------------------------------------------------------------

class RotaryCalls {
 public:
  RotaryCalls(Recovery& recovery, const LostRotary& rotary)
      : recovery_(recovery),
        rotary_(rotary),
        program_(recovery.writer.program()),
        own_(program_.modules.Enter(rotary.caller, rotary.module)),
        unit_(recovery, {.where = rotary.module, .module = own_}) {}

  // transformers 5.17, modeling_llama.py.
  void Write() {
    const NameId angles = MakeAngles(MakePositionIds());
    Enter({.line = 5, .targets = {"cos"}, .receiver = "emb", .callee = "emb.cos"});
    const NameId cos = MakeTable("cos", angles);
    Enter({.line = 6, .targets = {"sin"}, .receiver = "emb", .callee = "emb.sin"});
    const NameId sin = MakeTable("sin", angles);
    Enter({.line = 7, .returns = true, .receiver = "cos", .callee = "cos.to"});
    BindTo(rotary_.cos, cos);
    BindTo(rotary_.sin, sin);
  }

 private:
  // (torch.arange(n) + past_seen_tokens).unsqueeze(0), the caller's.
  NameId MakePositionIds() {
    const TensorType type = {DType::kInt64, {rotary_.positions}};
    EnterCaller({.line = 1, .targets = {"position_ids"}, .callee = "torch.arange"});
    const NameId range = Make("constant", {}, type);
    const NameId counted = Make("add.Scalar", {range}, type);
    EnterCaller({.line = 2,
                 .targets = {"position_ids"},
                 .receiver = "position_ids",
                 .callee = "position_ids.unsqueeze"});
    return Make("view", {counted}, {DType::kInt64, {1, rotary_.positions}});
  }

  NameId MakeAngles(NameId position_ids) {
    const int64_t n = rotary_.positions;
    const int64_t f = rotary_.frequencies;
    const DType dtype = DType::kFloat32;
    // inv_freq_expanded = self.inv_freq[None, :, None].expand(1, -1, 1).float()
    Enter({.line = 1, .targets = {"inv_freq_expanded"}});
    const NameId stored = recovery_.values.LostTensor(rotary_.module + ".inv_freq");
    const DType as_stored = program_.values[Index(stored)].type.dtype;
    const NameId column = Make("view", {stored}, {as_stored, {1, f, 1}});
    const NameId expanded = Make("expand", {column}, {as_stored, {1, f, 1}});
    const NameId inverse = Make("to", {expanded}, {dtype, {1, f, 1}});
    // position_ids_expanded = position_ids[:, None, :].float()
    Enter({.line = 2, .targets = {"position_ids_expanded"}});
    const NameId row = Make("view", {position_ids}, {DType::kInt64, {1, 1, n}});
    const NameId positions = Make("to", {row}, {dtype, {1, 1, n}});
    // freqs = (inv_freq_expanded @ position_ids_expanded).transpose(1, 2)
    Enter({.line = 3, .targets = {"freqs"}});
    const NameId product = Make("matmul", {inverse, positions}, {dtype, {1, f, n}});
    const NameId freqs = Make("permute", {product}, {dtype, {1, n, f}}, {0, 2, 1});
    // emb = torch.cat((freqs, freqs), dim=-1)
    Enter({.line = 4, .targets = {"emb"}});
    return Make("cat", {freqs, freqs}, {dtype, {1, n, 2 * f}});
  }

  // cos or sin.
  NameId MakeTable(std::string_view function, NameId angles) {
    const TensorType type = program_.values[Index(angles)].type;
    const NameId made = Make(function, {angles}, type);
    return Make("mul.Scalar", {made}, type);
  }

  // `table` in the type of the caller's hidden states is what `values` are, or are views of.
  void BindTo(const std::vector<ValueId>& values, NameId table) {
    const TensorType type = program_.values[Index(table)].type;
    const NameId cast = Make("to", {table}, unit_.WithPrecision(type));
    for (const ValueId value : values) {
      if (unit_.TypeOf(value).dims == type.dims) {
        recovery_.values.Bind(value, cast);
      } else {
        recovery_.values.BindViews(value, cast);
      }
    }
  }

  NameId Make(std::string_view op, std::vector<NameId> inputs, const TensorType& type,
              std::vector<int64_t> ints = {}) {
    return unit_.Make(op, std::move(inputs), rotary_.module + "." + std::string(op), type,
                      std::move(ints));
  }

  // A line of its forward, which its caller calls in
  // position_embeddings = self.rotary_emb(hidden_states, position_ids).
  void Enter(SourceStatement statement) {
    CallPlace place = CallersPlace({.line = 3,
                                    .targets = {"position_embeddings"},
                                    .callee = "self.rotary_emb",
                                    .own_call = "rotary_emb",
                                    .argument = "hidden_states",
                                    .module_calls = 1});
    place.module = own_;
    if (!place.frames.empty()) {
      place.frames.push_back(program_.source.PutBack(std::move(statement)));
    }
    unit_ = unit_.At(std::move(place));
  }

  void EnterCaller(SourceStatement statement) {
    unit_ = unit_.At(CallersPlace(std::move(statement)));
  }

  // A line of its caller's, which calls the layers, too.  None where the file has no lines.
  CallPlace CallersPlace(SourceStatement statement) {
    CallPlace place = {.where = rotary_.module, .module = rotary_.caller};
    const size_t callers = program_.modules.DepthOf(rotary_.caller);
    const auto& frames = recovery_.bound.metadata().LinesOf(rotary_.layer).frames;
    if (frames.size() < callers) return place;
    place.frames.assign(frames.begin(), frames.begin() + static_cast<std::ptrdiff_t>(callers) - 1);
    place.frames.push_back(program_.source.PutBack(std::move(statement)));
    return place;
  }

  Recovery& recovery_;
  const LostRotary& rotary_;
  Program& program_;
  ModuleId own_;
  UnitWriter unit_;
};

}  // namespace

std::optional<LostRotary> FindLostRotary(const BoundGraph& bound) {
  return LostRotaryFinder(bound).Find();
}

void WriteRotaryCalls(Recovery& recovery, const LostRotary& rotary) {
  RotaryCalls(recovery, rotary).Write();
}

}  // namespace onnxfit
