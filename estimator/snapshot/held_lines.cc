#include "estimator/snapshot/held_lines.h"

#include <algorithm>
#include <map>
#include <string>
#include <utility>

#include "estimator/base/bytes.h"
#include "estimator/base/index.h"
#include "estimator/snapshot/python_frames.h"

namespace onnxfit {
namespace {

bool IsOfPackage(std::string_view file) {
  return file.find("site-packages/") != file.npos || file.find("dist-packages/") != file.npos;
}

// Frames that name no line which a user could change or call.
bool IsPassedOver(std::string_view file, std::string_view hidden) {
  const bool is_hidden = !hidden.empty() && file.starts_with(hidden);
  return is_hidden || !IsPythonFile(file) || IsOfPyTorch(file);
}

// One line of a file is one holder, whichever of its functions asked.
using HolderLine = std::pair<std::string_view, int64_t>;

}  // namespace

FrameId OwnFrame(const MemorySnapshot& snapshot, StackId stack, std::string_view hidden) {
  FrameId of_package = -1;
  for (const FrameId frame : snapshot.stacks[Index(stack)].frames) {
    const std::string_view file = snapshot.frames[Index(frame)].file;
    if (IsPassedOver(file, hidden)) continue;
    if (!IsOfPackage(file)) return frame;
    if (of_package < 0) of_package = frame;
  }
  return of_package;
}

std::vector<HeldLine> HeldByLines(const MemorySnapshot& snapshot, const RecordedRun& run,
                                  int64_t event, std::string_view hidden) {
  std::map<std::pair<HolderLine, bool>, HeldLine> held;
  for (const size_t index : run.LiveAt(event)) {
    const RecordedBlock& block = run.blocks[index];
    const FrameId frame = OwnFrame(snapshot, block.stack, hidden);
    const bool is_early = block.born < 0 && block.stack == 0;
    HolderLine line;
    if (frame >= 0) {
      line = {snapshot.frames[Index(frame)].file, snapshot.frames[Index(frame)].line};
    }
    HeldLine& into = held.try_emplace({line, is_early}, HeldLine{frame, is_early}).first->second;
    into.bytes = CheckedAdd(into.bytes, block.bytes);
    ++into.count;
  }
  std::vector<HeldLine> lines;
  for (const auto& [line, bytes] : held) lines.push_back(bytes);
  std::ranges::stable_sort(lines,
                           [](const HeldLine& a, const HeldLine& b) { return a.bytes > b.bytes; });
  return lines;
}

}  // namespace onnxfit
