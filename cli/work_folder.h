// A folder for what is needed as long as a command runs.
#pragma once

#include <filesystem>
#include <span>
#include <string>
#include <string_view>

namespace onnxfit {

// Gone with the object.  Throws Error where there is no room for one, which says `what` it is for.
class WorkFolder {
 public:
  explicit WorkFolder(std::string_view what);
  ~WorkFolder();
  WorkFolder(const WorkFolder&) = delete;
  WorkFolder& operator=(const WorkFolder&) = delete;

  std::string File(std::string_view name) const { return (path_ / name).string(); }

 private:
  std::filesystem::path path_;
};

// A file of what a command needs.  Throws Error where it cannot be written.
void WriteBytes(const std::filesystem::path& path, std::span<const unsigned char> bytes);
void WriteBytes(const std::filesystem::path& path, std::string_view bytes);

}  // namespace onnxfit
