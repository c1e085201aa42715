// From the calls of a .pt2 to those of a Program.  Internal to the room pt2/.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "estimator/base/index.h"
#include "estimator/names/observed_lifetimes.h"
#include "estimator/program/module_tensors.h"
#include "estimator/program/spelled_casts.h"
#include "estimator/pt2/cast_ways.h"
#include "estimator/pt2/exported_program.h"
#include "estimator/pt2/known_elements.h"
#include "estimator/pt2/libraries.h"
#include "estimator/writer/program_writer.h"

namespace onnxfit::pt2 {

// --- Calls whose arguments are graphs (torch/_higher_order_ops/) ---------------

// Contexts, branches and loops.

// The graphs among the arguments.
std::vector<const Argument*> BodiesOf(const Call& call);
bool HasBodies(const Call& call);

// The lists among them, in order: operands of loops and branches.
std::vector<const std::vector<Argument>*> ListsOf(const Call& call);

// The results, those in a list too.
std::vector<Argument> ResultsOf(const Call& call);

struct CallRow;

// --- The writer ----------------------------------------------------------------

// What each symbol is in this run.
using SymbolValues = std::map<std::string_view, int64_t>;

class CallWriter : public ProgramWriter {
 public:
  // All must outlive it.
  CallWriter(const ExportedProgram& exported, const SymbolValues& symbols,
             const TrainingSettings& settings);

  // Parameters, buffers and inputs, then every call by its row (call_rows.h).
  void WriteForward();
  // The model's outputs, by the names that the file gives them.
  const std::vector<std::pair<std::string_view, NameId>>& named_outputs() const {
    return named_outputs_;
  }
  // Whether the call makes what torch.export alone makes (libraries.h): a part of a mask, heads
  // that are repeated because of one.
  bool IsLeftover(const AtenCall& call) const;
  // What a watched program says of when Python let go of values, call by call; none of others.
  ObservedLives LivesAsWatched() const;
  ModuleTensors TakeTensors() { return std::move(tensors_of_module_); }

  // Whether `call` of a watched run runs as in training: in a step a frozen network may not.
  bool RunsInTraining(const Call& call) const {
    const bool is_step = exported_.watching && exported_.watching->is_whole_step;
    return trains() && (!is_step || IntAt(call, "train", IntAt(call, "training", 1)) != 0);
  }

  // The next call, at the place of the running one.
  void Emit(std::string_view op, std::vector<NameId> inputs, std::vector<NameId> outputs,
            std::vector<int64_t> ints = {}) {
    ProgramWriter::Emit(place_, op, std::move(inputs), std::move(outputs), std::move(ints));
  }

  // The same in a statement of its own before the running one: it binds `target`.
  void EmitBinding(std::string target, std::string_view op, std::vector<NameId> inputs,
                   std::vector<NameId> outputs);
  // The same in the forward that calls the module, before it does so.
  void EmitInCaller(std::string target, std::string_view op, std::vector<NameId> inputs,
                    std::vector<NameId> outputs);

  // --- for the functions in the rows ---

  // What an argument is, or `absent`.
  int64_t IntAt(const Call& call, std::string_view name, int64_t absent) const;
  double RealAt(const Call& call, std::string_view name, double absent) const;
  std::vector<int64_t> IntsAt(const Call& call, std::string_view name) const;
  std::string_view TextAt(const Call& call, std::string_view name) const;
  // The tensor that an argument is; kNoName where it is none.
  NameId TensorAt(const Call& call, std::string_view name);
  // What a cast that did nothing in the export was given, where the argument is its result.
  NameId UncastAt(const Call& call, std::string_view name);
  NameId TensorOf(const Argument& argument);
  // All tensors among the arguments, those in lists too, in order.
  std::vector<NameId> Tensors(const Call& call);
  // A dimension of the tensor `of`, which may be counted from the end.
  int64_t AxisAt(const Call& call, std::string_view name, NameId of, int64_t absent);
  const Dims& DimsOf(NameId name) const;  // {} for kNoName
  // How many elements a tensor has, on the device or on the host; 0 of what is none.
  int64_t NumelOf(const Argument& argument) const;

