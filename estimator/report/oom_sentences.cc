#include "estimator/report/oom_sentences.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>

#include "estimator/base/bytes.h"
#include "estimator/fit/oom_formats.h"
#include "estimator/report/why_text.h"

namespace onnxfit {
namespace {

constexpr size_t kCandidates = 6;

std::string SizeRange(const OomRequest& request) {
  const std::string low = FormatBytes(request.low_bytes);
  const std::string high = FormatBytes(request.high_bytes);
  return low == high ? high : low + " to " + high;
}

void AddCandidates(const OomReplay& replay, ReplaySentences& said) {
  if (!replay.asks) {
    said.asked = "The message does not say how much was asked for.";
    return;
  }
  if (replay.candidates.empty()) {
    said.asked =
        "No allocation of this model asks for that many bytes: another batch, other flags, or "
        "another model.";
    return;
  }
  // Where some match, the others are not who asked.
  const auto matching =
      static_cast<size_t>(std::count_if(replay.candidates.begin(), replay.candidates.end(),
                                        [](const Asked& asked) { return asked.matches; }));
  const size_t count = matching > 0 ? matching : replay.candidates.size();
  said.asked =
      matching > 0 ? "Who asks for that size, with as much allocated:" : "Who asks for that size:";
  for (size_t i = 0; i < std::min(kCandidates, count); ++i) {
    const Asked& asked = replay.candidates[i];
    said.candidates.push_back(
        fmt::format("{}, {}, {}", asked.tensor, ToString(asked.type), InstantText(asked.when)));
  }
  if (count > kCandidates)
    said.candidates.push_back(fmt::format("and {} more", count - kCandidates));
}

std::string ContextText(const OomReplay& replay) {
  if (replay.context_of.empty()) return "";
  const ContextBytes& context = replay.context;
  const std::string range =
      context.low == context.high
          ? FormatBytes(context.bytes)
          : fmt::format("{} to {}", FormatBytes(context.low), FormatBytes(context.high));
  const bool is_its = replay.context_of == replay.card_name;
  return fmt::format(" ({}, {}, taken off)",
                     is_its ? "its context" : "the context of " + replay.context_of, range);
}

// "the Tesla T4 with ", "" where the card is the message's.
std::string CardText(const OomReplay& replay) {
  if (replay.card_name.empty()) return "";
  return fmt::format("{}the {} with ", replay.is_another ? "another card, " : "", replay.card_name);
}

std::string OnCard(const OomReplay& replay) {
  if (replay.card_bytes == 0) {
    return "The message does not say how large the card is: name it with --gpu.";
  }
  const std::string card =
      fmt::format("On {}{} for its tensors and cache{}, batch {} ", CardText(replay),
                  FormatBytes(replay.card_bytes), ContextText(replay), replay.batch);
  if (!replay.fails_at) {
    const std::string dropouts =
        replay.may_have_lost_dropouts
            ? ", or has more dropouts than this file shows: an export in eval mode loses them "
              "(--dropout)"
            : "";
    return card +
           "runs ten steps here: your run differs in batch, precision, optimizer or another flag" +
           dropouts + ".";
  }
  const std::string reading =
      replay.reading.empty()
          ? ""
          : fmt::format("runs ten steps here as guessed; with {}, which the file leaves open, it ",
                        replay.reading);
  return card + reading +
         fmt::format("fails in {}, asking for {}.", InstantText(replay.fails_at->when),
                     PyTorchBytes(replay.fails_at->tried_bytes));
}

// The batch that the log shows failing is one more.
std::string BelowFailureText(const LargestBatch& largest) {
  const std::string why = fmt::format("your log shows {} failing; by this file alone: {}.",
                                      largest.batch + 1, *largest.by_file);
  return largest.batch == 0
             ? "No smaller batch to try: " + why
             : fmt::format("The largest batch to try: {}, as {}", largest.batch, why);
}

std::string LargestText(const LargestBatch& largest, bool assumes_context) {
  if (largest.by_file) return BelowFailureText(largest);
  if (largest.batch == 0 && !largest.at_most) return "Not even a batch of 1 runs.";
  const std::string more = largest.at_most
                               ? fmt::format(" ({} if {})", *largest.at_most,
                                             assumes_context ? "the card gives all that it may"
                                                             : "the message rounded in your favour")
                               : "";
  return fmt::format("The largest batch that runs: {}{}.", largest.batch, more);
}

}  // namespace

std::string VerdictName(OomVerdict verdict) {
  std::string name(ToString(verdict));
  for (char& c : name) c = c == ' ' ? '_' : static_cast<char>(std::tolower(c));
  return name;
}

std::string WhereText(const OomExplanation& e) {
  const OomMessage& m = e.message;
  std::string text = m.process.empty() ? "" : m.process + ", ";
  text += fmt::format("line {}, {}", m.line, ToString(m.format->family));
  if (!m.format->versions.empty()) text += fmt::format(" {}", m.format->versions);
  if (m.gpu) text += fmt::format(", GPU {}", *m.gpu);
  if (e.more > 0) text += fmt::format("; {} more of this process", e.more);
  return text;
}

std::string ErrorText(const OomPart& part, bool ascii) {
  return part.error == 0 ? "" : (ascii ? "+-" : "±") + FormatBytes(part.error);
}

std::vector<std::string> RequestSentences(const OomRequest& request) {
  std::vector<std::string> sentences = {fmt::format("A tensor of {}.", SizeRange(request))};
  sentences.insert(sentences.end(), request.notes.begin(), request.notes.end());
  if (!request.factors.empty()) {
    sentences.push_back(fmt::format("{} = {} bytes.", request.high_bytes, request.factors));
  }
  std::string shapes;
  for (const TensorType& shape : request.shapes) {
    shapes += (shapes.empty() ? "" : ", ") + ToString(shape);
  }
  if (!shapes.empty()) {
    sentences.push_back(fmt::format("Shapes of that size (a guess): {}.", shapes));
  }
  return sentences;
}

ReplaySentences SentencesOf(const OomReplay& replay) {
  ReplaySentences said;
  AddCandidates(replay, said);
  said.on_card.push_back(OnCard(replay));
  if (replay.largest) {
    said.on_card.push_back(LargestText(*replay.largest, !replay.context_of.empty()));
  }
  return said;
}

}  // namespace onnxfit
