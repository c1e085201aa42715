// Files as a git repository has them, asked of git itself.
#pragma once

#include <optional>
#include <string>

namespace onnxfit {

// What REF names in the repository around `folder`: a branch, a tag, a commit.
class GitRef {
 public:
  // Throws Error where git is missing, where there is no repository or it does not have the
  // ref; of a shallow clone it says so.
  GitRef(std::string ref, const std::string& folder);

  // The bytes of `path` there, which is relative to the working directory; nullopt where the ref
  // does not have it.  What Git LFS stores is asked of it.  Throws Error where git cannot say, as
  // of another repository, or what it has is not here.  Two or three processes.
  std::optional<std::string> Read(const std::string& path) const;

 private:
  std::string ref_;
  std::string commit_;  // its id
};

}  // namespace onnxfit
