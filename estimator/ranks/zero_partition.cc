#include "estimator/ranks/zero_partition.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "estimator/base/bytes.h"
#include "estimator/base/error.h"
#include "estimator/base/index.h"
#include "estimator/operators/strides.h"
#include "estimator/program/checkpointed_spans.h"

namespace onnxfit {

namespace {

constexpr int64_t kStartAlignment = 2;  // nccl_start_alignment_factor

constexpr size_t kFirst = 0;

constexpr StreamId kReductionStream = 1;  // reduction_stream, with overlap_comm

}  // namespace

void CheckZeroPartition(const Program& program, const TrainingSettings& settings) {
  const std::string_view strategy = ToString(settings.ranks.strategy);
  const auto refuse = [&](const char* what) {
    throw Error(
        {.where = "--strategy", .text = fmt::format("expected no {} with {}", what, strategy)});
  };
  const bool is_pure =
      settings.precision == Precision::kBf16 || settings.precision == Precision::kFp32;
  if (!is_pure) {
    throw Error({.where = "--strategy",
                 .text = fmt::format("expected -p bf16 or fp32 with {}, which keeps parameters "
                                     "in 32 bits beside those of the model, found {}",
                                     strategy, ToString(settings.precision)),
                 .hint = settings.ranks.strategy == Strategy::kZero1
                             ? "PyTorch's ZeroRedundancyOptimizer: --strategy zero-redundancy"
                             : ""});
  }
  if (settings.optimizer_in_backward) refuse("--optimizer-in-backward");
  if (settings.ema) refuse("--ema");
  if (settings.clip_grad) refuse("--clip-grad");
  if (settings.loop.library != LoopLibrary::kPlain) refuse("--loop");
  if (settings.quantize.kind != Quantization::kNone) refuse("--quantize");
  if (settings.optimizer == Optimizer::kMuon) refuse("-o muon");
  if (settings.ranks.strategy != Strategy::kZero3) return;
  if (!program.flat_weights.empty()) refuse("recurrent layers");
  if (settings.lora.rank > 0) refuse("--lora");
  if (AreReentrant(program, settings)) refuse("checkpoints with use_reentrant=True");
}

ZeroPartition::ZeroPartition(CallTable& calls, Forward& forward, ParameterGradients& gradients)
    : calls_(calls),
      machine_(calls.machine()),
      forward_(forward),
      gradients_(gradients),
      rank_(calls),
      is_stage1_(calls.settings().ranks.strategy == Strategy::kZero1),
      is_reducing_(gradients.size()) {
  int64_t elements = 0;
  for (size_t i = 0; i < gradients.size(); ++i) {
    begins_.push_back(elements);
    elements = CheckedAdd(elements, rank_.ElementsOf(i));
  }
  const int64_t world = calls.settings().ranks.world;
  const int64_t alignment = kStartAlignment * world;
  partition_ = (elements + alignment - 1) / alignment * kStartAlignment;
  for (size_t i = 0; i < begins_.size(); ++i) {
    if (begins_[i] < partition_) kept_elements_ += rank_.ElementsOf(i);
  }
}

// Elements of a parameter that are in the part.  REQUIRES: it begins there.
int64_t ZeroPartition::OwnOf(size_t parameter) const {
  return std::min(rank_.ElementsOf(parameter), partition_ - begins_[parameter]);
}

// Parameters become views of the flat buffer; initialize_optimizer_states makes a gradient for a
// moment.
void ZeroPartition::Construct() {
  rank_.New(rank_.type(), partition_ * calls_.settings().ranks.world, Kind::kParameter);
  for (const NameId name : calls_.program().parameters) {
    machine_.FreeStorage(forward_.Lookup(name));
  }
  const TensorId clone = rank_.New(rank_.type(), partition_, Kind::kTemporary);
  if (calls_.settings().ranks.zero_offload) {
    machine_.Release(clone);
    int64_t largest = 0;
    for (size_t i = 0; i < gradients_.size(); ++i) largest = std::max(largest, rank_.ElementsOf(i));
    rank_.New(rank_.type(), largest, Kind::kGradient);  // temp_grad_buffer_for_gpu_offload
    return;
  }
  if (rank_.type() != DType::kFloat32) {
    rank_.New(DType::kFloat32, partition_, Kind::kParameter);
    machine_.Release(clone);
  } else {
    machine_.SetKind(clone, Kind::kParameter);
  }
  machine_.Release(rank_.New(DType::kFloat32, partition_, Kind::kTemporary));
}

std::vector<TensorType> ZeroPartition::ShardTypes() const {
  std::vector<TensorType> types(gradients_.size(), TensorType{DType::kFloat32, {0}});
  if (!calls_.settings().ranks.zero_offload) types[kFirst] = {DType::kFloat32, {partition_}};
  return types;
}

void ZeroPartition::GiveView(TensorId of, size_t parameter) {
  const Dims& dims = rank_.DimsOf(parameter);
  const TensorId view = machine_.View(of, dims, ContiguousStrides(dims));
  gradients_.Drop(parameter, machine_);
  gradients_.Set(parameter, view);
}

// setup_buckets, with the first gradient.
void ZeroPartition::SetUpBuckets() {
  const RankSettings& ranks = calls_.settings().ranks;
  for (size_t i = 0; i < (ranks.overlap_comm ? 2 : 1); ++i) {
    buckets_.push_back(rank_.New(rank_.type(), ranks.reduce_bucket, Kind::kGradient));
  }
  turn_ = 0;
}

// Whether gradients of this micro-batch stay with their parameters, as stage 1 has those of all but
// a step's last.
bool ZeroPartition::KeepsGradients() const { return is_stage1_ && !rank_.IsLastMicroBatch(); }

// process_gradients
void ZeroPartition::TakeGradient(size_t parameter) {
  if (buckets_.empty()) SetUpBuckets();
  const bool waits = is_stage1_ && !calls_.settings().ranks.overlap_comm;
  if (!waits && !KeepsGradients()) PutInBucket(parameter);
}

// reduce_independent_p_g_buckets_and_remove_grads: those larger than a bucket stay where they are,
// or are copied on the way to the host.
void ZeroPartition::PutInBucket(size_t parameter) {
  const int64_t size = calls_.settings().ranks.reduce_bucket;
  const int64_t elements = rank_.ElementsOf(parameter);
  if (is_reducing_[parameter]) return;  // it was added up there
  if (in_bucket_ + elements > size) {
    Reduce();
    turn_ = (turn_ + 1) % buckets_.size();
  }
  if (elements <= size) {
    GiveView(buckets_[turn_], parameter);
  } else if (calls_.settings().ranks.zero_offload) {
    const TensorId copy = rank_.New(rank_.type(), elements, Kind::kGradient);
    gradients_.Drop(parameter, machine_);
    gradients_.Set(parameter, copy);
  }
  in_bucket_ += elements;
  reducing_.push_back(parameter);
  is_reducing_[parameter] = true;
}

// average_tensor and allreduce_and_scatter: of slices for each rank in a row, a copy where there
// are several.
void ZeroPartition::PassCopies() const {
  const int64_t size = calls_.settings().ranks.reduce_bucket;
  int64_t elements = 0;
  int slices = 0;
  int64_t last_rank = -1;
  const auto pass = [&] {
    if (slices > 1) machine_.Release(rank_.New(rank_.type(), elements, Kind::kTemporary));
    elements = slices = 0;
  };
  for (const size_t parameter : reducing_) {
    const int64_t begin = begins_[parameter];
    const int64_t end = begin + rank_.ElementsOf(parameter);
    for (int64_t at = begin; at < end;) {
      const int64_t next = std::min(end, (RankOf(at) + 1) * partition_);
      if (RankOf(at) != last_rank || slices == 0) {
        if (elements > size) pass();
        ++slices;
      }
      elements += next - at;
      last_rank = RankOf(at);
      at = next;
    }
  }
  pass();
}

// copy_grads_in_partition of the step's last micro-batch: the norm of what is the rank's, and a
// copy in 32 bits on its way to the host, where those before add up in
// temp_grad_buffer_for_gpu_offload.
void ZeroPartition::SendToHost(size_t parameter) {
  if (!rank_.IsLastMicroBatch()) return;
  rank_.KeepNorm(rank_.NormOf(OwnOf(parameter)));
  rank_.PassIn32Bits(OwnOf(parameter));
}

// reduce_ipg_grads, copy_grads_in_partition.
void ZeroPartition::Reduce() {
  const RankSettings& ranks = calls_.settings().ranks;
  if (ranks.overlap_comm) machine_.UseStream(kReductionStream);
  PassCopies();
  for (const size_t parameter : std::exchange(reducing_, {})) {
    is_reducing_[parameter] = false;
    const bool is_kept = begins_[parameter] < partition_;
    if (!is_kept) {
      if (!is_stage1_) gradients_.Drop(parameter, machine_);
      continue;
    }
    if (ranks.zero_offload) {
      SendToHost(parameter);
      gradients_.Drop(parameter, machine_);
      continue;
    }
    if (kept_ == kNoTensor) kept_ = rank_.New(rank_.type(), kept_elements_, Kind::kGradient);
    GiveView(kept_, parameter);
  }
  in_bucket_ = 0;
  machine_.UseStream(kMainStream);
}

// reduce_gradients of stage 1, in the order of parameters.
void ZeroPartition::ReduceAll() {
  if (calls_.settings().ranks.overlap_comm) return;
  for (size_t i = 0; i < gradients_.size(); ++i) {
    if (gradients_.Has(i)) PutInBucket(i);
  }
}

// independent_gradient_partition_epilogue: averaged_gradients are views of what is kept, to which
// stage 2 adds those of later micro-batches.
void ZeroPartition::EndBackward() {
  if (buckets_.empty()) return;
  if (KeepsGradients()) return rank_.EndMicroBatch();
  if (is_stage1_) ReduceAll();
  Reduce();
  for (const TensorId bucket : std::exchange(buckets_, {})) machine_.Release(bucket);
  gradients_.Clear(machine_);
  rank_.EndMicroBatch();
  if (kept_ == kNoTensor) return;
  if (added_up_ == kNoTensor) {
    std::swap(added_up_, kept_);
  } else {
    machine_.Release(std::exchange(kept_, kNoTensor));
  }
}

// Of the rank's parts of gradients.
void ZeroPartition::PassNorms() const {
  std::vector<int64_t> elements;
  for (size_t i = 0; i < begins_.size() && begins_[i] < partition_; ++i)
    elements.push_back(OwnOf(i));
  rank_.PassNorms(elements, /*has_scratch=*/false);
}

void ZeroPartition::BeginStep() {
  if (added_up_ == kNoTensor) return;
  PassNorms();
  scaled_norm_ = rank_.New(DType::kFloat32, 1, Kind::kTemporary);
  norm_before_ = std::exchange(norm_, rank_.New(DType::kFloat32, 1, Kind::kTemporary));
  TensorId own = added_up_;
  if (begins_.size() > 1 && begins_[1] < partition_) {
    own = rank_.New(rank_.type(), partition_, Kind::kGradient);
  } else {
    machine_.Retain(own);
  }
  if (rank_.type() != DType::kFloat32) {
    const TensorId flat =
        std::exchange(own, rank_.New(DType::kFloat32, partition_, Kind::kGradient));
    machine_.Release(flat);
  }
  machine_.Release(std::exchange(added_up_, kNoTensor));
  gradients_.Set(kFirst, own);
}

void ZeroPartition::EndStep() {
  rank_.DropNorms();
  gradients_.Drop(kFirst, machine_);
  for (TensorId* norm : {&scaled_norm_, &norm_before_}) {
    if (*norm != kNoTensor) machine_.Release(std::exchange(*norm, kNoTensor));
  }
}

}  // namespace onnxfit
