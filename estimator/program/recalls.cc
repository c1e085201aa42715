#include "estimator/program/recalls.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>

#include "estimator/program/scopes.h"

namespace onnxfit {
namespace {

class RecallMarker {
 public:
  void Mark(AtenCall& call) {
    const std::vector<std::string> scope = call.scope;
    const size_t shared = SharedModules(last_scope_, scope);
    Open(call, shared);
    const size_t again = FindAgain(call, shared);
    if (again < shared) {
      ++recalls_[again];
      Restart(call, again);
    }
    for (size_t level = 0; level < scope.size(); ++level) {
      if (recalls_[level] > 0) call.scope[level] += fmt::format("@{}", recalls_[level]);
    }
    last_scope_ = scope;
  }

 private:
  // With which call of its own or of a module a forward began, and where it is.
  struct Forward {
    int64_t first_line = 0;  // 0: unknown
    std::string first_child;
    int64_t line = 0;
  };

  static bool HasLines(const AtenCall& call) {
    return !call.scope.empty() && call.frames.size() >= call.scope.size();
  }

  static std::string ChildAt(const AtenCall& call, size_t level) {
    return level + 1 < call.scope.size() ? call.scope[level + 1] : std::string();
  }

  // The modules of `call` from level `from` on are called for the first time.
  void Open(const AtenCall& call, size_t from) {
    recalls_.resize(call.scope.size());
    forwards_.resize(call.scope.size());
    std::fill(recalls_.begin() + static_cast<std::ptrdiff_t>(from), recalls_.end(), 0);
    Restart(call, from);
  }

  void Restart(const AtenCall& call, size_t from) {
    for (size_t level = from; level < call.scope.size(); ++level) {
      if (level > from) recalls_[level] = 0;
      const int64_t line = HasLines(call) ? call.frames[level].line : 0;
      forwards_[level] = {line, ChildAt(call, level), line};
    }
  }

  // The level of the module that runs again; `shared` where none does.
  size_t FindAgain(const AtenCall& call, size_t shared) {
    if (!HasLines(call)) return shared;
    for (size_t level = 0; level < shared; ++level) {
      Forward& forward = forwards_[level];
      const int64_t before = std::exchange(forward.line, call.frames[level].line);
      if (before == forward.line) continue;
      const bool begins = forward.line < before && forward.line == forward.first_line;
      const std::string child = ChildAt(call, level);
      const bool is_again = begins && !child.empty() && child == forward.first_child;
      return is_again ? Repeated(call, level, shared) : shared;
    }
    return shared;
  }

  // Above the loops over modules around `level`.
  static size_t Repeated(const AtenCall& call, size_t level, size_t shared) {
    while (level > 0 && IsCalledByName(call.frames[level - 1].text)) --level;
    return level == 0 ? shared : level;
  }

  // "x = layer(x)", not "x = self.layer(x)" nor "x = self.layers[i](x)".
  static bool IsCalledByName(std::string_view line) {
    const std::string_view before = line.substr(0, line.find('('));
    const std::string_view callee = before.substr(before.find_last_of(" =") + 1);
    return callee.find_first_of(".[") == std::string_view::npos;
  }

  std::vector<std::string> last_scope_;
  std::vector<int> recalls_;       // by level: how often it was called before
  std::vector<Forward> forwards_;  // by level
};

}  // namespace

void MarkRecalls(std::vector<AtenCall>& calls) {
  RecallMarker marker;
  for (AtenCall& call : calls) marker.Mark(call);
}

}  // namespace onnxfit
