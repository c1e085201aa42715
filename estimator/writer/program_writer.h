// A program that grows by one call after the other.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "estimator/base/settings.h"
#include "estimator/program/program.h"

namespace onnxfit {

// Where a call runs, and under which rules.
struct CallPlace {
  std::string where = {};                     // what messages and reports call it
  ModuleId module = kOutside;                 // the innermost around it
  std::vector<StatementId> frames = {};       // of forwards around it, innermost last
  std::optional<bool> written_in_place = {};  // what the source says: "out += x", "out + x"
  bool writes_over_first = false;             // ATen's own in-place form: no guess
  bool returns_first = false;                 // itself, as it was seen: nothing was to be done
  bool leaves_autocast = false;               // it runs under torch.autocast(enabled=False)
  DType enters_autocast = DType::kUndefined;  // of torch.autocast(dtype=…) around it
  bool behind_autocast = false;               // it runs once the loop's torch.autocast has ended
  bool leaves_autograd = false;               // it runs under torch.no_grad()
  FunctionPart function = FunctionPart::kNone;
  bool is_made_once = false;  // it runs in the first step alone
  int32_t checkpoint = -1;    // the model's own around it; -1: none
};

class ProgramWriter {
 public:
  // `settings` must outlive it.  `path` is what errors call the model.
  ProgramWriter(const TrainingSettings& settings, std::string path);

  bool trains() const { return settings_.mode == Mode::kTrain; }
  const std::string& path() const { return path_; }
  Program& program() { return program_; }
  // Whether values have the types that torch.autocast gives them before Dispatch does.
  bool has_types_of_autocast() const { return has_types_of_autocast_; }
  const TrainingSettings& settings() const { return settings_; }

  // A value of the program.  Throws Error for more bytes than 64 bits hold.
  NameId NewName(std::string name, const TensorType& type);

  // Parameters in the module's order, frozen ones among them: those that settings.freeze picks,
  // those for which `is_frozen` says so (empty: none), and all where adapters are to be trained.
  void ListParameters(const std::vector<NameId>& parameters,
                      const std::vector<bool>& is_frozen = {});
  // The orders in which the values that there are come to the device, and are copied.
  // `modules` are paths in the order of named_modules(), as far as the file says them.
  // REQUIRES: the values are the module's parameters, then its buffers.
  void PlaceModule(const std::vector<std::string>& modules = {});

  // The next call.  Where its operands are not what `op` takes, it runs as an unknown one, and
  // WarnOfUnknown says so.
  void Emit(const CallPlace& place, std::string_view op, std::vector<NameId> inputs,
            std::vector<NameId> outputs, std::vector<int64_t> ints = {});
  // The same of an operator without a rule, which WarnOfUnknown calls `op`.
  void EmitUnknown(const CallPlace& place, std::string_view op, std::vector<NameId> inputs,
                   std::vector<NameId> outputs);

  // The type that parameters and activations have in this run: floats of 16 bits and more have that
  // of the settings, unless all types are the file's.
  TensorType WithPrecision(TensorType type) const;
  // A buffer of the model's: FSDP's policy leaves it.
  TensorType BufferType(const TensorType& type) const {
    return settings_.ranks.fsdp_policy ? type : WithPrecision(type);
  }

  // Warns of calls without a rule, of which the file has `unit`s ("node").
  void WarnOfUnknown(std::string_view unit);

  Program TakeProgram() { return std::move(program_); }

 protected:
  const TrainingSettings& settings_;
  Program program_;
  bool keeps_types_;  // of the file
  bool has_types_of_autocast_ = false;

 private:
  std::string_view Checked(const CallPlace& place, std::string_view op,
                           const std::vector<NameId>& inputs, const std::vector<NameId>& outputs,
                           const std::vector<int64_t>& ints);
  const Dims* DimsOf(NameId name) const;

  void WarnOfMisfits();

  std::string path_;
  std::map<std::string, int, std::less<>> unknown_;  // operator -> calls
  // By call whose operands are not what its rule takes: the first place and what was found there.
  std::map<std::string, std::pair<std::string, std::string>> misfits_;
};

// The outermost module of a library's class that a file names.
struct LibraryModel {
  std::string class_name = {};  // "transformers.models.gpt2.modeling_gpt2.GPT2LMHeadModel"; "" none
  size_t level = 0;             // how many modules are around it

  bool is_known() const { return !class_name.empty(); }
  // Takes the first of `classes`, from the outermost in, that is one, unless one is known.
  void LookIn(std::span<const std::string_view> classes);
};

// The rest of a program whose forward is written: its `loss_output`, unless that is kNoName, gets
// labels and, in training, the loss.  Warns of parameters that no gradient reaches.  Of calls whose
// results nobody reads, those that `is_leftover` are the exporter's, and go.  Throws Error as
// AddLabels does.  O(calls × depth of modules).
void FinishProgram(ProgramWriter& writer, NameId loss_output, const LibraryModel& model,
                   const std::function<bool(const AtenCall&)>& is_leftover);

// --- Calls that are written in the place of others ------------------------------------------

// A value more of `program`.
NameId AddValue(Program& program, std::string name, const TensorType& type);

// `at` with another operator and operands: of the same place, module and statement.
AtenCall CallAt(const AtenCall& at, std::string_view op, std::vector<NameId> inputs,
                std::vector<NameId> outputs, std::vector<int64_t> ints = {});

}  // namespace onnxfit
