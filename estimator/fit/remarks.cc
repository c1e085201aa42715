#include "estimator/fit/remarks.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <utility>

#include "estimator/base/bytes.h"
#include "estimator/base/calibration.h"
#include "estimator/base/device.h"
#include "estimator/base/index.h"
#include "estimator/base/nccl.h"
#include "estimator/eager/in_place.h"
#include "estimator/fit/cudnn_remark.h"
#include "estimator/fit/verdict.h"
#include "estimator/fit/worlds.h"
#include "estimator/memory/lives.h"
#include "estimator/optimizers/hidden_matrices.h"
#include "estimator/optimizers/optimizer_rule.h"
#include "estimator/optimizers/optimizer_step.h"
#include "estimator/optimizers/sparse_rows.h"
#include "estimator/ranks/data_parallel.h"
#include "estimator/training/compiled_trace.h"

namespace onnxfit {
namespace {

StepSummary Summarize(const Trace& trace, const StepEvents& step) {
  StepSummary summary = {.allocations = step.allocations,
                         .frees = step.frees,
                         .peak_allocated_bytes = step.peak_allocated_bytes,
                         .peak = {step.peak.step, step.peak.phase, ""}};
  if (step.peak.at >= 0) summary.peak.node = trace.labels[Index(step.peak.at)];
  if (step.largest >= 0) {
    const Buffer& largest = trace.buffers[Index(step.largest)];
    summary.largest = trace.labels[Index(largest.label)];
    summary.largest_bytes = largest.bytes;
  }
  return summary;
}

std::string NodesNote(const Prediction& prediction) {
  const Graph& graph = prediction.graph();
  const auto on_host = std::ranges::count_if(graph.nodes, [&](const Node& node) {
    return std::ranges::all_of(node.outputs, [&](ValueId value) {
      return value == kNoValue || prediction.shapes().known[Index(value)].has_value();
    });
  });
  return fmt::format("{} nodes run as {} calls, the loss included; arithmetic on the host: {}",
                     graph.nodes.size(), prediction.program.calls.size(), on_host);
}

// Calls whose result took the storage of their input, in the first step.
std::vector<const AtenCall*> CallsInPlace(const Prediction& prediction) {
  std::vector<NameId> first(prediction.trace.buffers.size(), kNoName);  // by buffer: its name
  std::vector<bool> seen(prediction.program.values.size());             // by name
  std::vector<bool> took(prediction.program.values.size());             // the same
  for (const Holder& holder : prediction.holders) {
    if (holder.type != Holder::Type::kName || seen[Index(holder.id)]) continue;
    seen[Index(holder.id)] = true;
    NameId& name = first[Index(holder.buffer)];
    if (name == kNoName) {
      name = holder.id;
    } else {
      took[Index(holder.id)] = !holder.is_view;
    }
  }
  std::vector<const AtenCall*> calls;
  for (const AtenCall& call : prediction.program.calls) {
    const NameId result = call.outputs.empty() ? kNoName : call.outputs[0];
    if (result != kNoName && took[Index(result)]) calls.push_back(&call);
  }
  return calls;
}

}  // namespace

std::vector<StepSummary> SummarizeSteps(const Prediction& prediction) {
  std::vector<StepSummary> summaries;
  for (const StepEvents& step : ReadLives(prediction.trace, prediction.alloc_conf).steps) {
    summaries.push_back(Summarize(prediction.trace, step));
  }
  return summaries;
}

std::vector<std::string> RunNotes(const Prediction& prediction) {
  std::vector<std::string> notes = {NodesNote(prediction)};
  const std::vector<const AtenCall*> calls = CallsInPlace(prediction);
  if (calls.empty()) return notes;
  std::map<std::string_view, int> counts;
  for (const AtenCall* call : calls) ++counts[call->op];
  std::vector<std::string> texts;
  for (const auto& [op, count] : counts) texts.push_back(fmt::format("{} {}", count, op));
  notes.push_back(
      fmt::format("in place: {}, the first at {}", fmt::join(texts, ", "), calls[0]->where));
  return notes;
}

// What follows is what an estimate assumes, and what else there is to note.
namespace {

// "" where nothing could.
std::string_view InPlaceText(const Program& program, const TrainingSettings& settings) {
  const InPlaceUse use = settings.in_place;
  if (use == InPlaceUse::kNever) return "no activation or sum works in place";
  if (use == InPlaceUse::kAlways || LeavesInPlaceOpen(program, settings)) {
    return "activations and residual sums work in place wherever PyTorch allows it "
           "(--in-place never, if yours do not)";
  }
  return WritesInPlace(program)
             ? "activations and residual sums work in place as the file or its library says"
             : "";
}

std::vector<std::string> AllocConfNotes(const AllocConf& given) {
  std::vector<std::string> notes;
  for (const std::string& option : given.idle_options) {
    notes.push_back(fmt::format("{} changes no byte on the card", option));
  }
  const AllocatorConf& conf = given.conf;
  if (conf.garbage_collection_threshold > 0 && conf.memory_fraction >= 1) {
    notes.emplace_back("garbage_collection_threshold acts with per_process_memory_fraction alone");
  }
  return notes;
}

std::string_view WorkspaceText(const FrameworkProfile& framework) {
  if (framework.cublas == WorkspaceLife::kOutside) return "no memory that cuBLAS takes itself";
  return framework.cublas == WorkspaceLife::kKept ? "2 cuBLAS handles"
                                                  : "the size of cuBLAS workspaces";
}

// What other ranks have beside the first: of zero-redundancy LargerShare says
// more; DeepSpeed's parts begin
// within parameters, whose gradients are kept whole.
std::string_view SharesText(Strategy strategy) {
  if (strategy == Strategy::kZeroRedundancy) return "";
  const bool keeps_whole = strategy == Strategy::kZero1 || strategy == Strategy::kZero2;
  return keeps_whole ? ", and another may keep the rest of a parameter more"
                     : ", and none has more";
}

// The name was once of what is now zero-redundancy.
std::string_view WhoseText(Strategy strategy) {
  return strategy == Strategy::kZero1 ? "zero1 is DeepSpeed's stage 1, and PyTorch's "
                                        "ZeroRedundancyOptimizer zero-redundancy; "
                                      : "";
}

std::string RanksText(const RankSettings& ranks) {
  const std::string all = fmt::format("{} ranks", CountRanks(ranks));
  if (ranks.tensor_parallel == 1 || ranks.strategy == Strategy::kNone) return all;
  return fmt::format("{}, {} of which have a batch each, of {} that share layers", all, ranks.world,
                     ranks.tensor_parallel);
}

std::string RanksAssumption(const EstimateRequest& request) {
  const RankSettings& ranks = request.settings.ranks;
  const std::string first = CountRanks(ranks) == 1
                                ? "the figures are those of the only rank; "
                                : fmt::format("the figures are those of the first of {}{}; ",
                                              RanksText(ranks), SharesText(ranks.strategy));
  const bool is_pipeline = ranks.strategy == Strategy::kPipeline;
  const std::string whose = std::string(WhoseText(ranks.strategy)) + (is_pipeline ? "" : first) +
                            "what NCCL allocates is not PyTorch's and not among the figures";
  const int64_t room = MostNcclBytes(request.settings, request.overhead_bytes.has_value());
  if (room == 0) return whose;
  const int64_t communicators = CountCommunicators(request.settings);
  return whose + fmt::format(
                     ": {} to {} a communicator within a node, by its channels; verdicts "
                     "leave room for {} (--overhead tells a context with it)",
                     FormatBytes(NcclLeastBytes()), FormatBytes(NcclMuchBytes()),
                     communicators == 1 ? "it" : fmt::format("{} of them", communicators));
}

// "" where the flag or nobody says it.
std::string FrameworkText(const TrainingSettings& settings) {
  const auto& [basis, version] = settings.framework_choice;
  const std::string_view name = settings.framework.name;
  if (basis == FrameworkBasis::kFile) {
    return fmt::format("PyTorch is {}, which exported the model (--framework)", name);
  }
  if (basis == FrameworkBasis::kUnknown) {
    return fmt::format(
        "PyTorch is {}: the file does not say which exported it, and later ones give workspaces "
        "of cuBLAS back, which takes less (--framework)",
        name);
  }
  if (basis != FrameworkBasis::kNearest || IsNewerThanKnown(version)) return "";
  const bool lacks = FindFramework(version)->name != name;
  return fmt::format("PyTorch is {}, the {} {}, which exported the model{} (--framework)", name,
                     lacks ? "first behind" : "next known to", ReleaseOf(version),
                     lacks ? ", with what the flags ask for" : "");
}

// What the version does by default and later ones do not.
std::vector<std::string> DefaultsOfVersion(const TrainingSettings& settings) {
  const FrameworkProfile& framework = settings.framework;
  std::vector<std::string> defaults;
  if (settings.mode != Mode::kTrain || settings.optimizer == Optimizer::kNone) return defaults;
  if (framework.keeps_zeroed_grads && settings.loop.zero_grad == ZeroGrad::kKeep) {
    defaults.push_back(fmt::format(
        "zero_grad() fills gradients with zeros, by default of {} (--zero-grad)", framework.name));
  }
  if (framework.loops_by_default && ImplOf(settings) == OptimizerImpl::kForLoop) {
    defaults.push_back(
        fmt::format("the optimizer loops over parameters, by default of {} (--optimizer-impl)",
                    framework.name));
  }
  return defaults;
}

std::string_view LossText(const Prediction& prediction, const TrainingSettings& settings) {
  if (settings.mode != Mode::kTrain) return "";
  const bool is_asked = settings.loss == Loss::kNone;
  if (is_asked && IsWholeStep(prediction.program))
    return "the step's own code goes backward and steps";
  if (is_asked) return "the model's output is the loss itself (--loss none)";
  return prediction.program.loss_is_output
             ? "the model's output is one number, which is taken for the loss itself"
             : "";
}

// Of a run of any file.
std::vector<std::string> RunAssumptions(const std::string& cudnn, std::string_view in_place,
                                        std::string_view loss, const EstimateRequest& request) {
  std::vector<std::string> assumptions;
  if (!request.overhead_bytes.has_value()) {
    const bool is_named = !request.targets.empty();
    assumptions.push_back(fmt::format("the card is {}{}: its CUDA context, and {}",
                                      is_named ? "" : "an ", request.settings.device.name,
                                      WorkspaceText(request.settings.framework)));
  }
  const std::string framework = FrameworkText(request.settings);
  if (!framework.empty()) assumptions.push_back(framework);
  for (std::string& text : DefaultsOfVersion(request.settings)) {
    assumptions.push_back(std::move(text));
  }
  if (!cudnn.empty()) assumptions.push_back(cudnn);
  if (!in_place.empty()) assumptions.emplace_back(in_place);
  if (request.settings.loop.library == LoopLibrary::kUltralytics) {
    assumptions.emplace_back(
        "ultralytics' micro-batches fill a step up to 64 samples (nbs), of which two take what "
        "more "
        "do (--accumulate); optimizer=auto is MuSGD for more than 10000 iterations, AdamW for "
        "less");
  }
  // A limit is met on a full card, and peaks are those of an endless one.
  if (request.alloc_conf.conf.memory_fraction < 1) {
    assumptions.emplace_back("the card is so large that its memory fraction is never reached");
  }
  if (!loss.empty()) assumptions.emplace_back(loss);
  if (request.settings.ema && request.settings.mode == Mode::kTrain) {
    assumptions.emplace_back(
        "the average is made before the first step, of parameters and buffers (--ema)");
  }
  if (IsCompiled(request.settings)) {
    assumptions.emplace_back(
        "torch.compile keeps what its partitioner likely chooses, without graph breaks; while "
        "kernels are tuned, the first step has a buffer of the size of the card's L2 "
        "cache, too");
  }
  if (request.settings.cuda_graphs && request.settings.mode == Mode::kTrain) {
    assumptions.emplace_back(
        "CUDA graphs keep what forward and backward take in a pool of their own (--cuda-graphs)");
  }
  if (request.settings.compile == Compiling::kInductor && request.settings.mode == Mode::kEval) {
    assumptions.push_back(
        std::string("compiled inference takes what eager's does (--compile)") +
        (request.settings.cuda_graphs ? "; the pool of its CUDA graphs is not known here" : ""));
  }
  const RankSettings& ranks = request.settings.ranks;
  const bool has_replicas =
      ranks.strategy != Strategy::kNone && request.settings.mode == Mode::kTrain;
  if (ranks.tensor_parallel > 1 || has_replicas) assumptions.push_back(RanksAssumption(request));
  if (has_replicas) {
    if (ranks.fsdp_offload) {
      assumptions.emplace_back(
          "shards, gradients and optimizer state are in the host's memory, which is not counted "
          "(--fsdp-offload)");
    }
    if (ranks.zero_offload) {
      assumptions.emplace_back(
          "parameters in 32 bits, their gradients and optimizer state are in the host's memory, "
          "which is not counted (--zero-offload)");
    }
  }
  return assumptions;
}

// "" where the batch is where everybody expects it.
std::string BatchAssumption(const Shapes& shapes) {
  return shapes.batch_place.empty() ? "" : "the batch is " + shapes.batch_place;
}

constexpr bool IsOfTorchao(Optimizer optimizer) {
  return optimizer == Optimizer::kTorchaoAdamW8bit || optimizer == Optimizer::kTorchaoAdamW4bit ||
         optimizer == Optimizer::kTorchaoAdamWFp8;
}

std::string GaLoreAssumption(const Program& program, int64_t rank) {
  if (program.projected.empty()) return "";
  return fmt::format(
      "GaLore projects gradients of {} of {} parameters to rank {}, the first {}; it finds bases "
      "in "
      "every step here; with update_proj_gap=200 each 200th is such one; workspaces of svd are "
      "those of CUDA 13.0's cuSOLVER",
      program.projected.size(), program.parameters.size(), rank,
      program.values[Index(program.projected.front().parameter)].name);
}

// "" where one optimizer steps all parameters, by calls of PyTorch's.
std::string OptimizerAssumption(const Program& program, const TrainingSettings& settings) {
  if (settings.mode != Mode::kTrain) return "";
  if (IsOfTorchao(settings.optimizer)) {
    return "torchao compiles the step of a parameter: its buffers are those of Inductor's code in "
           "PyTorch 2.11";
  }
  if (settings.optimizer == Optimizer::kSoap) {
    return "SOAP updates its bases in every step here; with precondition_frequency=10 each tenth "
           "is "
           "such one; workspaces of eigh and qr are those of CUDA 13.0's cuSOLVER";
  }
  if (settings.optimizer == Optimizer::kGaLore)
    return GaLoreAssumption(program, settings.galore.rank);
  if (settings.optimizer == Optimizer::kProdigy) {
    return "Prodigy keeps a copy of every parameter; of one that is all zeros it keeps a number";
  }
  if (settings.optimizer != Optimizer::kMuon) return "";
  const std::vector<bool> hidden = AreHiddenMatrices(program);
  const auto count = std::ranges::count(hidden, true);
  return fmt::format(
      "torch.optim.Muon steps {} of {} parameters, matrices of hidden layers; AdamW, behind it, "
      "embeddings, the last layer's and what is no matrix",
      count, hidden.size());
}

// "" where weight decay takes nothing more, or is told.
std::string DecayAssumption(const TrainingSettings& settings) {
  if (settings.mode != Mode::kTrain || (settings.optimizer_args & kWeightDecay) != 0) return "";
  if (!CopiesGradientsToDecay(settings.optimizer, settings.optimizer_impl, settings.framework))
    return "";
  return fmt::format(
      "{} is given no weight decay, which would copy all gradients in each step (--optimizer-args "
      "weight_decay)",
      ToString(settings.optimizer));
}

// Of shares that differ.
std::string LargerShare(const Program& program, const TrainingSettings& settings) {
  const RankSettings& ranks = settings.ranks;
  if (settings.mode != Mode::kTrain || ranks.strategy != Strategy::kZeroRedundancy) return "";
  const int64_t more = MoreThanFirstShare(program, ranks.world);
  return more == 0 ? ""
                   : fmt::format(
                         "ZeroRedundancyOptimizer gives whole parameters away: another rank has "
                         "the states of {} more elements than the first",
                         more);
}

// "" where the allocator has all states.
std::string PagedStates(const Program& program, const TrainingSettings& settings) {
  if (settings.mode != Mode::kTrain || StepsOnHost(settings.ranks)) return "";
  const OptimizerRule& rule =
      FindOptimizerRule(settings.optimizer, settings.optimizer_impl, settings.framework);
  const std::vector<bool> in_32_bits = AreStatesIn32Bits(program, settings);
  int64_t bytes = 0;
  for (size_t i = 0; i < program.parameters.size(); ++i) {
    const TensorType& parameter = program.values[Index(program.parameters[i])].type;
    for (const StateTensor& state : StatesOf(rule, in_32_bits[i])) {
      const bool is_paged = state.paged && StateType(state, parameter).dtype == DType::kUndefined;
      if (is_paged) bytes = CheckedAdd(bytes, BytesOf(state.type(parameter)));
    }
  }
  if (settings.ranks.strategy != Strategy::kNone && settings.ranks.strategy != Strategy::kDdp)
    bytes = DivideUp(bytes, SharingRanks(settings.ranks));  // of a rank, about
  return bytes == 0 ? ""
                    : fmt::format(
                          "{} of optimizer state are in managed memory, which is not "
                          "PyTorch's: the card takes them in while it has room",
                          FormatBytes(bytes));
}

// An ONNX file is mostly run by another program than the one that is told of.
std::string RuntimeAssumption(const Graph& graph, const TrainingSettings& settings) {
  const bool is_onnx = graph.exported == nullptr;
  return is_onnx && settings.mode == Mode::kEval
             ? "the model runs in PyTorch, whose memory this is: ONNX Runtime's is another"
             : "";
}

// `program` is that of `run`, dispatched or not.
std::vector<std::string> FileAssumptions(const PreparedRun& run, const Program& program,
                                         const TrainingSettings& settings) {
  std::vector<std::string> assumptions;
  const std::string runtime = RuntimeAssumption(run.file->graph, settings);
  if (!runtime.empty()) assumptions.push_back(runtime);
  const std::string batch = BatchAssumption(run.file->shapes);
  if (!batch.empty()) assumptions.push_back(batch);
  const std::string optimizer = OptimizerAssumption(program, settings);
  if (!optimizer.empty()) assumptions.push_back(optimizer);
  const std::string decay = DecayAssumption(settings);
  if (!decay.empty()) assumptions.push_back(decay);
  const std::string larger = LargerShare(program, settings);
  if (!larger.empty()) assumptions.push_back(larger);
  const std::string paged = PagedStates(program, settings);
  if (!paged.empty()) assumptions.push_back(paged);
  Append(assumptions, run.roles.assumptions);
  Append(assumptions, program.assumptions);
  return assumptions;
}

}  // namespace

namespace {

// A free size that was given, such as a text's length: a run's batches may differ in it.
std::string LengthsText(const Graph& file, const EstimateRequest& request) {
  for (const std::string& dim : FreeDimsBesideBatch(file)) {
    const auto bound = request.binding.dims.find(dim);
    if (bound == request.binding.dims.end() || bound->second < 2) continue;
    return fmt::format(
        "every batch has {} {}: batches that differ in it reserve more, which --lengths "
        "{}=uniform:1..{} plays",
        dim, bound->second, dim, bound->second);
  }
  return "";
}

}  // namespace

std::vector<std::string> Assumptions(const Prediction& prediction, const EstimateRequest& request) {
  std::vector<std::string> assumptions = request.assumptions;
  Append(assumptions, RunAssumptions(CudnnAssumption(prediction, request),
                                     InPlaceText(prediction.program, request.settings),
                                     LossText(prediction, request.settings), request));
  const std::string benchmark = BenchmarkAssumption(prediction, request.settings);
  if (!benchmark.empty()) assumptions.push_back(benchmark);
  if (JoinsRows(prediction.program, request.settings)) {
    assumptions.emplace_back(
        "all rows that a batch looks up in an embedding differ (sparse=True): data decide how many "
        "do, and fewer take less");
  }
  Append(assumptions, FileAssumptions(*prediction.run, prediction.program, request.settings));
  const std::string lengths = LengthsText(prediction.graph(), request);
  if (!lengths.empty()) assumptions.push_back(lengths);
  return assumptions;
}

std::vector<std::string> Notes(const Prediction& prediction, const EstimateRequest& request) {
  std::vector<std::string> notes = prediction.graph().notes;
  Append(notes, prediction.roles().notes);
  Append(notes, prediction.program.notes);
  Append(notes, AllocConfNotes(request.alloc_conf));
  Append(notes, request.notes);
  if (request.details) Append(notes, RunNotes(prediction));
  return notes;
}

FileRemarks RemarksOnFile(const Study& study, const EstimateRequest& request) {
  const std::shared_ptr<const PreparedRun> prepared = study.Prepared(request);
  const PreparedRun& run = *prepared;
  FileRemarks remarks = {.assumptions = request.assumptions, .warnings = {}};
  const std::string framework = FrameworkText(request.settings);
  if (!framework.empty()) remarks.assumptions.push_back(framework);
  const std::string_view in_place = InPlaceText(run.program, request.settings);
  if (!in_place.empty()) remarks.assumptions.emplace_back(in_place);
  Append(remarks.assumptions, FileAssumptions(run, run.program, request.settings));
  for (const Warnings& warnings :
       {run.warnings, run.file->shapes.warnings, run.roles.warnings, run.program.warnings}) {
    Append(remarks.warnings, warnings);
  }
  return remarks;
}

}  // namespace onnxfit
