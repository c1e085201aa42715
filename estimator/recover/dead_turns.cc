#include "estimator/recover/dead_turns.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "estimator/base/index.h"
#include "estimator/base/module_names.h"
#include "estimator/writer/program_writer.h"

namespace onnxfit {
namespace {

using Images = std::map<NameId, NameId>;  // of a turn's names in the next one

// The tensors of a program's module, by their names.
class TensorNames {
 public:
  explicit TensorNames(const Program& program)
      : program_(program), tensors_(program.placement.begin(), program.placement.end()) {
    for (const NameId name : program.placement) {
      ids_.emplace(program.values[Index(name)].name, name);
    }
  }

  NameId Find(const std::string& name) const {
    const auto found = ids_.find(name);
    return found == ids_.end() ? kNoName : found->second;
  }
  bool Has(NameId name) const { return tensors_.contains(name); }
  const std::string& Of(NameId tensor) const { return program_.values[Index(tensor)].name; }

 private:
  const Program& program_;
  std::set<NameId> tensors_;
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
  std::map<size_t, size_t> matched;  // calls of the turn, in the next one
  std::vector<MissingCall> missing;
};

// The calls from a turn's first one to those of the next.
struct TurnSpan {
  size_t begin = 0;
  size_t end = 0;
};

// A call that is put back, in front of one of the program's.
struct PutBackCall {
  size_t before = 0;
  AtenCall call;
};

// Where a program's turns begin and its values are made.
class Positions {
 public:
  explicit Positions(const Program& program) : makers_(program.values.size(), kMadeBefore) {
    std::set<ModuleId> modules;
    for (size_t i = 0; i < program.calls.size(); ++i) {
      const AtenCall& call = program.calls[i];
      for (const NameId name : call.outputs) {
        if (name != kNoName) makers_[Index(name)] = static_cast<int64_t>(i);
      }
      for (const NameId name : call.inputs) {
        if (name != kNoName) readers_[name].push_back(i);
      }
      if (!modules.insert(call.module).second) continue;
      for (ListTurn& turn : TurnsAround(program.modules.PathOf(call.module))) {
        begins_.emplace(std::move(turn), i);
      }
    }
    end_ = program.calls.size();
  }

  // From a turn's first call to that of the next one; nullopt where it runs no call.
  std::optional<TurnSpan> SpanOf(const std::string& list, int64_t number) const {
    const auto begin = begins_.find({list, number});
    const auto next = begins_.find({list, number + 1});
    if (begin == begins_.end()) return std::nullopt;
    const TurnSpan span = {begin->second, next == begins_.end() ? end_ : next->second};
    if (span.begin >= span.end) return std::nullopt;
    return span;
  }

  // The last of each list of three turns or more.
  std::set<ListTurn> LastTurns() const {
    std::set<ListTurn> last;
    for (const auto& [turn, begin] : begins_) {
      const bool goes_on = begins_.contains({turn.list, turn.number + 1});
      if (turn.number >= 2 && !goes_on) last.insert(turn);
    }
    return last;
  }

  std::span<const size_t> ReadersOf(NameId name) const {
    const auto readers = readers_.find(name);
    return readers == readers_.end() ? std::span<const size_t>() : readers->second;
  }

  // Whether it is there before call `call`.
  bool IsMadeBefore(NameId name, size_t call) const {
    return makers_[Index(name)] < static_cast<int64_t>(call);
  }

 private:
  static constexpr int64_t kMadeBefore = -1;  // an input

  std::map<ListTurn, size_t> begins_;
  std::vector<int64_t> makers_;  // by value
  std::map<NameId, std::vector<size_t>> readers_;
  size_t end_ = 0;
};

class DeadTurn {
 public:
  // `turn` is the last of its list.
  DeadTurn(Program& program, const TensorNames& tensors, const Positions& positions, ListTurn turn)
      : program_(program), tensors_(tensors), positions_(positions), turn_(std::move(turn)) {}

