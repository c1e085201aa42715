// The commands, each from its options to an exit code.  All throw Error; run.cc catches.
#pragma once

#include <iosfwd>
#include <string>

#include "cli/options.h"

namespace onnxfit {

// The exit codes of every command.
inline constexpr int kExitDone = 0;         // an answer, and every target given holds
inline constexpr int kExitTargetFails = 1;  // an answer, and a target does not hold
inline constexpr int kExitNoAnswer = 2;     // bad flag, unreadable model, free dimension
inline constexpr int kExitNoGpu = 3;        // a card at hand was asked for, and none can be used
inline constexpr int kExitStopped = 130;    // Ctrl-C, as shells count it: 128 + SIGINT

// `onnxfit estimate`: from a file to a report.  Writes the report to `out`, or to the file that
// `options` name.  Returns the exit code of cli.md.  Throws Error.
int RunEstimate(const Options& options, std::ostream& out, std::ostream& err);

// `onnxfit estimate --lengths`: a run whose batches differ in length.  As above.
int RunEstimateOverLengths(const Options& options, std::ostream& out, std::ostream& err);

// `onnxfit max-batch --lengths`: the largest batch of such a run.  As above.
int RunMaxBatchOverLengths(const Options& options, std::ostream& out, std::ostream& err);

// `onnxfit estimate --runtime onnxruntime`: the file in ONNX Runtime, on cards that are not there.
// Writes the answer and returns the exit code.  Throws Error.
int RunEstimateOnRuntime(const Options& options, std::ostream& out, std::ostream& err);

// `onnxfit max-batch --runtime onnxruntime`: the largest batch of one session of it.  As above.
int RunMaxBatchOnRuntime(const Options& options, std::ostream& out, std::ostream& err);

// `onnxfit estimate --mode generate`: generate() of a transformers model, tokens one by one, on
// cards that are not there.  As above.
int RunEstimateOfGeneration(const Options& options, std::ostream& out, std::ostream& err);

// `onnxfit max-batch --mode generate`: as many prompts at once as a card has room for, or the
// longest (--solve prompt, --solve new).  As above.
int RunMaxBatchOfGeneration(const Options& options, std::ostream& out, std::ostream& err);

// `onnxfit estimate` of a model that is given by its numbers instead of a file.  Writes the closed
// form; returns the exit code.  Throws Error.
int RunClosedForm(const Options& options, std::ostream& out);

// `onnxfit max-batch`: the largest batch that one or more cards train.  Writes the report to `out`,
// or to the file that `options` name, and to `err`, where that is a terminal, what it is doing.
// Returns the exit code of cli.md.  Throws Error, also where no card is named.
int RunMaxBatch(const Options& options, std::ostream& out, std::ostream& err);

// `onnxfit max-batch --solve`: the largest of another size, at a batch that is held.  As above.
int RunSolve(const Options& options, std::ostream& out, std::ostream& err);

// `onnxfit verify`: the estimate, carried out on the card at hand.  Writes what was predicted
// beside what was measured to `out`, or to the file that `options` name; how far it has come to
// `err`, where that is a terminal.  Returns the exit code of cli.md. Throws Error; NoGpuError where
// there is no card.
int RunVerify(const Options& options, std::ostream& out, std::ostream& err);

// `onnxfit diff`: what grew between two models, reports or states of a repository; what the run of
// a memory snapshot kept that the prediction of a model does not.  Writes the answer and returns
// the exit code.  `reading` is what is being read, for errors.
int RunDiff(const Options& options, std::ostream& out, std::string& reading);

// `onnxfit check`: the CI gate.  Writes the answer in all formats asked for, and the lock where
// --update says so; returns the exit code.  What keeps one check from an answer, or all of them
// from a comparison, is a row of the answer: the others are still answered.  Throws Error where
// there is nothing to answer.
int RunCheck(const Options& options, std::ostream& out, std::ostream& err);

// `onnxfit explain-oom`: from a log to what its out-of-memory message means, from a memory snapshot
// to what lived.  Writes the
// explanation to `out`, or to the file that `options` name.  `reading` is the file that errors
// without one are about.  Returns the exit code of cli.md.  Throws Error, also where the log has no
// message.
int RunExplainOom(const Options& options, std::ostream& out, std::string& reading);

// `onnxfit report`: the estimate, its step and other batches drawn on a page for a browser, or two
// answers and what grew.  Writes one HTML file to `out`, or to the file that `options` name.
// `reading` is the file that errors without one are about.  Returns the exit code.  Throws Error.
int RunReport(const Options& options, std::ostream& out, std::ostream& err, std::string& reading);

// `onnxfit annotate`: a copy of an ONNX file with what each node takes in its metadata, for
// viewers. Writes it to `out`, or to the file that `options` name.  Returns the exit code.  Throws
// Error, also for a .pt2.
int RunAnnotate(const Options& options, std::ostream& out);

// `onnxfit gpus`: the cards of the table, or of this machine.  Writes the cards that match the
// filters of `options`, or those of this machine (--detect), to `out`, or to the file that they
// name.  Returns the exit code of cli.md.  Throws Error, also where no card matches, and NoGpuError
// where this machine has none.
int RunGpus(const Options& options, std::ostream& out);

// `onnxfit explain`: what a warning means, by its code; all of them in a line each without one.
// Returns the exit code.  Throws Error for a code that no warning has.
int RunExplain(const Options& options, std::ostream& out);

// `onnxfit completion`: a script by which a shell completes, or a page of the manual.  Returns the
// exit code.  Throws Error for a shell that it does not know.
int RunCompletion(const Options& options, std::ostream& out);

// `onnxfit init`: a config for a folder.  Writes onnxfit.toml into the folder of `options`, with a
// check for each .onnx file below it, and what it wrote to `out`.  Returns the exit code.  Throws
// Error where there is one already, unless forced, or no model.
int RunInit(const Options& options, std::ostream& out);

// `onnxfit run`: a program of somebody's, started with cards that are not there.  It has the
// terminal until it ends; then what it took goes to `out`, or to the file that `options` name.
// Returns the exit code of cli.md, 2 also where the program failed for another reason than memory.
// Throws Error, also where it never used CUDA.
int RunProgram(const Options& options, std::ostream& out, std::ostream& err);

}  // namespace onnxfit
