#include "estimator/fit/doubts.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <string>
#include <string_view>
#include <utility>

#include "estimator/base/bytes.h"
#include "estimator/base/error.h"
#include "estimator/base/warnings.h"
#include "estimator/eager/in_place.h"
#include "estimator/fit/predict.h"
#include "estimator/memory/timeline.h"
#include "estimator/training/compiled_trace.h"

namespace onnxfit {
namespace {

struct DoubtRow {
  Doubt doubt;
  std::string_view low;  // flags
  std::string_view high;
  bool guesses_low;  // the guess is never more than the low answer
  void (*answer)(TrainingSettings&, bool by_more);
};

// Bytes are the same for every p above 0.
constexpr DoubtRow kDoubtRows[] = {
    {Doubt::kDropout, "--dropout 0", "--dropout 0.1", false,
     [](TrainingSettings& settings, bool by_more) { settings.dropout = by_more ? 0.1 : 0.0; }},
    {Doubt::kTiedHead, "--assume tied-head=yes", "--assume tied-head=no", true,
     [](TrainingSettings& settings, bool by_more) { settings.assumed.tied_head = !by_more; }},
    {Doubt::kBatchNorm, "--batch-norm keep", "--batch-norm restore", false,
     [](TrainingSettings& settings, bool by_more) {
       settings.batch_norm = by_more ? BatchNormUse::kRestore : BatchNormUse::kKeep;
     }},
    {Doubt::kInPlace, "--in-place always", "--in-place known", true,
     [](TrainingSettings& settings, bool by_more) {
       settings.in_place = by_more ? InPlaceUse::kKnown : InPlaceUse::kAlways;
     }},
    {Doubt::kCompiled, "--compile inductor", "--compile as-eager", true,
     [](TrainingSettings& settings, bool by_more) {
       settings.compile = by_more ? Compiling::kAsEager : Compiling::kInductor;
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

// By the settings of `reading`; `guess` itself where they mean the run of `request`.
SharedPrediction PredictReading(const Study& study, const EstimateRequest& request,
                                const Reading& reading, const SharedPrediction& guess) {
  const TrainingSettings& settings = reading.request.settings;
  const bool runs_alike = KeyOf(Stage::kRun, settings) == KeyOf(Stage::kRun, request.settings);
  if (runs_alike) {
    const auto prepared = study.Prepared(reading.request);
    if (RunAlike(prepared->program, study.Prepared(request)->program)) return guess;
  }
  return study.Predicted(reading.request);
}

// The end of a range that every doubt answered so gives.
class RangeEnds {
 public:
  RangeEnds(const Study& study, const EstimateRequest& request, const SharedPrediction& guess,
            int64_t guessed_bytes)
      : study_(study), request_(request), guess_(guess), guessed_bytes_(guessed_bytes) {}

  DeviceRange::End Of(const Reading& reading, const SharedPrediction& prediction) const {
    if (prediction == guess_) return {guessed_bytes_, reading.flags};
    return EndOf(reading, *prediction);
  }

  DeviceRange::End Of(std::span<const Doubt> doubts, bool by_more) const {
    const Reading reading = AnswerAll(request_, doubts, by_more);
    return Of(reading, PredictReading(study_, request_, reading, guess_));
  }

  // `end`, told by fewer flags: without those that change no byte of it.
  DeviceRange::End WithoutIdle(std::vector<Doubt> doubts, bool by_more,
                               DeviceRange::End end) const {
    for (size_t i = doubts.size(); i-- > 0 && doubts.size() > 1;) {
      std::vector<Doubt> fewer = doubts;
      fewer.erase(fewer.begin() + static_cast<std::ptrdiff_t>(i));
      const DeviceRange::End same = Of(fewer, by_more);
      if (same.device_bytes != end.device_bytes) continue;
      doubts = std::move(fewer);
      end = same;
    }
    return end;
  }

 private:
  const Study& study_;
  const EstimateRequest& request_;
  const SharedPrediction& guess_;
  const int64_t guessed_bytes_;
};

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
  if (IsCompiled(settings)) doubts.push_back(Doubt::kCompiled);
  return doubts;
}

std::vector<Doubt> DoubtsAt(const Study& study, const EstimateRequest& request) {
  return DoubtsOf(study.Prepared(request)->program, request.settings);
}

Reading AnswerAll(const EstimateRequest& request, std::span<const Doubt> doubts, bool by_more) {
  Reading reading = {request};
  reading.request.details = false;
  reading.request.why.clear();
  for (const DoubtRow* row : RowsOf(doubts)) {
    row->answer(reading.request.settings, by_more);
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

std::optional<ReadRun> PredictWorse(const Study& study, const EstimateRequest& request,
                                    std::span<const Doubt> doubts, const SharedPrediction& guess) {
  if (doubts.empty()) return std::nullopt;
  Reading reading = AnswerAll(request, doubts, true);
  SharedPrediction prediction = PredictReading(study, request, reading, guess);
  return ReadRun{std::move(reading), std::move(prediction)};
}

std::optional<DeviceRange> FindRange(const Study& study, const EstimateRequest& request,
                                     std::span<const Doubt> doubts, const ReadRun& worse,
                                     const SharedPrediction& guess, int64_t guessed_bytes) {
  const RangeEnds of(study, request, guess, guessed_bytes);
  std::vector<DeviceRange::End> ends = {{guessed_bytes, ""},
                                        of.Of(worse.reading, worse.prediction)};
  const auto guesses_low = [](const DoubtRow* row) { return row->guesses_low; };
  if (!std::ranges::all_of(RowsOf(doubts), guesses_low)) ends.push_back(of.Of(doubts, false));
  const auto [low, high] = std::ranges::minmax_element(ends, {}, &DeviceRange::End::device_bytes);
  if (low->device_bytes == high->device_bytes) return std::nullopt;
  const auto told = [&](std::vector<DeviceRange::End>::iterator end) {
    const std::vector<Doubt> all = {doubts.begin(), doubts.end()};
    return end == ends.begin() ? *end : of.WithoutIdle(all, end == ends.begin() + 1, *end);
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

// What follows are runs at any batch.
namespace {

bool MeanTheSame(BatchPrograms& a, BatchPrograms& b, int64_t batch) {
  try {
    return RunAlike(a.At(batch), b.At(batch));
  } catch (const Error&) {  // who asks for that batch is told
    return false;
  }
}

}  // namespace

ReadingPrograms::ReadingPrograms(const Study& study, const EstimateRequest& request,
                                 int64_t batch) {
  const std::shared_ptr<BatchPrograms> guessed = study.Programs(request);
  readings_ = ReadingsOf(request, DoubtsOf(guessed->At(batch), request.settings));
  Share(study, batch);
}

ReadingPrograms::ReadingPrograms(const Study& study, std::vector<Reading> readings, int64_t batch)
    : readings_(std::move(readings)) {
  Share(study, batch);
}

ReadingPrograms::ReadingPrograms(const Study& study, const EstimateRequest& request,
                                 const SolvedSize& size)
    : size_(size) {
  const std::shared_ptr<BatchPrograms> guessed = ProgramsOf(study, request);
  readings_ = ReadingsOf(request, DoubtsOf(guessed->At(size.least), request.settings));
  Share(study, size.least);
}

std::shared_ptr<BatchPrograms> ReadingPrograms::ProgramsOf(const Study& study,
                                                           const EstimateRequest& request) const {
  return size_ ? study.Programs(request, *size_) : study.Programs(request);
}

// What is put back or left out does not depend on the batch: at one of them it shows.
void ReadingPrograms::Share(const Study& study, int64_t batch) {
  const std::shared_ptr<BatchPrograms> guessed = ProgramsOf(study, readings_.back().request);
  for (const Reading& reading : readings_) {
    const std::shared_ptr<BatchPrograms> own = ProgramsOf(study, reading.request);
    const bool is_guess = own == guessed || MeanTheSame(*own, *guessed, batch);
    programs_.push_back(is_guess ? guessed : own);
  }
}

ReadingLoops::ReadingLoops(ReadingPrograms& programs,
                           const std::function<void(EstimateRequest&)>& change)
    : flags_(programs.readings().front().flags) {
  const size_t guess = programs.readings().size() - 1;
  const auto run_key = [&](size_t i) {
    return KeyOf(Stage::kRun, programs.readings()[i].request.settings);
  };
  for (size_t i = 0; i <= guess; ++i) {
    const bool is_guess = &programs.of(i) == &programs.of(guess) && run_key(i) == run_key(guess);
    if (i != guess && is_guess) continue;
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
