#include "estimator/ranks/gathered_parameters.h"

#include <algorithm>
#include <iterator>
#include <set>
#include <utility>

#include "estimator/base/index.h"

namespace onnxfit {

namespace {

constexpr StreamId kAllGatherStream = 1;  // __allgather_stream, with overlap_comm, as by default

}  // namespace

GatheredParameters::GatheredParameters(CallTable& calls, Forward& forward)
    : calls_(calls),
      machine_(calls.machine()),
      forward_(forward),
      world_(calls.settings().ranks.world),
      label_(machine_.AddLabel("ZeRO")) {
  const Program& program = calls.program();
  const std::set<NameId> buffers(program.buffers.begin(), program.buffers.end());
  const std::set<NameId> trained(program.parameters.begin(), program.parameters.end());
  for (const NameId name : program.placement) {
    if (buffers.contains(name)) continue;
    names_.push_back(name);
    elements_.push_back(Numel(program.values[Index(name)].type.dims));
    is_trained_.push_back(trained.contains(name));
  }
  states_.resize(names_.size(), State::kIdle);
  handles_.resize(names_.size());
  parts_.resize(names_.size(), kNoTensor);
}

int64_t GatheredParameters::PartOf(size_t parameter) const {
  return (elements_[parameter] + world_ - 1) / world_;
}

DType GatheredParameters::TypeOf(size_t parameter) const {
  return calls_.program().values[Index(names_[parameter])].type.dtype;
}

// _partition_param, the first time.
void GatheredParameters::Partition() {
  for (size_t i = 0; i < names_.size(); ++i) {
    const TensorType part = {TypeOf(i), {PartOf(i)}};
    parts_[i] = machine_.New(part, calls_.NameLabel(names_[i]), Kind::kParameter);
    if (nothing_ == kNoTensor) nothing_ = machine_.New({TypeOf(i), {0}}, label_);
    machine_.SetData(forward_.Lookup(names_[i]), nothing_);
  }
}

void GatheredParameters::Defragment() {
  int64_t elements = 0;
  DType type = DType::kUndefined;
  for (size_t i = 0; i < names_.size(); ++i) {
    if (!is_trained_[i]) continue;
    machine_.Release(std::exchange(parts_[i], kNoTensor));
    elements += PartOf(i);
    type = TypeOf(i);
  }
  machine_.EmptyCache();
  if (elements > 0) machine_.New({type, {elements}}, label_, Kind::kParameter);
}

void GatheredParameters::SetWhole(size_t parameter, int64_t elements) {
  const TensorId whole = machine_.New({TypeOf(parameter), {elements}},
                                      calls_.NameLabel(names_[parameter]), Kind::kParameter);
  machine_.SetData(forward_.Lookup(names_[parameter]), whole);
  machine_.Release(whole);
}

// One alone, or one rank alone, copies nothing.
void GatheredParameters::Gather(const std::vector<size_t>& parameters) {
  const auto handle = std::make_shared<Handle>();
  handle->parameters = parameters;
  std::ranges::sort(handle->parameters);
  handle->waiting = std::ssize(parameters);
  for (const size_t i : parameters) {
    states_[i] = State::kInFlight;
    handles_[i] = handle;
  }
  handle->is_complete = world_ == 1 || parameters.size() == 1;
  if (world_ == 1) return;
  machine_.UseStream(kAllGatherStream);
  if (parameters.size() == 1) {
    SetWhole(parameters[0], PartOf(parameters[0]) * world_);
  } else {
    int64_t elements = 0;
    for (const size_t i : parameters) elements += PartOf(i) * world_;
    handle->together = machine_.New({TypeOf(parameters[0]), {elements}}, label_);
  }
  machine_.UseStream(kMainStream);
}

// Each is put together of the ranks' parts.
void GatheredParameters::Complete(Handle& handle) {
  for (const size_t i : handle.parameters) {
    if (!handle.is_complete) SetWhole(i, elements_[i]);
    if (states_[i] == State::kInFlight) states_[i] = State::kWhole;
  }
  handle.is_complete = true;
}

void GatheredParameters::Wait(size_t parameter) {
  const std::shared_ptr<Handle> handle = std::exchange(handles_[parameter], nullptr);
  machine_.UseStream(kAllGatherStream);
  if (states_[parameter] == State::kInFlight) Complete(*handle);
  machine_.UseStream(kMainStream);
  if (--handle->waiting > 0 || handle->together == kNoTensor) return;
  machine_.Release(std::exchange(handle->together, kNoTensor));
}

void GatheredParameters::GatherApart(const std::vector<size_t>& parameters) {
  std::vector<size_t> idle;
  std::ranges::copy_if(parameters, std::back_inserter(idle),
                       [this](size_t i) { return IsIdle(i); });
  for (const size_t i : idle) {
    states_[i] = State::kWhole;
    if (world_ > 1 || idle.size() == 1) SetWhole(i, PartOf(i) * world_);
  }
}

void GatheredParameters::Free(size_t parameter) {
  states_[parameter] = State::kIdle;
  machine_.SetData(forward_.Lookup(names_[parameter]), nothing_);
}

}  // namespace onnxfit
