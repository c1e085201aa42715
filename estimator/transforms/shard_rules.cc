#include "estimator/transforms/shard_rules.h"

#include <algorithm>
#include <functional>
#include <numeric>
#include <string_view>

#include "estimator/base/index.h"

namespace onnxfit {
namespace {

// One call whose inputs are shared.
class SharedCall {
 public:
  SharedCall(const Program& program, const AtenCall& call, const ShardOf& shard_of, int64_t ranks)
      : program_(program), call_(call), shard_of_(shard_of), ranks_(ranks) {}

  size_t input_count() const { return call_.inputs.size(); }
  bool has_input(size_t i) const { return i < input_count() && call_.inputs[i] != kNoName; }
  const Dims& in(size_t i) const { return DimsOf(call_.inputs[i]); }
  const Dims& out() const { return DimsOf(call_.outputs[0]); }
  const std::vector<NameId>& outputs() const { return call_.outputs; }
  const std::vector<int64_t>& ints() const { return call_.ints; }
  std::optional<Shard> shard(size_t i) const { return shard_of_(call_.inputs[i]); }
  int64_t ranks() const { return ranks_; }
  const Dims& DimsOf(NameId name) const { return program_.values[Index(name)].type.dims; }

 private:
  const Program& program_;
  const AtenCall& call_;
  const ShardOf& shard_of_;
  int64_t ranks_;
};

using PassedShard = std::optional<Shard>;

int64_t Product(const Dims& dims, size_t count) {
  return std::accumulate(dims.begin(), dims.begin() + static_cast<std::ptrdiff_t>(count),
                         int64_t{1}, std::multiplies<>());
}

// Where input `i` is shared, as counted among dimensions of `rank`, from the last.
PassedShard AlignedShard(const SharedCall& call, size_t i, size_t rank) {
  PassedShard shard = call.shard(i);
  if (!shard || call.in(i).size() > rank) return std::nullopt;
  shard->dim += rank - call.in(i).size();
  return shard;
}

// What is whole is seen by all of a dimension alike.
bool IsBroadcast(const Dims& whole, size_t dim, size_t rank) {
  const size_t added = rank - std::min(rank, whole.size());
  return dim < added || whole[dim - added] == 1;
}

// Elements by elements, with broadcasting.
PassedShard PassElements(const SharedCall& call) {
  const size_t rank = call.out().size();
  PassedShard passed;
  for (size_t i = 0; i < call.input_count(); ++i) {
    if (!call.has_input(i) || !call.shard(i)) continue;
    const PassedShard shard = AlignedShard(call, i, rank);
    if (!shard || (passed && *passed != *shard)) return std::nullopt;
    passed = shard;
  }
  if (!passed || call.out()[passed->dim] % (passed->before * call.ranks()) != 0)
    return std::nullopt;
  for (size_t i = 0; i < call.input_count(); ++i) {
    if (!call.has_input(i)) continue;
    const size_t added = rank - std::min(rank, call.in(i).size());
    const bool is_shared = call.shard(i).has_value();
    if (is_shared && call.in(i)[passed->dim - added] != call.out()[passed->dim])
      return std::nullopt;
    if (!is_shared && !IsBroadcast(call.in(i), passed->dim, rank)) return std::nullopt;
  }
  return passed;
}

// The first operand's elements, of another type: that of the second one, whatever its sizes are.
PassedShard PassCast(const SharedCall& call) {
  return call.out() == call.in(0) ? call.shard(0) : std::nullopt;
}

// The same elements in the same order: the shared dimension is split into an outer one, which is
// shared, and inner ones, or joined with what is around it.
PassedShard PassView(const SharedCall& call) {
  const Shard shard = *call.shard(0);
  if (Product(call.in(0), call.in(0).size()) == 0) return std::nullopt;
  const int64_t outer = Product(call.in(0), shard.dim) * shard.before;
  int64_t before = 1;
  for (size_t i = 0; i < call.out().size(); ++i) {
    const int64_t size = call.out()[i];
    const bool is_here = before <= outer && outer < before * size;
    if (is_here && outer % before == 0 && size % (outer / before * call.ranks()) == 0)
      return Shard{i, outer / before};
    before *= size;
  }
  return std::nullopt;
}

PassedShard PassPermute(const SharedCall& call) {
  Shard shard = *call.shard(0);
  const auto place = std::ranges::find(call.ints(), static_cast<int64_t>(shard.dim));
  if (place == call.ints().end()) return std::nullopt;
  shard.dim = static_cast<size_t>(place - call.ints().begin());
  return shard;
}

// A part of other dimensions, of which a selection leaves one out.
PassedShard PassPart(const SharedCall& call) {
  Shard shard = *call.shard(0);
  const Dims& whole = call.in(0);
  for (const NameId output : call.outputs()) {
    const Dims& part = call.DimsOf(output);
    if (part.size() == whole.size() && part[shard.dim] != whole[shard.dim]) return std::nullopt;
  }
  if (call.out().size() == whole.size()) return shard;
  if (call.ints().empty() || call.ints()[0] == static_cast<int64_t>(shard.dim)) return std::nullopt;
  if (call.ints()[0] < static_cast<int64_t>(shard.dim)) --shard.dim;
  return shard;
}

// Whether inputs from the first to `last` are shared alike.
bool AreAlike(const SharedCall& call, size_t last) {
  for (size_t i = 0; i <= last; ++i) {
    if (!call.has_input(i) || call.shard(i) != call.shard(0)) return false;
  }
  return true;
}

PassedShard PassJoin(const SharedCall& call) {
  if (!AreAlike(call, call.input_count() - 1)) return std::nullopt;
  const Shard shard = *call.shard(0);
  return call.out()[shard.dim] == call.in(0)[shard.dim] ? PassedShard(shard) : std::nullopt;
}

// Each head is a rank's own: q, k, v [batch, heads, …], and a mask for all of them.
PassedShard PassAttention(const SharedCall& call) {
  constexpr size_t kMask = 3;
  const size_t rank = call.out().size();
  if (rank < 4 || !AreAlike(call, 2)) return std::nullopt;
  const Shard shard = *call.shard(0);
  if (shard != Shard{rank - 3, 1}) return std::nullopt;
  if (!call.has_input(kMask)) return shard;
  const bool is_shared = call.shard(kMask).has_value();
  const bool fits =
      is_shared ? call.shard(kMask) == shard : IsBroadcast(call.in(kMask), shard.dim, rank);
  return fits ? PassedShard(shard) : std::nullopt;
}

// A product for each head.
PassedShard PassBatch(const SharedCall& call) {
  const size_t rank = call.out().size();
  if (!call.has_input(1) || call.in(0).size() != rank || !AreAlike(call, 1)) return std::nullopt;
  const Shard shard = *call.shard(0);
  return shard.dim + 2 < rank && call.in(1).size() == rank ? PassedShard(shard) : std::nullopt;
}

// Rows along the last dimensions, which no rank may have a part of.
PassedShard PassRows(const SharedCall& call) {
  const PassedShard shard = call.shard(0);
  if (!shard) return std::nullopt;
  const size_t rank = call.in(0).size();
  const size_t inner = call.has_input(1) ? call.in(1).size() : 1;
  for (size_t i = 1; i < call.input_count(); ++i) {
    if (call.has_input(i) && call.shard(i)) return std::nullopt;
  }
  return shard->dim + inner < rank ? shard : std::nullopt;
}

// The same along the dimension of ints; none: the last.
PassedShard PassSoftmax(const SharedCall& call) {
  const auto last = std::ssize(call.in(0)) - 1;
  const int64_t along = call.ints().empty() ? last : call.ints()[0];
  const PassedShard shard = call.shard(0);
  return along == static_cast<int64_t>(shard->dim) ? std::nullopt : shard;
}

// A mean of other dimensions, which are left out behind it, or of size 1.
PassedShard PassReduction(const SharedCall& call) {
  const Shard shard = *call.shard(0);
  if (call.out().size() <= shard.dim) return std::nullopt;
  const auto end = static_cast<std::ptrdiff_t>(shard.dim) + 1;
  const bool is_kept = call.out()[shard.dim] == call.in(0)[shard.dim];
  const bool is_behind = std::equal(call.out().begin(), call.out().begin() + end,
                                    call.in(0).begin(), call.in(0).begin() + end);
  const bool has_all = call.out().size() == call.in(0).size();
  return is_kept && (has_all || is_behind) ? PassedShard(shard) : std::nullopt;
}

struct ShardRule {
  std::string_view op;
  PassedShard (*pass)(const SharedCall&);
};

// What blocks of transformers have between their linear layers.
constexpr ShardRule kShardRules[] = {
    {"add", PassElements},
    {"sub", PassElements},
    {"mul", PassElements},
    {"div", PassElements},
    {"add.Scalar", PassElements},
    {"mul.Scalar", PassElements},
    {"pow.Tensor_Scalar", PassElements},
    {"neg", PassElements},
    {"exp", PassElements},
    {"erf", PassElements},
    {"sqrt", PassElements},
    {"rsqrt", PassElements},
    {"reciprocal", PassElements},
    {"relu", PassElements},
    {"sigmoid", PassElements},
    {"tanh", PassElements},
    {"silu", PassElements},
    {"gelu", PassElements},
    {"bloom_gelu", PassElements},
    {"mish", PassElements},
    {"hardtanh", PassElements},
    {"hardswish", PassElements},
    {"leaky_relu", PassElements},
    {"clamp", PassElements},
    {"clamp_min", PassElements},
    {"dropout", PassElements},
    {"masked_fill", PassElements},
    {"where", PassElements},
    {"to", PassCast},
    {"type_as", PassCast},
    {"clone", PassElements},
    {"contiguous", PassElements},
    {"expand", PassElements},
    {"view", PassView},
    {"reshape", PassView},
    {"permute", PassPermute},
    {"transpose", PassPermute},
    {"slice", PassPart},
    {"select", PassPart},
    {"split", PassPart},
    {"unbind", PassPart},
    {"cat", PassJoin},
    {"scaled_dot_product_attention", PassAttention},
    {"matmul", PassBatch},
    {"bmm", PassBatch},
    {"softmax", PassSoftmax},
    {"layer_norm", PassRows},
    {"rms_norm", PassRows},
    {"mean", PassReduction},
    {"adaptive_avg_pool1d", PassReduction},
    {"adaptive_avg_pool2d", PassReduction},
    {"sum", PassReduction},
};

}  // namespace

std::span<const NameId> ReadInputs(const AtenCall& call) {
  const std::span<const NameId> inputs = call.inputs;
  return call.op == "type_as" ? inputs.first(std::min<size_t>(1, inputs.size())) : inputs;
}

std::optional<Shard> ShardBehind(const Program& program, const AtenCall& call,
                                 const ShardOf& shard_of, int64_t ranks) {
  const auto* const rule = std::ranges::find(kShardRules, call.op, &ShardRule::op);
  if (rule == std::end(kShardRules) || call.outputs.empty() || call.outputs[0] == kNoName)
    return std::nullopt;
  const bool is_of_first = rule->pass != PassElements;
  const bool has_first = !call.inputs.empty() && call.inputs[0] != kNoName;
  if (is_of_first && (!has_first || !shard_of(call.inputs[0]))) return std::nullopt;
  return rule->pass({program, call, shard_of, ranks});
}

}  // namespace onnxfit
