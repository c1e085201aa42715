#include "estimator/fit/study.h"

#include <algorithm>
#include <deque>
#include <mutex>
#include <optional>
#include <type_traits>
#include <utility>
#include <vector>

#include "estimator/base/error.h"
#include "estimator/fit/batch_runs.h"
#include "estimator/fit/predict.h"
#include "estimator/onnx/shapes.h"
#include "estimator/program/between_batches.h"
#include "estimator/pt2/embedded_program.h"
#include "estimator/training/evaluation.h"

namespace onnxfit {
namespace {

// Values side by side, each with its length where that may differ.
class Key {
 public:
  void Add(std::string_view text) {
    Add(static_cast<int64_t>(text.size()));
    text_ += text;
  }
  template <typename Number>
  requires std::is_arithmetic_v<Number> || std::is_enum_v<Number>
  void Add(Number number) { text_.append(reinterpret_cast<const char*>(&number), sizeof(number)); }
  template <typename Value>
  void Add(const std::optional<Value>& value) {
    Add(value.has_value());
    if (value) Add(*value);
  }
  template <typename Value>
  void Add(const std::vector<Value>& values) {
    Add(static_cast<int64_t>(values.size()));
    for (const Value& value : values) Add(value);
  }
  void Add(const PlacedDropout& placed) {
    Add(placed.glob);
    Add(placed.p);
  }
  void Add(const AllocatorConf& conf) {
    Add(conf.expandable_segments);
    Add(conf.large_segment_bytes);
    Add(conf.max_split_bytes);
    Add(conf.max_non_split_rounding_bytes);
    for (const int64_t divisions : conf.roundup_divisions) Add(divisions);
    Add(conf.memory_fraction);
    Add(conf.garbage_collection_threshold);
  }
  // The kernels that run there, as SameKernels tells them apart.
  void Add(const DeviceProfile& device) {
    Add(device.compute_capability);
    Add(device.multiprocessors);
    Add(device.threads_per_multiprocessor);
    Add(device.without_cudnn ? 1 : 0);
    Add(reinterpret_cast<uintptr_t>(device.calibration.get()));
  }

  std::string text() && { return std::move(text_); }

