// Fuzz targets of everything that reads what users have, through the command itself: a run of
// `onnxfit` in process on one changed file.  So each passes all that lies behind its reader:
// loader, shapes, recovery, lowering, program, allocator, report.
//
//   onnxfit_fuzz --target=train FOLDER   libFuzzer's arguments and a corpus; fuzz.py has seeds
//
// A new reader is one row of kTargets.  Any answer or refusal (exit codes 0 to 2) is good; a
// signal, a sanitizer's report, an "internal" error, a hang or too much memory is a finding.
// Its file goes into tests/data/crashes.tar.xz, by the name of its folder there.
#include "tests/fuzz/targets.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include "cli/run.h"

namespace onnxfit::fuzz {
namespace {

using Mutate = std::string (*)(const std::string& bytes, size_t most, Random& random);
using Cross = std::string (*)(const std::string& bytes, const std::string& other, Random& random);

std::string MutateTokens(const std::string& bytes, size_t most, Random& random) {
  return MutateText(bytes, most, random);
}

struct Target {
  std::string_view name;  // of its seeds' folder, too
  const char* file;       // what the changed file is called: readers tell kinds by endings
  Mutate mutate;
  Cross cross;                     // null: libFuzzer joins nothing
  std::vector<std::string> typed;  // FILE is the changed file, MODEL a small one, CONFIG its check
};

const std::vector<std::string> kEval = {"FILE", "--format", "json",    "--mode",
                                        "eval", "-p",       "amp-bf16"};
const std::vector<std::string> kTrain = {"FILE", "--format", "json"};

const Target kTargets[] = {
    {"eval", "changed.onnx", MutateModel, CrossModels, kEval},
    {"train", "changed.onnx", MutateModel, CrossModels, kTrain},
    {"max-batch",
     "changed.onnxtxt",
     MutateTokens,
     nullptr,
     {"max-batch", "FILE", "--memory", "40MiB", "--overhead", "0", "--format", "json"}},
    {"diff", "changed.onnx", MutateModel, CrossModels, {"diff", "MODEL", "FILE"}},
    {"text", "changed.onnxtxt", MutateTokens, nullptr, kTrain},
    {"pt2", "changed.pt2", MutateArchive, nullptr, kTrain},
    {"config", "changed.toml", MutateTokens, nullptr, {"check", "FILE"}},
    {"lock", "changed.json", MutateTokens, nullptr, {"check", "CONFIG", "--against", "FILE"}},
    {"report", "changed.json", MutateTokens, nullptr, {"diff", "MODEL", "FILE"}},
    {"calibration",
     "changed.json",
     MutateTokens,
     nullptr,
     {"MODEL", "--gpu", "t4", "--calibration", "FILE"}},
    {"snapshot", "changed.pickle", MutatePickle, nullptr, {"diff", "FILE", "MODEL"}},
    {"log", "changed.log", MutateTokens, nullptr, {"explain-oom", "FILE"}},
};

const Target* target = nullptr;
std::vector<std::string> args;
std::string path;

const Target& TargetNamed(std::string_view name) {
  const auto* found = std::ranges::find(kTargets, name, &Target::name);
  if (found != std::end(kTargets)) return *found;
  std::fprintf(stderr, "expected --target=NAME, of");
  for (const Target& row : kTargets) std::fprintf(stderr, " %s", row.name.data());
  std::fprintf(stderr, "\n");
  std::exit(2);
}

// Where the changed file goes, and what it is compared with.
std::string MakeFolder() {
  const char* parent = std::getenv("TMPDIR");
  std::string folder = std::string(parent != nullptr ? parent : "/tmp") + "/onnxfit_fuzz.XXXXXX";
  if (mkdtemp(folder.data()) == nullptr) std::abort();
  return folder + "/";
}

constexpr std::string_view kModel = R"(
    <ir_version: 8, opset_import: ["" : 17]>
    small (float[N, 3, 8, 8] x) => (float[N, 10] y)
    <float[4, 3, 3, 3] w1, float[4] b1, float[10, 144] w2> {
      h = Conv <kernel_shape = [3, 3]> (x, w1, b1)
      a = Relu(h)
      f = Flatten(a)
      y = Gemm <transB = 1> (f, w2)
    })";
constexpr std::string_view kConfig = "[[check]]\nname = \"small\"\nmodel = \"small.onnxtxt\"\n";

void WriteFile(const std::string& name, std::string_view bytes) {
  std::ofstream file(name, std::ios::binary);
  file.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
}

}  // namespace

void OpenTarget(const std::vector<std::string>& words) {
  constexpr std::string_view kFlag = "--target=";
  std::string_view name;
  for (const std::string& word : words) {
    if (word.starts_with(kFlag)) name = std::string_view(word).substr(kFlag.size());
  }
  target = &TargetNamed(name);
  const std::string folder = MakeFolder();
  WriteFile(folder + "small.onnxtxt", kModel);
  WriteFile(folder + "onnxfit.toml", kConfig);
  path = folder + target->file;
  for (const std::string& word : target->typed) {
    args.push_back(word == "FILE"     ? path
                   : word == "MODEL"  ? folder + "small.onnxtxt"
                   : word == "CONFIG" ? folder + "onnxfit.toml"
                                      : word);
  }
}

void RunTarget(std::string_view bytes) {
  WriteFile(path, bytes);
  std::ostringstream out;
  std::ostringstream err;
  const int code = Run(args, out, err);
  constexpr std::string_view kInternal = "internal: ";
  const bool is_internal = err.str().find("error: internal: ") != std::string::npos &&
                           bytes.find(kInternal) == std::string_view::npos;  // no name in the file
  if (code <= 2 && !is_internal) return;
  std::fprintf(stderr, "exit code %d\n%s\n", code, err.str().c_str());
  std::abort();
}

std::string MutateTarget(const std::string& bytes, size_t most, Random& random) {
  return target->mutate(bytes, most, random);
}

std::string CrossTarget(const std::string& bytes, const std::string& other, Random& random) {
  return target->cross == nullptr ? bytes : target->cross(bytes, other, random);
}

}  // namespace onnxfit::fuzz
