// Who asks for memory: frameworks, libraries, servers, systems; by which words of a log they are
// known, and what each of them can do about it.  Internal to the room oom/.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "estimator/oom/explanation.h"
#include "estimator/oom/formats.h"

namespace onnxfit {

struct OomProgram {
  enum class Kind : uint8_t {
    kTrains,    // has tensors and batches
    kServes,    // answers with a model: nothing to train, no batch of one's own
    kComputes,  // anything else that asks for memory itself
    kEnds,      // ends others for want of memory
  };
  std::string_view name;
  OomFamily family = OomFamily::kCard;
  Kind kind = Kind::kComputes;
  std::string_view signs = {};  // words of its paths and lines, "|" between them; "" for none
};

// Those that build on others first: a server goes before the framework that it runs.
std::span<const OomProgram> OomPrograms();
const OomProgram* FindProgram(std::string_view name);  // null for one that has no row

// The program whose words stand in a text without white space in lower case; null without any.
const OomProgram* ProgramIn(std::string_view letters);

// What a program's users can do, in its own words.
struct OomAdvice {
  enum class About : uint8_t { kAny, kCard, kRam, kGpu };  // kGpu: no TPU
  std::string_view program;
  Help help = Help::kMaybe;
  std::string_view what;
  std::string_view why;
  About about = About::kAny;
};

// What can be done about some messages of programs.
struct OomMessageAdvice {
  std::string_view messages;  // names of OomFormats(), "|" between them
  Help help = Help::kMaybe;
  std::string_view what;
  std::string_view why;
};
std::span<const OomMessageAdvice> MessageAdvice();
bool IsListed(std::string_view names, std::string_view name);  // of names with "|" between them

std::span<const OomAdvice> ProgramAdvice();  // of frameworks, servers and libraries
std::span<const OomAdvice> SystemAdvice();   // of systems, languages and data bases

}  // namespace onnxfit
