#include "estimator/pt2/exported_program.h"

#include <fmt/format.h>

#include <algorithm>
#include <future>
#include <unordered_map>

#include "estimator/base/error.h"
#include "estimator/base/file_bytes.h"
#include "estimator/base/text.h"
#include "estimator/program/modules.h"
#include "estimator/pt2/json_text.h"
#include "estimator/pt2/packed_text.h"
#include "estimator/pt2/read_program.h"
#include "estimator/pt2/schema.h"
#include "estimator/pt2/zip_archive.h"

namespace onnxfit::pt2 {
namespace {

// What the views of a program are of.
struct OwnedTexts {
  std::string program;
  std::string tensors;  // which are one
  TextPool pool;
};

// `texts` has the program alone, which is read in place: another thread has a copy of it.
ExportedProgram ReadTexts(const std::shared_ptr<OwnedTexts>& texts, std::string name) {
  const std::string written = texts->program;
  std::future<std::string> digest = DigestMeanwhile(written);
  const JsonDocument document(texts->program, std::move(name));
  ExportedProgram program =
      document.ReadBy([&](const Json& json) { return ReadProgram(json, texts->pool); });
  program.digest = digest.get();
  program.owner = texts;
  return program;
}

void CheckBeginning(std::string_view first) {
  if (first.empty() || MayBeExportedProgram(first)) return;  // FileBytes says that it is empty
  if (first.starts_with("version https://git-lfs")) {
    throw Error({.text = "a .pt2 was expected, found a Git LFS pointer, the file is not here",
                 .hint = "git lfs pull"});
  }
  throw Error({.text = "a .pt2 was expected, found no zip archive, which it is",
               .hint = std::string(kHowToExport)});
}

void ReadStorages(const ZipArchive& archive, const ArchiveLayout& layout, OwnedTexts& texts,
                  ExportedProgram& program) {
  if (layout.weights_config == nullptr) return;
  texts.tensors = archive.Read(*layout.weights_config);
  const JsonDocument document(texts.tensors, std::string(layout.weights_config->name));
  const auto has_bytes = [&](std::string_view name) {
    const auto* const member = archive.Find(layout.weights_folder + std::string(name));
    return member != nullptr && member->size > 0;
  };
  document.ReadBy([&](const Json& json) { NameStorages(json, program.inputs, has_bytes); });
}

void ReadNotes(std::string text, std::string name, ExportedProgram& program) {
  const JsonDocument document(text, std::move(name));
  document.ReadBy([&](const Json& json) {
    if (const Json* const listed = OptionalMemberOf(json, "assumptions")) {
      for (const Json& item : ItemsOf(*listed)) program.assumptions.emplace_back(Text(item));
    }
    const Json* const batch = OptionalMemberOf(json, "batch");
    if (batch == nullptr) return 0;
    const auto place = ItemsOf(*batch);
    if (place.Size() != 2) throw UnexpectedJson(*batch, "an input and a dimension");
    program.batch_place = fmt::format("{} {}", Whole(place[1]), Text(place[0]));
    return 0;
  });
}

ExportedProgram ReadArchive(std::string_view bytes) {
  CheckBeginning(bytes);
  const ZipArchive archive(bytes);
  const ArchiveLayout layout = FindProgram(archive);
  const auto texts = std::make_shared<OwnedTexts>();
  const bool is_watched = layout.watched != nullptr;
  const ZipArchive::Member& calls = is_watched ? *layout.watched : *layout.program;
  const std::string name(calls.name);
  texts->program = is_watched ? UnpackText(archive.Read(calls), name) : archive.Read(calls);
  ExportedProgram program = ReadTexts(texts, name);
  ReadStorages(archive, layout, *texts, program);
  if (layout.notes != nullptr) {
    ReadNotes(archive.Read(*layout.notes), std::string(layout.notes->name), program);
  }
  return program;
}

// Each tensor is stored under its own name, or under that which it is tied to.
void ReadTies(const std::string& name, OwnedTexts& texts, ExportedProgram& program) {
  std::unordered_map<std::string_view, std::string_view> targets;
  const JsonDocument document(texts.tensors, name);
  document.ReadBy([&](const Json& json) {
    for (const auto& [tied, target] : MembersOf(json)) targets.emplace(Text(tied), Text(target));
    return 0;
  });
  for (InputSpec& input : program.inputs) {
    const auto found = targets.find(input.target);
    input.storage = found == targets.end() ? input.target : found->second;
  }
}

// An Error that does not know its file gets `name`.
template <typename Load>
ExportedProgram LoadAs(const std::string& name, Load load) {
  try {
    ExportedProgram program = load();
    program.path = name;
    return program;
  } catch (const Error& error) {
    Error::Parts parts = error.parts();
    if (parts.file.empty()) parts.file = name;
    throw Error(std::move(parts));
  }
}

}  // namespace

ExportedProgram LoadExportedProgram(const std::string& path) {
  return LoadAs(path == "-" ? "<stdin>" : path, [&] {
    return FileBytes(path, CheckBeginning, {.what = "a .pt2 file", .maker = kModelMaker})
        .ReadBy(ReadArchive);
  });
}

ExportedProgram LoadExportedProgramFrom(std::string_view bytes, const std::string& name) {
  return LoadAs(name, [&] { return ReadArchive(bytes); });
}

ExportedProgram ReadExportedProgram(ProgramTexts texts) {
  const auto owned = std::make_shared<OwnedTexts>();
  owned->program = std::move(texts.program);
  owned->tensors = std::move(texts.ties);
  ExportedProgram program = ReadTexts(owned, texts.program_name);
  if (owned->tensors.empty()) owned->tensors = "{}";
  ReadTies(texts.ties_name, *owned, program);
  if (!texts.notes.empty()) {
    ReadNotes(std::move(texts.notes), std::move(texts.notes_name), program);
  }
  return program;
}

const Argument* FindArgument(const Call& call, std::string_view name) {
  for (const auto& [given, argument] : call.arguments) {
    if (given == name && argument.kind != Argument::Kind::kNone) return &argument;
  }
  return nullptr;
}

void AddNames(const Argument& argument, std::set<std::string_view>& names) {
  if (argument.kind == Argument::Kind::kTensor) names.insert(argument.text);
  for (const Argument& item : argument.items) AddNames(item, names);
}

namespace {

void AddOperands(const Argument& argument, std::vector<std::string_view>& operands) {
  if (argument.kind == Argument::Kind::kTensor) operands.push_back(argument.text);
  for (const Argument& item : argument.items) AddOperands(item, operands);
}

}  // namespace

std::vector<std::string_view> OperandsOf(const Call& call) {
  std::vector<std::string_view> operands;
  for (const auto& [name, argument] : call.arguments) AddOperands(argument, operands);
  return operands;
}

bool MayBeExportedProgram(std::string_view first) { return MayBeZip(first); }

// --- Parameters with several names ---------------------------------------------

namespace {

bool HaveSameSizes(const Tensor& a, const Tensor& b) {
  return a.dtype == b.dtype &&
         std::ranges::equal(a.sizes, b.sizes, {}, &Size::number, &Size::number);
}

class TieFinder {
 public:
  explicit TieFinder(const ExportedProgram& exported) : exported_(exported) {
    for (const InputSpec& spec : exported.inputs) {
      if (spec.kind != InputSpec::Kind::kParameter) continue;
      parameters_.emplace(spec.name, &spec);
      by_target_.emplace(spec.target, spec.name);
    }
    AddReads(exported.graph);
  }

