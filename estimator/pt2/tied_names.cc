#include "estimator/pt2/tied_names.h"

#include <algorithm>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "estimator/program/module_names.h"

namespace onnxfit::pt2 {
namespace {

bool HaveSameSizes(const Tensor& a, const Tensor& b) {
  return a.dtype == b.dtype &&
         std::ranges::equal(a.sizes, b.sizes, {}, &Size::number, &Size::number);
}

class TieFinder {
 public:
  explicit TieFinder(const ExportedProgram& exported) : exported_(exported) {
    for (const InputSpec& spec : exported.inputs) {
      if (spec.kind == InputSpec::Kind::kParameter) parameters_.emplace(spec.name, &spec);
    }
    AddReads(exported.graph);
  }

  std::map<std::string_view, std::string_view> Find() {
    for (const InputSpec& spec : exported_.inputs) {
      if (parameters_.contains(spec.name)) Tie(spec);
    }
    std::map<std::string_view, std::string_view> firsts;  // of a group: its first name
    std::map<std::string_view, std::string_view> names;
    for (const InputSpec& spec : exported_.inputs) {
      const auto group = group_of_.find(spec.name);
      if (group == group_of_.end()) continue;
      const auto [first, is_new] = firsts.emplace(group->second, spec.name);
      if (!is_new) names.emplace(spec.name, first->second);
    }
    return names;
  }

 private:
  void AddReads(const Graph& graph) {
    for (const Call& call : graph.calls) {
      const std::string_view module = call.modules.empty() ? "" : call.modules.back().path;
      for (const auto& [name, argument] : call.arguments) {
        if (argument.graph != nullptr) AddReads(*argument.graph);
        if (!parameters_.contains(argument.text)) continue;
        read_.insert(argument.text);
        read_in_.emplace(module, argument.text);
      }
    }
  }

  // The name that stands for the group of `spec` is that which the calls read, or the first that
  // is stored so.
  void Tie(const InputSpec& spec) {
    if (!spec.storage.empty()) {
      const auto [first, is_new] = stored_.emplace(spec.storage, spec.name);
      if (!is_new) Join(spec.name, first->second);
    } else if (!read_.contains(spec.name)) {
      const std::string_view kept = ReadInsteadOf(spec);
      if (!kept.empty()) Join(spec.name, kept);
    }
  }

  void Join(std::string_view name, std::string_view kept) {
    group_of_[name] = kept;
    group_of_[kept] = kept;
  }

  // What the calls of its module read in its place; of a module without calls that read any, what
  // other modules read so that has its sizes (T5's `shared`), or a child its own: "lm_head.bias" is
  // that of "lm_head.decoder".
  std::string_view ReadInsteadOf(const InputSpec& spec) const {
    const std::string_view module = ParentOf(spec.target);
    const auto [begin, end] = read_in_.equal_range(module);
    for (auto read = begin; read != end; ++read) {
      if (MayBe(read->second, spec)) return read->second;
    }
    if (begin != end) return "";
    for (const auto& [place, name] : read_in_) {
      const std::string_view owner = ParentOf(parameters_.at(name)->target);
      const bool is_of_child = ParentOf(owner) == module && owner != module;
      if ((place != owner || is_of_child) && MayBe(name, spec)) return name;
    }
    return "";
  }

  bool MayBe(std::string_view name, const InputSpec& spec) const {
    const std::map<std::string_view, Tensor>& tensors = exported_.graph.tensors;
    const auto a = tensors.find(name);
    const auto b = tensors.find(spec.name);
    return name != spec.name && ChildOf(parameters_.at(name)->target) == ChildOf(spec.target) &&
           a != tensors.end() && b != tensors.end() && HaveSameSizes(a->second, b->second);
  }

  const ExportedProgram& exported_;
  std::unordered_map<std::string_view, const InputSpec*> parameters_;  // by name
  std::set<std::string_view> read_;
  std::multimap<std::string_view, std::string_view> read_in_;  // module -> parameter
  std::map<std::string_view, std::string_view> stored_;        // member -> first name
  std::map<std::string_view, std::string_view> group_of_;      // by name: what stands for it
};

}  // namespace

std::map<std::string_view, std::string_view> FindFirstNames(const ExportedProgram& exported) {
  return TieFinder(exported).Find();
}

}  // namespace onnxfit::pt2
