// A machine that computes nothing and only counts: storages with reference counts,
// tensors as views of them, autograd nodes that hold what they saved.  What it allocates
// and frees goes into a Trace; lifetimes follow from who holds a reference.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "estimator/base/device.h"
#include "estimator/base/index.h"
#include "estimator/base/tensor_type.h"
#include "estimator/eager/convolved_log.h"
#include "estimator/eager/holders.h"
#include "estimator/memory/trace.h"
#include "estimator/operators/kernel_scratch.h"
#include "estimator/operators/op_rule.h"

namespace onnxfit {

using TensorId = int32_t;    // index into the machine's tensors; ids are used again
using StorageId = int32_t;   // of its storages: bytes that tensors share
using GradNodeId = int32_t;  // the same for its autograd nodes
using LabelId = int32_t;     // index into Trace::labels
inline constexpr TensorId kNoTensor = -1;
inline constexpr GradNodeId kNoGradNode = -1;

// Which output of which node a gradient flows to.
struct Edge {
  GradNodeId node = kNoGradNode;
  int32_t output = 0;
};

struct Tensor : StridedType {
  StorageId storage = -1;
  bool is_view = false;  // autograd keeps its base: nobody may add into it
  Edge grad_fn = {};     // kNoGradNode: needs no gradient
  int32_t references = 0;
  TensorId indices = kNoTensor;  // of a sparse tensor, whose values this is: it holds them, too
};

// What a call leaves for backward.
struct GradNode {
  static constexpr int32_t kLeaf = -1;      // accumulates into a parameter
  static constexpr int32_t kMultiple = -2;  // the loop's loss * number
  static constexpr int32_t kArgument = -3;  // accumulates into what a checkpoint was given
  static constexpr int32_t kRerun = -4;     // runs a checkpoint's span again, and its backward
  static constexpr int32_t kArrival = -5;   // passes on the gradients of a module's arguments
  static constexpr int32_t kSink = -6;      // passes on the gradients of the model's outputs
  static constexpr int32_t kDict = -7;      // no function: an item of a dict, which keeps values
  static constexpr int32_t kReturn = -8;    // passes on the gradient of what a module returned

  int32_t call = kLeaf;    // index of the call, or one of those above
  int32_t parameter = -1;  // of a leaf: its index; of an argument: which; of an arrival or
                           // a return: the module
  int64_t sequence = 0;    // later calls have larger ones
  int32_t outputs = 1;
  std::vector<Edge> next = {};            // by input; kNoGradNode where no gradient is wanted
  std::vector<TensorId> saved = {};       // one reference each
  DType multiple_of = DType::kUndefined;  // of a multiple: the loss's type
  bool over_view = false;                 // the call wrote over its first input, a view
  int32_t activation = -1;                // whose recomputation gives `saved`, or is run
  std::vector<TensorId> arguments = {};   // of that, one reference each
  std::vector<int32_t> dicts = {};        // nodes that its span was given, one reference each
  std::vector<TensorId> kept = {};        // as long as the node, one reference each
  std::vector<int32_t> returned_by = {};  // modules that returned what it made
  std::vector<TensorType> passes = {};    // of an arrival: what it passes on
  int32_t references = 0;                 // by tensors and by the nodes before it
};

class Machine {
 public:
  explicit Machine(Trace& trace) : trace_(trace) {}

  LabelId AddLabel(std::string label);

  // Marks in the trace: a step's phase begins; from now on the operator `label` runs.
  void EnterPhase(int32_t step, Phase phase);
  void EnterOperator(LabelId label);
  // torch.cuda.empty_cache().
  void EmptyCache() {
    trace_.cache_emptied_at.push_back(static_cast<int64_t>(trace_.events.size()));
  }

  // A new tensor with one reference, which the caller owns: as it lies, or contiguous.
  TensorId NewStrided(StridedType type, LabelId label, Kind kind = Kind::kTemporary);
  TensorId New(const TensorType& type, LabelId label, Kind kind = Kind::kTemporary);
  // Allocates a workspace and gives it back; `may_fail` as Buffer has it.  Returns which it was.
  BufferId PassWorkspace(int64_t bytes, LabelId label, bool may_fail);
  // The same of what Buffer::is_trial is true of.
  void PassTrial(int64_t bytes, LabelId label);
  // What is new from now on is allocated on `stream` (torch.cuda.stream).
  void UseStream(StreamId stream) { stream_ = stream; }
  // The storage of `tensor` has no bytes from now on, whoever sees it; or has `bytes` again.
  // UntypedStorage.resize_.
  void FreeStorage(TensorId tensor);
  void AllocStorage(TensorId tensor);
  // tensor.data = data: whoever holds the tensor itself sees other storage from now on, views of it
  // do not.
  void SetData(TensorId tensor, TensorId data);

