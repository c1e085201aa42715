#include "estimator/recover/dead_turns.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>

#include "estimator/base/index.h"
#include "estimator/base/module_names.h"
#include "estimator/program/program_writer.h"

namespace onnxfit {
namespace {

using Images = std::map<NameId, NameId>;  // of a turn's names in the next one

bool IsWithin(std::string_view path, std::string_view module) {
  return path.starts_with(module) && (path.size() == module.size() || path[module.size()] == '.');
}

// The tensors of a program's module, by their names.
class TensorNames {
 public:
  explicit TensorNames(const Program& program) : program_(program) {
    for (const NameId name : program.placement) {
      ids_.emplace(program.values[Index(name)].name, name);
    }
  }

  NameId Find(const std::string& name) const {
    const auto found = ids_.find(name);
    return found == ids_.end() ? kNoName : found->second;
  }
  const std::string& Of(NameId tensor) const { return program_.values[Index(tensor)].name; }

 private:
  const Program& program_;
  std::map<std::string, NameId> ids_;
};

// A call of a turn that the next one lacks, and where that has its place.
struct MissingCall {
  size_t call = 0;
  size_t before = 0;
  bool is_needed = false;
};

struct Aligned {
  Images images;
  std::vector<MissingCall> missing;
};

// The calls from a turn's first one to those of the next.
struct TurnSpan {
  size_t begin = 0;
  size_t end = 0;
};

class DeadTurn {
 public:
  // `turn` is the last of its list.
  DeadTurn(Program& program, const TensorNames& tensors, ListTurn turn)
      : program_(program), tensors_(tensors), turn_(std::move(turn)) {}

  // What was put back, in order; nothing where it cannot be told.
  std::vector<NameId> PutBack(const std::set<NameId>& unread) {
    const std::optional<TurnSpan> before = SpanOf(turn_.number - 1);
    const std::optional<TurnSpan> last = SpanOf(turn_.number);
    if (!before.has_value() || !last.has_value() || before->end != last->begin) return {};
    if (const auto first = SpanOf(turn_.number - 2);
        first.has_value() && first->end == before->begin)
      carried_ = Align(*first, *before, turn_.number - 2).images;
    Aligned aligned = Align(*before, *last, turn_.number - 1);
    images_ = std::move(aligned.images);
    MarkNeeded(aligned.missing, unread);
    std::erase_if(aligned.missing, [](const MissingCall& call) { return !call.is_needed; });
    return CanWrite(aligned.missing, before->begin) ? Write(aligned.missing)
                                                    : std::vector<NameId>();
  }

 private:
  // Of that turn; nullopt where it runs no call.
  std::optional<TurnSpan> SpanOf(int64_t number) const {
    const auto first_of = [&](int64_t turn) {
      const std::string path = ListTurn{turn_.list, turn}.Path();
      const auto found = std::ranges::find_if(program_.calls, [&](const AtenCall& call) {
        return IsWithin(program_.modules.PathOf(call.module), path);
      });
      return static_cast<size_t>(found - program_.calls.begin());
    };
    const TurnSpan span = {first_of(number), first_of(number + 1)};
    if (span.begin >= span.end) return std::nullopt;
    return span;
  }

  // What of the turn `from` the next one runs, in the same order, and what it does not.
  Aligned Align(TurnSpan from, TurnSpan to, int64_t number) const {
    Aligned aligned;
    size_t next = to.begin;
    for (size_t i = from.begin; i < from.end; ++i) {
      if (next < to.end && AreSame(i, next, number, aligned.images)) {
        const AtenCall& there = program_.calls[next++];
        AddImages(program_.calls[i].inputs, there.inputs, aligned.images);
        AddImages(program_.calls[i].outputs, there.outputs, aligned.images);
      } else {
        aligned.missing.push_back({i, next});
      }
    }
    return aligned;
  }

  static void AddImages(const std::vector<NameId>& from, const std::vector<NameId>& to,
                        Images& images) {
    for (size_t k = 0; k < from.size(); ++k) images.emplace(from[k], to[k]);
  }