 private:
  std::string text_;
};

// --- Who reads what -----------------------------------------------------------------------

enum class ReadBy : uint8_t { kProgram, kRun, kBoth };

// A field of TrainingSettings, and which stages read it.
struct SettingRow {
  ReadBy by;
  void (*add)(const TrainingSettings& s, Key& key);
};

constexpr SettingRow kSettingRows[] = {
    // Parameters have that type, and what a dropout or a norm does depends on the mode.
    {ReadBy::kBoth, [](const TrainingSettings& s, Key& key) { key.Add(s.precision); }},
    {ReadBy::kProgram, [](const TrainingSettings& s, Key& key) { key.Add(s.keeps_types); }},
    {ReadBy::kBoth, [](const TrainingSettings& s, Key& key) { key.Add(s.mode); }},
    // What the file has lost.
    {ReadBy::kProgram, [](const TrainingSettings& s, Key& key) { key.Add(s.batch_norm); }},
    {ReadBy::kProgram, [](const TrainingSettings& s, Key& key) { key.Add(s.dropout); }},
    {ReadBy::kProgram, [](const TrainingSettings& s, Key& key) { key.Add(s.placed_dropouts); }},
    {ReadBy::kProgram,
     [](const TrainingSettings& s, Key& key) {
       key.Add(s.assumed.conv_bias);
       key.Add(s.assumed.in_place_dropout);
       key.Add(s.assumed.tied_head);
     }},
    // Calls that are written out, and statements that are known to work on copies.
    {ReadBy::kProgram, [](const TrainingSettings& s, Key& key) { key.Add(s.attention); }},
    {ReadBy::kProgram, [](const TrainingSettings& s, Key& key) { key.Add(s.out_of_place); }},
    // Masks that libraries leave out, but not of compiled code.
    {ReadBy::kBoth, [](const TrainingSettings& s, Key& key) { key.Add(s.compile); }},
    {ReadBy::kProgram,
     [](const TrainingSettings& s, Key& key) {
       key.Add(s.compile != Compiling::kNone && s.framework.tells_export_from_compile);
     }},
    // The loss is a part of the program, as are the tensors that need no gradient, and the names
    // that outlive it.
    {ReadBy::kProgram, [](const TrainingSettings& s, Key& key) { key.Add(s.loss); }},
    {ReadBy::kProgram, [](const TrainingSettings& s, Key& key) { key.Add(s.label_smoothing); }},
    {ReadBy::kBoth, [](const TrainingSettings& s, Key& key) { key.Add(s.mixup); }},
    {ReadBy::kProgram, [](const TrainingSettings& s, Key& key) { key.Add(s.loss_output); }},
    {ReadBy::kProgram, [](const TrainingSettings& s, Key& key) { key.Add(s.labels); }},
    {ReadBy::kProgram, [](const TrainingSettings& s, Key& key) { key.Add(s.freeze); }},
    {ReadBy::kProgram,
     [](const TrainingSettings& s, Key& key) {
       key.Add(s.lora.rank);
       key.Add(s.lora.targets);
       key.Add(s.lora.dropout);
       key.Add(s.lora.dora);
     }},
    {ReadBy::kBoth,
     [](const TrainingSettings& s, Key& key) {
       key.Add(s.quantize.kind);
       key.Add(s.quantize.targets);
     }},
    {ReadBy::kBoth, [](const TrainingSettings& s, Key& key) { key.Add(s.loop.hold_outputs); }},
    {ReadBy::kBoth, [](const TrainingSettings& s, Key& key) { key.Add(s.loop.library); }},
    {ReadBy::kRun, [](const TrainingSettings& s, Key& key) { key.Add(s.loop.drop_batch); }},
    {ReadBy::kRun, [](const TrainingSettings& s, Key& key) { key.Add(s.loop.same_batch); }},
    // How the program is run.
    {ReadBy::kRun, [](const TrainingSettings& s, Key& key) { key.Add(s.framework.name); }},
    {ReadBy::kRun, [](const TrainingSettings& s, Key& key) { key.Add(s.device); }},
    {ReadBy::kRun, [](const TrainingSettings& s, Key& key) { key.Add(s.cublas.text); }},
    {ReadBy::kRun, [](const TrainingSettings& s, Key& key) { key.Add(s.optimizer); }},
    {ReadBy::kRun, [](const TrainingSettings& s, Key& key) { key.Add(s.optimizer_impl); }},
    {ReadBy::kRun, [](const TrainingSettings& s, Key& key) { key.Add(s.optimizer_args); }},
    {ReadBy::kRun, [](const TrainingSettings& s, Key& key) { key.Add(s.param_groups); }},
    // Which matrices GaLore projects is of the program.
    {ReadBy::kProgram,
     [](const TrainingSettings& s, Key& key) {
       key.Add(s.optimizer == Optimizer::kGaLore);
       key.Add(s.galore.targets);
     }},
    {ReadBy::kRun, [](const TrainingSettings& s, Key& key) { key.Add(s.galore.rank); }},
    {ReadBy::kRun, [](const TrainingSettings& s, Key& key) { key.Add(s.clip_grad); }},
    {ReadBy::kRun, [](const TrainingSettings& s, Key& key) { key.Add(s.ema); }},
    {ReadBy::kRun, [](const TrainingSettings& s, Key& key) { key.Add(s.optimizer_in_backward); }},
    {ReadBy::kRun, [](const TrainingSettings& s, Key& key) { key.Add(s.channels_last); }},
    {ReadBy::kRun, [](const TrainingSettings& s, Key& key) { key.Add(s.cudnn_benchmark); }},
    {ReadBy::kRun, [](const TrainingSettings& s, Key& key) { key.Add(s.trial_room_bytes); }},
    {ReadBy::kRun, [](const TrainingSettings& s, Key& key) { key.Add(s.in_place); }},
    {ReadBy::kRun, [](const TrainingSettings& s, Key& key) { key.Add(s.loop.zero_grad); }},
    {ReadBy::kRun, [](const TrainingSettings& s, Key& key) { key.Add(s.loop.prefetch); }},
    {ReadBy::kRun, [](const TrainingSettings& s, Key& key) { key.Add(s.loop.accumulate); }},
    {ReadBy::kRun, [](const TrainingSettings& s, Key& key) { key.Add(s.checkpoint); }},
    {ReadBy::kRun, [](const TrainingSettings& s, Key& key) { key.Add(s.checkpoint_reentrant); }},
    {ReadBy::kRun, [](const TrainingSettings& s, Key& key) { key.Add(s.cuda_graphs); }},
    {ReadBy::kRun,
     [](const TrainingSettings& s, Key& key) {
       key.Add(s.ranks.strategy);
       key.Add(s.ranks.world);
       key.Add(s.ranks.gradients_as_views);
       key.Add(s.ranks.static_graph);
       key.Add(s.ranks.no_sync);
       key.Add(s.ranks.shard_world);
       key.Add(s.ranks.fsdp_modules);
       key.Add(s.ranks.fsdp_keep);
       key.Add(s.ranks.fsdp_reshard);
       key.Add(s.ranks.fsdp_offload);
       key.Add(s.ranks.reduce_bucket);
       key.Add(s.ranks.overlap_comm);
       key.Add(s.ranks.zero_offload);
       key.Add(s.ranks.pipeline.schedule);
       key.Add(s.ranks.pipeline.stage.value_or(-1));
       key.Add(s.ranks.pipeline.begins);
       key.Add(s.ranks.pipeline.drops_outputs);
       key.Add(s.ranks.prefetch_bucket);
       key.Add(s.ranks.persistence_threshold);
     }},
    {ReadBy::kBoth, [](const TrainingSettings& s, Key& key) { key.Add(s.ranks.fsdp_policy); }},
    // Names of tied parameters are joined by the modules that are sharded.
    {ReadBy::kProgram,
     [](const TrainingSettings& s, Key& key) { key.Add(IsFullySharded(s.ranks.strategy)); }},
    // Layers and what is between them have the sizes of one rank's part.
    {ReadBy::kProgram,
     [](const TrainingSettings& s, Key& key) {
       key.Add(s.ranks.tensor_parallel);
       key.Add(s.ranks.shares_head);
       key.Add(s.ranks.shares_tokens);
     }},
    // Evaluation has a program of its own.
    {ReadBy::kProgram,
     [](const TrainingSettings& s, Key& key) {
       key.Add(s.evaluation.batch);
       key.Add(s.is_evaluation);
     }},
    {ReadBy::kRun, [](const TrainingSettings& s, Key& key) { key.Add(s.evaluation.keep); }},
    {ReadBy::kRun, [](const TrainingSettings& s, Key& key) { key.Add(s.steps); }},
};

std::string TextOf(const DimBinding& binding) {
  Key key;
  key.Add(binding.batch);
  key.Add(static_cast<int64_t>(binding.dims.size()));
  for (const auto& [name, size] : binding.dims) {
    key.Add(name);
    key.Add(size);
  }
  key.Add(static_cast<int64_t>(binding.inputs.size()));
  for (const auto& [name, dims] : binding.inputs) {
    key.Add(name);
    key.Add(dims);
  }
  for (const std::string& name : binding.optional) key.Add(name);
  return std::move(key).text();
}

std::string TextOf(Stage stage, const EstimateRequest& request) {
  const std::string program = KeyOf(Stage::kProgram, request.settings);
  const std::string run = stage == Stage::kRun ? KeyOf(stage, request.settings) : "";
  return program + run + TextOf(request.binding);
}

// --- What is kept -------------------------------------------------------------------------

// The last few values, each made once.
template <typename Value>
class LastFew {
 public:
  explicit LastFew(size_t most) : most_(most) {}