  // The tensors that the call makes; kNoName for what is none.
  std::vector<NameId> Results(const Call& call);
  // The first of them, of this type where it is given.
  NameId Result(const Call& call, std::optional<TensorType> type = {});
  // As Result, of a cast that did nothing in the export: the tracer calls its operand `self` by
  // the result's name from then on, too, wherever the code reads it.
  NameId CastResult(const Call& call, NameId self, const TensorType& type);
  // Of a helper that casts once more, "q.float() * cos + half(q.float()) * sin": what its first
  // cast was given, whose result has its name in the export, where it did nothing.  Else kNoName.
  NameId GivenToCast(const Call& call) const;
  // What a statement before that of `call`, of the same forward, has bound to `variable`; kNoName
  // where none is known.
  NameId BoundTo(const Call& call, std::string_view variable) const;
  // What `variable` has the type of in the forward of `call`, from its line on.
  void Bind(const Call& call, std::string_view variable, NameId like);
  // The same, or what the forward of `call` was passed, if that is one tensor of floats and nothing
  // is known to bind `variable`.
  NameId BoundOrPassedTo(const Call& call, std::string_view variable) const;
  // What the first module behind that of `call`, called by the same forward, is given: of a rotary
  // embedding, as that itself, the states that the layers are about to read.
  NameId GivenToNextModule(const Call& call) const;
  // What `call`, one of `calls`, reads first, or what that is made of, where it is not there yet.
  NameId FirstMadeFor(const Call& call, const std::vector<Call>& calls) const;
  // The first operand that is there, of floats, and no parameter.
  NameId StatesAmong(const Call& call) const;
  // The tensor whose type the line of a cast names, "x.to(y.dtype)", or a variable holds that it
  // names, "x.to(in_dtype)"; kNoName where that is not known.  O(calls of the forward).
  NameId TypeGiverOf(const Call& cast);
  NameId HeldTypeOf(const Call& cast);
  // x.to(dtype), where `dtype` is the type that `like` has had.
  void EmitTypedLike(NameId like, NameId self, NameId result);
  // Of a cast whose line does not tell (cast_ways.h), in a run in 16 bits.
  std::optional<CastWay> WayOf(const Call& call) const;
  // What the module of `call` was given, as its code casts it first; kNoName where none was noted.
  void NoteInput(const Call& call, NameId name);
  NameId NotedInput(const Call& call) const;
  // The call's result is a view of `name` that no gradient passes.
  void ReturnDetached(const Call& call, NameId name);
  // Whether calls run under torch.autocast(enabled=False) here.
  bool leaves_autocast() const { return place_.leaves_autocast; }
  // The same of torch.no_grad().
  bool leaves_autograd() const { return place_.leaves_autograd; }
  // As Emit, under torch.autocast(enabled=False).
  void EmitOutsideAutocast(std::string_view op, std::vector<NameId> inputs,
                           std::vector<NameId> outputs, std::vector<int64_t> ints = {});
  // The call's result is `name`: nothing runs.
  void ReturnSame(const Call& call, NameId name);
  // The call's results are copies of those that it has so far.
  void CopyResults(const Call& call);
  // Whether every value has the type that the file gives it: casts are those of the file.
  bool RunsAsExported() const {
    return runs_as_watched_ ||
           (keeps_types_ && AutocastType(settings_.precision) == DType::kUndefined);
  }
  // The type that the file gives the call's first result, in this run's precision.
  TensorType TypeOfResult(const Call& call) const;
  // The type of floats that the file gives the call's first result, where nothing that goes into
  // the module has it: x.half(), x.double() of a module in float32.  kUndefined of others, and of
  // float32.  O(inputs).
  DType OwnTypeOfResult(const Call& call) const;
  // The elements of an argument that follow from sizes, of a mask that torch.export alone makes
  // (libraries.h); null of others.
  const Known* LibraryMaskAt(const Call& call, std::string_view name);

  // Whether `call` builds a mask (libraries.h) that this run leaves out.  Compiled code has it:
  // Dynamo traces as torch.export does.  Where PyTorch tells one from the other, transformers
  // leaves it out there, too, if no tensor says what it hides (_ignore_causal_mask_sdpa and
  // _ignore_bidirectional_mask_sdpa of masking_utils.py, 5.24.0).
  bool LeavesOutMask(const Call& call) const;
  // Notes that `mask`, which is added to scores, masks nothing: the library makes none in a run.
  void NoteNoMask(NameId mask) { no_masks_.insert(mask); }
  bool IsNoMask(NameId name) const { return no_masks_.contains(name); }

  // The tensor that a call has made and `view` is a part of, by slices and selections; kNoName of
  // one that no call has made.
  NameId BaseOf(NameId view) const;
  // From now on calls that read `before` read `after`, which has its storage.
  void Supersede(NameId before, NameId after);
  NameId NewNameLike(NameId other, std::string name) {
    const TensorType type = program_.values[Index(other)].type;
    return NewName(std::move(name), type);
  }