  // The same storage seen otherwise; one reference, which the caller owns.
  TensorId View(TensorId of, Dims dims, Dims strides);
  // The same tensor without its history: what autograd saves of an output.
  TensorId Detach(TensorId of);

  void Retain(TensorId tensor);
  // Gives one reference back.  Frees what nobody holds any more, with a work list: long
  // chains of nodes do not use the stack.
  void Release(TensorId tensor);

  // A node with no reference yet; `next` edges are retained.
  GradNodeId NewNode(GradNode node);
  void SetGradFn(TensorId tensor, Edge edge);
  // `values` are those of a sparse tensor with these indices, which are retained.
  void SetIndices(TensorId values, TensorId indices);
  // tensor.detach_()
  void DropGradFn(TensorId tensor);
  // tensor.register_hook: `module` is told before backward runs what made `tensor`.
  void HookReturned(TensorId tensor, int32_t module);
  // `node` has saved these, which were computed again: one reference each, taken over.
  void SetSaved(GradNodeId node, std::vector<TensorId> saved);
  // Gives back what was computed again for `node`, as its formulas do at their end: the last that
  // hold it (SavedVariable::unpack with hooks, pytorch v2.11.0).
  void ReleaseUnpacked(GradNodeId node);
  // Gives back what `node` saved, as the engine does once it has run.
  void ReleaseSaved(GradNodeId node);
  // What `node` holds from now on until it dies or has run, `saved` aside.
  void HoldBy(GradNodeId node, TensorId tensor);
  // No longer, what it keeps for as long as it lives.
  void LetGoOfKept(GradNodeId node, TensorId tensor);
  // What an item of a dict keeps from now on.
  void Store(GradNodeId dict, const std::vector<TensorId>& tensors);
  void RetainNode(GradNodeId node);
  void ReleaseNode(GradNodeId node);

  // Workspaces of convolutions are noted in `log` from now on, which must outlive the machine.
  void RecordInto(ConvolvedLog& log) { convolved_ = &log; }
  ConvolvedLog* convolved() const { return convolved_; }  // null where nobody asked

  // Who holds what from now on goes into `log`, which must outlive the machine.
  void RecordInto(HolderLog& log) { log_ = &log; }
  // No longer; that log, or null.
  HolderLog* StopRecording() { return std::exchange(log_, nullptr); }
  // What goes there: `holder` (its type, id and slot) takes `tensor`, `key` lets go.  What
  // nodes saved ends by itself, its key is the node.  Nothing where nobody records.
  void NoteHolder(int32_t key, Holder holder, TensorId tensor);
  void NoteRelease(Holder::Type type, int32_t key);

  // What holds a tensor's storage, and what holds it from now on.
  Kind kind(TensorId tensor) const;
  void SetKind(TensorId tensor, Kind kind);

  const Tensor& tensor(TensorId id) const { return tensors_[Index(id)]; }
  const GradNode& node(GradNodeId id) const { return nodes_[Index(id)]; }
  size_t node_limit() const { return nodes_.size(); }  // above all ids of nodes
  // Tensors that share the storage of `id`, itself included.
  int32_t StorageReferences(TensorId id) const;

 private:
  struct Storage {
    BufferId buffer = -1;    // the last that it had
    bool has_bytes = false;  // and still has
    Kind kind = Kind::kTemporary;
    int32_t references = 0;  // by tensors
  };

  TensorId AddTensor(Tensor tensor);
  void Allocate(Storage& storage, const Buffer& buffer);
  void Free(Storage& storage);
  Storage& StorageOf(TensorId tensor) { return storages_[Index(At(tensor).storage)]; }
  const Storage& StorageOf(TensorId id) const { return storages_[Index(tensor(id).storage)]; }
  Tensor& At(TensorId id) { return tensors_[Index(id)]; }
  GradNode& NodeAt(GradNodeId id) { return nodes_[Index(id)]; }
  void DropTensor(TensorId id);
  void DropNode(GradNodeId id);
  void Sweep();
  void SweepTensor();
  void SweepNode();

  Trace& trace_;
  HolderLog* log_ = nullptr;
  ConvolvedLog* convolved_ = nullptr;
  std::vector<Tensor> tensors_;
  std::vector<TensorId> unused_tensors_;
  std::vector<GradNode> nodes_;
  std::vector<GradNodeId> unused_nodes_;
  std::vector<Storage> storages_;
  StreamId stream_ = kMainStream;
  std::vector<TensorId> dead_tensors_;  // work lists of Sweep
  std::vector<GradNodeId> dead_nodes_;
  std::vector<StorageId> dead_storages_;
  int64_t next_sequence_ = 0;
};

// What a sum takes beside its result (ScratchOf), allocated and freed.
void PassScratch(Machine& machine, const SumShape& sum, const DeviceProfile& device, LabelId label);

}  // namespace onnxfit
