#include "estimator/snapshot/held_lines.h"

#include <algorithm>
#include <functional>
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

HolderLine LineOf(const MemorySnapshot& snapshot, FrameId frame) {
  if (frame < 0) return {};
  return {snapshot.frames[Index(frame)].file, snapshot.frames[Index(frame)].line};
}

struct LineHolder {
  HeldLine line;
  std::map<HolderLine, HeldLine> within;
};

void AddBlock(const RecordedBlock& block, HeldLine& into) {
  into.bytes = CheckedAdd(into.bytes, block.bytes);
  ++into.count;
}

void SortByBytes(std::vector<HeldLine>& lines) {
  std::ranges::stable_sort(lines, std::greater(), &HeldLine::bytes);
}

HeldLine Finished(const LineHolder& holder) {
  HeldLine line = holder.line;
  for (const auto& [place, within] : holder.within) line.within.push_back(within);
  SortByBytes(line.within);
  return line;
}

}  // namespace

FrameId InnerFrame(const MemorySnapshot& snapshot, StackId stack, std::string_view hidden) {
  for (const FrameId frame : snapshot.stacks[Index(stack)].frames) {
    if (!IsPassedOver(snapshot.frames[Index(frame)].file, hidden)) return frame;
  }
  return -1;
}

FrameId OwnFrame(const MemorySnapshot& snapshot, StackId stack, std::string_view hidden) {
  for (const FrameId frame : snapshot.stacks[Index(stack)].frames) {
    const std::string_view file = snapshot.frames[Index(frame)].file;
    if (!IsPassedOver(file, hidden) && !IsOfPackage(file)) return frame;
  }
  return InnerFrame(snapshot, stack, hidden);
}

std::vector<HeldLine> HeldByLines(const MemorySnapshot& snapshot, const RecordedRun& run,
                                  int64_t event, std::string_view hidden) {
  std::map<std::pair<HolderLine, bool>, LineHolder> holders;
  for (const size_t index : run.LiveAt(event)) {
    const RecordedBlock& block = run.blocks[index];
    const FrameId own = OwnFrame(snapshot, block.stack, hidden);
    const FrameId inner = InnerFrame(snapshot, block.stack, hidden);
    const bool is_early = block.born < 0 && block.stack == 0;
    LineHolder& holder = holders[{LineOf(snapshot, own), is_early}];
    holder.line.frame = own;
    holder.line.is_early = is_early;
    AddBlock(block, holder.line);
    if (inner == own) continue;
    HeldLine& within = holder.within[LineOf(snapshot, inner)];
    within.frame = inner;
    AddBlock(block, within);
  }
  std::vector<HeldLine> lines;
  for (const auto& [line, holder] : holders) lines.push_back(Finished(holder));
  SortByBytes(lines);
  return lines;
}

}  // namespace onnxfit
