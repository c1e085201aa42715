#include "estimator/fit/doubts.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <string>
#include <string_view>
#include <utility>

#include "estimator/base/bytes.h"
#include "estimator/base/warnings.h"
#include "estimator/eager/in_place.h"
#include "estimator/fit/predict.h"
#include "estimator/memory/timeline.h"

namespace onnxfit {
namespace {

struct DoubtRow {
  Doubt doubt;
  std::string_view low;  // flags
  std::string_view high;
  bool guesses_low;    // the guess is never more than the low answer
  bool keeps_program;  // recovery does not ask
  void (*answer)(TrainingSettings&, bool by_more);
};

// Bytes are the same for every p above 0.
constexpr DoubtRow kDoubtRows[] = {
    {Doubt::kDropout, "--dropout 0", "--dropout 0.1", false, false,
     [](TrainingSettings& settings, bool by_more) { settings.dropout = by_more ? 0.1 : 0.0; }},
    {Doubt::kTiedHead, "--assume tied-head=yes", "--assume tied-head=no", true, false,
     [](TrainingSettings& settings, bool by_more) { settings.assumed.tied_head = !by_more; }},
    {Doubt::kBatchNorm, "--batch-norm keep", "--batch-norm restore", false, false,
     [](TrainingSettings& settings, bool by_more) {
       settings.batch_norm = by_more ? BatchNormUse::kRestore : BatchNormUse::kKeep;
     }},
    {Doubt::kInPlace, "--in-place always", "--in-place known", true, true,
     [](TrainingSettings& settings, bool by_more) {
       settings.in_place = by_more ? InPlaceUse::kKnown : InPlaceUse::kAlways;
     }},
};

std::vector<const DoubtRow*> RowsOf(std::span<const Doubt> doubts) {
  std::vector<const DoubtRow*> rows;
  for (const DoubtRow& row : kDoubtRows) {
    if (std::ranges::find(doubts, row.doubt) != doubts.end()) rows.push_back(&row);
  }
  return rows;
}

DeviceRange::End EndOf(const Reading& reading, const Prediction& prediction) {
  const int64_t reserved = Replay(prediction.trace, prediction.alloc_conf).peak.reserved_bytes;
  return {CheckedAdd(reserved, ContextBytesOf(reading.request)), reading.flags};
}

// The same end by fewer flags: without those that change no byte of it.
DeviceRange::End WithoutIdle(const Graph& file, const EstimateRequest& request,
                             const Prediction& guess, std::vector<Doubt> doubts, bool by_more,
                             DeviceRange::End end) {
  for (size_t i = doubts.size(); i-- > 0 && doubts.size() > 1;) {
    std::vector<Doubt> fewer = doubts;
    fewer.erase(fewer.begin() + static_cast<std::ptrdiff_t>(i));
    const Reading reading = AnswerAll(request, fewer, by_more);
    const DeviceRange::End same = EndOf(reading, PredictLike(guess, file, reading.request));
    if (same.device_bytes != end.device_bytes) continue;
    doubts = fewer;
    end = same;
  }
  return end;
}

// "2.00 MiB more with --in-place known"; "" for the guess itself.
std::string EndText(const DeviceRange::End& end, int64_t guessed_bytes) {
  const int64_t more = end.device_bytes - guessed_bytes;
  if (more == 0) return "";
  return fmt::format("{} {} with {}", FormatBytes(std::abs(more)), more > 0 ? "more" : "less",
                     end.flags);
}

}  // namespace

std::vector<Doubt> DoubtsOf(const Program& program, const TrainingSettings& settings) {
  std::vector<Doubt> doubts = program.doubts;
  if (LeavesInPlaceOpen(program, settings)) doubts.push_back(Doubt::kInPlace);
  return doubts;
}

std::vector<Doubt> DoubtsAt(const Graph& file, const EstimateRequest& request) {
  return DoubtsOf(PrepareRun(file, request).program, request.settings);
}

Reading AnswerAll(const EstimateRequest& request, std::span<const Doubt> doubts, bool by_more) {
  Reading reading = {request};
  reading.request.details = false;
  reading.request.why.clear();
  for (const DoubtRow* row : RowsOf(doubts)) {
    row->answer(reading.request.settings, by_more);
    reading.keeps_program = reading.keeps_program && row->keeps_program;
    if (!reading.flags.empty()) reading.flags += " ";
    reading.flags += by_more ? row->high : row->low;
  }
  return reading;
}

std::vector<Reading> ReadingsOf(const EstimateRequest& request, std::span<const Doubt> doubts) {
  std::vector<Reading> readings;
  if (!doubts.empty()) readings.push_back(AnswerAll(request, doubts, true));
  readings.push_back({request});
  return readings;
}

std::optional<ReadRun> PredictWorse(const Graph& file, const EstimateRequest& request,
                                    std::span<const Doubt> doubts, const Prediction& guess) {
  if (doubts.empty()) return std::nullopt;
  Reading reading = AnswerAll(request, doubts, true);
  Prediction prediction = PredictLike(guess, file, reading.request);
  return ReadRun{std::move(reading), std::move(prediction)};
}

std::optional<DeviceRange> FindRange(const Graph& file, const EstimateRequest& request,
                                     std::span<const Doubt> doubts, const ReadRun& worse,
                                     const Prediction& guess, int64_t guessed_bytes) {
  std::vector<DeviceRange::End> ends = {{guessed_bytes, ""},
                                        EndOf(worse.reading, worse.prediction)};
  const auto guesses_low = [](const DoubtRow* row) { return row->guesses_low; };
  if (!std::ranges::all_of(RowsOf(doubts), guesses_low)) {
    const Reading low = AnswerAll(request, doubts, false);
    ends.push_back(EndOf(low, PredictLike(guess, file, low.request)));
  }
  const auto [low, high] = std::ranges::minmax_element(ends, {}, &DeviceRange::End::device_bytes);
  if (low->device_bytes == high->device_bytes) return std::nullopt;
  const auto told = [&](std::vector<DeviceRange::End>::iterator end) {
    const std::vector<Doubt> all = {doubts.begin(), doubts.end()};
    return end == ends.begin()
               ? *end
               : WithoutIdle(file, request, guess, all, end == ends.begin() + 1, *end);
  };
  return DeviceRange{told(low), told(high)};
}

Warning RangeWarning(const DeviceRange& range, int64_t guessed_bytes) {
  std::string text = "guessed where the file does not say: ";
  const std::string high = EndText(range.high, guessed_bytes);
  const std::string low = EndText(range.low, guessed_bytes);
  text += high + (high.empty() || low.empty() ? "" : ", ") + low;
  return {warning::kLostAnswers, text};
}

ReadingPrograms::ReadingPrograms(const Graph& file, const EstimateRequest& request, int64_t batch) {
  const auto guessed = std::make_shared<BatchPrograms>(file, request);
  readings_ = ReadingsOf(request, DoubtsOf(guessed->At(batch), request.settings));
  Share(file, guessed);
}

ReadingPrograms::ReadingPrograms(const Graph& file, std::vector<Reading> readings)
    : readings_(std::move(readings)) {
  Share(file, std::make_shared<BatchPrograms>(file, readings_.back().request));
}

void ReadingPrograms::Share(const Graph& file, const std::shared_ptr<BatchPrograms>& guessed) {
  for (const Reading& reading : readings_) {
    programs_.push_back(
        reading.keeps_program ? guessed : std::make_shared<BatchPrograms>(file, reading.request));
  }
}

ReadingLoops::ReadingLoops(ReadingPrograms& programs,
                           const std::function<void(EstimateRequest&)>& change)
    : flags_(programs.readings().front().flags) {
  for (size_t i = 0; i < programs.readings().size(); ++i) {
    EstimateRequest request = programs.readings()[i].request;
    if (change) change(request);
    loops_.push_back(std::make_unique<BatchLoops>(programs.of(i), request));
  }
}

std::vector<BatchLoops*> ReadingLoops::all() {
  std::vector<BatchLoops*> all;
  for (const auto& loops : loops_) all.push_back(loops.get());
  return all;
}

Judgement ReadingLoops::JudgeAt(int64_t batch, const Target& target) {
  return WorstAt(batch, target, /*asks_copies=*/true);
}

Judgement ReadingLoops::JudgeOneAt(int64_t batch, const Target& target) {
  return WorstAt(batch, target, /*asks_copies=*/false);
}

Judgement ReadingLoops::WorstAt(int64_t batch, const Target& target, bool asks_copies) {
  const auto judge = [&](BatchLoops& loops) {
    PlayableRun run = loops.At(batch);
    run.is_inference = run.is_inference && asks_copies;
    return Judge(run, target);
  };
  Judgement guessed = judge(of_guess());
  return size() == 1 ? guessed : WorseOf(std::move(guessed), judge(of_worse()), flags_);
}

}  // namespace onnxfit
