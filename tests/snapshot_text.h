// Memory snapshots of tests, from text.
#pragma once

#include <cstdint>
#include <map>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "estimator/snapshot/memory_snapshot.h"

namespace onnxfit {

// What PyTorch would write of these lines, in their order:
//   +a 4096 net.py:3:forward train.py:9:main   a tensor, and who asked, innermost first
//   -a                                         it is freed
//   reserve 2097152, release 2097152           segments
//   oom 4096 net.py:3:forward                  that did not fit
//   history                                    what is above it was not recorded
// "engine" among the frames is autograd's.  What is not freed lives at the end.
class SnapshotText {
 public:
  explicit SnapshotText(const std::string& text) {
    std::istringstream lines(text);
    for (std::string line; std::getline(lines, line);) Take(line);
    for (const auto& [name, block] : live_) snapshot_.live.push_back(block);
  }
  MemorySnapshot Take() { return std::move(snapshot_); }

 private:
  using Action = SnapshotEvent::Action;

  void Take(const std::string& line) {
    std::istringstream words(line);
    std::string word;
    if (!(words >> word)) return;
    int64_t bytes = 0;
    if (word == "history") {
      snapshot_.events.clear();
    } else if (word[0] == '-') {
      const auto freed = live_.extract(word.substr(1)).mapped();
      snapshot_.events.push_back({Action::kFree, freed.address, freed.requested_bytes, 0});
    } else if (words >> bytes) {
      Add(word, bytes, StackOf(words));
    }
  }

  void Add(const std::string& word, int64_t bytes, StackId stack) {
    if (word[0] == '+') {
      const int64_t address = next_ += 4096;
      live_[word.substr(1)] = {address, (bytes + 511) / 512 * 512, bytes, stack};
      snapshot_.events.push_back({Action::kAlloc, address, bytes, stack});
      return;
    }
    const Action action = word == "oom"       ? Action::kOom
                          : word == "reserve" ? Action::kReserve
                                              : Action::kRelease;
    if (action == Action::kReserve) snapshot_.reserved_bytes += bytes;
    if (action == Action::kRelease) snapshot_.reserved_bytes -= bytes;
    snapshot_.events.push_back({action, 0, bytes, stack});
  }

  StackId StackOf(std::istringstream& words) {
    SnapshotStack stack;
    for (std::string word; words >> word;) {
      if (word == "engine") {
        stack.is_backward = true;
      } else {
        stack.frames.push_back(FrameOf(word));
      }
    }
    return IdOf(stack, snapshot_.stacks);
  }

  // "net.py:3:forward"
  FrameId FrameOf(const std::string& word) {
    const size_t line = word.find(':');
    const size_t function = word.find(':', line + 1);
    const SnapshotFrame frame = {.function = word.substr(function + 1),
                                 .file = word.substr(0, line),
                                 .line = std::stoll(word.substr(line + 1, function - line - 1))};
    return IdOf(frame, snapshot_.frames);
  }

  template <typename Value>
  static int32_t IdOf(const Value& value, std::vector<Value>& values) {
    for (size_t i = 0; i < values.size(); ++i) {
      if (values[i] == value) return static_cast<int32_t>(i);
    }
    values.push_back(value);
    return static_cast<int32_t>(values.size() - 1);
  }

  MemorySnapshot snapshot_;
  std::map<std::string, SnapshotBlock> live_;
  int64_t next_ = 0;
};

inline MemorySnapshot ParseSnapshotText(const std::string& text) {
  return SnapshotText(text).Take();
}

// `turn` so many times, its number in the place of "#".
inline std::string Repeated(int count, const std::string& turn) {
  std::string text;
  for (int i = 0; i < count; ++i) {
    for (const char c : turn) text += c == '#' ? std::to_string(i) : std::string(1, c);
  }
  return text;
}

}  // namespace onnxfit
