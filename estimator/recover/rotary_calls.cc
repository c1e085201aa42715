// A rotary embedding that an exporter has computed, written as its library runs it.
#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "estimator/base/index.h"
#include "estimator/exporters/exporter_metadata.h"
#include "estimator/program/modules.h"
#include "estimator/recover/lowering.h"
#include "estimator/recover/put_backs.h"

namespace onnxfit {
namespace {

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

void WriteRotaryCalls(Recovery& recovery, const LostRotary& rotary) {
  RotaryCalls(recovery, rotary).Write();
}

}  // namespace onnxfit
