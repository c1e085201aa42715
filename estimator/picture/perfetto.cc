#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "estimator/base/index.h"
#include "estimator/memory/endless_card.h"
#include "estimator/memory/lives.h"
#include "estimator/picture/run_files.h"
#include "estimator/report/layout.h"

namespace onnxfit {
namespace {

using Record = nlohmann::ordered_json;

constexpr int kOfRun = 1;       // the process of counters and phases
constexpr int kOfTensors = 10;  // and more by kind: those of tensors

// Lanes of one kind: a tensor takes the first whose last one is over.
class Lanes {
 public:
  // The lane of a tensor that is asked for at `from`; tensors come in the order of their birth.
  size_t Take(int64_t from, int64_t until) {
    const auto free = std::ranges::find_if(ends_, [&](int64_t end) { return end <= from; });
    if (free != ends_.end()) {
      *free = until;
      return static_cast<size_t>(free - ends_.begin());
    }
    ends_.push_back(until);
    return ends_.size() - 1;
  }

 private:
  std::vector<int64_t> ends_;
};

class PerfettoWriter {
 public:
  explicit PerfettoWriter(const Prediction& prediction)
      : prediction_(prediction),
        trace_(prediction.trace),
        lives_(ReadLives(prediction.trace, prediction.alloc_conf)) {}

  std::string Write() {
    Name(kOfRun, "memory");
    WriteCounters();
    WritePhases();
    WriteTensors();
    return text_ + "],\"displayTimeUnit\":\"ns\"}\n";
  }

 private:
  // Allocations and frees follow each other, a microsecond each.
  double TimeOf(int64_t event) const { return static_cast<double>(event); }

  // One by one: no document of all is held.
  void Add(const Record& record) {
    text_ += is_first_ ? "\n" : ",\n";
    text_ += record.dump(-1, ' ', false, Record::error_handler_t::replace);
    is_first_ = false;
  }

  void Name(int process, const std::string& name) {
    Add({{"ph", "M"}, {"name", "process_name"}, {"pid", process}, {"args", {{"name", name}}}});
  }

  void Count(const char* what, int64_t at, int64_t bytes) {
    Add({{"ph", "C"},
         {"name", what},
         {"pid", kOfRun},
         {"ts", TimeOf(at)},
         {"args", {{"bytes", bytes}}}});
  }

  void Slice(int process, size_t lane, const std::string& name, int64_t from, int64_t until,
             Record arguments) {
    Add({{"ph", "X"},
         {"name", Clean(name, false)},
         {"pid", process},
         {"tid", lane + 1},
         {"ts", TimeOf(from)},
         {"dur", TimeOf(until) - TimeOf(from)},
         {"args", std::move(arguments)}});
  }

  void WriteCounters() {
    EndlessCard card(prediction_.alloc_conf);
    int64_t reserved = -1;
    for (size_t i = 0; i < trace_.events.size(); ++i) {
      const Event& event = trace_.events[i];
      if (event.type == Event::Type::kAlloc) {
        card.Alloc(event.id, trace_.buffers[Index(event.id)]);
      } else if (event.type == Event::Type::kFree) {
        card.Free(event.id);
      } else {
        continue;
      }
      const AllocatorStats stats = card.stats();
      Count("allocated", static_cast<int64_t>(i), stats.allocated_bytes);
      if (stats.reserved_bytes != reserved) {
        Count("reserved", static_cast<int64_t>(i), stats.reserved_bytes);
      }
      reserved = stats.reserved_bytes;
    }
  }

  void WritePhases() {
    const auto end = static_cast<int64_t>(trace_.events.size());
    for (int64_t i = 0; i < end; ++i) {
      const Event& event = trace_.events[Index(i)];
      if (event.type != Event::Type::kPhase) continue;
      int64_t next = i + 1;
      while (next < end && trace_.events[Index(next)].type != Event::Type::kPhase) ++next;
      const std::string name =
          event.id == 0 ? "setup" : fmt::format("step {}, {}", event.id, ToString(event.phase));
      Slice(kOfRun, 0, name, i, next, Record::object());
    }
  }

  void WriteTensors() {
    std::vector<Lanes> lanes(kKinds);
    for (int kind = 0; kind < kKinds; ++kind) {
      Name(kOfTensors + kind, WithSpaces(ToString(static_cast<Kind>(kind))));
    }
    const auto end = static_cast<int64_t>(trace_.events.size());
    for (size_t i = 0; i < trace_.buffers.size(); ++i) {
      const Buffer& buffer = trace_.buffers[i];
      const Life& life = lives_.of_buffer[i];
      if (buffer.bytes == 0) continue;
      const int64_t until = life.dies == kNever ? end : life.dies;
      const auto kind = static_cast<size_t>(life.kind);
      Slice(kOfTensors + static_cast<int>(kind), lanes[kind].Take(life.born, until),
            LabelText(trace_, buffer.label), life.born, until,
            {{"bytes", buffer.bytes},
             {"type", ToString(TensorType{buffer.dtype, buffer.dims})},
             {"born", LabelText(trace_, lives_.of_event[Index(life.born)].at)}});
    }
  }

  const Prediction& prediction_;
  const Trace& trace_;
  const Lives lives_;
  std::string text_ = "{\"traceEvents\":[";
  bool is_first_ = true;
};

}  // namespace

std::string ToPerfetto(const Prediction& prediction) { return PerfettoWriter(prediction).Write(); }

}  // namespace onnxfit
