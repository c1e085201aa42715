// What a module's forward does, as a run of it that was watched has shown: its steps in order, and
// behind which of them Python lets go of what they make.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace onnxfit {

// An operator that the forward calls by itself, or the run of a child.  Names are Interned, or
// those of the binary.
struct SkeletonStep {
  std::string_view key;  // the operator; the child as the forward calls it, "layer.3"
  bool is_child = false;
  std::string_view class_name;  // of the child
  std::string_view leaf = {};   // of a child without children: its last operator
  uint32_t line = 0;            // a hash of the line that makes the call; 0: not known
  bool in_place = false;        // the operator writes over its first operand
  bool is_idle = false;         // it returned that as it was: x.contiguous() of what is
  uint8_t cast_to = 0;  // bits of x.to(dtype), watched in 16 bits or under autocast; 0: not known
  uint32_t id = 0;      // IdOf what the child did; 0: not known
  std::string_view starred = {};  // StarredKey of it, once Starred has made it

  bool operator==(const SkeletonStep&) const = default;
};

// The operator, or a child that is it.
inline bool IsDropout(const SkeletonStep& step) {
  return (step.is_child ? step.leaf : step.key) == "dropout";
}

// What a step that files may lack reads, and what reads its result: both as distances in steps.
struct SkeletonFlow {
  int32_t step = 0;
  int32_t other = 0;   // -1: the step in front of it, which makes what it reads; 1: that behind it
  int32_t result = 0;  // of what it reads, which result of that step; of a reader, which operand

  bool operator==(const SkeletonFlow&) const = default;
};

// Result `result` of step `step`: of an operator one of its outputs, of a child one of those that
// it leaves, in the order of Skeleton::left.
struct SkeletonValue {
  static constexpr int32_t kLeft = -1;  // to its caller

  int32_t step = 0;
  int32_t result = 0;
  int32_t dies_behind = kLeft;  // a step

  bool operator==(const SkeletonValue&) const = default;
};

// In which runs a forward does what a skeleton says.
enum SkeletonRuns : uint8_t {
  kTrainRun = 1,
  kTrainHalfRun = 2,      // in 16 bits
  kTrainAutocastRun = 4,  // under torch.autocast
  kEvalRun = 8,
  kEvalHalfRun = 16,
  kEvalAutocastRun = 32,
  kAllRuns = 63,
  kAsModel = 64,  // beside those: no module was around it
  kAnyRun = kAllRuns | kAsModel,
};

struct Skeleton {
  std::string_view class_name;  // "transformers.models.bert.modeling_bert.BertSelfOutput"
  std::vector<SkeletonStep> steps;
  std::vector<SkeletonValue> values;     // in order
  std::vector<SkeletonFlow> flows = {};  // of casts and dropouts, in order
  uint8_t runs = kAllRuns;

  bool operator==(const Skeleton&) const = default;
};

// How two steps are compared: the numbers of lists are "*", "layer.*".  O(length) where the step
// has it not yet.
std::string_view StarredKey(const SkeletonStep& step);
// The step, with that.
SkeletonStep Starred(SkeletonStep step);

// With `turns` turns of each loop over a list of layers, by leaving out or repeating those in the
// middle.  `turns` gives the number for each starred key; a loop that it does not name is as it is.
// O(steps).
struct LoopTurns {
  std::string_view key;  // starred
  size_t turns = 0;
};
Skeleton WithTurns(const Skeleton& skeleton, const std::vector<LoopTurns>& turns);
// The loops of `steps`, each with its turns.  O(steps × log).
std::vector<LoopTurns> LoopsOf(const std::vector<SkeletonStep>& steps);

// With 4 turns of each loop where the others are told by those: what files of other depths are
// compared with.  O(steps).
Skeleton Shortened(const Skeleton& skeleton);

// Throw Error where a value or a flow is not of a forward of so many steps.
void CheckValue(const SkeletonValue& value, size_t steps);
void CheckFlow(const SkeletonFlow& flow, size_t steps);

// Of 32 bits; not for what others may choose.  O(length).
uint32_t HashOf(std::string_view text);
// What SkeletonStep::line has of that text: 20 bits, as only lines of one forward are compared.
// O(length).
uint32_t HashOfLine(std::string_view text);
// Tells apart what forwards of one class do, and what their children do.  O(steps).
uint32_t IdOf(const Skeleton& skeleton);

// Three lines a skeleton, for files: its class, and behind a blank the runs, "tT", if not all; its
// steps, "dropout:1f", "relu!:1f" in place, "contiguous?:1f"
// idle, "to=16:1f", or ">layer.0=Class/linear~9a:1f"; its
// values, "0.0-3" of what dies behind step 3, "4.0" of what is left, and its flows, "3<-2.0" of
// what step 3 reads, "3>1.1" of what reads that.  ParseSkeletons throws Error for other text.
std::string ToText(const Skeleton& skeleton);
std::vector<Skeleton> ParseSkeletons(std::string_view text);

}  // namespace onnxfit
