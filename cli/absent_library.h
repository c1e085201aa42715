// What a run of a program on a card that is not there takes with it, as this command carries it.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace onnxfit {

// The shared library that stands for CUDA, as bytes; empty where there is none for this machine (it
// is for Linux on x86-64).  Unpacks them, which takes 10 ms.
std::string AbsentLibrary();

// What Python finds before its own sitecustomize.
struct HookFile {
  std::string_view name;
  const std::span<const unsigned char>* bytes;
};
std::span<const HookFile> HookFiles();

}  // namespace onnxfit
