// onnxfit.lock.json beside its config.
#pragma once

#include <optional>
#include <string>

#include "estimator/report/snapshot_json.h"

namespace onnxfit {

// "ci/onnxfit.lock.json" of "ci/onnxfit.toml".
std::string LockPathOf(const std::string& config);

// nullopt where there is none.  Throws Error for one that cannot be read: tests/lock_test.cc.
std::optional<Lock> ReadLockFile(const std::string& path);

// All of it or nothing: a crash, a full disk or a read-only folder leave the old one.  Throws
// Error.
void WriteLockFile(const std::string& path, const Lock& lock);

}  // namespace onnxfit