  std::map<std::string_view, std::string_view> Find() {
    for (const InputSpec& spec : exported_.inputs) {
      if (parameters_.contains(spec.name)) Tie(spec);
      if (spec.kind == InputSpec::Kind::kBuffer) TieBuffer(spec);
    }
    for (const InputSpec* spec : idle_) TieIdle(*spec);
    std::map<std::string_view, std::string_view> firsts;  // of a group: its first name
    std::map<std::string_view, std::string_view> names;
    for (const InputSpec& spec : exported_.inputs) {
      const auto group = group_of_.find(spec.name);
      if (group == group_of_.end()) continue;
      const auto [first, is_new] = firsts.emplace(group->second, spec.name);
      if (!is_new) names.emplace(spec.name, first->second);
    }
    return names;
  }

 private:
  void AddReads(const Graph& graph) {
    for (const Call& call : graph.calls) {
      std::string_view module = call.modules.empty() ? "" : call.modules.back().path;
      module = module.substr(0, module.find('@'));  // its second run reads the same
      for (const auto& [name, argument] : call.arguments) {
        if (argument.graph != nullptr) AddReads(*argument.graph);
        std::set<std::string_view> names;  // of lists, too: cat([q_bias, k_bias])
        AddNames(argument, names);
        for (const std::string_view read : names) {
          if (!parameters_.contains(read)) continue;
          read_.insert(read);
          read_in_.emplace(module, read);
        }
      }
    }
  }

  // The name that stands for the group of `spec` is that which the calls read, or the first that
  // is stored so.
  void Tie(const InputSpec& spec) {
    if (!spec.storage.empty()) {
      const auto [first, is_new] = stored_.emplace(spec.storage, spec.name);
      if (!is_new) Join(spec.name, first->second);
    } else if (!read_.contains(spec.name)) {
      TieUnread(spec);
    }
  }

