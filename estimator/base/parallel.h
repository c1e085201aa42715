// The same work for many items, on all processors.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <exception>
#include <future>
#include <thread>
#include <vector>

namespace onnxfit {

// `work` for each index below `count`, on as many threads as there are processors.  All of it is
// done; what the lowest index threw is thrown then.
template <typename Work>
void ForEachIndex(size_t count, const Work& work) {
  std::atomic<size_t> next = 0;
  std::vector<std::exception_ptr> thrown(count);
  const auto run = [&] {
    for (size_t i = next++; i < count; i = next++) {
      try {
        work(i);
      } catch (...) {
        thrown[i] = std::current_exception();
      }
    }
  };
  const size_t processors = std::max(1U, std::thread::hardware_concurrency());
  std::vector<std::future<void>> threads;
  // Where the system gives no thread, get() does its work.
  for (size_t i = 0; i < std::min(count, processors); ++i) threads.push_back(std::async(run));
  for (std::future<void>& thread : threads) thread.get();
  for (const std::exception_ptr& exception : thrown) {
    if (exception) std::rethrow_exception(exception);
  }
}

}  // namespace onnxfit
