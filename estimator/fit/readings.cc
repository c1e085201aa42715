#include "estimator/fit/readings.h"

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
