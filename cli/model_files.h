// Models on disk: which files a glob means, and a run of each that can be answered.
#pragma once

#include <cstdint>
#include <map>
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

// A model on disk, and a run of it that can be answered.
struct FoundModel {
  std::string name;                     // of its check: unlike all others
  std::string path;                     // relative to the folder
  int64_t batch = 1;                    // the file's, or 1 where it leaves that free
  std::map<std::string, int64_t> dims;  // what else it leaves free, with a size that works
  std::string error;                    // why there is no run, "" where there is
};

// All .onnx files below `folder` ("" is the current one), sorted by path.  Each is read, and run
// as `onnxfit estimate` does by default, with free dimensions of 128, or else of the first of
// 224, 512, 64, 32 and 16 that has an answer.  Takes as long as those runs, on all processors.
std::vector<FoundModel> FindModels(const std::string& folder);

}  // namespace onnxfit