  // What `heads` repeats, k of k[:, :, None].expand(…).reshape(…), whose calls become leftovers;
  // `heads` where that is not how it was made.
  NameId UnrepeatedHeads(NameId heads);

  // The elements of an argument that follow from sizes alone; null of others.
  const Known* KnownResultOf(const Call& call) { return known_.Find(call.results[0].text); }
  const Known* KnownAt(const Call& call, std::string_view name);
  // Throws Error: `call` takes `asked` rows of the argument `table`, which has `most`.  It is told
  // by the model's input that has so many, where the sizes of `counted` show it.
  [[noreturn]] void RefuseRows(const Call& call, std::string_view table, std::string_view counted,
                               int64_t asked, int64_t most) const;

  // What the first call that reads the result, through views and what writes over it, joins it
  // with, of floats; kNoName where that is not there yet.
  NameId PartnerOfResult(const Call& call);
  // What a cast goes back to the type of, as rows of CastRows say; kNoName of others.
  NameId ReadFirstOnLine(const Call& cast);
  // What the first call that reads the result multiplies it with; kNoName of other calls.
  NameId FactorOfResult(const Call& call) const;
  // Whether the slice `call` is the last step of an index that is read, x[:, a:b]: no step of
  // another dimension follows on its line, and nothing is written into it, x[:, a:b] = y.
  bool EndsIndexing(const Call& call) const;
  // Whether the last call has made `name`, on the line of the running one.
  bool IsOfLine(NameId name) const;
  // Whether a gradient may flow through it.
  bool IsTracked(NameId name) const;
  bool IsRead(std::string_view result) const { return read_.contains(result); }
  // A call of an operator without a row.
  void WriteUnknown(const Call& call);

 private:
  friend struct HigherOrderRow;

  void AddModule();
  void FollowLayers();
  void AddTensors(InputSpec::Kind kind, std::vector<NameId>& to);
  void AddInputs();
  void AddOutputs();
  void WriteCalls(const Graph& graph);
  void WriteCall(const Call& call);
  bool MakesTensor(const Call& call) const;
  void Follow(size_t first, bool builds_mask);
  void PassToBase(const AtenCall& write);
  void KeepUnreadMasks();

  // --- Calls with bodies (higher_order.cc, loops.cc) ---

  // The calls of `body` on these operands; what it returns.
  std::vector<NameId> Run(const Graph& body, const std::vector<NameId>& operands);
  // The same of a body whose names are none of those around it.
  std::vector<NameId> RunApart(const Graph& body, const std::vector<NameId>& operands);
  void WriteBodies(const Call& call);
  void WriteInline(const Call& call);
  void WriteCond(const Call& call);
  void WriteWhile(const Call& call);
  void WriteScan(const Call& call);
  void WriteMap(const Call& call);
  void WriteSteps(const Call& call, int carried_list, int scanned_list);
  int64_t BytesMadeBy(const Graph& body) const;
  std::optional<int64_t> TripsOf(const Graph& condition, const Graph& body,
                                 const std::vector<Argument>& carried);
  std::optional<bool> PredicateOf(const Argument& predicate) const;
  // Views of the tensors `wholes` at each index of their first dimension.
  std::vector<std::vector<NameId>> PartsOf(const std::vector<NameId>& wholes);
  // Joins parts to the results of `call` from `first` on.
  void StackResults(const Call& call, size_t first, const std::vector<std::vector<NameId>>& parts);
  bool IsForRun(const Call& call) const;
  void EnterBody(const Call& call);
  void SayDisabled(const Call& call);
  // What autograd keeps for calls with bodies beside what their calls keep is not known here.
  void WarnOfCopies(const Call& call);
  bool IsWatchedAs(Precision precision) const;
  bool LeavesCheckpoint(const Call& call) const;
  void NoteCheckpoint(const Call& call);
  void WriteAction(const Call& call);
  // Whether functions with a backward of their own are nodes: compilers trace through them.
  bool HasFunctions() const { return trains() && settings().compile == Compiling::kNone; }
  bool WriteFunctionPart(const Call& call);
  void CheckFunctions() const;
  void SayCompiledFunctions();
  void HoldOuterNames(const Call& call);
  void ReturnOuterNames();
  void AddOptimizers();
  std::vector<NameId> KnownNames(const std::vector<std::string_view>& texts) const;
  void EnterAsWatched(const WatchedCall& watched);
  void EnterGradMode(const Call& call);
  void EnterCheckpoint(bool is_reentrant);
  void ForgetCheckpoints();
  void SayCheckpoints();
  void Bind(const Call& call, const std::vector<NameId>& results);
  [[noreturn]] void RefuseLoops(const Call& call) const;

