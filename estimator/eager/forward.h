// Runs the calls of a program on the machine, under autograd.
#pragma once

#include <array>
#include <utility>
#include <vector>

#include "estimator/base/index.h"
#include "estimator/base/settings.h"
#include "estimator/eager/call_table.h"

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

  // model.to("cuda").  Those parameters that are trained become leaves that accumulate
  // their gradients.
  void PlaceModel();

  // Runs the calls from `first` to before `last`, in the order of the program.  With `grad`,
  // a node is made where a gradient is wanted.
  void Run(size_t first, size_t last, bool grad);
  // Lets go of the casts that torch.autocast kept.
  void ExitAutocast();

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

  Holder::Type HolderOf(NameId name) const;
  void BindParameter(int32_t index, TensorId tensor);
  void Run(int32_t index, bool grad);
  void Unbind(NameId name);
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
  bool MayOverwrite(int32_t index, const Frame& frame) const;
  bool WroteOverView(int32_t index, const Frame& frame) const;
  TensorId Overwrite(int32_t index, Frame& frame);
  void Record(int32_t index, const Frame& frame);
  void KeepHistory(int32_t index, const Frame& frame);
  static Slots SavedSlots(const OpRule& rule, const std::vector<Edge>& next);
  std::vector<Edge> NextEdges(int32_t index, const Frame& frame) const;
  std::vector<Saved> Save(int32_t index, const std::vector<Edge>& next, const Frame& frame);

  CallTable& calls_;
  Machine& machine_;
  InPlaceUse in_place_;
  std::vector<TensorId> names_;      // by name: what it holds, one reference
  std::vector<bool> is_cached_;      // by name: a cast that autocast keeps
  std::vector<bool> overwrote_;      // by call
  std::vector<bool> has_run_;        // by call: of those that are made once
  std::vector<bool> in_place_plan_;  // by call; empty: all of them
};

}  // namespace onnxfit
