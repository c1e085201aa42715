#include "estimator/fit/batch_line.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "estimator/base/index.h"
#include "estimator/fit/verdict.h"
#include "estimator/training/training.h"

namespace onnxfit {
namespace {

// A place between two batches.
struct BatchLine {
  int64_t width = 1;    // from the first to the last
  int64_t samples = 0;  // from the first to the place

  int64_t At(int64_t first, int64_t last) const { return first + (last - first) * samples / width; }
  bool IsWhole(int64_t first, int64_t last) const { return (last - first) % width == 0; }
};

BatchLine LineTo(const RunAtBatch& first, const RunAtBatch& last, int64_t batch) {
  return {last.batch - first.batch, batch - first.batch};
}

Dims DimsAt(const BatchLine& line, const Dims& first, const Dims& last) {
  Dims dims = first;
  for (size_t i = 0; i < std::min(dims.size(), last.size()); ++i)
    dims[i] = line.At(dims[i], last[i]);
  return dims;
}

Convolution ConvolutionAt(const BatchLine& line, const Convolution& first,
                          const Convolution& last) {
  Convolution convolution = first;
  convolution.input = DimsAt(line, first.input, last.input);
  convolution.output = DimsAt(line, first.output, last.output);
  return convolution;
}

AskedConvolution AskedAt(const BatchLine& line, const AskedConvolution& first,
                         const AskedConvolution& last) {
  AskedConvolution asked = {.copied_bytes = line.At(first.copied_bytes, last.copied_bytes)};
  if (first.convolution && last.convolution) {
    asked.convolution = ConvolutionAt(line, *first.convolution, *last.convolution);
  }
  return asked;
}

// Whether what `read` makes of the ends is what all three have.
template <typename Item, typename Read>
bool AreRead(const std::vector<Item>& first, const std::vector<Item>& last,
             const std::vector<Item>& middle, const BatchLine& line, Read read) {
  if (first.size() != last.size() || first.size() != middle.size()) return false;
  const BatchLine whole = {line.width, line.width};
  for (size_t i = 0; i < first.size(); ++i) {
    if (!(read(line, first[i], last[i]) == middle[i])) return false;
    if (!(read(whole, first[i], last[i]) == last[i])) return false;
  }
  return true;
}

bool AreConvolvedOnLine(const BatchRun& first, const BatchRun& last, const BatchRun& middle,
                        const BatchLine& line) {
  const ConvolvedLog& log = first.convolved;
  return log.workspaces == last.convolved.workspaces &&
         log.workspaces == middle.convolved.workspaces &&
         AreRead(log.convolutions, last.convolved.convolutions, middle.convolved.convolutions, line,
                 ConvolutionAt) &&
         AreRead(first.asked, last.asked, middle.asked, line, AskedAt);
}

// By BufferId.
std::vector<bool> WorkspacesOf(const BatchRun& run) {
  std::vector<bool> are(run.sizes.bytes.size(), false);
  for (const ConvolvedLog::Workspace& workspace : run.convolved.workspaces) {
    are[Index(workspace.buffer)] = true;
  }
  return are;
}

void SetWorkspaces(const RunAtBatch& first, const RunAtBatch& last, const BatchLine& line,
                   const TrainingSettings& settings, std::vector<int64_t>& bytes) {
  const ConvolvedLog& log = first.run.convolved;
  std::vector<int64_t> needed;
  for (size_t i = 0; i < log.convolutions.size(); ++i) {
    const Convolution& end = last.run.convolved.convolutions[i];
    needed.push_back(WorkspaceBytes(ConvolutionAt(line, log.convolutions[i], end), settings));
  }
  for (const auto& [buffer, convolution] : log.workspaces) {
    bytes[Index(buffer)] = needed[Index(convolution)];
  }
}

int64_t UnmodelledAt(const BatchRun& first, const BatchRun& last, const BatchLine& line,
                     const TrainingSettings& settings) {
  std::vector<AskedConvolution> asked;
  for (size_t i = 0; i < std::min(first.asked.size(), last.asked.size()); ++i) {
    asked.push_back(AskedAt(line, first.asked[i], last.asked[i]));
  }
  return MostCudnnWorkspaceBytes(asked, settings);
}

}  // namespace

std::shared_ptr<BatchRun> RunBatch(const Program& program, const TrainingSettings& settings) {
  auto made = std::make_shared<BatchRun>();
  made->trace = RunTraining(program, settings, made->convolved);
  made->loop = ReadLoop(made->trace);
  if (!made->loop.repeats()) {
    TrainingSettings longer = settings;
    longer.steps = kVerdictSteps;
    made->convolved = {};
    made->trace = RunTraining(program, longer, made->convolved);
    made->loop = ReadLoop(made->trace);
  }
  if (!settings.device.is_cudnn_off) made->asked = AskedConvolutions(program);
  made->sizes = {BytesOf(made->trace), MostCudnnWorkspaceBytes(made->asked, settings)};
  made->trace.buffers.clear();
  made->trace.buffers.shrink_to_fit();
  return made;
}

bool SameCalls(const Loop& a, const Loop& b) {
  return a.calls == b.calls && a.steps == b.steps && a.twins == b.twins &&
         a.cache_emptied_at == b.cache_emptied_at;
}

bool AreOnLine(const RunAtBatch& first, const RunAtBatch& last, const RunAtBatch& middle) {
  if (!SameCalls(first.run.loop, last.run.loop)) return false;
  if (!SameCalls(first.run.loop, middle.run.loop)) return false;
  const BatchLine line = LineTo(first, last, middle.batch);
  if (!AreConvolvedOnLine(first.run, last.run, middle.run, line)) return false;
  const std::vector<bool> are_workspaces = WorkspacesOf(first.run);
  for (size_t i = 0; i < first.run.sizes.bytes.size(); ++i) {
    if (are_workspaces[i]) continue;
    const int64_t low = first.run.sizes.bytes[i];
    const int64_t high = last.run.sizes.bytes[i];
    if (!line.IsWhole(low, high) || middle.run.sizes.bytes[i] != line.At(low, high)) return false;
  }
  return true;
}

BatchSizes SizesBetween(const RunAtBatch& first, const RunAtBatch& last, int64_t batch,
                        const TrainingSettings& settings) {
  const BatchLine line = LineTo(first, last, batch);
  BatchSizes sizes = first.run.sizes;
  for (size_t i = 0; i < sizes.bytes.size(); ++i) {
    sizes.bytes[i] = line.At(sizes.bytes[i], last.run.sizes.bytes[i]);
  }
  SetWorkspaces(first, last, line, settings, sizes.bytes);
  sizes.unmodelled_bytes = UnmodelledAt(first.run, last.run, line, settings);
  return sizes;
}

}  // namespace onnxfit
