#include "cli/run.h"

#include <fmt/format.h>

#include <exception>
#include <new>
#include <ostream>

#include "cli/commands.h"
#include "cli/flags.h"
#include "cli/options.h"
#include "cli/targets.h"
#include "estimator/base/cards.h"
#include "estimator/base/device.h"
#include "estimator/base/error.h"
#include "estimator/base/framework.h"
#include "estimator/cuda/find_gpus.h"
#include "estimator/report/layout.h"

namespace onnxfit {
namespace {

int Fail(std::ostream& err, std::string_view message, int code = kExitNoAnswer) {
  err << "error: " << Clean(message, false) << std::endl;
  return code;
}

Error WithFile(const Error& error, const std::string& file) {
  Error::Parts parts = error.parts();
  if (parts.file.empty()) parts.file = file;
  return Error(parts);
}

Error WithDetail(const Error& error) {
  Error::Parts parts = error.parts();
  parts.text += "; " + parts.detail;
  return Error(parts);
}

// What it is made of, below its own version.
std::string VersionText() {
  const std::span<const FrameworkProfile> frameworks = Frameworks();
  return fmt::format(
      "onnxfit {}\n  rules of {} to {} (of that which wrote the file, unless --framework says "
      "another)\n  {} cards\n",
      ONNXFIT_VERSION, frameworks.front().name, frameworks.back().name, Cards().size());
}

// CUDA's first card, which is the one that PyTorch takes.
GpuSearch FindFirstGpu() { return FindGpus(0); }

int PerformAction(const Options& options, std::ostream& out, std::ostream& err,
                  std::string& reading) {
  if (options.action == Action::kHelp || options.action == Action::kVersion) {
    out << (options.action == Action::kHelp ? HelpText(options.command, options.help_topic)
                                            : VersionText());
    return kExitDone;
  }
  if (options.command == Command::kExplainOom) return RunExplainOom(options, out, reading);
  if (options.command == Command::kGpus) return RunGpus(options, out);
  if (options.command == Command::kInit) return RunInit(options, out);
  if (options.command == Command::kMaxBatch) return RunMaxBatch(options, out, err);
  if (options.command == Command::kVerify) return RunVerify(options, out, err);
  if (options.command == Command::kDiff) return RunDiff(options, out, reading);
  if (options.command == Command::kExplain) return RunExplain(options, out);
  if (options.command == Command::kCompletion) return RunCompletion(options, out);
  if (options.command == Command::kReport) return RunReport(options, out, err, reading);
  if (options.command == Command::kAnnotate) return RunAnnotate(options, out);
  if (options.command == Command::kRun) return RunProgram(options, out, err);
  if (options.command == Command::kCheck) return RunCheck(options, out, err);
  return RunEstimate(options, out, err);
}

// With -v, what a library said to it is told, too.
int Perform(const Options& options, std::ostream& out, std::ostream& err, std::string& reading) {
  try {
    return PerformAction(options, out, err, reading);
  } catch (const Error& error) {
    if (!options.text.verbose || error.parts().detail.empty()) throw;
    throw WithDetail(error);
  }
}

}  // namespace

int CatchErrors(const std::function<int()>& command, const std::string& model, std::ostream& err) {
  try {
    return command();
  } catch (const NoGpuError& error) {
    return Fail(err, error.what(), kExitNoGpu);
  } catch (const Error& error) {
    return Fail(err, WithFile(error, model).what());
  } catch (const std::bad_alloc&) {
    return Fail(err, WithFile(Error({.text = "this machine has too little memory"}), model).what());
  } catch (const std::exception& exception) {
    return Fail(err, std::string("internal: ") + exception.what());
  }
}

int Run(std::span<const std::string> args, std::ostream& out, std::ostream& err) {
  std::string model;
  const auto command = [&] {
    for (const std::string& strange : StrangeVariables()) {
      err << "warning: " << Clean(strange, false) << std::endl;
    }
    Options options = ParseOptions(args);
    SetTargets(options, FindFirstGpu);
    if (options.command != Command::kVerify) AskCudnn(options);  // verify: of the card at hand
    model = options.model == "-" ? "<stdin>" : options.model;
    return Perform(options, out, err, model);
  };
  return CatchErrors(command, model, err);
}

}  // namespace onnxfit
