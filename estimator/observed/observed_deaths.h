// When Python's names let go of values, as modules of the same classes did when they were watched.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "estimator/base/error.h"
#include "estimator/observed/forward_matches.h"
#include "estimator/program/module_runs.h"
#include "estimator/program/program.h"

namespace onnxfit {

struct KnownDeaths {
  std::vector<std::optional<int64_t>>
      behind;  // by NameId: the call; nullopt where nothing is known
  // By NameId: the last call of the outermost module around it that is known, where one around that
  // is of a library and was not watched, which may hold it for longer; nullopt of all others.
  std::vector<std::optional<int64_t>> is_known_until;
  std::set<std::string> unwatched;  // classes inside of a library's, of which that was not known
  size_t known = 0;                 // forwards that one was known for
  size_t all = 0;
};

// O(calls × depth).
KnownDeaths FindKnownDeaths(const Program& program, const ModuleRuns& runs,
                            const ForwardMatches& matches);

// Of known.unwatched, which must not be empty; `releases` as KnownSkeletons has them.
Warning WarnOfUnwatched(const KnownDeaths& known, const std::string& releases);

}  // namespace onnxfit
