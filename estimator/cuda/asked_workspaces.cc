#include <map>
#include <mutex>
#include <utility>

#include "estimator/cuda/libraries.h"

namespace onnxfit {
namespace {

class Asked : public WorkspaceSource {
 public:
  Asked(std::shared_ptr<Libraries> libraries, const DescribedCard& card)
      : libraries_(std::move(libraries)), card_(card) {}

  std::optional<int64_t> Find(const Convolution& convolution) override {
    const std::lock_guard lock(mutex_);
    const auto [at, is_new] = known_.try_emplace(convolution);
    if (is_new) at->second = Ask(convolution);
    return at->second;
  }

 private:
  std::optional<int64_t> Ask(const Convolution& convolution) {
    const PlannedWorkspaces planned = libraries_->Workspaces({convolution}, card_);
    if (planned.found.empty()) return std::nullopt;
    return planned.found[0].bytes;
  }

  const std::shared_ptr<Libraries> libraries_;
  const DescribedCard card_;
  std::mutex mutex_;
  std::map<Convolution, std::optional<int64_t>> known_;
};

}  // namespace

std::shared_ptr<WorkspaceSource> AskedWorkspaces(std::shared_ptr<Libraries> libraries,
                                                 const DescribedCard& card) {
  return std::make_shared<Asked>(std::move(libraries), card);
}

}  // namespace onnxfit
