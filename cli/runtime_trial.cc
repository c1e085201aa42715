#include "cli/runtime_trial.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>
#include <span>

#include "cli/program_trial.h"
#include "cli/python_models.h"
#include "cli/work_folder.h"
#include "estimator/base/device_pages.h"
#include "estimator/base/error.h"
#include "estimator/memory/arena_sessions.h"
#include "estimator/onnx/shapes.h"
#include "estimator/onnx/weight_files.h"

namespace onnxfit {

extern const std::span<const unsigned char> kOnnxSessions;  // onnx_sessions.py

namespace {

constexpr size_t kOrders = 200;  // of weights that are played: seconds of no one's time
constexpr uint64_t kSeed = 1;
constexpr std::string_view kStrategy = "arena_extend_strategy";
constexpr std::string_view kLimit = "gpu_mem_limit";

// --- What is asked ------------------------------------------------------------------------------

std::vector<RuntimeInput> InputsOf(const Graph& graph, const Shapes& shapes) {
  std::vector<RuntimeInput> inputs;
  for (const ValueId value : graph.inputs) {
    const ValueType& type = shapes.types[static_cast<size_t>(value)];
    const std::string name(graph.values[static_cast<size_t>(value)].name);
    if (type.is_sequence || type.tensor.dtype == DType::kString) {
      throw Error({.where = "input " + name,
                   .text = fmt::format("expected a tensor of numbers for --runtime, found {}",
                                       type.is_sequence ? "a list" : "texts")});
    }
    inputs.push_back({name, type.tensor});
  }
  return inputs;
}

void WriteText(const std::string& path, std::string_view text) {
  std::ofstream file(path, std::ios::binary);
  file.write(text.data(), static_cast<std::streamsize>(text.size()));
  if (!file.good()) throw Error({.text = fmt::format("{} could not be written", path)});
}

// --- Running it ---------------------------------------------------------------------------------

[[noreturn]] void RefuseMissing(const ToldSessions& told) {
  const std::string python = DefaultPython();
  const std::string found =
      told.missing == "onnxruntime" ? "none" : fmt::format("{} without it", told.version);
  throw Error({.where = python,
               .text = fmt::format("expected onnxruntime with its CUDA provider, found {}", found),
               .hint = fmt::format("{} -m pip install \"onnxruntime-gpu[cuda,cudnn]\", which needs "
                                   "no card; ONNXFIT_PYTHON for another Python",
                                   python)});
}

std::optional<ToldSessions> ReadAnswer(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) return std::nullopt;
  return ReadSessions(std::string{std::istreambuf_iterator<char>(file), {}});
}

// The run below the card, and what its sessions tell.
struct RanSessions {
  ProgramRun run;
  ToldSessions told;
};

RanSessions RunSessions(const AskedSessions& asked, const WorkFolder& folder, const Target& target,
                        std::ostream& err) {
  const std::string script = folder.File("onnx_sessions.py");
  WriteText(script, {reinterpret_cast<const char*>(kOnnxSessions.data()), kOnnxSessions.size()});
  WriteText(folder.File("asked.json"), ToJson(asked));
  const std::string answer = folder.File("answer.json");
  const ProgramTrial trial = {
      .command = {DefaultPython(), "-B", script, folder.File("asked.json"), answer},
      .cards = {target},
      .is_silent = true};
  try {
    ProgramRun run = RunTrial(trial, err);
    const std::optional<ToldSessions> told = ReadAnswer(answer);
    if (told) return {std::move(run), *told};
  } catch (const Error&) {  // no card was used
    const std::optional<ToldSessions> told = ReadAnswer(answer);
    if (told && !told->missing.empty()) RefuseMissing(*told);
    throw;
  }
  throw Error({.where = DefaultPython(),
               .text = "expected an answer of ONNX Runtime's sessions, found none"});
}

// --- Playing it ---------------------------------------------------------------------------------

ArenaConfig ConfigOf(const RuntimeOptions& options) {
  ArenaConfig config;
  const auto strategy = options.provider.find(std::string(kStrategy));
  const bool is_same = strategy != options.provider.end() &&
                       (strategy->second == "kSameAsRequested" || strategy->second == "1");
  if (is_same) config.extend_strategy = ExtendStrategy::kSameAsRequested;
  const auto limit = options.provider.find(std::string(kLimit));
  if (limit != options.provider.end()) config.memory_limit_bytes = std::stoll(limit->second);
  return config;
}

// By run.  A request of an earlier run has been given back by then: it was an output.
std::vector<ArenaRun> RequestsOf(const ToldSessions& told) {
  auto before = static_cast<int64_t>(told.weights.size());  // that are given back, of all
  std::vector<ArenaRun> runs;
  for (const std::vector<int64_t>& asked : told.runs) {
    std::vector<int32_t> places;  // of those that took memory
    ArenaRun& run = runs.emplace_back();
    for (const int64_t request : asked) {
      if (request >= 0) {
        places.push_back(static_cast<int32_t>(run.size()));
        run.push_back({.bytes = request});
      } else if (const int64_t taken = -1 - request - before; taken >= 0) {
        run.push_back({.frees = places.at(static_cast<size_t>(taken))});
      }
    }
    before += static_cast<int64_t>(places.size());
  }
  return runs;
}

// Of what a session asks for, in so many orders of its weights.
class Player {
 public:
  explicit Player(const ToldSessions& told) : weights_(told.weights), runs_(RequestsOf(told)) {}