  // That of `key`, made where it is not there.  Who wants one that is being made waits for it.
  template <typename MakeValue>
  std::shared_ptr<Value> Get(const std::string& key, const MakeValue& make) {
    const std::shared_ptr<Entry> entry = EntryOf(key);
    const std::lock_guard lock(entry->mutex);
    if (entry->value == nullptr) entry->value = make();
    return entry->value;
  }

  void Forget() {
    const std::lock_guard lock(mutex_);
    entries_.clear();
  }

 private:
  struct Entry {
    std::string key;
    std::mutex mutex;  // of `value`
    std::shared_ptr<Value> value;
  };

  // Asked for last, at the end.
  std::shared_ptr<Entry> EntryOf(const std::string& key) {
    const std::lock_guard lock(mutex_);
    const auto has_key = [&](const std::shared_ptr<Entry>& entry) { return entry->key == key; };
    const auto found = std::find_if(entries_.begin(), entries_.end(), has_key);
    if (found != entries_.end()) {
      std::rotate(found, std::next(found), entries_.end());
      return entries_.back();
    }
    if (entries_.size() == most_) entries_.pop_front();
    entries_.push_back(std::make_shared<Entry>());
    entries_.back()->key = key;
    return entries_.back();
  }

  const size_t most_;
  std::mutex mutex_;  // of entries_
  std::deque<std::shared_ptr<Entry>> entries_;
};

// The file at some sizes.  One thread at a time may make a program of it: elements that are known
// are evaluated when they are first read.
struct KeptModel {
  std::shared_ptr<const BoundFile> model;
  std::mutex mutex;
};

constexpr size_t kMostModels = 8;
constexpr size_t kMostRuns = 8;
constexpr size_t kMostBatches = 8;
constexpr int64_t kMostKeptElements = int64_t{1} << 24;  // a quarter of what may be held at all

}  // namespace

std::string KeyOf(Stage stage, const TrainingSettings& settings) {
  Key key;
  for (const SettingRow& row : kSettingRows) {
    const ReadBy other = stage == Stage::kProgram ? ReadBy::kRun : ReadBy::kProgram;
    if (row.by != other) row.add(settings, key);
  }
  return std::move(key).text();
}

struct Study::Kept {
  LastFew<KeptModel> models{kMostModels};
  LastFew<const PreparedRun> prepared{kMostRuns};
  LastFew<const Prediction> predicted{kMostRuns};
  LastFew<BatchPrograms> programs{kMostBatches};

