// A message as remedies and commands look at it.  Internal to the room oom/.
#pragma once

#include <algorithm>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "estimator/oom/explanation.h"
#include "estimator/oom/formats.h"
#include "estimator/oom/programs.h"

namespace onnxfit {

// A message and what is known of it.
struct RemedyCase {
  const OomMessage& message;
  const OomFacts& facts;
  const OomJudgement& judgement;

  bool Is(OomVerdict verdict) const { return judgement.verdict == verdict; }
  OomFamily family() const { return message.format->family; }
  bool IsPyTorch() const { return family() == OomFamily::kPyTorch; }
  bool IsOfTpu() const { return message.format->name.starts_with("xla-tpu"); }
  bool IsOfHost() const { return IsHostMemory(family()); }
  // Programs that serve a model: there is no batch to choose, nor anything to train.
  bool Serves() const { return HasLayers() || IsOfKind(OomProgram::Kind::kServes); }
  // Those of them whose flags are told here.
  bool HasLayers() const { return family() == OomFamily::kVllm || IsLlamaCpp(); }
  // Started by itself: Ollama and others that run it have settings of their own.
  bool IsLlamaCpp() const {
    const bool is_within = !message.app.empty() && IsOfKind(OomProgram::Kind::kServes);
    return family() == OomFamily::kLlamaCpp && !is_within;
  }
  // Of who says it, or who called it.
  bool IsOfKind(OomProgram::Kind kind) const {
    const OomProgram* program =
        FindProgram(message.app.empty() ? ProgramOf(*message.format) : message.app);
    return program != nullptr && program->kind == kind;
  }
  // Who ended the process was short of RAM: what its program does with a card is not the matter.
  bool IsAppOfCard(std::string_view name) const {
    if (!IsOfHost() || name != message.app || message.format->rank != OomRank::kSign) return false;
    const OomProgram* program = FindProgram(name);
    return program != nullptr && !IsHostMemory(program->family);
  }
  bool Fits(const OomAdvice& advice) const {
    const bool is_theirs =
        advice.program == message.app || advice.program == ProgramOf(*message.format);
    if (advice.about == OomAdvice::About::kGpu && IsOfTpu()) return false;
    if (advice.about == OomAdvice::About::kAny && IsAppOfCard(advice.program)) return false;
    return is_theirs &&
           advice.about != (IsOfHost() ? OomAdvice::About::kCard : OomAdvice::About::kRam);
  }
  // Whether its program, or this message of it, has advice in words of its own.
  bool HasOwn() const {
    const auto fits = [this](const OomAdvice& advice) { return Fits(advice); };
    const auto is_its = [this](const OomMessageAdvice& advice) {
      return IsListed(advice.messages, message.format->name);
    };
    return std::ranges::any_of(ProgramAdvice(), fits) ||
           std::ranges::any_of(SystemAdvice(), fits) ||
           std::ranges::any_of(MessageAdvice(), is_its);
  }
  // Who ends others knows what they may take.
  bool IsOfLimit() const { return facts.resource == OomResource::kLimit; }
  // Less of anything helps, and others that end.
  bool IsOfAllMemory() const { return IsAllMemory(facts.resource); }
  // Who was ended may be anybody: loaders of data, as often as not.
  bool MayBePyTorch() const {
    if (family() == OomFamily::kHost || message.app == "PyTorch") return true;
    if (ProgramOf(*message.format).starts_with("PyTorch")) return true;
    if (Is("sigkill") && message.app == "DeepSpeed") return true;
    if (!message.app.empty() || Is("llamacpp-cpu")) return false;
    // The kernel says whom it ended.
    if (message.format->name.starts_with("kernel-") && !message.told.empty())
      return IsListed("python|python3|pt_", message.told);
    return message.format->pattern == nullptr || IsOfKind(OomProgram::Kind::kEnds);
  }
  // A program that asks for RAM itself, and knows what to do about it.
  bool IsOwnRam() const { return IsOfHost() && HasOwn() && IsOfKind(OomProgram::Kind::kComputes); }
  // Whether loading data may be what took it.
  bool MayBeLoading() const {
    return IsOfHost() && IsOfAllMemory() && !facts.tried && MayBePyTorch();
  }
  bool Is(std::string_view format) const { return message.format->name == format; }
  // This message, or another one of its process.
  bool Says(std::string_view format) const { return Is(format) || message.IsBeside(format); }
};

// Whether and why a change helps.
struct Answer {
  Help help;
  std::string why;
};
struct RemedyRow {
  std::string_view what;
  std::optional<Answer> (*judge)(const RemedyCase& c);
  bool is_of_training = false;
};
std::span<const RemedyRow> RemediesOfCard();
std::span<const RemedyRow> RemediesOfRam();
std::span<const RemedyRow> RemediesOfServers();
std::span<const RemedyRow> RemediesOfTraining();

inline std::string TextOf(const std::optional<Amount>& amount) {
  return amount ? ToString(*amount) : "an unknown size";
}

// For sure, whatever rounds to these numbers.
inline bool SurelyMore(const Amount& a, const Amount& b) {
  return a.bytes - b.bytes > a.error + b.error;
}

// Which option of PyTorch's allocator is there against fragmentation: none before 1.10, growing
// segments from 2.1 on.
std::string_view OptionOf(const OomMessage& message);

}  // namespace onnxfit