  // Each run asks as the first does, which knows no pattern yet.
  void ForgetPattern() { std::ranges::fill(runs_, ArenaRun(runs_.front())); }

  int64_t weight_bytes() const {
    int64_t bytes = 0;
    for (const int64_t weight : weights_) bytes += weight;
    return bytes;
  }

  // At once, weights included.
  int64_t most_bytes() const {
    int64_t most = weight_bytes();
    for (const ArenaRun& run : runs_) {
      int64_t live = weight_bytes();
      for (const ArenaRequest& request : run) {
        const bool frees = request.frees >= 0;
        live += frees ? -run[static_cast<size_t>(request.frees)].bytes : request.bytes;
        most = std::max(most, live);
      }
    }
    return most;
  }

  // With weights outside of the arena there is one order.
  std::vector<OrderBytes> Orders(const ArenaConfig& config, bool weights_are_outside) const {
    if (!weights_are_outside) return PlayOrders(weights_, runs_, config, kOrders, kSeed);
    std::vector<OrderBytes> orders = PlayOrders({}, runs_, config, 1, kSeed);
    orders[0].arena_bytes += weight_bytes();
    orders[0].page_bytes += PageBytesOf(weights_);
    return orders;
  }

 private:
  std::vector<int64_t> weights_;
  std::vector<ArenaRun> runs_;
};

// --- What it comes to ---------------------------------------------------------------------------

// What the card has beside the context and the arena's pages, at the most of the sessions.
int64_t MostBeside(const ToldSessions& told) {
  int64_t most = 0;
  for (const RuntimeSession& session : told.sessions) {
    if (session.used_bytes.empty()) continue;
    most = std::max(most, session.used_bytes.back() - session.page_bytes);
  }
  return most;
}

ByteRange RangeOf(const std::vector<OrderBytes>& orders, int64_t OrderBytes::*bytes,
                  int64_t beside = 0) {
  const auto [low, high] = std::ranges::minmax(orders, {}, bytes);
  return {low.*bytes + beside, high.*bytes + beside};
}

// The most of each session that came to its end.
std::optional<ByteRange> RangeOfSessions(const std::vector<RuntimeSession>& sessions) {
  std::optional<ByteRange> range;
  for (const RuntimeSession& session : sessions) {
    if (!session.error.empty()) continue;
    const int64_t most = *std::ranges::max_element(session.used_bytes);
    if (!range) range = {most, most};
    range = {std::min(range->low, most), std::max(range->high, most)};
  }
  return range;
}

struct SettingRow {
  std::string_view flag;
  bool is_same_as_requested;
  bool weights_are_outside;
  bool has_pattern;
};
constexpr SettingRow kSettings[] = {
    {"--session session.use_device_allocator_for_initializers=1", false, true, true},
    {"--provider-option arena_extend_strategy=kSameAsRequested", true, false, true},
    {"--session enable_mem_pattern=0", false, false, false},
};

// Each alone, where nobody has set any.
std::vector<PlayedSetting> PlaySettings(const Player& player, const RuntimeOptions& options,
                                        int64_t beside) {
  std::vector<PlayedSetting> played;
  if (!options.session.empty() || !options.provider.empty()) return played;
  for (const SettingRow& row : kSettings) {
    ArenaConfig config;
    if (row.is_same_as_requested) config.extend_strategy = ExtendStrategy::kSameAsRequested;
    Player set = player;
    if (!row.has_pattern) set.ForgetPattern();
    played.push_back({std::string(row.flag), RangeOf(set.Orders(config, row.weights_are_outside),
                                                     &OrderBytes::page_bytes, beside)});
  }
  return played;
}

// Whether the sessions had their weights outside of the arena's regions, each on its own or all as
// one (use_device_allocator_for_initializers; disable_prepacking with a memory pattern).
bool HasWeightsOutside(const ToldSessions& told, int64_t weight_bytes) {
  return std::ranges::any_of(told.sessions, [&](const RuntimeSession& session) {
    return session.reserved_bytes >= weight_bytes;
  });
}

// What the card leaves to the arena.
int64_t RoomOf(const RuntimeRun& run, int64_t beside) {
  return run.target.judgement.usable_bytes - run.context_bytes - beside;
}

void AddPlayed(const ToldSessions& told, const RuntimeOptions& options, RuntimeRun& run) {
  if (told.weights.empty() || told.runs.empty()) {
    run.open.push_back("other orders of its weights could not be played" +
                       (told.untraced.empty() ? "" : ": " + told.untraced));
    return;
  }
  const Player player(told);
  ArenaConfig config = ConfigOf(options);
  const int64_t beside = MostBeside(told);
  const bool is_outside = HasWeightsOutside(told, player.weight_bytes());
  const std::vector<OrderBytes> orders = player.Orders(config, is_outside);
  const ByteRange played = RangeOf(orders, &OrderBytes::page_bytes, beside);
  run.weight_bytes = player.weight_bytes();
  run.most_bytes = player.most_bytes();
  run.orders = static_cast<int64_t>(orders.size());
  config.capacity_bytes = std::max<int64_t>(RoomOf(run, beside), 1);
  run.failed_orders =
      std::ranges::count(player.Orders(config, is_outside), false, &OrderBytes::fits);
  run.arena = RangeOf(orders, &OrderBytes::arena_bytes);
  const ByteRange seen = RangeOfSessions(run.sessions).value_or(played);
  run.bytes = {std::min(seen.low, played.low), std::max(seen.high, played.high)};
  run.settings = PlaySettings(player, options, beside);
}

std::string FirstError(const std::vector<RuntimeSession>& sessions) {
  for (const RuntimeSession& session : sessions) {
    if (!session.error.empty()) return session.error;
  }
  return "";
}

// The card's own verdict on the sessions that ran, and what other orders of the weights would do.
void JudgeSessions(RuntimeRun& run) {
  Judgement& judgement = run.target.judgement;
  const ContextBytes& context = run.target.target.device.context;
  const int64_t endless = std::max(judgement.used_bytes, run.bytes.high + run.context_bytes);
  judgement.used_bytes = std::min(endless, judgement.usable_bytes);
  judgement.low_bytes = run.bytes.low + context.low;
  judgement.high_bytes = run.bytes.high + context.high;
  const std::string error = FirstError(run.sessions);
  if (!error.empty() || run.failed_orders > 0) {
    judgement.verdict = Verdict::kOom;
    judgement.used_bytes = endless;
    judgement.reasons.assign(
        1, error.empty() ? fmt::format("{} of {} orders of the weights find no room, and which one "
                                       "a session has is chance",
                                       run.failed_orders, run.orders)
                         : error);
  } else if (judgement.high_bytes > judgement.usable_bytes) {
    judgement.verdict = Verdict::kTight;
    judgement.reasons.push_back(
        "in some order of its weights the arena gets less than it asks for, and goes on");
  }
}

// What ONNX Runtime says of the file, where it is no question of memory.
void CheckSessions(const RanSessions& ran, const std::string& model) {
  const std::string error = FirstError(ran.told.sessions);
  if (error.empty() || ran.run.cards.front().judgement.retries > 0) return;
  throw Error({.file = model,
               .text = fmt::format("expected a session of ONNX Runtime {}, found: {}",
                                   ran.told.version, error)});
}

}  // namespace

