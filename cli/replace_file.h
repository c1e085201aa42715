// A file, written anew.
#pragma once

#include <string>
#include <string_view>

namespace onnxfit {

// Writes `text` to `path`, all of it or nothing: a crash, a full disk or a read-only folder leave
// the old file, whose permissions the new one has.  A link stays one.  Throws Error, which calls
// the file `what`: "lock".
void ReplaceFile(const std::string& path, std::string_view text, std::string_view what);

}  // namespace onnxfit
