#include "estimator/pt2/ties_apart.h"

#include <algorithm>
#include <map>
#include <string_view>
#include <vector>

namespace onnxfit::pt2 {
namespace {

// What `path` begins with, up to a dot; the rest of it is left in `path`.
std::string_view TakeModule(std::string_view& path) {
  const size_t dot = std::min(path.find('.'), path.size());
  const std::string_view module = path.substr(0, dot);
  path.remove_prefix(std::min(dot + 1, path.size()));
  return module.substr(0, module.find('@'));  // its second run is of the same module
}

// How many modules two paths have in common, from the outermost in.
size_t CommonModules(std::string_view a, std::string_view b) {
  size_t count = 0;
  while (!a.empty() && !b.empty() && TakeModule(a) == TakeModule(b)) ++count;
  return count;
}

class Separator {
 public:
  explicit Separator(ExportedProgram& exported) : exported_(exported) {
    const std::map<std::string_view, std::string_view> firsts = FindFirstNames(exported);
    std::map<std::string_view, std::string_view> targets;
    for (InputSpec& spec : exported.inputs) {
      targets.emplace(spec.name, spec.target);
      const auto first = firsts.find(spec.name);
      if (spec.kind != InputSpec::Kind::kParameter || first == firsts.end()) continue;
      spec.first_name = first->second;
      std::vector<Name>& names = names_[first->second];
      if (names.empty()) names.push_back({first->second, targets.at(first->second)});
      names.push_back({spec.name, spec.target});
    }
    for (const auto& [first, names] : names_) {
      for (const Name& name : names) first_of_.emplace(name.name, first);
    }
  }

  void Run() {
    for (Call& call : exported_.graph.calls) {
      const std::string_view module = call.modules.empty() ? "" : call.modules.back().path;
      for (auto& [_, argument] : call.arguments) Read(module, argument);
    }
  }

 private:
  struct Name {
    std::string_view name;
    std::string_view target;  // "lm_head.weight"
  };

  void Read(std::string_view module, Argument& argument) const {
    for (Argument& item : argument.items) Read(module, item);
    const auto first = first_of_.find(argument.text);
    if (argument.kind != Argument::Kind::kTensor || first == first_of_.end()) return;
    size_t most = 0;
    argument.text = first->second;
    for (const Name& name : names_.at(first->second)) {
      const size_t common = CommonModules(module, name.target);
      if (common > most) argument.text = name.name;
      most = std::max(most, common);
    }
  }

  ExportedProgram& exported_;
  std::map<std::string_view, std::vector<Name>> names_;    // by the first of them
  std::map<std::string_view, std::string_view> first_of_;  // by name
};

}  // namespace

ExportedProgram WithTiesApart(ExportedProgram exported) {
  Separator(exported).Run();
  return exported;
}

}  // namespace onnxfit::pt2
