// generate() of a language model on a card that is not there: its prompt, its tokens one by one,
// and what its cache of keys and values holds.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "estimator/report/formats.h"
#include "estimator/report/program_run.h"
#include "estimator/report/tried_batches.h"

namespace onnxfit {

// What is generated, and how.
struct AskedGeneration {
  std::string model = {};
  int64_t batch = 1;
  int64_t prompt = 0;          // tokens of each prompt
  int64_t new_tokens = 0;      // of each text
  int64_t beams = 0;           // 0 for the model's own
  std::string cache = {};      // cache_implementation, "" for the model's own
  std::string dtype = "auto";  // torch's name; "auto" is the config's
};
// What cli/generation.py reads.
std::string ToJson(const AskedGeneration& asked);

// Layers of one kind, by the library's own name for it.
struct CacheKind {
  std::string name = {};
  int64_t layers = 0;
  int64_t bytes = 0;        // on the card, at the end
  int64_t host_bytes = 0;   // of an offloaded one
  int64_t first_bytes = 0;  // of both, behind the prompt
};

// What cli/generation.py tells.
struct ToldGeneration {
  std::string missing = {};  // a package, without which there is no answer
  std::string error = {};    // that was none of memory
  std::string library = {};  // "transformers 5.17.0"
  std::string name = {};     // of the model's class
  std::string dtype = {};
  int64_t beams = 1;
  int64_t sequences = 1;                  // of each prompt
  std::string cache_implementation = {};  // "" for dynamic
  int64_t calls = 0;                      // of the model, each of which brings a token as a rule
  int64_t most_prompt = 0;                // tokens that a table of positions ends at; 0 without one
  int64_t most_new = 0;                   // the same of new ones
  std::vector<std::string> open = {};     // what may be otherwise, a sentence each
  std::vector<CacheKind> cache = {};
};
// Throws Error where it is none.
ToldGeneration ReadGeneration(std::string_view json);

struct GenerationRun {
  AskedGeneration asked = {};
  ToldGeneration told = {};
  ProgramRun run = {};  // on one card
};

// The largest number of `solved` ("batch", "prompt", "new") that runs on a card.
struct GenerationSearch {
  std::string solved = {};
  TriedBatches found = {};
  bool is_end = false;         // the model takes no larger one
  GenerationRun largest = {};  // of found.told()
};

// At most 80 columns wide, every line with its newline: the verdicts, then of one run its phases,
// its cache and what stays open, of several a table.  With options.quiet the verdicts alone.
// REQUIRES: a run; likewise a search.
std::string ToText(const std::vector<GenerationRun>& runs, const TextOptions& options = {});
std::string ToText(const std::vector<GenerationSearch>& searches, const TextOptions& options = {});

// Schema 1, one object:
//   {"schema", "version", "basis": "run", "text", "library", "model", "targets": [as estimate's],
//    "runs": [{"batch", "prompt", "new", "beams", "sequences", "cache_implementation", "dtype",
//      "calls", "open", "model_bytes", "prefill_bytes", "decoding_bytes", "cache": [{"kind",
//      "layers", "bytes", "host_bytes", "first_bytes"}], "run": what ToJson of a program's run has
//      below "command"}]}
// A phase that was not reached has no bytes.
std::string ToJson(const std::vector<GenerationRun>& runs, const JsonOptions& options);

// Schema 1, one object: the first five members above, and
//   "targets": [{"gpu", "solved", "max_batch", "max_batch_fits", "limited", "fails", "fixed_bytes",
//      "per_sample_bytes", "tried": [{"batch", "verdict", "used_bytes"}], one of "runs" as "run"}]
// where "batch" stands for what was solved.  What is not known is absent.
std::string ToJson(const std::vector<GenerationSearch>& searches, const JsonOptions& options);

}  // namespace onnxfit
