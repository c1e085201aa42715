#include "estimator/program/ties.h"

#include <algorithm>
#include <map>
#include <unordered_map>
#include <utility>

#include "estimator/program/sharded_modules.h"

namespace onnxfit {
namespace {

using Joined = std::unordered_map<NameId, NameId>;  // a name -> the one that stays

void Rename(const Joined& joined, std::vector<NameId>& names) {
  for (NameId& name : names) {
    const auto found = joined.find(name);
    if (found != joined.end()) name = found->second;
  }
}

void Join(const Joined& joined, Program& program) {
  const auto is_joined = [&](NameId name) { return joined.contains(name); };
  for (std::vector<NameId>* names :
       {&program.parameters, &program.frozen, &program.placement, &program.copy_order}) {
    std::erase_if(*names, is_joined);
  }
  std::erase_if(program.ties, [&](const Tie& tie) { return is_joined(tie.name); });
  for (AtenCall& call : program.calls) Rename(joined, call.inputs);
}

bool IsPacked(const Program& program, NameId name) {
  return std::ranges::find(program.quantized, name, &QuantizedWeight::packed) !=
         program.quantized.end();
}

}  // namespace

bool KeepsTiesApart(const TrainingSettings& settings) {
  return settings.lora.rank > 0 || settings.quantize.kind != Quantization::kNone ||
         IsFullySharded(settings.ranks.strategy);
}

void JoinTies(Program& program) {
  Joined joined;
  for (const Tie& tie : program.ties) {
    if (!IsPacked(program, tie.name)) joined.emplace(tie.name, tie.first);
  }
  Join(joined, program);
  program.ties.clear();
}

void JoinTiesWithinShards(Program& program, const std::vector<std::string>& globs) {
  if (program.ties.empty()) return;
  const std::vector<ShardedModule> modules = ShardedModules(program, globs);
  std::unordered_map<NameId, size_t> owners;
  for (size_t i = 0; i < modules.size(); ++i) {
    for (const NameId name : modules[i].parameters) owners.emplace(name, i);
  }
  Joined joined;
  std::map<std::pair<NameId, size_t>, NameId> kept;  // by first name and module
  for (const Tie& tie : program.ties) {
    kept.emplace(std::pair(tie.first, owners.at(tie.first)), tie.first);
    const auto [found, is_new] = kept.emplace(std::pair(tie.first, owners.at(tie.name)), tie.name);
    if (!is_new) joined.emplace(tie.name, found->second);
  }
  Join(joined, program);
}

}  // namespace onnxfit
