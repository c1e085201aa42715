#include <fmt/format.h>

#include <ostream>
#include <utility>

#include "cli/commands.h"
#include "cli/output.h"
#include "cli/process.h"
#include "cli/program_asks.h"
#include "cli/program_folder.h"
#include "cli/program_records.h"
#include "cli/targets.h"
#include "estimator/base/bytes.h"
#include "estimator/base/error.h"
#include "estimator/report/program_run.h"

namespace onnxfit {
namespace {

// Out of memory is what ended it, or what it went on from.
Verdict VerdictOf(const JudgedTarget& judged, const std::vector<int64_t>& refused, int exit_code) {
  if (!refused.empty() && exit_code != 0) return Verdict::kOom;
  const Judgement& judgement = judged.judgement;
  const bool is_tight = !refused.empty() || judgement.high_bytes > judgement.usable_bytes;
  return is_tight ? Verdict::kTight : Verdict::kFits;
}

JudgedTarget Judged(const Target& target, int64_t peak, const std::vector<int64_t>& refused,
                    int exit_code) {
  JudgedTarget judged = {.target = target, .judgement = {}};
  Judgement& judgement = judged.judgement;
  const ContextBytes& context = target.device.context;
  judgement.usable_bytes = target.usable_bytes();
  judgement.used_bytes = peak;
  judgement.low_bytes = peak - (context.bytes - context.low);
  judgement.high_bytes = peak + (context.high - context.bytes);
  judgement.retries = static_cast<int64_t>(refused.size());
  judgement.verdict = VerdictOf(judged, refused, exit_code);
  if (!refused.empty()) {
    judgement.reasons.push_back(
        fmt::format("the card was full {} time{}; {} were asked for at most", refused.size(),
                    refused.size() == 1 ? "" : "s", FormatBytes(refused.front())));
  } else if (judgement.verdict == Verdict::kTight) {
    judgement.reasons.push_back("a context at the high end of what was seen would not fit");
  }
  return judged;
}

// What keeps a run from an answer.
void CheckProgram(const DeviceRecords& records, const ProgramEnd& end, const std::string& program) {
  if (!records.touched) {
    throw Error(
        {.where = program,
         .text = fmt::format("it ended with {} and never used CUDA", end.exit_code),
         .hint =
             "a build of PyTorch for CUDA; python -c 'import torch; print(torch.version.cuda)'"});
  }
}

std::vector<std::string> VariablesOf(const ProgramFolder& folder, const Options& options) {
  std::vector<std::string> variables = folder.variables();
  if (options.most_steps > 0) {
    variables.push_back(fmt::format("ONNXFIT_RUN_STEPS={}", options.most_steps));
  }
  if (options.most_seconds > 0) {
    variables.push_back(fmt::format("ONNXFIT_RUN_SECONDS={}", options.most_seconds));
  }
  return variables;
}

ProgramEnd RunAnswered(const std::vector<std::string>& command, const ProgramFolder& folder,
                       const Options& options) {
  std::vector<DeviceProfile> cards;
  for (const Target& target : options.request.targets) cards.push_back(target.device);
  const ProgramAsks asks(folder.path(), std::move(cards));
  return RunAtTerminal(command, VariablesOf(folder, options));
}

}  // namespace

int RunProgram(const Options& options, std::ostream& out) {
  const std::vector<std::string>& command = options.program;
  if (command.empty()) {
    throw Error({.text = "expected a program behind --, found none",
                 .hint = "onnxfit run -g rtx3060 -- python train.py"});
  }
  const std::vector<Target>& cards = options.request.targets;
  if (cards.empty()) {
    throw Error({.text = "expected a card", .hint = "-g rtx3060; onnxfit gpus lists them"});
  }
  const ProgramFolder folder(cards);
  const ProgramEnd end = RunAnswered(command, folder, options);
  const DeviceRecords records = ReadDeviceRecords(folder.path(), cards.size());
  CheckProgram(records, end, command.front());
  ProgramRun run = {.command = command,
                    .exit_code = end.exit_code,
                    .cards = {},
                    .processes = ReadProcesses(folder.path()),
                    .unknown_functions = records.unknown_functions,
                    .unknown_sizes = records.unknown_sizes};
  std::vector<Judgement> judgements;
  for (size_t i = 0; i < cards.size(); ++i) {
    run.cards.push_back(
        Judged(cards[i], PeakBytes(folder.path(), i), records.refused[i], end.exit_code));
    judgements.push_back(run.cards.back().judgement);
  }
  const bool is_json = options.format == Format::kJson;
  WriteReport(is_json ? ToJson(run, {.version = ONNXFIT_VERSION}) + "\n"
                      : ToText(run, WithColor(options, out)),
              options, out);
  const int code = ExitCodeOf(judgements, options);
  return code == kExitDone && end.exit_code != 0 ? kExitNoAnswer : code;
}

}  // namespace onnxfit