  // Elements that were evaluated for one program would leave none for the next.
  void MakeRoom() {
    if (HeldElements() <= kMostKeptElements) return;
    predicted.Forget();
    prepared.Forget();
    models.Forget();
  }

  std::shared_ptr<KeptModel> ModelOf(const Graph& file, const DimBinding& binding) {
    const std::string which = file.exported != nullptr ? "p" : "g";
    return models.Get(which + TextOf(binding), [&] {
      MakeRoom();
      auto kept = std::make_shared<KeptModel>();
      kept->model = BindModel(file, binding);
      return kept;
    });
  }

  PreparedRun Make(const Graph& file, const EstimateRequest& request) {
    const std::shared_ptr<KeptModel> kept = ModelOf(file, request.binding);
    const std::lock_guard lock(kept->mutex);
    return MakeRun(file, kept->model, request.settings);
  }

  // What the program in the file cannot answer, such as another batch than the one that it fixes,
  // its nodes may.
  PreparedRun MakeOfEmbedded(const Graph& file, const EstimateRequest& request) {
    try {
      return Make(*file.embedded, request);
    } catch (const Error& error) {
      PreparedRun run = Make(file, request);
      run.warnings.push_back(pt2::UnusedProgram(error));
      return run;
    }
  }
};

Study::Study(const Graph& file) : file_(file), kept_(std::make_unique<Kept>()) {}
Study::~Study() = default;

namespace {

// What runs behind the steps of `request`; null where nothing does.
std::shared_ptr<const Program> EvaluationProgram(const Study& study, EstimateRequest request) {
  const int64_t batch = request.settings.evaluation.batch;
  if (batch == 0 || request.settings.mode == Mode::kEval) return nullptr;
  CheckEvaluation(request.settings);
  request.settings = EvaluationOf(std::move(request.settings));
  const auto run = study.Prepared(RequestAt(study, request, batch));
  return {run, &run->program};
}

}  // namespace

std::shared_ptr<const PreparedRun> Study::Prepared(const EstimateRequest& request) const {
  return kept_->prepared.Get(TextOf(Stage::kProgram, request), [&] {
    PreparedRun run = file_.embedded != nullptr ? kept_->MakeOfEmbedded(file_, request)
                                                : kept_->Make(file_, request);
    if (file_.exported == nullptr) {
      run.warnings.insert(run.warnings.begin(), file_.warnings.begin(), file_.warnings.end());
    }
    run.program.evaluation = EvaluationProgram(*this, request);
    return std::make_shared<const PreparedRun>(std::move(run));
  });
}

std::shared_ptr<const Prediction> Study::Predicted(const EstimateRequest& request) const {
  const auto run = [&] {
    return std::make_shared<const Prediction>(RunPrepared(Prepared(request), request));
  };
  const bool records = request.details || !request.why.empty();
  if (records) return run();
  Key conf;
  conf.Add(request.alloc_conf.conf);
  return kept_->predicted.Get(TextOf(Stage::kRun, request) + std::move(conf).text(), run);
}

std::shared_ptr<BatchPrograms> Study::Programs(const EstimateRequest& request) const {
  return kept_->programs.Get(TextOf(Stage::kProgram, request),
                             [&] { return std::make_shared<BatchPrograms>(*this, request); });
}

std::shared_ptr<BatchPrograms> Study::Programs(const EstimateRequest& request,
                                               const SolvedSize& size) const {
  Key key;
  key.Add(size.name);
  key.Add(size.unit);
  return kept_->programs.Get(TextOf(Stage::kProgram, request) + std::move(key).text(),
                             [&] { return std::make_shared<BatchPrograms>(*this, request, size); });
}

bool RunAlike(const Program& a, const Program& b) {
  const auto same_place = [](const AtenCall& x, const AtenCall& y) { return x.where == y.where; };
  return SameProgram(a, b) &&
         std::equal(a.calls.begin(), a.calls.end(), b.calls.begin(), same_place);
}

}  // namespace onnxfit
