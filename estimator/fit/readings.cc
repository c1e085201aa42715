#include "estimator/fit/readings.h"

#include <optional>
#include <utility>

namespace onnxfit {

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
  const Judgement guessed = Judge(of_guess().At(batch), target);
  if (size() == 1) return guessed;
  return WorseOf(guessed, Judge(of_worse().At(batch), target), flags_);
}

Judgement ReadingLoops::JudgeOneAt(int64_t batch, const Target& target) {
  std::optional<Judgement> judged;
  for (size_t i = loops_.size(); i-- > 0;) {
    PlayableRun run = of(i).At(batch);
    run.is_inference = false;
    Judgement judgement = Judge(run, target);
    judged = judged ? WorseOf(std::move(*judged), std::move(judgement), flags_) : judgement;
  }
  return *judged;
}

}  // namespace onnxfit
