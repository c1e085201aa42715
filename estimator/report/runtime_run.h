// A model file under an engine's own runtime, on cards that are not there: what its sessions took,
// and what others would that take their weights in another order.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "estimator/base/tensor_type.h"
#include "estimator/fit/verdict.h"
#include "estimator/report/formats.h"
#include "estimator/report/tried_batches.h"

namespace onnxfit {

// What a session had behind its making and behind each run of it.
struct RuntimeSession {
  std::vector<int64_t> used_bytes = {};   // of the card, beside the context
  std::vector<int64_t> arena_bytes = {};  // of those, the arena's
  int64_t reserved_bytes = 0;             // of the arena, outside of its regions
  int64_t page_bytes = 0;                 // of the card, that the arena's regions take at the end
  std::string error = {};                 // that ended it, "" for none
};

// From the least to the most that was seen or played.
struct ByteRange {
  int64_t low = 0;
  int64_t high = 0;

  bool operator==(const ByteRange&) const = default;
};

// What a setting of the runtime would make of it, played.
struct PlayedSetting {
  std::string flag = {};  // as it is typed
  ByteRange bytes = {};   // of the card, beside the context
};

// The second run of a shape asks for the block of the first one's pattern.
inline constexpr int kRunsOfShape = 2;

// What cli/onnx_sessions.py is asked to do.
struct RuntimeInput {
  std::string name = {};
  TensorType type = {};
};
struct AskedSessions {
  std::string model = {};                              // a path
  std::vector<std::vector<RuntimeInput>> shapes = {};  // each is run kRunsOfShape times
  std::map<std::string, std::string> session = {};     // settings of the session
  std::map<std::string, std::string> provider = {};    // and of its provider
  bool is_bound = false;                               // by IOBinding, to the card
  std::string log = {};                                // a path for what the library says
};
std::string ToJson(const AskedSessions& asked);

// What it tells.  Requests are bytes, or -1 - I where the I-th of all, weights first, is given
// back.
struct ToldSessions {
  std::string version = {};
  std::string missing = {};  // "onnxruntime", "cuda": without it there is no answer
  int64_t context_bytes = 0;
  std::vector<RuntimeSession> sessions = {};
  std::vector<int64_t> weights = {};
  std::vector<std::vector<int64_t>> runs = {};
  std::string untraced = {};  // why there are no requests, "" where there are
};
// Throws Error where it is none.
ToldSessions ReadSessions(std::string_view json);

struct RuntimeRun {
  std::string runtime = {};  // "ONNX Runtime 1.31.1"
  std::string model = {};
  int64_t batch = 0;                     // of the first shape
  std::vector<std::string> shapes = {};  // "batch 8, seq 128", in the order of their runs
  JudgedTarget target = {};
  int64_t context_bytes = 0;
  std::vector<RuntimeSession> sessions = {};
  int64_t weight_bytes = 0;   // as the session asked for them
  int64_t most_bytes = 0;     // asked for at once, those included
  int64_t orders = 0;         // of weights that were played; 0 where nothing could be
  int64_t failed_orders = 0;  // of those: the card has no room for them
  ByteRange arena = {};       // over the orders
  ByteRange bytes = {};       // of the card, beside the context, over sessions and orders
  std::vector<PlayedSetting> settings = {};
  std::vector<std::string> open = {};  // a sentence each
};

// The largest batch whose sessions run on a card.
struct RuntimeSearch {
  TriedBatches found = {};
  RuntimeRun largest = {};  // of found.told()
};

// At most 80 columns wide, every line with its newline.  With options.quiet the verdict alone.
std::string ToText(const std::vector<RuntimeRun>& runs, const TextOptions& options = {});
std::string ToText(const std::vector<RuntimeSearch>& searches, const TextOptions& options = {});

// Schema 1, one object:
//   {"schema", "version", "basis": "run", "text", "runtime", "model", "batch",
//    "shapes", "targets": [as estimate's],
//    "runs": [by target: {"context_bytes", "low_bytes", "high_bytes", "weight_bytes", "most_bytes",
//      "orders", "failed_orders", "arena_low_bytes", "arena_high_bytes", "sessions":
//      [{"used_bytes": [], "arena_bytes": [], "error"}], "settings": [{"flag", "low_bytes",
//      "high_bytes"}], "open": []}]}
// "used_bytes" and "arena_bytes" have what there was behind the session's making and behind each of
// its runs; all bytes but the context's are beside it.
std::string ToJson(const std::vector<RuntimeRun>& runs, const JsonOptions& options);

// Schema 1, one object:
//   {"schema", "version", "basis": "run", "text", "runtime", "model",
//    "targets": [{"gpu", "max_batch", "max_batch_fits", "limited", "fails", "fixed_bytes",
//      "per_sample_bytes", "tried": [{"batch", "verdict", "used_bytes"}],
//      "run": one of "runs" above}]}
// What is not known is absent.
std::string ToJson(const std::vector<RuntimeSearch>& searches, const JsonOptions& options);

}  // namespace onnxfit
