// Runs the calls of a program on the machine, under autograd.
#pragma once

#include <array>
#include <functional>
#include <map>
#include <set>
#include <span>
#include <utility>
#include <vector>

#include "estimator/base/index.h"
#include "estimator/base/settings.h"
#include "estimator/eager/autograd.h"
#include "estimator/eager/call_table.h"
#include "estimator/program/checkpointed_spans.h"
#include "estimator/program/span_values.h"

namespace onnxfit {

class Forward {
 public:
  // `calls` must outlive it.
  Forward(CallTable& calls, const TrainingSettings& settings);

  // Binds `name` to `tensor` and takes over the caller's reference; what the name held
  // before is released afterwards, as in Python.
  void Bind(NameId name, TensorId tensor);
  TensorId Lookup(NameId name) const { return names_[Index(name)]; }
  // What `name` holds, with the reference to it: kNoTensor, from now on too.
  TensorId Take(NameId name);
  // del name
  void Unbind(NameId name);

  // model.to("cuda").  Those parameters that are trained become leaves that accumulate
  // their gradients.  In placement.cc.
  void PlaceModel();
  // The same by hand: first this, then each tensor of the model, with the reference to it.
  void BeginPlacement();
  void BindOfModel(NameId name, TensorId tensor);
  // parameter.requires_grad_(…) of one that is trained else.
  void AskForGradientsOf(NameId parameter, bool asks);
  // The model of `other`, whose program has it under the same names.
  void ShareModel(const Forward& other);

  // Runs the calls from `first` to before `last`, in the order of the program.  With `grad`,
  // a node is made where a gradient is wanted.
  void Run(size_t first, size_t last, bool grad);
  // Several passes follow of which none has gone backward, under one torch.autocast: what it keeps
  // of one is there for the next, and what checkpoints keep of all stays until this is called
  // again.
  void BeginPasses();
  // What modules' hooks do before and behind calls, and whether those run a second time, under a
  // checkpoint.
  struct CallHooks {
    std::function<void(int32_t call, bool again)> before;
    std::function<void(int32_t call, bool again)> after;
  };
  void HookCalls(CallHooks hooks) { hooks_ = std::move(hooks); }

  // Lets go of the casts that torch.autocast kept.
  void ExitAutocast();

  // torch.utils.checkpoint(use_reentrant=False) around `spans`, which lie apart, in order: their
  // nodes save nothing, and hold the values from outside that the span reads.
  void Checkpoint(std::vector<CallSpan> spans);
  // The same of use_reentrant=True: a span runs without gradients, and one node stands for it,
  // which saves what the span was given.
  void CheckpointReentrant(std::vector<CallSpan> spans);
  // Of checkpoints that the model's library puts around its layers itself: what it asks gradients
  // for then (libraries/names.cc).
  void AskAsLibraries();
  // Before `node` runs backward: where it saved nothing for being under a checkpoint, all of its
  // span runs once more, up to the last call that saves anything, and gives every node what it
  // would have saved.  O(calls of the span + names) for the first node of a span.
  void Unpack(GradNodeId node);

  // Backward of a node that stands for a span: runs it once more, then its own backward.  The
  // gradients of its arguments, one reference each.
  std::vector<TensorId> Rerun(GradNodeId node, const std::vector<TensorId>& incoming,
                              ParameterGradients& gradients, const BackwardHooks& hooks);

  // Backward of a torch.autograd.Function of the model's own: binds the gradients that have come
  // and what the node saved, and runs the calls that were watched.  The gradients of its arguments,
  // one reference each.  In own_functions.cc.
  std::vector<TensorId> RunFunction(GradNodeId node, const std::vector<TensorId>& incoming,
                                    ParameterGradients& gradients, const BackwardHooks& hooks);

  // By call: whether it wrote over its input when it ran last.
  const std::vector<bool>& overwrote() const { return overwrote_; }
  // From now on only the calls of `plan` write over their input, where they may.
  void PlanInPlace(std::vector<bool> plan) { in_place_plan_ = std::move(plan); }

 private:
  // The tensors of a call that is running.
  struct Frame {
    std::vector<TensorId> inputs;  // borrowed from the names
    std::vector<TensorId> outputs;
    std::array<TensorId, 3> aux = {kNoTensor, kNoTensor, kNoTensor};
    TensorId clone = kNoTensor;     // of input 0, saved in its stead
    std::vector<TensorId> scratch;  // one reference each, until the call returns
  };

  // What a call keeps for backward: one reference, and which of its tensors it is.
  struct Saved {
    TensorId tensor = kNoTensor;
    Slots slot = {};
  };

  // A run of a span under a checkpoint.
  struct Activation {
    int32_t span = 0;
    std::vector<std::pair<NameId, TensorId>> arguments = {};  // values from outside
    std::vector<GradNodeId> dicts = {};                       // by item of SpanValues::items
    std::map<int32_t, GradNodeId> nodes = {};                 // by call, those that wait
    size_t saved = 0;                                         // by all of them together
    int32_t last_saving = -1;                                 // the last call that saves anything
    bool saves_inputs_alone = false;                          // that call
  };