  bool AreSame(size_t here, size_t there, int64_t number, const Images& images) const {
    const AtenCall& a = program_.calls[here];
    const AtenCall& b = program_.calls[there];
    const bool is_alike = a.op == b.op && a.frames == b.frames &&
                          a.inputs.size() == b.inputs.size() &&
                          a.outputs.size() == b.outputs.size();
    if (!is_alike || PathIn(a.module, number, number + 1) != program_.modules.PathOf(b.module))
      return false;
    for (size_t k = 0; k < a.inputs.size(); ++k) {
      if (!MayBe(a.inputs[k], b.inputs[k], number, images)) return false;
    }
    return true;
  }

  // Whether `there` may be in the next turn what `here` is in turn `number`.
  bool MayBe(NameId here, NameId there, int64_t number, const Images& images) const {
    if (here == kNoName || there == kNoName) return here == there;
    const NameId tensor = TensorIn(here, number, number + 1);
    if (tensor != kNoName) return tensor == there;
    const auto known = images.find(here);
    return known == images.end() ? !IsTensor(there) : known->second == there;
  }

  bool IsTensor(NameId name) const { return tensors_.Find(tensors_.Of(name)) == name; }

  // The module's tensor that a turn reads where another one reads `name`; kNoName: it is none.
  NameId TensorIn(NameId name, int64_t from, int64_t to) const {
    return IsTensor(name) ? tensors_.Find(InTurn(tensors_.Of(name), {turn_.list, from}, to))
                          : kNoName;
  }

  std::string PathIn(ModuleId module, int64_t from, int64_t to) const {
    return InTurn(program_.modules.PathOf(module), {turn_.list, from}, to);
  }

  // --- What is to be put back -------------------------------------------------------------------

  // Those that read tensors of `unread`, what is made of them, then what all of these are made of.
  void MarkNeeded(std::vector<MissingCall>& missing, const std::set<NameId>& unread) const {
    std::set<NameId> made;
    for (MissingCall& lost : missing) {
      const AtenCall& call = program_.calls[lost.call];
      lost.is_needed = std::ranges::any_of(call.inputs, [&](NameId name) {
        return made.contains(name) || (name != kNoName && unread.contains(ImageOfTensor(name)));
      });
      if (lost.is_needed) made.insert(call.outputs.begin(), call.outputs.end());
    }
    std::set<NameId> read;
    for (size_t i = missing.size(); i-- > 0;) {
      const AtenCall& call = program_.calls[missing[i].call];
      missing[i].is_needed |= std::ranges::any_of(
          call.outputs, [&](NameId name) { return name != kNoName && read.contains(name); });
      if (missing[i].is_needed) read.insert(call.inputs.begin(), call.inputs.end());
    }
  }

  NameId ImageOfTensor(NameId name) const { return TensorIn(name, turn_.number - 1, turn_.number); }

  // Whether all that `missing` reads is known in the last turn, and as large as in the turn before,
  // whose first call is `begin`.
  bool CanWrite(const std::vector<MissingCall>& missing, size_t begin) {
    if (missing.empty()) return false;
    const std::set<NameId> before = MadeBefore(begin);
    std::set<NameId> made;
    for (const MissingCall& lost : missing) {
      const AtenCall& call = program_.calls[lost.call];
      for (const NameId name : call.inputs) {
        if (name != kNoName && !made.contains(name) && !FindImage(name, before)) return false;
      }
      made.insert(call.outputs.begin(), call.outputs.end());
    }
    return true;
  }

  // What two turns before this one had already: what each turn reads alike.
  std::set<NameId> MadeBefore(size_t begin) const {
    std::set<NameId> made(program_.inputs.begin(), program_.inputs.end());
    const std::optional<TurnSpan> first = SpanOf(turn_.number - 2);
    if (!first.has_value()) return made;
    for (size_t i = 0; i < std::min(first->begin, begin); ++i) {
      made.insert(program_.calls[i].outputs.begin(), program_.calls[i].outputs.end());
    }
    return made;
  }

  bool FindImage(NameId name, const std::set<NameId>& before) {
    if (images_.contains(name)) return true;
    NameId image = ImageOfTensor(name);
    if (const auto carried = carried_.find(name); image == kNoName && carried != carried_.end())
      image = carried->second;
    if (image == kNoName && before.contains(name)) image = name;
    if (image == kNoName || TypeOf(image) != TypeOf(name)) return false;
    images_.emplace(name, image);
    return true;
  }

