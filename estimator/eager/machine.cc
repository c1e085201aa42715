#include "estimator/eager/machine.h"

#include <algorithm>
#include <cassert>
#include <utility>

#include "estimator/operators/strides.h"

namespace onnxfit {

LabelId Machine::AddLabel(std::string label) {
  trace_.labels.push_back(std::move(label));
  return static_cast<LabelId>(trace_.labels.size() - 1);
}

void Machine::EnterPhase(int32_t step, Phase phase) {
  trace_.events.push_back({.type = Event::Type::kPhase, .phase = phase, .id = step});
}

void Machine::EnterOperator(LabelId label) {
  trace_.events.push_back({.type = Event::Type::kAt, .id = label});
}

TensorId Machine::NewStrided(StridedType type, LabelId label, Kind kind) {
  const auto id = static_cast<StorageId>(storages_.size());
  Storage& storage = storages_.emplace_back();
  storage.kind = kind;
  Allocate(storage, {.bytes = BytesOf(type),
                     .label = label,
                     .dtype = type.dtype,
                     .dims = type.dims,
                     .stream = stream_});
  return AddTensor({std::move(type), id});
}

void Machine::Allocate(Storage& storage, const Buffer& buffer) {
  storage.buffer = static_cast<BufferId>(trace_.buffers.size());
  storage.has_bytes = true;
  trace_.buffers.push_back(buffer);
  trace_.events.push_back(
      {.type = Event::Type::kAlloc, .kind = storage.kind, .id = storage.buffer});
}

void Machine::Free(Storage& storage) {
  if (!std::exchange(storage.has_bytes, false)) return;
  trace_.events.push_back({.type = Event::Type::kFree, .id = storage.buffer});
}

void Machine::FreeStorage(TensorId tensor) { Free(StorageOf(tensor)); }

void Machine::AllocStorage(TensorId tensor) {
  Storage& storage = StorageOf(tensor);
  if (storage.has_bytes) return;
  const Buffer same = trace_.buffers[Index(storage.buffer)];
  Allocate(storage, same);
}

TensorId Machine::New(const TensorType& type, LabelId label, Kind kind) {
  return NewStrided(Contiguous(type), label, kind);
}

BufferId Machine::PassWorkspace(int64_t bytes, LabelId label, bool may_fail) {
  const TensorId workspace = New({DType::kUint8, {bytes}}, label, Kind::kWorkspace);
  const auto buffer = static_cast<BufferId>(trace_.buffers.size() - 1);
  trace_.buffers.back().may_fail = may_fail;
  Release(workspace);
  return buffer;
}

void Machine::PassTrial(int64_t bytes, LabelId label) {
  if (bytes == 0) return;
  const TensorId trial = New({DType::kUint8, {bytes}}, label, Kind::kWorkspace);
  trace_.buffers.back().is_trial = true;
  Release(trial);
}

void Machine::SetData(TensorId tensor, TensorId data) {
  const StorageId before = std::exchange(At(tensor).storage, At(data).storage);
  ++StorageOf(tensor).references;
  Storage& left = storages_[Index(before)];
  if (--left.references == 0) Free(left);
}

TensorId Machine::View(TensorId of, Dims dims, Dims strides) {
  Tensor view;
  view.dtype = At(of).dtype;
  view.dims = std::move(dims);
  view.strides = std::move(strides);
  view.storage = At(of).storage;
  view.is_view = true;
  return AddTensor(std::move(view));
}

TensorId Machine::Detach(TensorId of) {
  Tensor copy = At(of);
  copy.grad_fn = {};
  return AddTensor(std::move(copy));
}

TensorId Machine::AddTensor(Tensor tensor) {
  tensor.references = 1;
  ++storages_[Index(tensor.storage)].references;
  if (unused_tensors_.empty()) {
    tensors_.push_back(std::move(tensor));
    return static_cast<TensorId>(tensors_.size() - 1);
  }
  const TensorId id = unused_tensors_.back();
  unused_tensors_.pop_back();
  At(id) = std::move(tensor);
  return id;
}

void Machine::Retain(TensorId tensor) { ++At(tensor).references; }

void Machine::Release(TensorId tensor) {
  DropTensor(tensor);
  Sweep();
}

GradNodeId Machine::NewNode(GradNode node) {
  node.sequence = next_sequence_++;
  node.references = 0;
  for (const Edge& edge : node.next) {
    if (edge.node != kNoGradNode) RetainNode(edge.node);
  }
  for (const GradNodeId dict : node.dicts) RetainNode(dict);
  if (unused_nodes_.empty()) {
    nodes_.push_back(std::move(node));
    return static_cast<GradNodeId>(nodes_.size() - 1);
  }
  const GradNodeId id = unused_nodes_.back();
  unused_nodes_.pop_back();
  NodeAt(id) = std::move(node);
  return id;
}

void Machine::SetIndices(TensorId values, TensorId indices) {
  Retain(indices);
  At(values).indices = indices;
}

void Machine::SetGradFn(TensorId tensor, Edge edge) {
  assert(At(tensor).grad_fn.node == kNoGradNode);
  RetainNode(edge.node);
  At(tensor).grad_fn = edge;
}

void Machine::DropGradFn(TensorId tensor) {
  const Edge edge = std::exchange(At(tensor).grad_fn, {});
  if (edge.node != kNoGradNode) ReleaseNode(edge.node);
}

void Machine::HookReturned(TensorId tensor, int32_t module) {
  const GradNodeId node = At(tensor).grad_fn.node;
  if (node != kNoGradNode) NodeAt(node).returned_by.push_back(module);
}

void Machine::ReleaseUnpacked(GradNodeId node) {
  if (NodeAt(node).activation < 0) return;
  const std::vector<TensorId> saved = std::exchange(NodeAt(node).saved, {});
  for (const TensorId tensor : saved) Release(tensor);
}

void Machine::ReleaseSaved(GradNodeId node) {
  NoteRelease(Holder::Type::kSaved, node);
  const std::vector<TensorId> saved = std::exchange(NodeAt(node).saved, {});
  for (const TensorId tensor : saved) Release(tensor);
  if (NodeAt(node).call == GradNode::kRerun) return;  // whose function holds the rest
  const std::vector<TensorId> arguments = std::exchange(NodeAt(node).arguments, {});
  for (const TensorId tensor : arguments) Release(tensor);
  for (const GradNodeId dict : std::exchange(NodeAt(node).dicts, {})) ReleaseNode(dict);
}

void Machine::SetSaved(GradNodeId node, std::vector<TensorId> saved) {
  NodeAt(node).saved = std::move(saved);
}

void Machine::HoldBy(GradNodeId node, TensorId tensor) {
  Retain(tensor);
  NodeAt(node).arguments.push_back(tensor);
}

void Machine::LetGoOfKept(GradNodeId node, TensorId tensor) {
  std::vector<TensorId>& kept = NodeAt(node).kept;
  const auto found = std::ranges::find(kept, tensor);
  if (found == kept.end()) return;
  kept.erase(found);
  Release(tensor);
}

void Machine::Store(GradNodeId dict, const std::vector<TensorId>& tensors) {
  for (const TensorId tensor : tensors) Retain(tensor);
  for (const TensorId tensor : std::exchange(NodeAt(dict).kept, tensors)) Release(tensor);
}

void Machine::RetainNode(GradNodeId node) { ++NodeAt(node).references; }

void Machine::ReleaseNode(GradNodeId node) {
  DropNode(node);
  Sweep();
}

void Machine::NoteHolder(int32_t key, Holder holder, TensorId tensor) {
  if (log_ == nullptr) return;
  holder.buffer = StorageOf(tensor).buffer;
  holder.is_view = At(tensor).is_view;
  log_->Begin(key, holder);
}

void Machine::NoteRelease(Holder::Type type, int32_t key) {
  if (log_ != nullptr) log_->End(type, key);
}

Kind Machine::kind(TensorId tensor) const { return StorageOf(tensor).kind; }

void Machine::SetKind(TensorId tensor, Kind kind) {
  Storage& storage = StorageOf(tensor);
  if (storage.kind == kind) return;
  storage.kind = kind;
  if (!storage.has_bytes) return;
  trace_.events.push_back({.type = Event::Type::kKind, .kind = kind, .id = storage.buffer});
}

int32_t Machine::StorageReferences(TensorId id) const { return StorageOf(id).references; }

void Machine::DropTensor(TensorId id) {
  assert(At(id).references > 0);
  if (--At(id).references == 0) dead_tensors_.push_back(id);
}

void Machine::DropNode(GradNodeId id) {
  assert(NodeAt(id).references > 0);
  if (--NodeAt(id).references == 0) dead_nodes_.push_back(id);
}

void Machine::Sweep() {
  while (!dead_tensors_.empty() || !dead_nodes_.empty() || !dead_storages_.empty()) {
    if (!dead_tensors_.empty()) {
      SweepTensor();
    } else if (!dead_nodes_.empty()) {
      SweepNode();
    } else {
      Free(storages_[Index(dead_storages_.back())]);
      dead_storages_.pop_back();
    }
  }
}

// A tensor lets go of its history, then of its storage (TensorImpl::release_resources of
// c10/core/TensorImpl.cpp, pytorch v2.11.0).

void Machine::SweepTensor() {
  const TensorId id = dead_tensors_.back();
  dead_tensors_.pop_back();
  const Tensor tensor = std::exchange(At(id), {});
  unused_tensors_.push_back(id);
  Storage& storage = storages_[Index(tensor.storage)];
  const bool ends_history =
      tensor.grad_fn.node != kNoGradNode && node(tensor.grad_fn.node).references == 1;
  if (--storage.references == 0)
    ends_history ? dead_storages_.push_back(tensor.storage) : Free(storage);
  if (tensor.grad_fn.node != kNoGradNode) DropNode(tensor.grad_fn.node);
  if (tensor.indices != kNoTensor) DropTensor(tensor.indices);
}

// What a node saved dies in the order in which it was saved.
void Machine::SweepNode() {
  const GradNodeId id = dead_nodes_.back();
  dead_nodes_.pop_back();
  const GradNode node = std::exchange(NodeAt(id), {});
  unused_nodes_.push_back(id);
  NoteRelease(Holder::Type::kSaved, id);
  for (const TensorId argument : node.arguments) DropTensor(argument);
  for (const GradNodeId dict : node.dicts) DropNode(dict);
  for (const TensorId tensor : node.kept) DropTensor(tensor);
  for (size_t i = node.saved.size(); i-- > 0;) DropTensor(node.saved[i]);
  for (const Edge& edge : node.next) {
    if (edge.node != kNoGradNode) DropNode(edge.node);
  }
}

void PassScratch(Machine& machine, const SumShape& sum, const DeviceProfile& device,
                 LabelId label) {
  const SumScratch scratch = ScratchOf(sum, device);
  if (scratch.partial_bytes == 0) return;
  const TensorId partial = machine.New({DType::kUint8, {scratch.partial_bytes}}, label);
  machine.Release(machine.New({DType::kUint8, {scratch.semaphore_bytes}}, label));
  machine.Release(partial);
}

// --- Who holds what ------------------------------------------------------------

void HolderLog::Begin(int32_t key, Holder holder) {
  holder.from = Now();
  open_.emplace(std::pair(holder.type, key), holders_.size());
  holders_.push_back(holder);
}

void HolderLog::End(Holder::Type type, int32_t key) {
  const auto [begin, end] = open_.equal_range(std::pair(type, key));
  for (auto held = begin; held != end; ++held) holders_[held->second].until = Now();
  open_.erase(begin, end);
}

}  // namespace onnxfit