  // What is to be put back, in order; nothing where it cannot be told.
  std::vector<PutBackCall> PutBack(const std::set<NameId>& unread) {
    const std::optional<TurnSpan> before = SpanOf(turn_.number - 1);
    const std::optional<TurnSpan> last = SpanOf(turn_.number);
    if (!before.has_value() || !last.has_value() || before->end != last->begin) return {};
    if (const auto first = SpanOf(turn_.number - 2);
        first.has_value() && first->end == before->begin)
      carried_ = Align(*first, *before, turn_.number - 2).images;
    Aligned aligned = Align(*before, *last, turn_.number - 1);
    images_ = std::move(aligned.images);
    MarkNeeded(aligned.missing, unread);
    if (std::ranges::none_of(aligned.missing, &MissingCall::is_needed)) MarkCarried(aligned, *last);
    std::erase_if(aligned.missing, [](const MissingCall& call) { return !call.is_needed; });
    return CanWrite(aligned.missing) ? Write(aligned.missing) : std::vector<PutBackCall>();
  }

 private:
  std::optional<TurnSpan> SpanOf(int64_t number) const {
    return positions_.SpanOf(turn_.list, number);
  }

  // What of the turn `from` the next one runs, in the same order, and what it does not.
  Aligned Align(TurnSpan from, TurnSpan to, int64_t number) const {
    Aligned aligned;
    size_t next = to.begin;
    for (size_t i = from.begin; i < from.end; ++i) {
      if (next < to.end && AreSame(i, next, number, aligned.images)) {
        aligned.matched.emplace(i, next);
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

  bool IsTensor(NameId name) const { return tensors_.Has(name); }

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

  // Those that make what the next turn reads, of what nothing else reads in the last turn than what
  // reads it in the turn before: "x + h" of "return x + h, self.skip(h)".
  void MarkCarried(Aligned& aligned, const TurnSpan& last) const {
    if (!IsPartOfTurnBefore(aligned, last)) return;
    std::set<NameId> read;
    std::set<NameId> dead;
    for (const MissingCall& lost : aligned.missing) {
      const AtenCall& call = program_.calls[lost.call];
      const bool is_dead = std::ranges::all_of(call.inputs, [&](NameId name) {
        return dead.contains(name) || (name != kNoName && HasNoOtherReader(name, aligned));
      });
      if (is_dead && !call.inputs.empty()) dead.insert(call.outputs.begin(), call.outputs.end());
    }
    for (size_t i = aligned.missing.size(); i-- > 0;) {
      const AtenCall& call = program_.calls[aligned.missing[i].call];
      if (call.outputs.empty() || !dead.contains(call.outputs[0])) continue;
      const bool is_carried =
          std::ranges::any_of(positions_.ReadersOf(call.outputs[0]),
                              [&](size_t reader) { return reader >= last.begin; });
      aligned.missing[i].is_needed = is_carried || read.contains(call.outputs[0]);
      if (aligned.missing[i].is_needed) read.insert(call.inputs.begin(), call.inputs.end());
    }
  }

  // Whether the last turn runs nothing in its layer that the turn before does not.
  bool IsPartOfTurnBefore(const Aligned& aligned, const TurnSpan& last) const {
    std::set<size_t> matched;
    for (const auto& [here, there] : aligned.matched) matched.insert(there);
    const std::string layer = turn_.Path() + ".";
    for (size_t i = last.begin; i < last.end; ++i) {
      const std::string path = program_.modules.PathOf(program_.calls[i].module) + ".";
      if (path.starts_with(layer) && !matched.contains(i)) return false;
    }
    return !matched.empty();
  }

  bool HasNoOtherReader(NameId name, const Aligned& aligned) const {
    const auto image = images_.find(name);
    if (image == images_.end() || IsTensor(name)) return false;
    if (image->second == name) return true;  // what all turns read
    std::set<size_t> known;
    for (const size_t reader : positions_.ReadersOf(name)) {
      const auto there = aligned.matched.find(reader);
      if (there != aligned.matched.end()) known.insert(there->second);
    }
    const std::span<const size_t> readers = positions_.ReadersOf(image->second);
    return !readers.empty() &&
           std::ranges::find(program_.outputs, image->second) == program_.outputs.end() &&
           std::ranges::all_of(readers, [&](size_t reader) { return known.contains(reader); });
  }

  NameId ImageOfTensor(NameId name) const { return TensorIn(name, turn_.number - 1, turn_.number); }

  // Whether all that `missing` reads is known in the last turn, and as large as in the turn before.
  bool CanWrite(const std::vector<MissingCall>& missing) {
    if (missing.empty()) return false;
    const std::optional<TurnSpan> first = SpanOf(turn_.number - 2);
    std::set<NameId> made;
    for (const MissingCall& lost : missing) {
      const AtenCall& call = program_.calls[lost.call];
      for (const NameId name : call.inputs) {
        if (name != kNoName && !made.contains(name) && !FindImage(name, first)) return false;
      }
      made.insert(call.outputs.begin(), call.outputs.end());
    }
    return true;
  }

  // What was there two turns before this one is what each turn reads alike.
  bool FindImage(NameId name, const std::optional<TurnSpan>& first) {
    if (images_.contains(name)) return true;
    NameId image = ImageOfTensor(name);
    if (const auto carried = carried_.find(name); image == kNoName && carried != carried_.end())
      image = carried->second;
    const bool is_shared =
        !IsTensor(name) && positions_.IsMadeBefore(name, first.has_value() ? first->begin : 0);
    if (image == kNoName && is_shared) image = name;
    if (image == kNoName || TypeOf(image) != TypeOf(name)) return false;
    images_.emplace(name, image);
    return true;
  }

  const TensorType& TypeOf(NameId name) const { return program_.values[Index(name)].type; }

  // --- Writing ----------------------------------------------------------------------------------

  std::vector<PutBackCall> Write(const std::vector<MissingCall>& missing) {
    std::vector<PutBackCall> calls;
    for (const MissingCall& lost : missing) {
      calls.push_back({lost.before, InLastTurn(program_.calls[lost.call])});
    }
    return calls;
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
  const Positions& positions_;
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
    std::set<NameId> unread = FindUnread();
    const Positions positions(program_);
    std::set<ListTurn> turns = TurnsOf(unread);
    turns.merge(positions.LastTurns());
    std::vector<PutBackCall> calls;
    for (const ListTurn& turn : turns) {
      for (PutBackCall& call : DeadTurn(program_, tensors_, positions, turn).PutBack(unread)) {
        for (const NameId name : call.call.inputs) unread.erase(name);
        calls.push_back(std::move(call));
      }
    }
    return Insert(std::move(calls));
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

  // Returns what they make.
  std::vector<NameId> Insert(std::vector<PutBackCall> put_back) {
    std::ranges::stable_sort(put_back, {}, &PutBackCall::before);
    std::vector<AtenCall> calls;
    std::vector<NameId> made;
    auto next = put_back.begin();
    for (size_t i = 0; i <= program_.calls.size(); ++i) {
      for (; next != put_back.end() && next->before == i; ++next) {
        made.insert(made.end(), next->call.outputs.begin(), next->call.outputs.end());
        calls.push_back(std::move(next->call));
      }
      if (i < program_.calls.size()) calls.push_back(std::move(program_.calls[i]));
    }
    program_.calls = std::move(calls);
    std::erase(made, kNoName);
    return made;
  }

  Program& program_;
  TensorNames tensors_;
};

}  // namespace

std::vector<NameId> PutBackDeadTurns(Program& program) { return DeadTurns(program).PutBack(); }

}  // namespace onnxfit
