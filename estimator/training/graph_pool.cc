#include "estimator/training/graph_pool.h"

#include <map>
#include <set>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "estimator/base/index.h"

namespace onnxfit {
namespace {

constexpr StreamId kGraphPool = 4;    // beside the streams of FSDP and of loaders
constexpr int32_t kRecordedStep = 2;  // the first one runs to warm up

class GraphPool {
 public:
  GraphPool(const Program& program, size_t model_end, Trace trace)
      : program_(program), trace_(std::move(trace)) {
    std::set<std::string_view> own;
    for (size_t i = 0; i < model_end; ++i) own.insert(program.calls[i].where);
    for (size_t i = model_end; i < program.calls.size(); ++i) own.erase(program.calls[i].where);
    for (const std::string& label : trace_.labels) is_models_.push_back(own.contains(label));
  }

  // By event: how many there are before it in the result.
  std::vector<int64_t> Run() {
    std::vector<Event> events;
    std::vector<int64_t> places;
    for (const Event& event : std::exchange(trace_.events, {})) {
      if (event.type == Event::Type::kPhase) EnterPhase(event, events);
      if (event.type == Event::Type::kAt) EnterCall(Index(event.id), events);
      if (event.type == Event::Type::kAlloc && is_recorded_) Take(event);
      if (event.type == Event::Type::kFree) std::erase(workspaces_[phase_], event.id);
      places.push_back(static_cast<int64_t>(events.size()));
      events.push_back(event);
    }
    places.push_back(static_cast<int64_t>(events.size()));
    trace_.events = std::move(events);
    return places;
  }

  Trace trace() && { return std::move(trace_); }

 private:
  void EnterPhase(const Event& phase, std::vector<Event>& events) {
    Leave(events);
    step_ = phase.id;
    phase_ = phase.phase;
    is_copied_ = false;
  }

  void EnterCall(size_t label, std::vector<Event>& events) {
    const bool is_of_graph = phase_ == Phase::kForward || phase_ == Phase::kBackward;
    if (!is_of_graph || !is_models_[label]) return Leave(events);
    if (!std::exchange(is_recorded_, true)) TakeWorkspaces(events);
    if (step_ != kRecordedStep || std::exchange(is_copied_, true)) return;
    for (const NameId name : Given()) Copy(name, static_cast<int32_t>(label), events);
  }

  // Forward the batch, but its labels; backward the gradients of what the model returns.
  std::span<const NameId> Given() const {
    if (phase_ == Phase::kBackward) return program_.outputs;
    const size_t labels = HasLabels(program_) ? 1 : 0;
    return std::span(program_.inputs).first(program_.inputs.size() - labels);
  }

  void Take(const Event& event) {
    trace_.buffers[Index(event.id)].stream = kGraphPool;
    if (event.kind == Kind::kWorkspace) workspaces_[phase_].push_back(event.id);
  }

  // cuBLAS's are let go before and behind each graph (clear_cublas_manager).
  void TakeWorkspaces(std::vector<Event>& events) {
    for (BufferId& workspace : workspaces_[phase_]) {
      const Buffer again = trace_.buffers[Index(workspace)];
      workspace = static_cast<BufferId>(trace_.buffers.size());
      trace_.buffers.push_back(again);
      events.push_back({.type = Event::Type::kAlloc, .kind = Kind::kWorkspace, .id = workspace});
    }
  }

  // The loss, what is behind the model's calls.
  void Leave(std::vector<Event>& events) {
    if (!std::exchange(is_recorded_, false)) return;
    for (const BufferId workspace : workspaces_[phase_])
      events.push_back({.type = Event::Type::kFree, .id = workspace});
    for (const BufferId copy : std::exchange(copies_, {}))
      events.push_back({.type = Event::Type::kFree, .id = copy});
  }

  void Copy(NameId name, int32_t label, std::vector<Event>& events) {
    const TensorType& type = program_.values[Index(name)].type;
    const auto buffer = static_cast<BufferId>(trace_.buffers.size());
    trace_.buffers.push_back({.bytes = BytesOf(type),
                              .label = label,
                              .dtype = type.dtype,
                              .dims = type.dims,
                              .stream = kGraphPool});
    events.push_back({.type = Event::Type::kAlloc, .kind = Kind::kTemporary, .id = buffer});
    copies_.push_back(buffer);
  }

  const Program& program_;
  Trace trace_;
  std::vector<bool> is_models_;  // by label
  std::vector<BufferId> copies_;
  std::map<Phase, std::vector<BufferId>> workspaces_;  // that their libraries keep
  int32_t step_ = 0;
  Phase phase_ = Phase::kSetup;
  bool is_recorded_ = false;
  bool is_copied_ = false;  // in this phase
};

}  // namespace

Trace PutInGraphPool(const Program& program, size_t model_end, Trace trace, Holders* holders) {
  GraphPool pool(program, model_end, std::move(trace));
  const std::vector<int64_t> places = pool.Run();
  const auto move = [&](int64_t& place) {
    if (place >= 0) place = places[Index(place)];  // -1: never, or for good
  };
  Trace moved = std::move(pool).trace();
  for (int64_t& place : moved.cache_emptied_at) move(place);
  for (size_t i = 0; holders != nullptr && i < holders->size(); ++i) {
    move((*holders)[i].from);
    move((*holders)[i].until);
  }
  return moved;
}

}  // namespace onnxfit
