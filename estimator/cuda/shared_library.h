// Libraries that are opened at run time, so that the program starts without them, and where they
// are looked for.  No CUDA in this header.
#pragma once

#include <string>
#include <vector>

namespace onnxfit {

// Stays open until the process ends: CUDA's libraries still run when their users are gone.
class SharedLibrary {
 public:
  SharedLibrary() = default;  // none

  // The first of `names` that can be opened in the first of `folders` that has one; the folder
  // "" is the loader's own path.  Where there is none, is_open() is false and why_missing() a
  // sentence.
  SharedLibrary(const std::vector<std::string>& folders, const std::vector<std::string>& names);

  bool is_open() const { return handle_ != nullptr; }
  const std::string& path() const { return path_; }  // the file, "" where none is open
  const std::string& why_missing() const { return why_missing_; }

  // Points `function` to the one of that name.  Throws Error where the library lacks it.
  template <typename Function>
  void Load(const char* name, Function*& function) const {
    function = reinterpret_cast<Function*>(Find(name));
  }

 private:
  void Open(const std::string& file);
  void* Find(const char* name) const;

  void* handle_ = nullptr;
  std::string path_;
  std::string why_missing_;
};

// Where NVIDIA's libraries are looked for.
struct LibraryPlaces {
  std::string given = {};         // a folder of people's choice, "" for none
  std::string virtual_env = {};   // $VIRTUAL_ENV
  std::string conda_prefix = {};  // $CONDA_PREFIX
  std::string python = {};        // of the python3 that $PATH has first, "" for none
  // Where Python is installed for all: pip --user, Debian's and NVIDIA's images, PyTorch's images.
  std::vector<std::string> prefixes = {};
  std::string toolkit = "/usr/local/cuda/lib64";
};

// As the environment says.
LibraryPlaces PlacesOfEnvironment(std::string given = {});

// First to last: the folder given, where the wheels that PyTorch depends on put them
// (lib/python3.*/{site,dist}-packages/nvidia/*/lib of environments, then of prefixes; by name), the
// loader's own path (""), the toolkit's.
std::vector<std::string> LibraryFolders(const LibraryPlaces& places);

}  // namespace onnxfit