  const TensorType& TypeOf(NameId name) const { return program_.values[Index(name)].type; }

  // --- Writing ----------------------------------------------------------------------------------

  std::vector<NameId> Write(const std::vector<MissingCall>& missing) {
    std::vector<AtenCall> calls;
    std::vector<NameId> made;
    auto lost = missing.begin();
    for (size_t i = 0; i <= program_.calls.size(); ++i) {
      for (; lost != missing.end() && lost->before == i; ++lost) {
        calls.push_back(InLastTurn(program_.calls[lost->call]));
        made.insert(made.end(), calls.back().outputs.begin(), calls.back().outputs.end());
      }
      if (i < program_.calls.size()) calls.push_back(program_.calls[i]);
    }
    program_.calls = std::move(calls);
    std::erase(made, kNoName);
    return made;
  }

  AtenCall InLastTurn(AtenCall call) {
    const int64_t from = turn_.number - 1;
    for (NameId& name : call.inputs) name = name == kNoName ? kNoName : images_.at(name);
    for (NameId& name : call.outputs) {
      if (name == kNoName) continue;
      const ProgramValue& value = program_.values[Index(name)];
      std::string name_there = InTurn(value.name, {turn_.list, from}, turn_.number) + ".last";
      const TensorType type = value.type;
      name = images_[name] = AddValue(program_, std::move(name_there), type);
    }
    call.where = InTurn(std::move(call.where), {turn_.list, from}, turn_.number);
    call.module = ModuleInLastTurn(call.module);
    return call;
  }

  ModuleId ModuleInLastTurn(ModuleId module) {
    if (module == kOutside) return module;
    const int64_t from = turn_.number - 1;
    const ModuleId caller = ModuleInLastTurn(program_.modules.CallerOf(module));
    std::string name = program_.modules.NameOf(module);
    const bool is_layer = program_.modules.PathOf(module) == ListTurn{turn_.list, from}.Path();
    std::string there = InTurn(name, {turn_.list, from}, turn_.number);
    if (is_layer && there == name) {
      there = InTurn(name, {std::string(ChildOf(turn_.list)), from}, turn_.number);
    }
    return program_.modules.Enter(caller, there);
  }

  Program& program_;
  const TensorNames& tensors_;
  ListTurn turn_;
  Images carried_;  // of the turn before the last two, in the next
  Images images_;   // of the turn before, in the last
};

// Finds the last turns that have tensors which no call reads, though those of the turn before are
// read.
class DeadTurns {
 public:
  explicit DeadTurns(Program& program) : program_(program), tensors_(program) {}

  std::vector<NameId> PutBack() {
    std::vector<NameId> made;
    const std::set<NameId> unread = FindUnread();
    for (const ListTurn& turn : TurnsOf(unread)) {
      const std::vector<NameId> more = DeadTurn(program_, tensors_, turn).PutBack(unread);
      made.insert(made.end(), more.begin(), more.end());
    }
    return made;
  }

 private:
  std::set<NameId> FindUnread() const {
    std::set<NameId> unread(program_.placement.begin(), program_.placement.end());
    for (const AtenCall& call : program_.calls) {
      for (const NameId name : call.inputs) unread.erase(name);
    }
    return unread;
  }

  std::set<ListTurn> TurnsOf(const std::set<NameId>& unread) const {
    std::set<ListTurn> found;
    for (const NameId name : unread) {
      const std::string& tensor = tensors_.Of(name);
      for (const ListTurn& turn : TurnsAround(tensor)) {
        const auto in_turn = [&](int64_t number) {
          return tensors_.Find(InTurn(tensor, turn, number));
        };
        const NameId before = turn.number == 0 ? kNoName : in_turn(turn.number - 1);
        const bool is_read = before != kNoName && !unread.contains(before);
        if (is_read && in_turn(turn.number + 1) == kNoName) found.insert(turn);
      }
    }
    return found;
  }

  Program& program_;
  TensorNames tensors_;
};

}  // namespace

std::vector<NameId> PutBackDeadTurns(Program& program) { return DeadTurns(program).PutBack(); }

}  // namespace onnxfit
