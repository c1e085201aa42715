// Cards that behave in a given way, for tests of what runs on one.
#pragma once

#include <algorithm>
#include <cstring>
#include <map>
#include <memory>
#include <vector>

#include "estimator/base/bytes.h"
#include "estimator/memory/gpu.h"

namespace onnxfit {

// A card whose memory is the host's: what is written stays there until somebody else writes.
class HostGpu : public Gpu {
 public:
  struct Habits {
    int64_t free_bytes = 64 * kMiB;
    int64_t total_bytes = 80 * kMiB;
    int64_t fails_at = -1;         // the Take, from 0, at which it says that it is full
    int64_t more_each_take = 0;    // what the driver takes for itself beside each segment
    bool tells_process = false;    // as NVML does
    int64_t others_grow_each = 0;  // what other processes take with each Take
    int64_t scribbles_at = -1;     // the Write, from 0, after which somebody else writes there, too
  };

  HostGpu() : HostGpu(Habits()) {}
  explicit HostGpu(const Habits& habits) : habits_(habits) {}

  bool Take(int32_t segment, int64_t offset, int64_t bytes) override {
    const bool fails = takes_++ == habits_.fails_at;
    if (fails || bytes + habits_.more_each_take > free_bytes()) return false;
    std::vector<char>& memory = segments_[segment];
    memory.resize(std::max(memory.size(), static_cast<size_t>(offset + bytes)));
    taken_ += bytes + habits_.more_each_take;
    others_ += habits_.others_grow_each;
    return true;
  }

  void GiveBack(int32_t segment, int64_t offset, int64_t bytes) override {
    if (offset == 0) segments_.erase(segment);
    taken_ -= bytes + habits_.more_each_take;
  }

  int64_t total_bytes() const override { return habits_.total_bytes; }

  void Write(int32_t segment, int64_t offset, int64_t bytes, uint8_t stamp) override {
    char* begin = segments_.at(segment).data() + offset;
    std::memset(begin, stamp, static_cast<size_t>(bytes));
    if (writes_++ == habits_.scribbles_at) std::memset(begin, 0, 3);
  }

  void Check(int32_t segment, int64_t offset, int64_t bytes, uint8_t stamp) override {
    const char* begin = segments_.at(segment).data() + offset;
    wrong_ += bytes - std::count(begin, begin + bytes, static_cast<char>(stamp));
  }

  int64_t WrongBytes() override { return wrong_; }
  int64_t free_bytes() override { return habits_.free_bytes - taken_ - others_; }

  MemoryReading Read() override {
    MemoryReading reading = {habits_.total_bytes, free_bytes(), std::nullopt};
    if (habits_.tells_process) reading.process_bytes = kContextBytes + taken_;
    return reading;
  }

  static constexpr int64_t kContextBytes = 10 * kMiB;

 private:
  const Habits habits_;
  std::map<int32_t, std::vector<char>> segments_;
  int64_t takes_ = 0;
  int64_t writes_ = 0;
  int64_t taken_ = 0;
  int64_t others_ = 0;
  int64_t wrong_ = 0;
};

}  // namespace onnxfit
