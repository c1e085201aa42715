// The same work for many items, on all processors.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <future>
#include <thread>
#include <vector>

namespace onnxfit {

// `work` for each index below `count`, on as many threads as there are processors.  What one
// throws ends its thread and is thrown here.
template <typename Work>
void ForEachIndex(size_t count, const Work& work) {
  std::atomic<size_t> next = 0;
  const auto run = [&] {
    for (size_t i = next++; i < count; i = next++) work(i);
  };
  const size_t processors = std::max(1U, std::thread::hardware_concurrency());
  std::vector<std::future<void>> threads;
  // Where the system gives no thread, get() does its work.
  for (size_t i = 0; i < std::min(count, processors); ++i) threads.push_back(std::async(run));
  for (std::future<void>& thread : threads) thread.get();
}

}  // namespace onnxfit
