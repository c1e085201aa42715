#include "estimator/optimizers/muon_batches.h"

#include <algorithm>
#include <utility>

#include "estimator/base/bytes.h"
#include "estimator/operators/kernel_scratch.h"
#include "estimator/operators/strides.h"

namespace onnxfit {
namespace {

// A batch's rows are at most so many times those of its smallest matrix.
constexpr int64_t kMostTimes = 16;
constexpr int kIterations = 5;  // of Newton and Schulz

// What is put together: as many columns, and one scale, max(1, size(-2) / size(-1)).
struct Bucket {
  int64_t columns;
  std::pair<int64_t, int64_t> sides;  // of the scale, 1 and 1 where it is 1
  std::vector<int64_t> rows;
};

std::pair<int64_t, int64_t> SidesOf(const Dims& dims) {
  const int64_t rows = dims[dims.size() - 2];
  const int64_t columns = dims.back();
  return rows <= columns ? std::pair<int64_t, int64_t>(1, 1) : std::pair(rows, columns);
}

bool HaveOneScale(const std::pair<int64_t, int64_t>& a, const std::pair<int64_t, int64_t>& b) {
  return CheckedMul(a.first, b.second) == CheckedMul(b.first, a.second);
}

std::vector<Bucket> BucketsOf(const std::vector<TensorType>& gradients) {
  std::vector<Bucket> buckets;
  for (const TensorType& gradient : gradients) {
    const int64_t columns = Numel(gradient.dims) / std::max<int64_t>(gradient.dims[0], 1);
    const auto sides = SidesOf(gradient.dims);
    auto bucket = std::ranges::find_if(buckets, [&](const Bucket& b) {
      return b.columns == columns && HaveOneScale(b.sides, sides);
    });
    if (bucket == buckets.end()) bucket = buckets.insert(bucket, {columns, sides, {}});
    bucket->rows.push_back(gradient.dims[0]);
  }
  return buckets;
}

// zeropower_via_newtonschulz5 of one batch, and the casts behind it.
class NewtonSchulz {
 public:
  NewtonSchulz(CallTable& calls, const MuonBatch& batch, DType dtype, LabelId label)
      : calls_(calls), machine_(calls.machine()), batch_(batch), dtype_(dtype), label_(label) {}

  // X = torch.zeros(…); X = zeropower(X).contiguous().to(dtype).mul_(scale)
  TensorId Run() {
    const TensorId zeros = New(dtype_, Whole());
    TensorId x = InBf16(zeros);
    DivideByNorm();
    Iterate(x);
    const bool is_transposed = batch_.rows > batch_.columns && batch_.columns > 1;
    if (is_transposed) Rebind(x, New(DType::kBFloat16, Whole()));
    if (dtype_ != DType::kBFloat16) Rebind(x, New(dtype_, Whole()));
    machine_.Release(zeros);
    return x;
  }

 private:
  TensorId New(DType dtype, Dims dims) { return machine_.New({dtype, std::move(dims)}, label_); }
  Dims Whole() const { return {batch_.count, batch_.rows, batch_.columns}; }
  Dims Gram() const {
    const int64_t side = std::min(batch_.rows, batch_.columns);
    return {batch_.count, side, side};
  }

  void Rebind(TensorId& name, TensorId tensor) {
    const TensorId old = std::exchange(name, tensor);
    if (old != kNoTensor) machine_.Release(old);
  }

  TensorId InBf16(TensorId zeros) {
    if (dtype_ != DType::kBFloat16) return New(DType::kBFloat16, Whole());
    machine_.Retain(zeros);
    return zeros;
  }

  // X /= X.norm(dim=(-2, -1), keepdim=True) + eps
  void DivideByNorm() {
    const Dims ones = {batch_.count, 1, 1};
    const TensorId norm = New(DType::kBFloat16, ones);
    const SumShape sum = SumOver(DType::kBFloat16, Whole(), ContiguousStrides(Whole()), /*kept=*/1);
    PassScratch(machine_, sum, calls_.settings().device, label_);
    const TensorId added = New(DType::kBFloat16, ones);
    machine_.Release(norm);
    machine_.Release(added);
  }

  void Iterate(TensorId& x) {
    TensorId gram = kNoTensor;
    TensorId update = kNoTensor;
    calls_.TakeCublasWorkspace(Thread::kForward);
    for (int iteration = 0; iteration < kIterations; ++iteration) {
      Rebind(gram, New(DType::kBFloat16, Gram()));
      Rebind(update, New(DType::kBFloat16, Gram()));
      Rebind(x, New(DType::kBFloat16, Whole()));
    }
    machine_.Release(gram);
    machine_.Release(update);
  }

  CallTable& calls_;
  Machine& machine_;
  const MuonBatch& batch_;
  DType dtype_;
  LabelId label_;
};

}  // namespace

std::vector<MuonBatch> MuonBatchesOf(const std::vector<TensorType>& gradients) {
  std::vector<MuonBatch> batches;
  for (Bucket& bucket : BucketsOf(gradients)) {
    std::ranges::sort(bucket.rows, std::ranges::greater());
    size_t first = 0;
    for (size_t i = 1; i <= bucket.rows.size(); ++i) {
      const int64_t most = bucket.rows[first];
      if (i < bucket.rows.size() && most <= kMostTimes * bucket.rows[i]) continue;
      batches.push_back({static_cast<int64_t>(i - first), most, bucket.columns});
      first = i;
    }
  }
  return batches;
}

// `buckets` has views of all momentums that are looked ahead until the function returns.
std::vector<TensorId> MuonUpdates(CallTable& calls, const std::vector<TensorType>& gradients,
                                  LabelId label) {
  Machine& machine = calls.machine();
  std::vector<TensorId> ahead;
  for (const TensorType& gradient : gradients) ahead.push_back(machine.New(gradient, label));
  std::vector<TensorId> results;
  for (const MuonBatch& batch : MuonBatchesOf(gradients)) {
    results.push_back(NewtonSchulz(calls, batch, gradients[0].dtype, label).Run());
  }
  for (size_t i = ahead.size(); i-- > 0;) machine.Release(ahead[i]);
  return results;
}

}  // namespace onnxfit
