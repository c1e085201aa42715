// The keys of a config that say what is run: flags, read by the flags' own rows.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "cli/flags.h"
#include "cli/toml_file.h"
#include "cli/values.h"

namespace onnxfit {

// The key that stands for `flag`, "batch" for --batch; "" where a config does not have the flag.
// It has those of "The run", --reserve and --strict.
std::string_view KeyOf(const Flag& flag);

// What a command line would have after `flag`, once for each time it is given.  Errors call it
// `place`.  Throws Error for what cannot be written there at all: a table of switches.
// REQUIRES: `node` stands at the key of `flag`.
std::vector<Typed> ValuesOf(const Flag& flag, const TomlNode& node, const std::string& place);

// A string, number, switch or date as text.  Throws Error for lists and tables: `expected` is
// what belongs there.
Typed ValueOf(const TomlNode& node, const std::string& place, std::string_view expected);

// The items of a list, or the one that stands there alone.
std::vector<Typed> ItemsOf(const TomlNode& node, const std::string& place,
                           std::string_view expected);

[[noreturn]] void RefuseKind(const TomlNode& node, const std::string& place,
                             std::string_view expected);

}  // namespace onnxfit
