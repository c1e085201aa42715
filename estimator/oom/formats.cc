#include "estimator/oom/formats.h"

#include <algorithm>
#include <deque>
#include <iterator>

#include "estimator/oom/programs.h"

namespace onnxfit {
namespace {

constexpr std::string_view kFamilies[] = {
    "PyTorch",
    "PyTorch on Apple's MPS",
    "PyTorch on the CPU",
    "TensorFlow",
    "Theano",
    "PaddlePaddle",
    "JAX/XLA",
    "ONNX Runtime",
    "TensorRT",
    "Jetson",
    "CUDA",
    "PyTorch with cudaMallocAsync",
    "vLLM",
    "llama.cpp",
    "the machine's RAM",
    "a card",
};
static_assert(std::size(kFamilies) == static_cast<size_t>(OomFamily::kCard) + 1);

constexpr std::string_view kResources[] = {"card",           "ram",      "limit",    "pinned",
                                           "shared_memory",  "mappings", "promised", "request",
                                           "one_allocation", "on_chip",  "disk",     "files",
                                           "sessions"};
static_assert(std::size(kResources) == static_cast<size_t>(OomResource::kSessions) + 1);

// Words by which programs without a row say it.
constexpr std::string_view kLooseHeads[] = {
    "outofmemory",      "outofmem",           "notenoughmemory",     "insufficientmemory",
    "failedtoallocate", "unabletoallocate",   "couldnotallocate",    "cannotallocate",
    "can'tallocate",    "allocationfailed",   "allocationfailure",   "memoryexhausted",
    "failedtomalloc",   "notenoughram",       "insufficientram",     "outofram",
    "outofgpumem",      "notenoughvram",      "insufficientvram",    "memorylimit",
    "ranoutofmemory",   "memoryisfull",       "memoryallocationerr", "lowmemory",
    "nomemory",         "oomerror",           "errorallocating",     "allocfailed",
    "mallocfailed",     "memoryallocation",   "exceedsmemory",       "memoryexceeded",
    "outofcudamemory",  "notenoughdevicemem", "notenoughgpu",        "insufficientgpu",
    "out_of_memory",    "outofhostmemory",    "no_memory",           "insufficient_memory",
    "allottedmemory",   "memorybudget",       "exceededmemory",      "memoryfull",
    "vramexhausted",    "heapexhausted",      "allocationof",        "outofheap",
};

constexpr OomFormat kLoose[] = {
    {"other", OomFamily::kCard, "", OomRank::kLoose, "", "", "", "another program"},
    {"other-card", OomFamily::kCard, "", OomRank::kLoose, "", "", "", "another program"},
    {"other-ram", OomFamily::kRam, "", OomRank::kLoose, "", "", "", "another program"},
};

// "A || B" is two wordings.
std::vector<std::string_view> WordingsOf(std::string_view says) {
  constexpr std::string_view kOr = " || ";
  std::vector<std::string_view> wordings;
  for (size_t bar = says.find(kOr); bar != std::string_view::npos; bar = says.find(kOr)) {
    wordings.push_back(says.substr(0, bar));
    says.remove_prefix(bar + kOr.size());
  }
  wordings.push_back(says);
  return wordings;
}

OomFamily FamilyOf(const OomRow& row) {
  if (IsOfHost(row.resource)) return OomFamily::kRam;
  const OomProgram* program = FindProgram(row.program);
  return program == nullptr ? OomFamily::kCard : program->family;
}

// All rows as formats, with the patterns that they are read by.
class Table {
 public:
  Table() {
    Add(PhraseFormats());
    for (const auto rows : {FrameworkRows(), ServerRows(), LibraryRows(), GraphicsRows(),
                            SystemRows(), RuntimeRows()}) {
      for (const OomRow& row : rows) Add(row);
    }
    Add(CutFormats());
  }

  const std::vector<OomFormat>& formats() const { return formats_; }

 private:
  void Add(std::span<const OomFormat> formats) {
    formats_.insert(formats_.end(), formats.begin(), formats.end());
  }

  void Add(const OomRow& row) {
    for (const std::string_view wording : WordingsOf(row.says)) {
      const OomPattern& pattern = patterns_.emplace_back(ReadPattern(wording));
      formats_.push_back({.name = row.name,
                          .family = FamilyOf(row),
                          .versions = row.versions,
                          .rank = row.rank,
                          .head = pattern.Head(),
                          .mark = "",
                          .source = row.source,
                          .program = row.program,
                          .pattern = &pattern,
                          .headline = row.headline,
                          .meaning = row.meaning,
                          .resource = row.resource});
    }
  }

  std::deque<OomPattern> patterns_;
  std::vector<OomFormat> formats_;
};

}  // namespace

std::string_view ToString(OomFamily family) { return kFamilies[static_cast<size_t>(family)]; }

bool IsAnybodys(const OomFormat& format) {
  constexpr std::string_view kAnybody[] = {"Python", "a program in C++", "the system",
                                           "a program on the card"};
  return std::ranges::find(kAnybody, format.program) != std::end(kAnybody);
}

std::string_view ProgramOf(const OomFormat& format) {
  return format.program.empty() ? ToString(format.family) : format.program;
}

bool IsHostMemory(OomFamily family) {
  return family == OomFamily::kHost || family == OomFamily::kRam;
}

std::string_view ToString(OomResource resource) {
  return kResources[static_cast<size_t>(resource)];
}

bool IsOfHost(OomResource resource) {
  return resource != OomResource::kOfProgram && resource != OomResource::kBuffer &&
         resource != OomResource::kOnChip && resource != OomResource::kSessions;
}

bool IsMemory(OomResource resource) { return resource < OomResource::kDisk; }

bool IsAllMemory(OomResource resource) { return resource <= OomResource::kLimit; }

std::span<const OomFormat> OomFormats() {
  static const Table table;
  return table.formats();
}

const OomFormat& LooseFormat(bool is_card, bool is_ram) {
  if (is_card == is_ram) return kLoose[0];
  return kLoose[is_card ? 1 : 2];
}

std::span<const std::string_view> LooseHeads() { return kLooseHeads; }

std::vector<std::string_view> OomHeads() {
  constexpr size_t kEnough = 20;
  std::vector<std::string_view> heads;
  for (const OomFormat& format : OomFormats()) {
    const bool has_pattern = format.pattern != nullptr;
    const std::string_view head = has_pattern ? format.head.substr(0, kEnough) : format.head;
    if (std::find(heads.begin(), heads.end(), head) == heads.end()) heads.push_back(head);
  }
  return heads;
}

}  // namespace onnxfit
