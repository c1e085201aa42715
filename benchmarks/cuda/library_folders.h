// Where NVIDIA's libraries are looked for.  No CUDA in this header.
#pragma once

#include <string>
#include <vector>

namespace onnxfit {

struct LibraryPlaces {
  std::string given = {};         // a folder of people's choice, "" for none
  std::string virtual_env = {};   // $VIRTUAL_ENV
  std::string conda_prefix = {};  // $CONDA_PREFIX
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
