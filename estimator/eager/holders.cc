#include "estimator/eager/holders.h"

namespace onnxfit {

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
