// What the command line and the environment ask for.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "estimator/base/cards.h"
#include "estimator/base/settings.h"
#include "estimator/compare/compare.h"
#include "estimator/fit/estimate.h"
#include "estimator/fit/lengths.h"
#include "estimator/fit/max_batch.h"
#include "estimator/fit/sweep.h"
#include "estimator/fit/target.h"
#include "estimator/fit/verify.h"
#include "estimator/report/formats.h"

namespace onnxfit {

enum class Command : uint8_t {
  kEstimate,
  kMaxBatch,
  kVerify,
  kCheck,
  kDiff,
  kExplainOom,
  kGpus,
  kInit,
  kReport,
  kExplain,
  kCompletion,
  kAnnotate,
  kRun,
};
enum class Action : uint8_t { kRun, kHelp, kVersion };
enum class Format : uint8_t { kText, kJson, kMarkdown, kCsv };
enum class ColorMode : uint8_t { kAuto, kAlways, kNever };

inline constexpr Spelling<Command> kCommands[] = {{"estimate", Command::kEstimate},
                                                  {"max-batch", Command::kMaxBatch},
                                                  {"verify", Command::kVerify},
                                                  {"check", Command::kCheck},
                                                  {"diff", Command::kDiff},
                                                  {"explain-oom", Command::kExplainOom},
                                                  {"gpus", Command::kGpus},
                                                  {"init", Command::kInit},
                                                  {"report", Command::kReport},
                                                  {"annotate", Command::kAnnotate},
                                                  {"explain", Command::kExplain},
                                                  {"completion", Command::kCompletion},
                                                  {"run", Command::kRun}};
constexpr std::string_view ToString(Command v) { return NameOf<Command>(kCommands, v); }

// Of estimate alone: a run as a file for another tool.
enum class FileFormat : uint8_t { kSvg, kPerfetto, kMemorySnapshot, kTreemap };
inline constexpr Spelling<FileFormat> kFileFormats[] = {
    {"svg", FileFormat::kSvg},
    {"perfetto", FileFormat::kPerfetto},
    {"memory-snapshot", FileFormat::kMemorySnapshot},
    {"treemap", FileFormat::kTreemap}};

inline constexpr Spelling<Format> kFormats[] = {{"text", Format::kText},
                                                {"json", Format::kJson},
                                                {"markdown", Format::kMarkdown},
                                                {"csv", Format::kCsv}};
// Of run.
inline constexpr Spelling<Format> kRunFormats[] = {{"text", Format::kText},
                                                   {"json", Format::kJson}};
// Of check, which may write several at once.
enum class CheckFormat : uint8_t {
  kText,
  kJson,
  kMarkdown,
  kJunit,
  kSarif,
  kGithub,
  kGitlab,
  kBench,
};
inline constexpr Spelling<CheckFormat> kCheckFormats[] = {
    {"text", CheckFormat::kText},         {"json", CheckFormat::kJson},
    {"markdown", CheckFormat::kMarkdown}, {"junit", CheckFormat::kJunit},
    {"sarif", CheckFormat::kSarif},       {"github", CheckFormat::kGithub},
    {"gitlab", CheckFormat::kGitlab},     {"bench", CheckFormat::kBench}};

struct FormattedOutput {
  CheckFormat format = CheckFormat::kText;
  std::string file = {};  // "" is standard output
};

inline constexpr Spelling<ColorMode> kColorModes[] = {
    {"auto", ColorMode::kAuto}, {"always", ColorMode::kAlways}, {"never", ColorMode::kNever}};

// The cards that an answer is for: each of them at each of the sizes.
struct TargetOptions {
  std::vector<const Card*> cards = {};                 // --gpu; null is the one at hand (auto)
  bool lists_all = false;                              // --all-gpus: those of the table, too
  std::map<const Card*, RentedMachine> machines = {};  // what some of them were named by
  size_t of_ranks = 0;                 // how many of `cards` train together (--devices)
  std::vector<const Card*> seen = {};  // of run: what its program sees at once, each as often as
                                       // there are (--devices); in the place of `cards`
  std::vector<int64_t> sizes = {};     // --memory
  int64_t reserved_bytes = 0;          // --reserve
};

// A model that is given by its numbers instead of a file.
struct NumbersOptions {
  std::optional<int64_t> parameters = {};
  std::optional<int64_t> layers = {};
  std::optional<int64_t> hidden = {};
  std::optional<int64_t> heads = {};
  std::optional<int64_t> sequence = {};
  std::optional<int64_t> vocabulary = {};

