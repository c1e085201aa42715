#include "estimator/optimizers/parameter_groups.h"

#include <set>
#include <string>

#include "estimator/base/index.h"
#include "estimator/libraries/libraries.h"

namespace onnxfit {
namespace {

ParamGroups KindOf(const TrainingSettings& settings) {
  if (settings.optimizer == Optimizer::kMuSgd) return ParamGroups::kUltralytics;
  if (settings.param_groups != ParamGroups::kOfLoop) return settings.param_groups;
  const LoopLibrary library = settings.loop.library;
  if (DoesLoop(library, LoopFact::kDecaysMatrices)) return ParamGroups::kTimm;
  if (DoesLoop(library, LoopFact::kDecaysWeights)) return ParamGroups::kUltralytics;
  return DoesLoop(library, LoopFact::kDecaysSome) ? ParamGroups::kTransformers : ParamGroups::kOne;
}

// Weights and biases of normalizations: of LayerNorm, or of all.
std::set<NameId> OfNorms(const Program& program, bool all) {
  std::set<NameId> names;
  for (const AtenCall& call : program.calls) {
    const bool is_norm = call.op == "layer_norm" || (all && call.op.ends_with("_norm"));
    if (!is_norm || call.inputs.size() < 2) continue;
    names.insert(call.inputs.begin() + 1, call.inputs.end());
  }
  return names;
}

// One parameter, as the functions that sort them see it.
struct Sorted {
  const std::string& name;
  size_t dims;
  bool is_of_layer_norm;
  bool is_of_norm;
};

// Which of its groups a library puts a parameter in.
size_t GroupOf(ParamGroups kind, const Sorted& parameter) {
  switch (kind) {
    case ParamGroups::kOfLoop:
    case ParamGroups::kOne:
      return 0;
    // karpathy/nanoGPT, model.py, configure_optimizers: p.dim() >= 2
    case ParamGroups::kMatrices:
      return parameter.dims >= 2 ? 0 : 1;
    // transformers 5.17.0, trainer.py, get_decay_parameter_names
    case ParamGroups::kTransformers:
      return parameter.is_of_layer_norm || IsUndecayed(parameter.name) ? 1 : 0;
    // timm 1.0.31, optim/_param_groups.py, param_groups_weight_decay
    case ParamGroups::kTimm: {
      const bool is_matrix = parameter.dims > 1 && !parameter.name.ends_with(".bias");
      return is_matrix && !IsUndecayedByTimm(parameter.name) ? 1 : 0;
    }
    // ultralytics 8.4.190, engine/trainer.py, build_optimizer
    case ParamGroups::kUltralytics:
      if (parameter.name.find("bias") != std::string::npos) return 2;
      return parameter.is_of_norm ? 1 : 0;
  }
  return 0;
}

// The group that decays.
size_t DecayedOf(ParamGroups kind) { return kind == ParamGroups::kTimm ? 1 : 0; }

// MuSGD's last group, which decays, too: matrices and kernels.  Source: as above.
constexpr size_t kOfMuon = 3;
bool IsForMuon(Optimizer optimizer, size_t dims) {
  return optimizer == Optimizer::kMuSgd && (dims == 2 || dims == 4);
}

// Those that are stepped as they are come first: transformers 5.17.0, trainer_optimizer.py,
// _setup_low_rank_optimizer, and GaLore's README.
std::vector<ParameterGroup> GaLoreGroupsOf(const Program& program) {
  std::set<NameId> projected;
  for (const ProjectedMatrix& matrix : program.projected) projected.insert(matrix.parameter);
  std::vector<ParameterGroup> groups(2);
  for (size_t i = 0; i < program.parameters.size(); ++i)
    groups[projected.contains(program.parameters[i]) ? 1 : 0].parameters.push_back(i);
  std::erase_if(groups, [](const ParameterGroup& group) { return group.parameters.empty(); });
  return groups;
}

}  // namespace

std::vector<ParameterGroup> ParameterGroupsOf(const Program& program,
                                              const TrainingSettings& settings) {
  if (settings.optimizer == Optimizer::kGaLore) return GaLoreGroupsOf(program);
  const ParamGroups kind = KindOf(settings);
  const std::set<NameId> of_layer_norm = OfNorms(program, /*all=*/false);
  const std::set<NameId> of_norms = OfNorms(program, /*all=*/true);
  std::vector<ParameterGroup> groups(kOfMuon + 1);
  for (size_t i = 0; i < kOfMuon; ++i) groups[i].decays = i == DecayedOf(kind);
  groups[kOfMuon].uses_muon = true;
  for (size_t i = 0; i < program.parameters.size(); ++i) {
    const NameId id = program.parameters[i];
    const ProgramValue& value = program.values[Index(id)];
    const Sorted sorted = {value.name, value.type.dims.size(), of_layer_norm.contains(id),
                           of_norms.contains(id)};
    const bool is_for_muon = IsForMuon(settings.optimizer, sorted.dims);
    groups[is_for_muon ? kOfMuon : GroupOf(kind, sorted)].parameters.push_back(i);
  }
  std::erase_if(groups, [](const ParameterGroup& group) { return group.parameters.empty(); });
  return groups;
}

}  // namespace onnxfit
