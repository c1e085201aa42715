#include "estimator/writer/traced_solves.h"

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "estimator/base/index.h"
#include "estimator/libraries/libraries.h"
#include "estimator/writer/program_writer.h"

namespace onnxfit {
namespace {

constexpr int64_t kMostCallsOfRow = 16;

// Calls `first` to `last`, which make the inverse of `system`.
struct WrittenInverse {
  size_t first = 0;
  size_t last = 0;
  NameId system = kNoName;   // […, n, n]
  NameId inverse = kNoName;  // […, n, n]
};

bool SolvesOutside(const Program& program, const AtenCall& call) {
  return std::ranges::any_of(call.frames, [&](StatementId frame) {
    if (frame == kNoStatement) return false;
    const SourceStatement& line = program.source.At(frame);
    return SolvesTriangular(line.file, line.text);
  });
}

bool ReadsFirst(const AtenCall& call, std::string_view op, NameId name) {
  return call.op == op && !call.inputs.empty() && call.inputs[0] == name;
}

// That of which call `first` takes the triangle.
std::optional<WrittenInverse> FindInverse(const Program& program, size_t first) {
  const std::vector<AtenCall>& calls = program.calls;
  if (calls[first].op != "tril" || first + 1 >= calls.size()) return std::nullopt;
  const bool is_negated = ReadsFirst(calls[first + 1], "neg", calls[first].outputs[0]);
  if (!is_negated || !SolvesOutside(program, calls[first])) return std::nullopt;
  NameId made = calls[first + 1].outputs[0];
  const int64_t rows = program.values[Index(made)].type.dims.back();
  const size_t end = std::min(calls.size(), first + static_cast<size_t>(rows * kMostCallsOfRow));
  for (size_t i = first + 2; i < end; ++i) {
    if (ReadsFirst(calls[i], "add", made))
      return WrittenInverse{first, i, calls[first].inputs[0], calls[i].outputs[0]};
    if (ReadsFirst(calls[i], "copy_slice", made)) made = calls[i].outputs[0];
  }
  return std::nullopt;
}

// Whether products alone read what the calls have made, as their first factor.
bool IsFactorAlone(const Program& program, const WrittenInverse& found) {
  for (size_t i = found.last + 1; i < program.calls.size(); ++i) {
    const AtenCall& call = program.calls[i];
    const bool reads = std::ranges::find(call.inputs, found.inverse) != call.inputs.end();
    if (reads && !ReadsFirst(call, "matmul", found.inverse)) return false;
  }
  return true;
}

void PutBack(Program& program, const WrittenInverse& found) {
  std::vector<AtenCall>& calls = program.calls;
  for (size_t i = found.last + 1; i < calls.size(); ++i) {
    if (!ReadsFirst(calls[i], "matmul", found.inverse)) continue;
    calls[i] = CallAt(calls[i], "linalg_solve_triangular", {found.system, calls[i].inputs[1]},
                      calls[i].outputs);
  }
  const auto begin = calls.begin();
  calls.erase(begin + static_cast<std::ptrdiff_t>(found.first),
              begin + static_cast<std::ptrdiff_t>(found.last) + 1);
}

}  // namespace

void PutSolvesBack(Program& program) {
  for (size_t i = 0; i < program.calls.size(); ++i) {
    const auto found = FindInverse(program, i);
    if (found && IsFactorAlone(program, *found)) PutBack(program, *found);
  }
}

}  // namespace onnxfit