  bool any() const { return parameters || layers || hidden || heads || sequence || vocabulary; }
};

// What verify is to do.
struct VerifyOptions {
  int device = 0;  // CUDA's number
  VerifyLimits limits;
  bool wants_max_batch = false;
  bool saves = false;  // a calibration
};

// What check is to do.
struct CheckOptions {
  std::string config = "onnxfit.toml";
  bool update = false;                        // write the lock
  std::string lock = {};                      // its path, "" where it is beside the config
  std::string against = {};                   // compare with this instead of the lock
  std::vector<std::string> only = {};         // globs of names; empty for all
  std::vector<FormattedOutput> outputs = {};  // empty for text
};

// What run is to do.
struct ProgramOptions {
  std::vector<std::string> words = {};  // what stands behind --
  int64_t most_steps = 0;               // it ends then; 0 is as it wants
  int64_t most_seconds = 0;
  int64_t idle_seconds = 30;  // it ends once it has waited so long for requests; 0 is never
  bool until_same = false;    // it ends when three turns of its loop allocate the same
  int64_t least_batch = 0;    // --max-batch; 0 where none is looked for
  int64_t most_batch = 0;
  std::string snapshot = {};  // a path: PyTorch's own, "" for none
  std::string page = {};      // a path: HTML, "" for none
};

// The engine that estimate asks about, in the place of PyTorch.
enum class Runtime : uint8_t { kTorch, kOnnxRuntime };
inline constexpr Spelling<Runtime> kRuntimes[] = {{"torch", Runtime::kTorch},
                                                  {"onnxruntime", Runtime::kOnnxRuntime}};
// Which of ONNX Runtime's providers computes.
enum class RuntimeProvider : uint8_t { kCuda, kCpu };
inline constexpr Spelling<RuntimeProvider> kRuntimeProviders[] = {{"cuda", RuntimeProvider::kCuda},
                                                                  {"cpu", RuntimeProvider::kCpu}};
struct RuntimeOptions {
  Runtime runtime = Runtime::kTorch;
  RuntimeProvider computes = RuntimeProvider::kCuda;
  std::map<std::string, std::string> session = {};   // of ONNX Runtime's sessions
  std::map<std::string, std::string> provider = {};  // of their CUDA provider
  bool is_bound = false;  // inputs lie on the card, and outputs stay there
};

// What --mode generate asks; several sizes are a run each.
struct GenerationOptions {
  bool is_asked = false;
  std::vector<int64_t> prompts = {};
  std::vector<int64_t> new_tokens = {256};
  std::string cache = {};  // cache_implementation, "" for the model's own
  int64_t beams = 0;       // 0 for the model's own
};

// A flag and its value as they were typed, "" for a switch.
struct TypedFlag {
  std::string name;
  std::string letter = {};  // "" where it has none
  std::string value = {};
};

struct Options {
  Command command = Command::kEstimate;
  Action action = Action::kRun;
  std::string help_topic;  // of kHelp; "" for the flags that most runs need
  std::string model;  // a path, "-" is standard input; "" where explain-oom has none, or numbers
  NumbersOptions numbers;            // of estimate, in the place of a model
  std::string log;                   // of explain-oom: a path, "-" is standard input
  std::vector<std::string> filters;  // of gpus; codes of explain, the shell of completion
  bool detect = false;               // of gpus: the cards of this machine
  VerifyOptions verify;
  CheckOptions check;
  ProgramOptions program;
  int64_t ram_bytes = 0;  // that the machine has, of run and of sessions on a CPU; 0: nobody asks
  RuntimeOptions runtime;
  GenerationOptions generation;
  std::optional<LengthOptions> lengths;  // of batches that differ, as soon as one flag is of them,
  bool has_lengths = false;              // and whether that says which (--lengths)
  std::string folder;                    // of init: a path, "" is the current one
  std::string old_model;                 // of diff and report, whose other side is `model`
  std::optional<Allowance> fail_above;   // of diff
  std::vector<std::string> given = {};   // flags that somebody said, here or by other ways
  std::vector<TypedFlag> typed = {};     // what of the run and its cards was typed, in help's order
  // Its targets are made of `targets`; the version of PyTorch is the default until one is given, or
  // a file has a say in it (asked_of_file.h).
  EstimateRequest request = {.settings = {.framework = DefaultFramework(),
                                          .framework_choice = {.basis = FrameworkBasis::kUnknown}}};
  bool fp32_weights = false;  // parameters in fp32 whatever the file has, under autocast too
  bool finds_world = false;   // of estimate: as few ranks as are enough (--world auto)
  Sweep sweep;                // what of the request varies; empty for one answer
  TargetOptions targets;
  std::string calibration;  // a path or "none", "" where nobody says
  std::string cudnn;        // a folder or "auto": ask it for workspaces; "" for not at all
  BatchLimits limits;       // of max-batch
  std::string solve;        // of max-batch: a size instead of the batch, "" for the batch
  bool is_strict = false;   // TIGHT counts as not fitting
  Format format = Format::kText;
  std::optional<FileFormat> file_format = {};  // of estimate, in the place of `format`
  TextOptions text;  // but for its colour, which `color` and the terminal decide
  ColorMode color = ColorMode::kAuto;
  bool timeline = false;   // draw memory over the step
  bool tree = false;       // what each module takes
  std::string output;      // a path, "" is standard output
  bool force = false;      // `output` may exist
  bool exit_zero = false;  // a target that does not hold gives 0
};

// Reads `args` (without the program's name); what they leave open comes from the
// environment (ONNXFIT_BATCH for --batch), then, for runs, from [defaults] of ./onnxfit.toml,
// then from the defaults above.
// Throws Error for anything that cannot be meant; tests/options_test.cc has the texts.
Options ParseOptions(std::span<const std::string> args);

// What --help prints, at most 80 columns wide: the flags that most runs need, those of a topic
// ("training", "ranks", "card", "file", "report"), all of them ("all"), or one ("loss").  Throws
// Error where `topic` is none of these.
std::string HelpText(Command command, std::string_view topic = "");

// What follows are parts of ParseOptions.  Each throws Error.

// What of a model's numbers is missing, and what does not go with them.
void CheckNumbers(const Options& options);

// Flags of a run that cannot mean anything together; then what one means for another.  In
// run_checks.cc.
void CheckRun(Options& options);

// Lists that make too many combinations, or stand where one run is asked for.
void CheckSweep(const Options& options);

// Where as few ranks as are enough can be looked for.
void CheckWorld(const Options& options);

// Flags that draw, with formats that have no place for it.
void CheckPictures(const Options& options);

// Flags of verify that contradict each other.
void CheckVerify(const Options& options);

}  // namespace onnxfit