  TensorType TypeOf(const Tensor& tensor) const;
  int64_t SizeOf(const Size& size) const;
  int64_t NumberOf(const Argument& argument) const;
  const Tensor* FindTensor(std::string_view name) const;
  bool IsOnHost(std::string_view name, const Tensor& tensor) const;
  void NoteMoved(const Call& call);
  bool HasSize(std::string_view tensor, std::string_view symbol) const;

  CallPlace place_;               // of the running call
  bool runs_as_watched_ = false;  // in the precision in which the program was watched
  const ExportedProgram& exported_;
  const SymbolValues& symbols_;
  std::string_view device_;  // of the module
  ModuleTensors tensors_of_module_;
  std::vector<const Graph*> graphs_;  // that are written, the innermost last
  std::map<std::string_view, NameId> names_;
  std::vector<std::map<std::string_view, NameId>>
      outer_names_;                     // by function whose backward is read
  std::set<std::string_view> moved_;    // that the file has on the CPU, and model.to(device) moves
  std::set<std::string_view> numbers_;  // that statements write into tensors: none on the device
  std::map<std::string_view, std::string_view> first_names_;  // of tied parameters
  KnownElements known_;
  std::set<NameId> mask_parts_;   // results of calls that build masks
  std::set<NameId> asked_masks_;  // whose elements LibraryMaskAt gave
  std::set<NameId> no_masks_;
  std::set<StatementPlace> masks_of_tensors_;  // where the model is compiled
  std::set<NameId> leftovers_;                 // and of others that IsLeftover

  // --- Whose types casts have (cast_types.cc) ---

  // What the line of a cast says of it; nothing where the line tells another number of casts.
  std::optional<SpelledCast> SpellingOf(const Call& cast) const;
  // The calls of the forward that runs `call`, and of what it calls; none of a helper's.
  std::span<const Call> ForwardAround(const Call& call) const;
  class CallsOfForward;
  void NoteReceiver(const Call& cast, const SpelledCast& spelled, const CallsOfForward& forward);
  bool WidensFloats(const Call& call) const;
  // By module and Python's name: what a forward was passed that casts it by that name.
  std::map<std::pair<std::string_view, std::string>, NameId> passed_;

  // By result of a cast that did nothing in the export.
  struct UndoneCast {
    const Call* call = nullptr;
    NameId self = kNoName;
    bool replaces_local = false;
  };
  bool IsOfCast(const UndoneCast& cast) const;
  bool ReplacesLocal(const Call& call, NameId self) const;
  NameId GivenTo(const UndoneCast& cast);

  // By module and Python's name: what the statement in `line` binds, and what was bound before.
  struct Variable {
    int64_t line = 0;
    NameId value = kNoName;
    NameId before = kNoName;
  };
  void NoteVariables(const Call& call, size_t first);
  // A call of a torch.autograd.Function's forward in training: `op` has its backward.
  void WriteInFunction(const Call& call, const CallRow& row, std::string_view op);
  bool IsLastOfFunction(const Call& call) const;
  std::map<std::pair<std::string_view, std::string>, Variable> variables_;

  std::string_view function_module_;     // of the last call of a Function's
  std::vector<NameId> function_inputs_;  // what its calls so far read of others
  std::set<NameId> function_results_;

  int loops_ = 0;                                 // and branches, around the running call
  static constexpr int64_t kMostCalls = 100'000;  // in them
  int64_t calls_left_ = kMostCalls;
  int32_t checkpoints_ = 0;                        // so many of the model's own until now
  bool has_reentrant_ = false;                     // among them
  bool has_others_ = false;                        // that are not
  bool has_nested_ = false;                        // inside others
  bool has_just_begun_ = false;                    // one that is not, with the last call
  int64_t blocks_put_back_ = 0;                    // to come, without gradients in the file alone
  std::vector<SourceLine> checkpoint_lines_ = {};  // around the one that has begun last
  bool is_noted_ = false;                          // what runs under that is, call by call
  const Call* running_ = nullptr;
  std::map<std::string_view, UndoneCast> spelled_casts_;
  std::map<const Call*, CastWay> cast_ways_;
  std::map<std::string_view, NameId> module_inputs_;  // by module
  std::set<NameId> tracked_;
  std::map<std::string_view, const Call*> readers_;  // by tensor: the first
  std::vector<bool> is_frozen_;                      // by parameter, tied ones once
  std::set<std::string_view> read_;
  std::vector<std::pair<std::string_view, NameId>> named_outputs_;
};

}  // namespace onnxfit::pt2
