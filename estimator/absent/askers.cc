#include "estimator/absent/askers.h"

#include <cxxabi.h>
#include <dlfcn.h>
#include <unwind.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <iterator>
#include <string_view>

namespace onnxfit::absent {
namespace {

// --- Python: the functions of its C API that 3.9 and later have ---------------------------------

struct PythonApi {
  int (*is_initialized)() = nullptr;
  int (*is_finalizing)() = nullptr;  // 3.13; before, with an underscore
  int (*lock)() = nullptr;           // PyGILState_Ensure: waits for it, or has it already
  void (*unlock)(int) = nullptr;
  void* (*frame)() = nullptr;      // borrowed
  void* (*back)(void*) = nullptr;  // a reference of one's own
  void* (*code)(void*) = nullptr;  // the same
  int (*line)(void*) = nullptr;
  void* (*attribute)(void*, const char*) = nullptr;
  const char* (*text)(void*) = nullptr;
  void (*hold)(void*) = nullptr;
  void (*drop)(void*) = nullptr;

  bool is_whole() const {
    return is_initialized && lock && unlock && frame && back && code && line && attribute && text &&
           hold && drop;
  }
};

template <class Function>
void Find(const char* name, Function& function) {
  if (void* const found = dlsym(RTLD_DEFAULT, name)) function = reinterpret_cast<Function>(found);
}

PythonApi FindPython() {
  PythonApi api;
  Find("Py_IsInitialized", api.is_initialized);
  Find("_Py_IsFinalizing", api.is_finalizing);
  Find("Py_IsFinalizing", api.is_finalizing);
  Find("PyGILState_Ensure", api.lock);
  Find("PyGILState_Release", api.unlock);
  Find("PyEval_GetFrame", api.frame);
  Find("PyFrame_GetBack", api.back);
  Find("PyFrame_GetCode", api.code);
  Find("PyFrame_GetLineNumber", api.line);
  Find("PyObject_GetAttrString", api.attribute);
  Find("PyUnicode_AsUTF8", api.text);
  Find("Py_IncRef", api.hold);
  Find("Py_DecRef", api.drop);
  return api;
}

const PythonApi& Python() {
  static const auto* const api = new PythonApi(FindPython());
  return *api;
}

bool IsOfPackage(std::string_view file) {
  constexpr std::string_view kPackages[] = {"site-packages/", "dist-packages/", "/lib/python3",
                                            "<frozen"};
  return std::any_of(std::begin(kPackages), std::end(kPackages),
                     [&](std::string_view part) { return file.find(part) != file.npos; });
}

std::string FileOf(const PythonApi& api, void* frame) {
  void* const code = api.code(frame);
  void* const name = api.attribute(code, "co_filename");
  const char* const text = name == nullptr ? nullptr : api.text(name);
  std::string file = text == nullptr ? "" : text;
  if (name != nullptr) api.drop(name);
  api.drop(code);
  return file;
}

// The innermost line that is no package's, else the innermost.
std::string PythonLine(const PythonApi& api) {
  std::string innermost;
  void* frame = api.frame();
  if (frame != nullptr) api.hold(frame);
  while (frame != nullptr) {
    const std::string file = FileOf(api, frame);
    const std::string line = "p\t" + file + "\t" + std::to_string(api.line(frame));
    if (innermost.empty()) innermost = line;
    void* const back = IsOfPackage(file) ? api.back(frame) : nullptr;
    api.drop(frame);
    if (!IsOfPackage(file)) return line;
    frame = back;
  }
  return innermost;
}

std::string OfPython() {
  const PythonApi& api = Python();
  const bool is_ending = api.is_finalizing != nullptr && api.is_finalizing() != 0;
  if (!api.is_whole() || api.is_initialized() == 0 || is_ending) return "";
  const int before = api.lock();
  std::string line = PythonLine(api);
  api.unlock(before);
  return line;
}

// --- Other programs: the C stack ----------------------------------------------------------------

std::string_view NameOf(std::string_view path) { return path.substr(path.rfind('/') + 1); }

// NVIDIA's, ours, and what Python calls C through.
bool IsPassedOver(std::string_view library) {
  constexpr std::string_view kBeginnings[] = {"libcu",  "libnv",  "libnccl", "libonnxfit_absent",
                                              "libffi", "_ctypes"};
  return std::any_of(std::begin(kBeginnings), std::end(kBeginnings),
                     [&](std::string_view name) { return library.starts_with(name); });
}

// Without its arguments.
std::string Demangled(const char* symbol) {
  int status = 0;
  char* const text = abi::__cxa_demangle(symbol, nullptr, nullptr, &status);
  const std::string name = status == 0 ? text : symbol;
  std::free(text);
  return name.starts_with('(') ? name : name.substr(0, name.find('('));
}

std::string FunctionOf(const Dl_info& info, uintptr_t address) {
  if (info.dli_sname != nullptr) return Demangled(info.dli_sname);
  char offset[32];
  std::snprintf(offset, sizeof offset, "+0x%zx",
                address - reinterpret_cast<uintptr_t>(info.dli_fbase));
  return offset;
}

_Unwind_Reason_Code VisitFrame(_Unwind_Context* context, void* found) {
  const auto address = static_cast<uintptr_t>(_Unwind_GetIP(context)) - 1;  // inside of the call
  Dl_info info;
  if (dladdr(reinterpret_cast<void*>(address), &info) == 0) return _URC_NO_REASON;
  const std::string_view library = NameOf(info.dli_fname);
  if (IsPassedOver(library)) return _URC_NO_REASON;
  *static_cast<std::string*>(found) =
      "c\t" + std::string(library) + "\t" + FunctionOf(info, address);
  return _URC_END_OF_STACK;
}

std::string OfStack() {
  std::string found;
  _Unwind_Backtrace(VisitFrame, &found);
  return found;
}

// Its allocator asks in its own name, and records for whom.
bool HasTorch() {
  static bool has = false;
  if (!has) has = dlopen("libc10_cuda.so", RTLD_LAZY | RTLD_NOLOAD) != nullptr;
  return has;
}

}  // namespace

std::string Asker() {
  if (HasTorch()) return "";
  std::string line = OfPython();
  return line.empty() ? OfStack() : line;
}

bool IsPython() {
  const PythonApi& api = Python();
  return api.is_initialized != nullptr && api.is_initialized() != 0;
}

}  // namespace onnxfit::absent
