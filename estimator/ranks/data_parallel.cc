#include "estimator/ranks/data_parallel.h"

#include <algorithm>
#include <deque>
#include <functional>
#include <map>
#include <numeric>
#include <utility>

#include "estimator/base/bytes.h"
#include "estimator/base/index.h"
#include "estimator/operators/strides.h"

namespace onnxfit {
namespace {

constexpr int64_t kBroadcastBytes = 250 * 1024 * 1024;  // self.broadcast_bucket_size
constexpr int64_t kFirstBucketBytes = 1024 * 1024;      // dist._DEFAULT_FIRST_BUCKET_BYTES
constexpr int64_t kBucketBytes = 25 * 1024 * 1024;      // bucket_cap_mb
constexpr size_t kInFlight = 2;                         // broadcast_coalesced

struct Flat {
  DType dtype = DType::kUndefined;
  int64_t elements = 0;
  int tensors = 0;
  std::vector<TensorType> copied = {};  // of these, what is not contiguous
};

// compute_bucket_assignment_by_size: each type has a bucket of its own, which is full once it has
// that many bytes; those that are not come last.
std::vector<Flat> Flattened(const std::vector<StridedType>& tensors) {
  std::vector<Flat> full;
  std::map<DType, Flat> open;
  for (const StridedType& tensor : tensors) {
    Flat& flat = open[tensor.dtype];
    flat.dtype = tensor.dtype;
    flat.elements = CheckedAdd(flat.elements, Numel(tensor.dims));
    ++flat.tensors;
    if (!IsContiguous(tensor)) flat.copied.push_back(tensor);
    if (BytesOf({flat.dtype, {flat.elements}}) < kBroadcastBytes) continue;
    full.push_back(std::exchange(flat, {}));
  }
  for (const auto& [dtype, flat] : open) {
    if (flat.tensors > 0) full.push_back(flat);
  }
  return full;
}

}  // namespace

DataParallel::DataParallel(CallTable& calls, ParameterGradients& gradients)
    : calls_(calls),
      machine_(calls.machine()),
      gradients_(gradients),
      ranks_(calls.settings().ranks),
      label_(machine_.AddLabel("DDP bucket")),
      came_(gradients.size()),
      bucket_of_(gradients.size()) {}

// _sync_module_states, then the Reducer, whose only bucket has all gradients; set_static_graph,
// then initialize_local_used_map.
void DataParallel::Construct() {
  Broadcast(TypesOf(calls_.program().copy_order));
  std::vector<size_t> all(gradients_.size());
  std::iota(all.begin(), all.end(), size_t{0});
  MakeBuckets({all});
  if (ranks_.static_graph) {
    machine_.New({DType::kInt32, {static_cast<int64_t>(all.size())}}, label_, Kind::kBuffer);
  }
}

void DataParallel::BeforeForward(bool reduces) {
  reduces_ = reduces;
  if (!has_rebuilt_ && !order_.empty()) Rebuild();
  if (std::exchange(sends_buffers_, reduces)) Broadcast(TypesOf(calls_.program().buffers));
}

// _DDPSink.forward: clones in the order of the model's outputs; it is one node.
void DataParallel::AfterForward(Forward& forward, const std::vector<NameId>& outputs) {
  if (!ranks_.static_graph || has_reduced_) return;
  GradNode node = {.call = GradNode::kSink, .next = {}, .saved = {}};
  std::vector<NameId> names;
  for (const NameId name : outputs) {
    const TensorId tensor = forward.Lookup(name);
    if (tensor == kNoTensor || machine_.tensor(tensor).grad_fn.node == kNoGradNode) continue;
    if (std::ranges::find(names, name) != names.end()) continue;
    names.push_back(name);
    node.next.push_back(machine_.tensor(tensor).grad_fn);
  }
  if (names.empty()) return;
  node.outputs = static_cast<int32_t>(names.size());
  const GradNodeId sink = machine_.NewNode(std::move(node));
  std::vector<TensorId> clones;
  for (const NameId name : names) {
    const Tensor& output = machine_.tensor(forward.Lookup(name));
    const StridedType type = {output, StridesLike(output)};
    clones.push_back(machine_.NewStrided(type, label_, Kind::kActivation));
    machine_.SetGradFn(clones.back(), {sink, static_cast<int32_t>(clones.size()) - 1});
  }
  for (size_t i = 0; i < names.size(); ++i) forward.Bind(names[i], clones[i]);
}

// autograd_hook: of several for one parameter, which a static graph may have, the last counts.
void DataParallel::TakeGradient(size_t parameter) {
  if (!reduces_ || (ranks_.static_graph && !has_reduced_)) return;
  if (!has_rebuilt_) {
    if (came_[parameter]) std::erase(order_, parameter);
    came_[parameter] = true;
    order_.push_back(parameter);
  }
  if (ranks_.gradients_as_views) GiveView(parameter);
}

void DataParallel::EndBackward() {
  if (!reduces_) return;
  const bool is_delayed = ranks_.static_graph && !has_reduced_;
  for (size_t i = 0; i < gradients_.size() && is_delayed && ranks_.gradients_as_views; ++i) {
    if (gradients_.Has(i)) GiveView(i);
  }
  has_reduced_ = true;
}

void DataParallel::GiveView(size_t parameter) {
  const Dims& dims = TypeOf(parameter).dims;
  const TensorId view =
      machine_.View(buckets_[bucket_of_[parameter]], dims, ContiguousStrides(dims));
  gradients_.Drop(parameter, machine_);
  gradients_.Set(parameter, view);
}

// broadcast_coalesced: a copy of what is flattened, if it is more than one tensor.
void DataParallel::Broadcast(const std::vector<StridedType>& tensors) {
  std::deque<TensorId> in_flight;
  for (const Flat& flat : Flattened(tensors)) {
    if (flat.tensors == 1 && flat.copied.empty()) continue;
    if (in_flight.size() == kInFlight) {
      machine_.Release(in_flight.front());
      in_flight.pop_front();
    }
    std::vector<TensorId> copies;
    for (const TensorType& type : flat.copied) copies.push_back(machine_.New(type, label_));
    if (flat.tensors == 1) {
      in_flight.push_back(copies[0]);
      continue;
    }
    in_flight.push_back(machine_.New({flat.dtype, {flat.elements}}, label_));
    for (const TensorId copy : copies) machine_.Release(copy);
  }
  for (const TensorId tensor : in_flight) machine_.Release(tensor);
}

// sync_bucket_indices takes the order and the sizes of buckets to the device; then
// initialize_buckets drops the old ones first.
void DataParallel::Rebuild() {
  has_rebuilt_ = true;
  std::vector<std::vector<size_t>> buckets(1);
  int64_t bytes = 0;
  for (const size_t parameter : order_) {
    if (bytes >= (buckets.size() == 1 ? kFirstBucketBytes : kBucketBytes)) {
      buckets.emplace_back();
      bytes = 0;
    }
    buckets.back().push_back(parameter);
    bytes = CheckedAdd(bytes, BytesOf(TypeOf(parameter)));
  }
  const auto numbers = [&](size_t count) {
    return machine_.New({DType::kInt32, {static_cast<int64_t>(count)}}, label_);
  };
  const TensorId indices = numbers(order_.size() + 1);
  machine_.Release(numbers(buckets.size()));
  machine_.Release(indices);
  for (const TensorId bucket : std::exchange(buckets_, {})) machine_.Release(bucket);
  MakeBuckets(buckets);
}

// Parameters are taken to be of one type.
void DataParallel::MakeBuckets(const std::vector<std::vector<size_t>>& parameters) {
  for (const std::vector<size_t>& some : parameters) {
    if (some.empty()) continue;
    int64_t elements = 0;
    for (const size_t parameter : some) {
      elements = CheckedAdd(elements, Numel(TypeOf(parameter).dims));
      bucket_of_[parameter] = buckets_.size();
    }
    const TensorType type = {TypeOf(some[0]).dtype, {elements}};
    buckets_.push_back(machine_.New(type, label_, Kind::kGradient));
  }
}

std::vector<StridedType> DataParallel::TypesOf(const std::vector<NameId>& names) const {
  std::vector<StridedType> types;
  for (const NameId name : names) types.push_back(calls_.program().values[Index(name)].type);
  return types;
}

const TensorType& DataParallel::TypeOf(size_t parameter) const {
  const Program& program = calls_.program();
  return program.values[Index(program.parameters[parameter])].type;
}

namespace {

struct Shares {
  std::vector<size_t> first;   // its parameters
  std::vector<int64_t> sizes;  // elements of each
};

Shares SharesOf(const Program& program, int64_t world) {
  const auto elements = [&](size_t parameter) {
    return Numel(program.values[Index(program.parameters[parameter])].type.dims);
  };
  std::vector<size_t> sorted(program.parameters.size());
  std::iota(sorted.begin(), sorted.end(), size_t{0});
  std::ranges::stable_sort(sorted, std::ranges::greater(), elements);
  Shares shares = {{}, std::vector<int64_t>(static_cast<size_t>(world))};
  for (const size_t parameter : sorted) {
    const auto least = std::ranges::min_element(shares.sizes);
    *least = CheckedAdd(*least, elements(parameter));
    if (least == shares.sizes.begin()) shares.first.push_back(parameter);
  }
  return shares;
}

}  // namespace

std::vector<size_t> FirstShare(const Program& program, int64_t world) {
  return SharesOf(program, world).first;
}

int64_t MoreThanFirstShare(const Program& program, int64_t world) {
  const std::vector<int64_t> sizes = SharesOf(program, world).sizes;
  return std::ranges::max(sizes) - sizes[0];
}

}  // namespace onnxfit
