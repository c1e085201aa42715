// A model file in ONNX Runtime's CPU provider: what processes had of RAM, one for each session.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "estimator/fit/verdict.h"
#include "estimator/report/formats.h"
#include "estimator/report/runtime_run.h"
#include "estimator/report/tried_batches.h"

namespace onnxfit {

// What a process had: before its session, behind the session's making, behind each run.
struct HostPhase {
  int64_t peak_bytes = 0;  // since the phase before
  int64_t held_bytes = 0;  // at its end
  int64_t file_bytes = 0;  // of those, pages of files, which the system may take back
};

struct HostSession {
  std::vector<HostPhase> phases = {};
  int64_t unread_bytes = 0;  // of weights in mapped files that no run touched
  std::string error = {};    // that ended it, "" for none

  int64_t peak_bytes() const;  // of all phases
  int64_t kept_bytes() const;  // the same without pages of files, of which some may be left in it
};

// What a session with one setting more took.
struct HostSetting {
  std::string flag = {};  // as it is typed
  HostSession session = {};
};

// What cli/host_sessions.py is asked to do.
struct AskedHostSessions {
  std::string model = {};                              // a path
  std::vector<std::vector<RuntimeInput>> shapes = {};  // each is run kRunsOfShape times
  std::vector<std::string> weights = {};               // paths of files that have its weights
  std::map<std::string, std::string> session = {};     // settings of the session
  bool is_for_search = false;                          // one session, no other settings
};
std::string ToJson(const AskedHostSessions& asked);

struct ToldHostSessions {
  std::string version = {};
  std::string missing = {};   // what Python said instead of importing onnxruntime
  int64_t machine_bytes = 0;  // what this machine has, where the system ended a session; else 0
  std::vector<HostSession> sessions = {};
  std::vector<HostSetting> settings = {};
};
// Throws Error where it is none.
ToldHostSessions ReadHostSessions(std::string_view json);

struct HostRun {
  std::string runtime = {};  // "ONNX Runtime 1.31.1"
  std::string model = {};
  int64_t batch = 0;                     // of the first shape
  std::vector<std::string> shapes = {};  // "batch 8, seq 128", in the order of their runs
  int64_t ram_bytes = 0;                 // of the machine in question, 0 where nobody asks
  JudgedTarget target = {};              // that machine's RAM; its bytes where nobody asks, too
  std::vector<HostSession> sessions = {};
  std::vector<HostSetting> settings = {};
  std::vector<std::string> open = {};  // a sentence each
};

// Fills run.target by run.sessions, all of which came to their end: OOM where the most that is no
// page of a file is more than run.ram_bytes, TIGHT where less than a twentieth is left.
void JudgeHost(HostRun& run);

// The same of a session that this machine, which has so much and no less than run.ram_bytes, had no
// room for: OOM, without sessions.
void JudgeEnded(int64_t machine_bytes, HostRun& run);

// The largest batch whose session runs in so much RAM.
struct HostSearch {
  TriedBatches found = {};
  HostRun largest = {};  // of found.told()
};

// At most 80 columns wide, every line with its newline.  With options.quiet the first line alone.
std::string ToText(const HostRun& run, const TextOptions& options = {});
std::string ToText(const HostSearch& search, const TextOptions& options = {});

// Schema 1, one object:
//   {"schema", "version", "basis": "run", "text", "runtime", "provider": "cpu", "model", "batch",
//    "shapes", "host": {"bytes", "least_bytes", "limit_bytes", "verdict", "reasons": []},
//    "sessions": [{"phases": [{"peak_bytes", "held_bytes", "file_bytes"}], "unread_bytes"}],
//    "settings": [{"flag", "bytes"}], of those that ran, "open": []}
// "limit_bytes" and what follows it are absent where nobody asks for them.  "bytes" is the most of
// all sessions with what is unread, "least_bytes" the least.
std::string ToJson(const HostRun& run, const JsonOptions& options);

// Schema 1: the same, with "max_batch", "max_batch_fits", "limited", "fails", "fixed_bytes",
// "per_sample_bytes" and "tried" of the search.
std::string ToJson(const HostSearch& search, const JsonOptions& options);

}  // namespace onnxfit
