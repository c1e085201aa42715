#include "estimator/report/serving_engine.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <string_view>
#include <utility>

#include "estimator/base/bytes.h"
#include "estimator/base/error.h"
#include "estimator/report/layout.h"
#include "estimator/report/program_run_parts.h"

namespace onnxfit {
namespace {

// --- Engines ------------------------------------------------------------------------------------

// How an engine's own flags are called, what its share is a share of, and what lies beside it.
struct EngineWords {
  std::string_view name;
  std::string_view share;
  std::string_view longest;
  std::string_view most_requests;
  std::string_view share_of;
  std::string_view beside;
};

constexpr std::array<EngineWords, 2> kEngines = {{
    {"vLLM", "--gpu-memory-utilization", "--max-model-len", "--max-num-seqs", "the card", ""},
    // Its manual has a share of the card; it reckons with a share of what was free as it began
    // (sglang/srt/mem_cache/kv_cache_configurator.py, 0.5.23).
    {"SGLang", "--mem-fraction-static", "--context-length", "--max-running-requests",
     "what was free", "what a step and CUDA graphs take lies beside its share"},
}};

// Another engine's are vLLM's: it was the first.
const EngineWords& WordsOf(const ServingEngine& engine) {
  const auto* found = std::ranges::find(kEngines, engine.name, &EngineWords::name);
  return found == kEngines.end() ? kEngines.front() : *found;
}

// --- Reading it, and writing JSON ---------------------------------------------------------------

// All members, with the names that the hook and JSON have for them.
template <class Engine, class Visit>
void VisitMembers(Engine& engine, const Visit& visit) {
  visit("engine", engine.name);
  visit("version", engine.version);
  visit("share", engine.share);
  visit("total_bytes", engine.total_bytes);
  visit("free_bytes", engine.free_bytes);
  visit("budget_bytes", engine.budget_bytes);
  visit("weight_bytes", engine.weight_bytes);
  visit("consumed_bytes", engine.consumed_bytes);
  visit("activation_bytes", engine.activation_bytes);
  visit("graph_estimate_bytes", engine.graph_estimate_bytes);
  visit("graph_bytes", engine.graph_bytes);
  visit("available_bytes", engine.available_bytes);
  visit("kv_bytes", engine.kv_bytes);
  visit("kv_tokens", engine.kv_tokens);
  visit("kv_groups", engine.kv_groups);
  visit("kv_requests", engine.kv_requests);
  visit("kv_type", engine.kv_type);
  visit("block_tokens", engine.block_tokens);
  visit("longest", engine.longest);
  visit("longest_of_model", engine.longest_of_model);
  visit("most_requests", engine.most_requests);
  visit("most_tokens", engine.most_tokens);
  visit("needed_bytes", engine.needed_bytes);
  visit("longest_that_fits", engine.longest_that_fits);
  visit("least_share", engine.least_share);
}

void Add(const Json& json, ServingEngine& engine) {
  if (json.contains("kv_tokens")) ++engine.cores;
  VisitMembers(engine, [&](const char* name, auto& member) {
    using Member = std::remove_reference_t<decltype(member)>;
    if (member == Member() && json.contains(name)) member = json.at(name).get<Member>();
  });
}

}  // namespace

std::optional<ServingEngine> ReadServingEngine(const std::vector<std::string>& jsons) {
  if (jsons.empty()) return std::nullopt;
  ServingEngine engine;
  try {
    for (const std::string& json : jsons) Add(Json::parse(json), engine);
  } catch (const nlohmann::json::exception& error) {
    throw Error({.text = fmt::format("what the engine said of itself: {}", error.what())});
  }
  return engine;
}

Json EngineJson(const ServingEngine& engine) {
  Json json = Json::object();
  VisitMembers(engine, [&](const char* name, const auto& member) {
    using Member = std::remove_cvref_t<decltype(member)>;
    if (member != Member()) json[name] = member;
  });
  if (engine.cores > 1) json["cores"] = engine.cores;
  return json;
}

namespace {

// --- Its memory ---------------------------------------------------------------------------------

// "131,072"
std::string Grouped(int64_t number) {
  std::string text = std::to_string(number);
  for (auto at = static_cast<std::ptrdiff_t>(text.size()) - 3; at > 0; at -= 3) {
    text.insert(static_cast<size_t>(at), ",");
  }
  return text;
}

std::string Tokens(int64_t count) { return Grouped(count) + (count == 1 ? " token" : " tokens"); }

}  // namespace

// A cache's bytes are the budget less the rest, so that these are all of it.
std::vector<EngineShare> EngineShares(const ServingEngine& engine) {
  const std::string step =
      engine.most_tokens > 0 ? fmt::format("a step of {}", Tokens(engine.most_tokens)) : "a step";
  std::vector<EngineShare> shares = {
      {engine.weight_bytes, "weights"},
      {engine.consumed_bytes - engine.weight_bytes, "what lives beside them"},
      {engine.activation_bytes, step + " at its peak"},
      {engine.graph_estimate_bytes, "CUDA graphs, as it estimates them"},
      {engine.kv_bytes > 0 ? engine.kv_bytes : engine.available_bytes, "keys and values"}};
  std::erase_if(shares, [](const EngineShare& share) { return share.bytes <= 0; });
  return shares;
}

std::string EngineTitle(const ServingEngine& engine) {
  const std::string title = fmt::format("{} {}", engine.name, engine.version);
  if (engine.budget_bytes <= 0) return title;  // SGLang's own share of a tiny card is below 0
  return title + fmt::format(", told to use {:.4g} of {}: {}", engine.share,
                             WordsOf(engine).share_of, FormatBytes(engine.budget_bytes));
}

namespace {

std::string MemoryTable(const ServingEngine& engine) {
  std::vector<std::vector<Cell>> rows;
  for (const EngineShare& share : EngineShares(engine)) {
    rows.push_back({{FormatBytes(share.bytes)}, {share.what}});
  }
  if (rows.empty()) return "";
  return fmt::format("\n{}\n", EngineTitle(engine)) + Table(rows, "rl", kIndent);
}

// --- What it can serve --------------------------------------------------------------------------

std::string CacheSentence(const ServingEngine& engine) {
  if (engine.kv_tokens == 0) return "";
  const std::string each =
      engine.cores > 1 ? fmt::format(" in each of {} cores", engine.cores) : "";
  std::string type = engine.kv_type.empty() ? "" : " of " + engine.kv_type;
  const std::string as = engine.kv_groups > 1 ? " (of requests of the longest context)" : "";
  return fmt::format("keys and values{} of {}{} have room{}, in blocks of {}", type,
                     Tokens(engine.kv_tokens), as, each, engine.block_tokens);
}

std::string LongestSentence(const ServingEngine& engine) {
  if (engine.kv_tokens == 0) return "";
  std::string whose;
  if (engine.longest_of_model > 0) {
    whose = engine.longest >= engine.longest_of_model
                ? ", all that the model has"
                : fmt::format(" of the model's {}", Grouped(engine.longest_of_model));
  }
  std::string text = fmt::format("a request may have {}{}", Tokens(engine.longest), whose);
  if (engine.kv_requests > 0) {
    text += fmt::format("; {:.2f} such requests have room at once", engine.kv_requests);
  }
  if (engine.most_requests > 0) {
    text += fmt::format(", and it runs {} at most", Grouped(engine.most_requests));
  }
  return text;
}

// How many of a usual length, where it is shorter than the longest.  Not where layers see windows:
// of these a short request needs nearly as much as a long one.
std::string UsualSentence(const ServingEngine& engine) {
  constexpr int64_t kUsual = 2048;
  if (engine.kv_groups != 1 || engine.kv_tokens == 0 || engine.longest <= kUsual ||
      engine.most_requests == 0)
    return "";
  const int64_t at_once = std::min(engine.kv_tokens / kUsual, engine.most_requests);
  if (engine.kv_tokens / kUsual >= engine.most_requests) {
    return fmt::format("{}, not memory, is the limit of requests of {}",
                       WordsOf(engine).most_requests, Tokens(kUsual));
  }
  return fmt::format("about {} requests of {} have room at once", Grouped(at_once), Tokens(kUsual));
}

// --- What to change -----------------------------------------------------------------------------

// The share that leaves room for one request of the longest context, if the card has it.
std::string ShareSentence(const ServingEngine& engine) {
  const int64_t more = engine.needed_bytes - engine.available_bytes;
  if (engine.total_bytes == 0 || engine.budget_bytes + more > engine.free_bytes) return "";
  const double share = std::ceil(static_cast<double>(engine.budget_bytes + more) /
                                 static_cast<double>(engine.total_bytes) * 1000) /
                       1000;
  return fmt::format("{} {:.3f} has room for it on a card of its own", WordsOf(engine).share,
                     share);
}

// Weights, and what lives beside them, are more than its share.  Rounded up, as it rounds.
std::vector<std::string> ShareRefusedSentences(const ServingEngine& engine) {
  return {fmt::format("{} refused to start: weights and what lives beside them take {}, which "
                      "leaves nothing for keys and values",
                      engine.name, FormatBytes(engine.consumed_bytes)),
          fmt::format("{} has to be above {:.3f}, as it says", WordsOf(engine).share,
                      std::ceil(engine.least_share * 1000) / 1000)};
}

std::vector<std::string> RefusedSentences(const ServingEngine& engine) {
  if (engine.least_share > 0) return ShareRefusedSentences(engine);
  if (engine.needed_bytes == 0) return {};
  std::vector<std::string> sentences = {fmt::format(
      "{} refused to start: one request of {} needs {} of keys and values, and {} are left",
      engine.name, Tokens(engine.longest), FormatBytes(engine.needed_bytes),
      FormatBytes(std::max<int64_t>(engine.available_bytes, 0)))};
  if (engine.longest_that_fits > 0) {
    sentences.push_back(fmt::format("{} {} is the longest that has room, as it says",
                                    WordsOf(engine).longest, engine.longest_that_fits));
  }
  if (const std::string share = ShareSentence(engine); !share.empty()) sentences.push_back(share);
  return sentences;
}

std::string GraphSentence(const ServingEngine& engine) {
  if (engine.graph_bytes == 0 && engine.graph_estimate_bytes == 0) return "";
  if (engine.graph_estimate_bytes == 0) {
    return fmt::format(
        "CUDA graphs took {} as they were captured; what the driver takes for them "
        "beside their tensors is counted as none",
        FormatBytes(engine.graph_bytes));
  }
  return "what the driver takes for CUDA graphs beside their tensors is counted as none, so that a "
         "card has somewhat fewer tokens";
}

}  // namespace

std::vector<std::string> EngineSentences(const ServingEngine& engine) {
  std::vector<std::string> sentences = RefusedSentences(engine);
  sentences.push_back(CacheSentence(engine));
  sentences.push_back(LongestSentence(engine));
  sentences.push_back(UsualSentence(engine));
  sentences.emplace_back(engine.kv_tokens > 0 ? WordsOf(engine).beside : "");
  sentences.push_back(GraphSentence(engine));
  std::erase(sentences, "");
  return sentences;
}

std::string EngineText(const ServingEngine& engine, const RunPage& page) {
  std::string text = MemoryTable(engine);
  for (const std::string& sentence : EngineSentences(engine)) {
    text += Wrap("  - ", page.Shown(sentence));
  }
  return text;
}

}  // namespace onnxfit
