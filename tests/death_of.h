// When a value dies in a program that is told by the source lines around its calls.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "estimator/names/lifetimes.h"

namespace onnxfit {

// A call, which makes the name after those before it; 0 is the input.
struct Line {
  std::vector<NameId> inputs;
  std::vector<std::string> scopes;
  std::vector<std::pair<int64_t, std::string>> frames;
  const char* op = "relu";
};
inline constexpr char kLineFile[] = "transformers/models/gemma4/modeling_gemma4.py";

// The call with which `name` dies; `class_name` is that of the module at `path`.
inline int64_t DeathOf(NameId name, const std::vector<Line>& lines, std::string_view path = "",
                       std::string_view class_name = "") {
  Program program;
  program.values.resize(lines.size() + 1);
  program.inputs = {0};
  for (size_t i = 0; i < lines.size(); ++i) {
    std::vector<StatementId> frames;
    for (const auto& frame : lines[i].frames) {
      frames.push_back(program.source.Read(frame.first, frame.second, kLineFile));
    }
    program.calls.push_back({.op = lines[i].op,
                             .where = "",
                             .inputs = lines[i].inputs,
                             .outputs = {static_cast<NameId>(i + 1)},
                             .module = program.modules.Enter(lines[i].scopes),
                             .frames = std::move(frames)});
  }
  for (size_t i = 0; !path.empty() && i < lines.size(); ++i) {
    const ModuleId module = program.calls[i].module;
    for (size_t level = 0; level < program.modules.DepthOf(module); ++level) {
      const ModuleId around = program.modules.AtLevel(module, level);
      if (program.modules.PathOf(around) == path) program.modules.SetClass(around, class_name);
    }
  }
  program.outputs = {static_cast<NameId>(lines.size())};
  PlaceDeaths(program, {});
  for (size_t i = 0; i < program.calls.size(); ++i) {
    for (const NameId dead : program.calls[i].dies) {
      if (dead == name) return static_cast<int64_t>(i);
    }
  }
  return -1;
}

}  // namespace onnxfit