RuntimeRun RunOnRuntime(const Options& options, const Graph& graph, const Target& target,
                        std::ostream& err) {
  const Shapes shapes = BindShapes(graph, options.request.binding);
  const WorkFolder folder("a session of ONNX Runtime");
  const std::vector<WeightFile> files = ReadWeightFiles(options.model);
  const RanSessions ran =
      RunSessions({.model = CopyWithoutWeights(options.model, files, folder.File("")),
                   .inputs = InputsOf(graph, shapes),
                   .session = options.runtime.session,
                   .provider = options.runtime.provider,
                   .log = folder.File("log")},
                  folder, target, err);
  CheckSessions(ran, options.model);
  RuntimeRun run = {.runtime = "ONNX Runtime " + ran.told.version,
                    .model = options.model,
                    .batch = shapes.batch,
                    .context_bytes = ran.told.context_bytes,
                    .sessions = ran.told.sessions};
  run.target = ran.run.cards.front();
  run.bytes = RangeOfSessions(run.sessions).value_or(ByteRange{});
  AddPlayed(ran.told, options.runtime, run);
  JudgeSessions(run);
  run.open.push_back(
      "inputs are zeros on the host, as session.run() takes them: sizes that follow "
      "from their values are those of zeros");
  return run;
}

}  // namespace onnxfit
