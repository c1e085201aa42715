#include <algorithm>
#include <utility>
#include <vector>

#include "estimator/base/index.h"
#include "estimator/libraries/libraries.h"
#include "estimator/writer/eager_attention.h"

namespace onnxfit {
namespace {

constexpr size_t kNowhere = static_cast<size_t>(-1);

bool IsOfEagerAttention(const Program& program, const AtenCall& call) {
  const bool is_known = !call.frames.empty() && call.frames.back() != kNoStatement;
  return is_known && program.source.At(call.frames.back()).Mentions(CallOfEagerAttention());
}

class Gatherer {
 public:
  explicit Gatherer(Program& program)
      : program_(program),
        maker_(program.values.size(), kNowhere),
        reads_(program.values.size()),
        is_gone_(program.calls.size()) {
    for (size_t i = 0; i < program.calls.size(); ++i) {
      for (const NameId name : program.calls[i].inputs) CountRead(name);
      for (const NameId name : program.calls[i].outputs) {
        if (name != kNoName) maker_[Index(name)] = i;
      }
    }
    for (const NameId name : program.outputs) CountRead(name);
  }

  // Whether there was one.
  bool Run() {
    bool found = false;
    for (AtenCall& call : program_.calls) {
      if (call.op != "matmul" || !IsOfEagerAttention(program_, call)) continue;
      found = Gather(call) || found;
    }
    if (!found) return false;
    std::vector<AtenCall> kept;
    for (size_t i = 0; i < program_.calls.size(); ++i) {
      if (!is_gone_[i]) kept.push_back(std::move(program_.calls[i]));
    }
    program_.calls = std::move(kept);
    return true;
  }

 private:
  void CountRead(NameId name) {
    if (name != kNoName) ++reads_[Index(name)];
  }

  // The call of `op` that made `name` for one reader within the helper; null where that is not so.
  const AtenCall* MakerOf(NameId name, std::string_view op) const {
    if (name == kNoName || maker_[Index(name)] == kNowhere || reads_[Index(name)] != 1) {
      return nullptr;
    }
    const AtenCall& call = program_.calls[maker_[Index(name)]];
    return call.op == op && IsOfEagerAttention(program_, call) ? &call : nullptr;
  }

  // From what such a call made to its first operand; the call is one of those that go.
  bool Behind(NameId& name, std::string_view op) {
    const AtenCall* maker = MakerOf(name, op);
    if (maker == nullptr) return false;
    going_.push_back(maker_[Index(name)]);
    name = maker->inputs[0];
    return true;
  }

  // k of k[:, :, None].expand(…).reshape(…).
  NameId Unrepeated(NameId heads) {
    const size_t before = going_.size();
    NameId name = heads;
    if (Behind(name, "view") && Behind(name, "expand") && Behind(name, "view")) {
      Behind(name, "slice");
      return name;
    }
    going_.resize(before);
    return heads;
  }

  // `call`: the product of weights and values.
  bool Gather(AtenCall& call) {
    going_.clear();
    NameId weights = call.inputs[0];
    const bool drops = Behind(weights, "dropout");
    const bool casts = Behind(weights, "to") || Behind(weights, "type_as");
    if (!Behind(weights, "softmax")) return false;
    NameId mask = kNoName;
    if (const AtenCall* sum = MakerOf(weights, "add"); sum != nullptr) {
      mask = sum->inputs[1];
      Behind(weights, "add");
    }
    if (!Behind(weights, "mul.Scalar")) return false;
    const AtenCall* product = MakerOf(weights, "matmul");
    if (product == nullptr) return false;
    NameId keys = product->inputs[1];
    Behind(weights, "matmul");
    if (!Behind(keys, "permute")) return false;
    const NameId values = Unrepeated(call.inputs[1]);
    call.op = kEagerAttention;
    call.inputs = {weights, Unrepeated(keys), values, mask};
    const std::string& file = program_.source.At(call.frames.back()).file;
    const SoftmaxType type = CastsWeightsToValues(file) ? kLeftAndCast : casts ? kInFp32 : kLeft;
    call.ints = {drops ? 1 : 0, 0, type};
    for (const size_t i : going_) is_gone_[i] = true;
    return true;
  }

  Program& program_;
  std::vector<size_t> maker_;  // by name
  std::vector<int64_t> reads_;
  std::vector<bool> is_gone_;  // by call
  std::vector<size_t> going_;
};

}  // namespace

bool GatherWrittenAttention(Program& program) {
  const bool has_one = std::ranges::any_of(
      program.calls, [&](const AtenCall& call) { return IsOfEagerAttention(program, call); });
  return has_one && Gatherer(program).Run();
}

}  // namespace onnxfit