  // Buffers are one tensor only where the file stores them once (peft's VeRA: random matrices that
  // all layers share); views of one storage, which have other sizes, are two.
  void TieBuffer(const InputSpec& spec) {
    if (spec.storage.empty()) return;
    const auto [first, is_new] = stored_.emplace(spec.storage, spec.name);
    if (is_new || !IsAlike(first->second, spec.name)) return;
    Group(spec.name, first->second);
  }

  // To what the calls of its module read in its place.
  void TieUnread(const InputSpec& spec) {
    const auto [begin, end] = read_in_.equal_range(ParentOf(spec.target));
    if (begin == end) idle_.push_back(&spec);
    for (auto read = begin; read != end; ++read) {
      if (MayBe(read->second, spec)) return Join(spec.name, read->second);
    }
  }

  void TieIdle(const InputSpec& spec) {
    std::string_view kept = NamesakeOf(spec.target);
    if (kept.empty() || !MayBe(kept, spec)) kept = ReadElsewhere(spec);
    if (!kept.empty()) Join(spec.name, kept);
  }

  void Group(std::string_view name, std::string_view kept) {
    group_of_[name] = kept;
    group_of_[kept] = kept;
  }

  void Join(std::string_view name, std::string_view kept) {
    Group(name, kept);
    AddTwins(parameters_.at(name)->target, parameters_.at(kept)->target);
  }

  // "layers.3" and "layers.1" of "layers.3.fc.weight" and "layers.1.fc.weight", which are tied.
  void AddTwins(std::string_view module, std::string_view other) {
    while (ChildOf(module) == ChildOf(other) && ParentOf(module) != module &&
           ParentOf(other) != other) {
      module = ParentOf(module);
      other = ParentOf(other);
    }
    twins_.emplace(module, other);
    twins_.emplace(other, module);
  }

  // The parameter that a module whose others are tied to those around has by the same name.
  std::string_view NamesakeOf(std::string_view target) const {
    for (const auto& [module, other] : twins_) {
      if (!IsAround(module, target)) continue;
      const auto found =
          by_target_.find(std::string(other) + std::string(target.substr(module.size())));
      if (found != by_target_.end()) return found->second;
    }
    return "";
  }

  // What other modules read so that has its sizes (T5's `shared`), or a child its own:
  // "lm_head.bias" is that of "lm_head.decoder".
  std::string_view ReadElsewhere(const InputSpec& spec) const {
    const std::string_view module = ParentOf(spec.target);
    for (const auto& [place, name] : read_in_) {
      const std::string_view owner = ParentOf(parameters_.at(name)->target);
      const bool is_of_child = ParentOf(owner) == module && owner != module;
      if ((!IsAround(place, owner) || is_of_child) && MayBe(name, spec)) return name;
    }
    return "";
  }

  // Whether `module` is `place`, or in it: "self.tokens.weight" says no more than its own call.
  static bool IsAround(std::string_view place, std::string_view module) {
    if (!module.starts_with(place)) return false;
    return place.empty() || place.size() == module.size() || module[place.size()] == '.';
  }

  bool MayBe(std::string_view name, const InputSpec& spec) const {
    return name != spec.name && ChildOf(parameters_.at(name)->target) == ChildOf(spec.target) &&
           IsAlike(name, spec.name);
  }

  bool IsAlike(std::string_view name, std::string_view other) const {
    const std::map<std::string_view, Tensor>& tensors = exported_.graph.tensors;
    const auto a = tensors.find(name);
    const auto b = tensors.find(other);
    return a != tensors.end() && b != tensors.end() && HaveSameSizes(a->second, b->second);
  }

  const ExportedProgram& exported_;
  std::unordered_map<std::string_view, const InputSpec*> parameters_;  // by name
  std::map<std::string, std::string_view, std::less<>> by_target_;
  std::set<std::string_view> read_;
  std::vector<const InputSpec*> idle_;  // that no call reads, of modules without any
  std::map<std::string_view, std::string_view> twins_;         // modules whose parameters are tied
  std::multimap<std::string_view, std::string_view> read_in_;  // module -> parameter
  std::map<std::string_view, std::string_view> stored_;        // member -> first name
  std::map<std::string_view, std::string_view> group_of_;      // by name: what stands for it
};

}  // namespace

std::map<std::string_view, std::string_view> FindFirstNames(const ExportedProgram& exported) {
  const auto is_apart = [](const InputSpec& spec) { return !spec.first_name.empty(); };
  if (std::ranges::any_of(exported.inputs, is_apart)) return {};
  return TieFinder(exported).Find();
}

}  // namespace onnxfit::pt2
