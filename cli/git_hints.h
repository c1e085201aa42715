// What brings a ref that a clone does not have.
#pragma once

#include <functional>
#include <string>
#include <vector>

namespace onnxfit {

// Runs git with these words where the clone is; its output, "" where it fails.
using AskGit = std::function<std::string(const std::vector<std::string>& words)>;

// A command that brings `ref`, or how it is spelled here: "git fetch origin
// main:refs/remotes/origin/main" for "origin/main".  Of a shallow clone it brings no more history
// than that.  "" where nothing would.
std::string HintForMissing(const std::string& ref, bool is_shallow, const AskGit& ask);

}  // namespace onnxfit
