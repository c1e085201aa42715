// What the command knows and this library does not: what a library asks for there, by tables and
// forms.  A process asks through a socket in the run's folder.
#pragma once

#include <optional>
#include <string>

namespace onnxfit::absent {

// The answer to a line (estimator/workspaces/asked_sizes.h has the questions), without its newline.
// Nullopt where no command listens, or it does not know.  A question that was answered is not asked
// again; one that was not is, until three in a row were not.
std::optional<std::string> AskCommand(const std::string& question);

}  // namespace onnxfit::absent
