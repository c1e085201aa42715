// From reports and locks to what is compared.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "estimator/compare/compare.h"
#include "estimator/fit/estimate.h"

namespace onnxfit {

// Of an estimate just made: what reading its report gives.
Snapshot SnapshotOf(const Estimate& estimate, const std::string& version);

// The flags that a report was made with, each with its value: {"--batch", "32"}, {"--dim",
// "seq=128"}.  Of switches the value is "true".
std::vector<std::pair<std::string, std::string>> FlagsOf(const Snapshot& report);

// All reports in `text`, which is `onnxfit estimate --format json`'s: one, or a table's (rows
// without an answer are left out).  Throws Error, without a file, for anything else.
std::vector<Snapshot> ReadReports(std::string_view text);

// onnxfit.lock.json: what each check took when the lock was written, by its name.
struct Lock {
  std::string version = {};  // of the onnxfit that wrote it
  std::map<std::string, Snapshot> checks = {};
};

// Sorted by name, a line for each place, nothing of time or machine, with a newline at its end.
std::string ToJson(const Lock& lock);

// Whether `text` looks like a lock and not like a report.
bool IsLock(std::string_view text);

// Throws Error, without a file, with line and column where it is no JSON, and with the check and
// the field where that is wrong.  Its hint is how to write it anew.
Lock ReadLock(std::string_view text);

}  // namespace onnxfit
