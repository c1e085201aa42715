#include "estimator/ranks/parameter_coordinator.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "estimator/base/index.h"

namespace onnxfit {
namespace {

// Elements: stage3_max_live_parameters and stage3_max_reuse_distance, by default.
constexpr int64_t kMostAvailable = 1'000'000'000;
constexpr int64_t kReuseDistance = 1'000'000'000;

constexpr int64_t kNeverFetched = std::numeric_limits<int64_t>::min();

}  // namespace

ParameterCoordinator::ParameterCoordinator(GatheredParameters& gathered,
                                           const std::vector<std::vector<size_t>>& modules,
                                           const RankSettings& ranks)
    : gathered_(gathered),
      modules_(modules),
      prefetch_bucket_(ranks.prefetch_bucket),
      fetched_for_(gathered.names().size(), kNeverFetched),
      active_(gathered.names().size()) {
  for (size_t i = 0; i < gathered.names().size(); ++i) {
    is_persistent_.push_back(gathered.ElementsOf(i) <= ranks.persistence_threshold);
  }
}

void ParameterCoordinator::BeginPass() {
  for (size_t i = 0; i < active_.size(); ++i) {
    if (!gathered_.IsAwaited(i)) continue;
    gathered_.Wait(i);
    ReleaseOne(i);
  }
  if (trace_ == Trace::kRecord) CompleteTrace();
  if (trace_ == Trace::kInvalid) trace_ = Trace::kRecord;
  queue_.assign(uses_.begin(), uses_.end());
  std::ranges::fill(fetched_for_, kNeverFetched);
  at_ = 0;
  available_ = 0;
}

void ParameterCoordinator::CompleteTrace() {
  for (size_t i = 0; i < order_.size(); ++i) {
    for (const size_t parameter : ParametersOf(order_[i])) {
      uses_.push_back({parameter, static_cast<int64_t>(i)});
    }
  }
  trace_ = Trace::kComplete;
}

void ParameterCoordinator::Fetch(int32_t module, bool is_forward) {
  if (trace_ == Trace::kRecord) order_.push_back(module);
  if (!is_forward) {
    std::erase(in_backward_, module);
    in_backward_.push_back(module);
  }
  Gather(ParametersOf(module));
  for (const size_t i : ParametersOf(module)) {
    active_[i].insert(module);
    if (gathered_.IsAwaited(i)) gathered_.Wait(i);
  }
  if (trace_ == Trace::kComplete) Prefetch(module);
  ++at_;
}

// __all_gather_params
void ParameterCoordinator::Gather(const std::vector<size_t>& parameters) {
  std::vector<size_t> idle;
  for (const size_t i : parameters) {
    if (!gathered_.IsIdle(i)) continue;
    idle.push_back(i);
    available_ += gathered_.ElementsOf(i);
  }
  if (!idle.empty()) gathered_.Gather(idle);
}

// What the module itself uses is not to be gathered for it any more.
void ParameterCoordinator::DropFromQueue(int32_t module) {
  std::set<size_t> missing;
  for (const size_t i : ParametersOf(module)) {
    if (fetched_for_[i] < at_) missing.insert(i);
  }
  for (std::set<size_t> dropped; !queue_.empty() && dropped.size() < missing.size();) {
    fetched_for_[queue_.front().parameter] = queue_.front().at;
    dropped.insert(queue_.front().parameter);
    queue_.pop_front();
  }
}

void ParameterCoordinator::Prefetch(int32_t module) {
  DropFromQueue(module);
  const int64_t most = std::min(kMostAvailable - available_, prefetch_bucket_);
  std::vector<size_t> ahead;
  int64_t elements = 0;
  while (!queue_.empty() && elements < most) {
    const Use use = queue_.front();
    queue_.pop_front();
    fetched_for_[use.parameter] = std::max(fetched_for_[use.parameter], use.at);
    const bool is_there = std::ranges::find(ahead, use.parameter) != ahead.end();
    if (is_there || !gathered_.IsIdle(use.parameter)) continue;
    ahead.push_back(use.parameter);
    elements += gathered_.ElementsOf(use.parameter);
  }
  Gather(ahead);
}

void ParameterCoordinator::Release(int32_t module, bool is_forward) {
  const std::set<size_t> releasable = Releasable(module);
  if (!is_forward) std::erase(in_backward_, module);
  for (const size_t i : ParametersOf(module)) {
    active_[i].erase(module);
    if (releasable.contains(i)) ReleaseOne(i);
  }
}

// __params_to_release: none that is used again soon.
std::set<size_t> ParameterCoordinator::Releasable(int32_t module) const {
  const std::vector<size_t>& own = ParametersOf(module);
  std::set<size_t> releasable(own.begin(), own.end());
  if (trace_ != Trace::kComplete || own.empty()) return releasable;
  std::erase_if(releasable,
                [this](size_t i) { return is_persistent_[i] || fetched_for_[i] > at_; });
  int64_t passed = 0;
  for (size_t i = Index(at_); i < order_.size() && passed < kReuseDistance; ++i) {
    for (const size_t parameter : ParametersOf(order_[i])) {
      releasable.erase(parameter);
      passed += gathered_.ElementsOf(parameter);
    }
  }
  return releasable;
}

// __release_param
void ParameterCoordinator::ReleaseOne(size_t parameter) {
  if (!gathered_.IsWhole(parameter) || !active_[parameter].empty()) return;
  gathered_.Free(parameter);
  available_ -= gathered_.ElementsOf(parameter);
}

// release_backward_leftovers
void ParameterCoordinator::ReleaseLeftovers() {
  while (!in_backward_.empty()) {
    const int32_t module = in_backward_.back();
    in_backward_.pop_back();
    for (const size_t i : ParametersOf(module)) {
      active_[i].erase(module);
      if (!is_persistent_[i]) ReleaseOne(i);
    }
  }
}

// release_and_reset_all
void ParameterCoordinator::ReleaseAll() {
  for (size_t i = 0; i < active_.size(); ++i) {
    if (gathered_.IsAwaited(i)) gathered_.Wait(i);
    active_[i].clear();
    ReleaseOne(i);
  }
}

void ParameterCoordinator::GatherPersistent() {
  std::vector<size_t> persistent;
  for (size_t i = 0; i < is_persistent_.size(); ++i) {
    if (is_persistent_[i]) persistent.push_back(i);
  }
  gathered_.GatherApart(persistent);
}

}  // namespace onnxfit
