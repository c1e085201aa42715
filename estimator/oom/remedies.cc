// What helps after a message: first what is told of it alone, then what its program's users can
// do, then what its numbers say.
#include <algorithm>
#include <array>

#include "estimator/oom/explanation.h"
#include "estimator/oom/formats.h"
#include "estimator/oom/programs.h"
#include "estimator/oom/remedy_case.h"

namespace onnxfit {
namespace {

constexpr std::string_view kHelpNames[] = {"yes", "maybe", "no"};

class Remedies {
 public:
  explicit Remedies(const RemedyCase& c) : case_(c) {}

  void AddOfMessage() {
    for (const OomMessageAdvice& row : MessageAdvice()) {
      if (IsListed(row.messages, case_.message.format->name)) Add(row.what, row.help, row.why);
    }
  }

  // What its program does against a full memory is second to what is told of this message, and
  // nothing where something else was short.
  void AddOfProgram() {
    if (!IsAllMemory(case_.facts.resource)) return;
    const bool is_sign = case_.message.format->rank == OomRank::kSign;  // who it was is not told
    const bool is_second = !remedies_.empty() && !is_sign;
    for (const auto rows : {ProgramAdvice(), SystemAdvice()}) {
      for (const OomAdvice& row : rows) {
        if (!case_.Fits(row)) continue;
        Add(row.what, is_second ? std::max(row.help, Help::kMaybe) : row.help, row.why);
      }
    }
  }

  void AddByNumbers() {
    for (const auto rows :
         {RemediesOfCard(), RemediesOfRam(), RemediesOfServers(), RemediesOfTraining()}) {
      for (const RemedyRow& row : rows) {
        const auto answer = row.judge(case_);
        if (answer) Add(row.what, answer->help, answer->why, row.is_of_training);
      }
    }
  }

  // What helps first, and before all who holds the memory.
  std::vector<OomRemedy> Sorted() && {
    std::ranges::stable_sort(remedies_, {}, &OomRemedy::help);
    const auto others = std::ranges::find(remedies_, "ending other processes", &OomRemedy::what);
    if (case_.Is(OomVerdict::kOtherProcess) && others != remedies_.end()) {
      std::rotate(remedies_.begin(), others, others + 1);
    }
    return std::move(remedies_);
  }

 private:
  // The same change is told once.
  void Add(std::string_view what, Help help, std::string_view why, bool is_of_training = false) {
    const bool is_told = std::ranges::find(remedies_, what, &OomRemedy::what) != remedies_.end();
    if (is_told) return;
    remedies_.push_back({std::string(what), help, std::string(why), is_of_training});
  }

  const RemedyCase& case_;
  std::vector<OomRemedy> remedies_;
};

}  // namespace

std::string_view ToString(Help help) { return kHelpNames[static_cast<size_t>(help)]; }

bool IsListed(std::string_view names, std::string_view name) {
  while (!names.empty()) {
    const size_t bar = std::min(names.find('|'), names.size());
    if (names.substr(0, bar) == name) return true;
    names.remove_prefix(std::min(bar + 1, names.size()));
  }
  return false;
}

std::vector<OomRemedy> RemediesFor(const OomMessage& message, const OomFacts& facts,
                                   const OomJudgement& judgement) {
  const RemedyCase c = {message, facts, judgement};
  Remedies remedies(c);
  remedies.AddOfMessage();
  remedies.AddOfProgram();
  remedies.AddByNumbers();
  return std::move(remedies).Sorted();
}

}  // namespace onnxfit
