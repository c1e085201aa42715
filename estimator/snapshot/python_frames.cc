#include "estimator/snapshot/python_frames.h"

#include <algorithm>

#include "estimator/base/index.h"

namespace onnxfit {
namespace {

// Of PyTorch 2.11's package torch/: what of it runs below a model.  Those whose names begin with
// "_" are its own, too.
constexpr std::string_view kParts[] = {
    "accelerator/", "amp/",    "ao/",          "autograd/",     "compiler/", "cuda/",
    "distributed/", "export/", "fx/",          "functional.py", "jit/",      "library.py",
    "nn/",          "optim/",  "overrides.py", "random.py",     "utils/"};

// What of a path follows the last `folder` in it; "" where it has none.
std::string_view Below(std::string_view path, std::string_view folder) {
  if (path.starts_with(folder)) return path.substr(folder.size());
  const size_t at = path.rfind('/' + std::string(folder));
  return at == path.npos ? std::string_view() : path.substr(at + folder.size() + 1);
}

}  // namespace

bool IsPythonFile(std::string_view file) { return file.ends_with(".py") || file.starts_with('<'); }

bool IsOfPyTorch(std::string_view file) {
  if (file.starts_with("<frozen ") || file.starts_with("<eval_with_key>")) return true;
  if (file.find("torchinductor_") != file.npos) return true;  // what torch.compile wrote
  const std::string_view part = Below(file, "torch/");
  if (part.starts_with('_')) return true;
  const auto begins = [&](std::string_view known) { return part.starts_with(known); };
  if (std::any_of(std::begin(kParts), std::end(kParts), begins)) return true;
  const bool is_package =
      file.find("site-packages/") != file.npos || file.find("dist-packages/") != file.npos;
  return !is_package && file.find("lib/python3.") != file.npos;
}

std::vector<FrameId> UserFrames(const MemorySnapshot& snapshot, StackId stack) {
  const std::vector<FrameId>& frames = snapshot.stacks[Index(stack)].frames;
  std::vector<FrameId> users;
  for (const FrameId frame : frames) {
    if (!IsOfPyTorch(snapshot.frames[Index(frame)].file)) users.push_back(frame);
  }
  return users.empty() ? frames : users;
}

std::string_view FileNameOf(const SnapshotFrame& frame) {
  const std::string_view file = frame.file;
  const size_t slash = file.find_last_of("/\\");
  return slash == file.npos ? file : file.substr(slash + 1);
}

}  // namespace onnxfit
