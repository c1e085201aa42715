// Files by patterns.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace onnxfit {

// Whether `text` is a pattern rather than one path.
bool IsGlob(std::string_view text);

// The files that match `pattern`, sorted by their bytes, as the pattern writes them: relative to
// `folder` ("" is the current one) unless it begins with "/".  "*", "?" and "[...]" stand for
// letters within a name, "**" for any number of folders, also none.  Names that begin with a dot
// match only where the pattern has the dot.  "**" does not follow links to folders.  What cannot
// be read holds nothing.
std::vector<std::string> ExpandGlob(const std::string& folder, const std::string& pattern);

}  // namespace onnxfit