  Holder::Type HolderOf(NameId name) const;
  TensorId NewOfModel(NameId name, const TensorType& type);
  void MakeLeaf(int32_t parameter, TensorId tensor);
  void LayOut();
  void Flatten(const FlatWeights& weights);
  void PlacePacked();
  void PlaceAndCast(std::span<const NameId> names);
  void Pack(const QuantizedWeight& weight);
  void PackRows(const QuantizedWeight& weight);
  void Run(int32_t index, bool grad);
  void RunHooked(int32_t index, bool grad);
  void RunAgain(int32_t index, const Activation& activation);
  Frame Enter(int32_t index) const;
  void Leave(int32_t index, Frame& frame);
  void Allocate(int32_t index, Frame& frame);
  void Take(int32_t index, const Step& step, Frame& frame);
  void MakeAux(int32_t index, size_t slot, Frame& frame);
  void MakeScratch(int32_t index, const Step& step, Frame& frame);
  void DropScratch(const Step& step, Frame& frame);
  TensorId MakeOutput(int32_t index, size_t output, Frame& frame);
  TensorId MakePart(int32_t index, NameId name);
  bool IsOverFirst(int32_t index) const;
  bool ReadsNormsView(int32_t index) const;
  bool MayOverwrite(int32_t index, const Frame& frame) const;
  bool WroteOverView(int32_t index, const Frame& frame) const;
  TensorId Overwrite(int32_t index, Frame& frame);
  void Record(int32_t index, const Frame& frame);
  void KeepHistory(int32_t index, const Frame& frame);
  void FindFunctions();
  bool IsOfOtherBackward(int32_t index) const;
  bool RunPart(const AtenCall& call, int32_t index, bool grad);
  void RecordFunction(int32_t index);
  void MakeLeafOf(NameId name);
  void RunNested(const AtenCall& call);
  std::vector<TensorId> TakeReturned(int32_t index, GradNodeId id);
  void UnbindMade(int32_t first, int32_t last);
  std::set<NameId> DroppedIn(int32_t arrival) const;
  void BindGradients(int32_t arrival, const std::vector<TensorId>& incoming);
  void BindSaved(int32_t arrival, GradNodeId id);
  Slots SavedSlots(const OpRule& rule, const std::vector<Edge>& next) const;
  std::vector<Edge> NextEdges(int32_t index, const Frame& frame) const;
  std::vector<Saved> Save(int32_t index, const std::vector<Edge>& next, const Frame& frame);
  std::vector<TensorId> SwapNames(const Activation& activation);
  void SwapAttributes(int32_t span, std::vector<TensorId>& outer);
  void FindStores();
  void MakeDicts();
  void LeaveDicts();
  void StoreMadeBy(int32_t index);
  void BindStored(const Activation& activation);
  void FindCasts();
  void CastAgain(int32_t index);
  void GiveInputsBack(int32_t index);
  bool ReuseCast(int32_t index);
  bool HasRun(int32_t index) const;
  bool KeepsCast(const AtenCall& call) const;
  void FindInputEmbedding();
  void AskOfTokens();
  void AskForGradients(int32_t index);
  bool EndsEmbedding(int32_t index) const;
  void RunWithoutGradients(int32_t span);
  void StandFor(const Activation& activation);
  std::vector<GradNodeId> BindDetached(const Activation& activation);
  void LeaveLeaves(const std::vector<GradNodeId>& leaves, const std::vector<TensorId>& gradients);
  std::vector<TensorId> Materialize(const std::vector<NameId>& results,
                                    const std::vector<TensorId>& incoming);
  void EnterSpan(int32_t span);
  void LeaveSpan();
  void KeepInNode(std::vector<Saved>& kept, GradNode& node);
  GradNodeId Pack(int32_t index, GradNode node, const std::vector<Saved>& kept);
  TensorId TakeDetached(TensorId tensor);
  bool Waits(GradNodeId node, int32_t index) const;
  void GiveBack(int32_t index, const std::vector<Saved>& kept);
  void Recompute(Activation& activation);
  void ReturnNames(const Activation& activation, std::vector<TensorId> outer);

  CallTable& calls_;
  Machine& machine_;
  InPlaceUse in_place_;
  CallHooks hooks_;
  std::vector<TensorId> names_;           // by name: what it holds, one reference
  std::vector<bool> is_cached_;           // by name: a cast that autocast keeps
  std::vector<bool> is_buffer_;           // by name; both empty before PlaceModel
  std::vector<int32_t> parameter_of_;     // by name: its index where it is trained
  std::vector<bool> overwrote_;           // by call
  std::vector<bool> has_run_;             // by call: of those that are made once
  std::vector<bool> in_place_plan_;       // by call; empty: all of them
  std::vector<int32_t> function_around_;  // by call: the node of whose backward it is, or -1; may
                                          // be empty
  // Whose backward runs.
  struct RunningFunction {
    int32_t node = -1;   // the call
    int32_t leaves = 0;  // that it has made
    ParameterGradients* gradients = nullptr;
    const BackwardHooks* hooks = nullptr;
  } function_;
  std::vector<CallSpan> spans_;                // under a checkpoint
  std::vector<SpanValues> values_;             // by span
  std::map<NameId, TensorId> argument_casts_;  // of a span that runs again
  std::map<NameId, int32_t> cast_by_;          // the calls that make what is cached
  std::map<int32_t, int32_t> stores_;          // by call that makes the last of an item: the item
  std::vector<GradNodeId> dicts_;              // by item, of this forward pass or of a second run
  int32_t last_store_ = -1;                    // the call behind which no forward needs them
  std::vector<bool> is_asked_;                 // by call: for gradients, under checkpoints
  int32_t input_embedding_ = -1;               // the call, where it asks for gradients
  bool has_several_passes_ = false;            // under way at once
  bool is_reentrant_ = false;
  bool is_without_gradients_ = false;  // under torch.no_grad(), in training
  bool is_in_backward_ = false;        // computes again, in autograd's own thread
  std::vector<int32_t> span_at_;       // by call that begins one: its index, else -1; may be empty
  TensorId code_of_scales_ = kNoTensor;  // of 8 bits, which bitsandbytes keeps for all weights
  std::vector<Activation> activations_;  // of this forward pass
  bool is_inside_ = false;               // the last of them
  Activation* recomputed_ = nullptr;     // that runs once more
  size_t given_back_ = 0;                // by it so far
};

}  // namespace onnxfit
