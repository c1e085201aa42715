#include "cli/program_requests.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <sstream>
#include <utility>
#include <vector>

#include "cli/program_records.h"
#include "cli/script_lines.h"
#include "estimator/absent/run_folder.h"

namespace onnxfit {
namespace {

namespace fs = std::filesystem;

// One line of "PID.events" that changes what lives (absent/events.h).
struct CardEvent {
  bool is_take = false;
  std::pair<int, uint64_t> at = {};  // card and address
  int64_t bytes = 0;
  std::string asker = {};
};

std::vector<CardEvent> EventsOf(const fs::path& file) {
  std::vector<CardEvent> events;
  std::ifstream lines(file);
  for (std::string line; std::getline(lines, line);) {
    const size_t tab = line.find('\t');
    std::istringstream words(line.substr(0, tab));
    std::string what;
    CardEvent event;
    if (!(words >> what >> event.at.first >> event.at.second >> event.bytes)) continue;
    if (what != "take" && what != "give") continue;
    event.is_take = what == "take";
    if (tab != line.npos) event.asker = line.substr(tab + 1);
    events.push_back(std::move(event));
  }
  return events;
}

// So many of the events have happened when most lives; what that is.
struct CardPeak {
  size_t events = 0;
  int64_t bytes = 0;
};

CardPeak PeakOfEvents(const std::vector<CardEvent>& events) {
  CardPeak peak;
  int64_t living = 0;
  for (size_t i = 0; i < events.size(); ++i) {
    living += events[i].is_take ? events[i].bytes : -events[i].bytes;
    if (living > peak.bytes) peak = {i + 1, living};
  }
  return peak;
}

// "p<tab>/me/train.py<tab>12" or "c<tab>libtool.so<tab>Grow".
ProgramPlace AskerPlace(const std::string& asker, ScriptLines& sources) {
  std::istringstream words(asker);
  std::string kind;
  std::string file;
  std::string last;
  std::getline(words, kind, '\t');
  std::getline(words, file, '\t');
  std::getline(words, last);
  if (kind != "p") return {.place = file, .source = last};
  return {.place = fmt::format("{}:{}", fs::path(file).filename().string(), last),
          .source = sources.LineOf(file, std::atoll(last.c_str()))};
}

std::vector<HeldBytes> HeldByAskers(const std::vector<CardEvent>& events, size_t until) {
  std::map<std::pair<int, uint64_t>, const CardEvent*> living;
  for (size_t i = 0; i < until; ++i) {
    if (events[i].is_take) {
      living[events[i].at] = &events[i];
    } else {
      living.erase(events[i].at);
    }
  }
  std::map<std::string, HeldBytes> by_asker;
  for (const auto& [at, event] : living) {
    HeldBytes& held = by_asker[event->asker];
    held.bytes += event->bytes;
    ++held.count;
  }
  ScriptLines sources;
  std::vector<HeldBytes> all;
  for (auto& [asker, held] : by_asker) {
    held.at = asker.empty() ? ProgramPlace{.place = "nobody knows"} : AskerPlace(asker, sources);
    all.push_back(std::move(held));
  }
  std::ranges::stable_sort(all, std::greater(), &HeldBytes::bytes);
  return all;
}

}  // namespace

void AddRequests(const std::string& folder, ProgramRun& run) {
  for (const fs::path& file : FilesEnding(folder, absent::kEventsEnding)) {
    const std::vector<CardEvent> events = EventsOf(file);
    const CardPeak peak = PeakOfEvents(events);
    const bool is_known =
        std::ranges::any_of(events, [](const CardEvent& event) { return !event.asker.empty(); });
    if (!is_known || peak.bytes <= run.asked_bytes) continue;
    run.asked_bytes = peak.bytes;
    run.asked = HeldByAskers(events, peak.events);
  }
}

}  // namespace onnxfit
