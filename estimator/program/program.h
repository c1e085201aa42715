// What PyTorch runs: ATen calls on named values, in order, loss included.  Built for one
// binding of the dimensions.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "estimator/base/error.h"
#include "estimator/base/settings.h"
#include "estimator/base/tensor_type.h"
#include "estimator/program/modules.h"
#include "estimator/program/source_statement.h"

namespace onnxfit {

using NameId = int32_t;                // index into Program::values
inline constexpr NameId kNoName = -1;  // an argument that is absent, a host number

struct ProgramValue {
  std::string name;
  StridedType type;  // without strides before Dispatch (operators/dispatch.h)
};

// A value that a forward's name holds until the module call of this level has returned; the depth
// of the call's module for the call itself.
struct HeldValue {
  NameId value = kNoName;
  size_t level = 0;
};

// A torch.autograd.Function of the model's own, whose backward was watched.  Its forward runs under
// torch.no_grad(), and right behind it stand:
enum class FunctionPart : uint8_t {
  kNone,
  kNode,      // what its node is: the call's inputs are arguments, results, then what it saves;
              // its ints say how many are which, the rest is kept in attributes of its context
  kArrival,   // of its backward, what that is given: gradients of results, then what was saved
  kBackward,  // a call of its backward
  kLeaf,      // the same: from here on the call's input asks for gradients
  kNested,    // the same, torch.autograd.backward: inputs are such leaves, roots, then gradients of
              // roots, kNoName for ones; ints say how many are which, then whether it keeps the
              // graph, and whether it is torch.autograd.grad; outputs are the gradients of leaves
  kReturn,    // what that returns: gradients of arguments, which are the call's inputs
};

struct AtenCall {
  std::string_view op;              // ATen's name, "convolution": a row of the operator table
  std::string where;                // the node, as messages and reports name it
  std::vector<NameId> inputs = {};  // kNoName where none
  std::vector<NameId> outputs = {};
  std::vector<int64_t> ints = {};             // integer arguments, where the row asks for them
  ModuleId module = kOutside;                 // the innermost around it
  std::optional<bool> written_in_place = {};  // what the source says: "out += x", "out + x"
  bool writes_over_first = false;             // ATen's own in-place form: no guess
  bool returns_first = false;                 // itself, as it was seen: nothing was to be done
  bool leaves_autocast = false;               // runs under torch.autocast(enabled=False)
  DType enters_autocast = DType::kUndefined;  // of torch.autocast(dtype=…) inside the model
  bool behind_autocast = false;               // runs once the loop's torch.autocast has ended
  bool leaves_autograd = false;               // runs under torch.no_grad()
  FunctionPart function = FunctionPart::kNone;
  bool is_distributed = false;      // of DTensors: gradients add up to a new one
  bool is_autocasts = false;        // a cast that torch.autocast makes of an argument
  bool asks_for_gradients = false;  // result.requires_grad_(True) follows it
  NameId typed_like = kNoName;  // of a cast: whose type a variable holds that it names; not read
  int32_t checkpoint =
      -1;  // under which of the model's own torch.utils.checkpoint it runs; -1: none
  bool made_once = false;                // in the first step: a module or a cache keeps it
  std::vector<StatementId> frames = {};  // of forwards around it, innermost last
  std::vector<HeldValue> held = {};      // by names that no line of the file shows
  std::vector<NameId> last_reads = {};   // names that no later call reads
  // Names dropped once the call has returned; one that a call further on makes, as it is in the
  // step before.
  std::vector<NameId> dies = {};
  int32_t action = -1;             // in Program::actions: what happens instead of an operator
  std::vector<NameId> drops = {};  // parameters whose gradients are dropped with `dies`
};

// Of a call that is FunctionPart::kNode.
inline std::span<const NameId> ArgumentsOfFunction(const AtenCall& node) {
  return std::span(node.inputs).first(static_cast<size_t>(node.ints[0]));
}
inline std::span<const NameId> ResultsOfFunction(const AtenCall& node) {
  return std::span(node.inputs)
      .subspan(static_cast<size_t>(node.ints[0]), static_cast<size_t>(node.ints[1]));
}

// What a watched step does between its calls, at the place of a call that runs no operator.
struct StepAction {
  enum class Kind : uint8_t {
    kNothing,       // only deaths: where the step begins, where a block of torch.autocast ends
    kBackward,      // the first half of the call's inputs goes backward, from the gradients that
                    // are its second half, kNoName for ones; its outputs are those of `parameters`
    kStep,          // optimizer.step()
    kNorm,          // the call's output is the norm of the gradients of `parameters`
    kClip,          // gradients are scaled to the norm that is the call's input
    kAskGradients,  // requires_grad_(True) of `parameters`
    kAskNone,       // requires_grad_(False)
    kSetData,       // the call's inputs are x and y of x.data = y
  };
  Kind kind = Kind::kNothing;
  std::vector<NameId> parameters = {};
  bool keeps_graph = false;  // of kBackward: retain_graph=True
  size_t optimizer = 0;      // of kStep: in Program::optimizers
};

// An optimizer object of a watched step, whose groups are stepped one after the other.
struct StepOptimizer {
  struct Group {
    Optimizer optimizer = Optimizer::kNone;
    std::optional<OptimizerImpl> impl = {};  // nullopt: PyTorch's choice
    uint8_t args = 0;                        // OptimizerArg bits
    std::vector<NameId> parameters = {};
  };
  std::vector<Group> groups = {};
};

// What binds a name for the longest time.
struct NameKeeper {
  enum class By : uint8_t {
    kCall,       // the last call that mentions it
    kArgument,   // a module call that took it as an argument
    kStatement,  // a name of Python's
    kObserved,   // what Python had it in when it was watched
    kOutput,     // the model's caller
  };
  By by = By::kCall;
  size_t level = 0;         // of kArgument: that of a module around the call at which it dies
  std::string target = {};  // of kStatement: Python's name
};

// A statement whose calls were left out binds what held `value` anew, behind call `behind`.
struct Rebinding {
  NameId value = kNoName;
  int64_t behind = 0;
  StatementId statement = kNoStatement;
  ModuleId module = kOutside;  // in whose forward it is
};

// A weight that is packed when it comes to the device.
struct QuantizedWeight {
  NameId packed = kNoName;
  TensorType full = {};  // what is packed
  // What stays beside it, of 4 bits (quantize_4bit, bitsandbytes' functional.py), of 8 the scales
  // alone.
  struct Scales {
    NameId code = kNoName;              // what 4 bits stand for
    NameId offset = kNoName;            // the mean of the scales
    NameId scales_of_scales = kNoName;  // in fp32
    NameId scales = kNoName;            // of blocks, in 8 bits; of rows, in fp32
    NameId code_of_scales = kNoName;    // what 8 bits stand for
  } scales = {};
  std::vector<NameId> adapters = {};  // of Program::adapters, what stands beside it

  bool is_in_4_bits() const { return scales.code != kNoName; }
};

// Parameters that are parts of one tensor: RNNBase.flatten_parameters (torch/nn/modules/rnn.py,
// pytorch v2.11.0).
struct FlatWeights {
  std::vector<NameId> names;
  int64_t numel = 0;  // of the whole

  bool operator==(const FlatWeights&) const = default;
};

// What a module puts into a dict that it is given, which those that are given it read, and hold
// ("shared_kv_states[kind] = keys, values").
struct StoredItem {
  std::vector<NameId> values;  // put there together, once the last of them is made
  ModuleId owner = kOutside;   // whose forward gives the dict to modules that it calls

  bool operator==(const StoredItem&) const = default;
};

// How many labels there are, which a library's loop counts before the forward pass.
struct LabelCount {
  NameId count = kNoName;   // kNoName: it does not
  NameId labels = kNoName;  // of which it counts those that are not to be ignored
  bool is_shifted = false;  // but for the first of each sequence

  bool operator==(const LabelCount&) const = default;
};

// Another name of a parameter, which is one of its own until ties.h joins it.
struct Tie {
  NameId name = kNoName;
  NameId first = kNoName;  // of the same parameter

  bool operator==(const Tie&) const = default;
};

// A trained matrix of a linear layer whose gradient GaLore projects.
struct ProjectedMatrix {
  NameId parameter = kNoName;
  Dims dims = {};  // as PyTorch has it: of nn.Linear [out, in]
};

struct Program {
  std::vector<ProgramValue> values;
  ModuleTree modules;
  SourceLines source;
  std::vector<NameId> parameters;  // trained, in the order in which the optimizer sees them
  std::vector<NameId> adapters;    // of these: what stands beside layers
  std::vector<NameId> frozen;      // need no gradient (settings.freeze)
  std::vector<NameId> buffers;
  std::vector<NameId> placement;  // all three, in the order of model.to("cuda")
  std::vector<NameId> shared;  // of these: of layers that ranks share, on no device until they do
  std::vector<QuantizedWeight> quantized;
  std::vector<ProjectedMatrix> projected;
  std::vector<FlatWeights> flat_weights;  // Dispatch lists them
  std::vector<Tie> ties = {};
  std::vector<NameId> copy_order;  // all three, in the order of copy.deepcopy(model)
  std::vector<NameId> inputs;      // a new batch each step, labels last
  std::vector<NameId> sized;       // whose sizes the file's own nodes ask for, in order
  std::vector<AtenCall> calls;     // forward, then the loss
  std::vector<Rebinding> rebindings;
  std::vector<StoredItem> stored;
  bool is_as_watched = false;              // each call as it ran: no line or name adds to that
  bool has_reentrant_checkpoints = false;  // those of AtenCall::checkpoint, all of them
  std::vector<NameId> outputs;             // of the model; the loop may hold them
  // Of a whole step that was watched, whose calls are not forward alone: it goes backward itself.
  // Empty: the loop of training/training.h does.
  std::vector<StepAction> actions;
  std::vector<StepOptimizer> optimizers;  // that its actions step
  NameId loss = kNoName;                  // kNoName: nothing to train, or not here
  bool loss_is_output = false;            // the model has made it: there are no labels
  // Of a stage of a pipeline (transforms/stages.h): what the stage before has made of parameters,
  // and what the next one reads of that.  Gradients go the other way.
  std::vector<NameId> received;
  std::vector<NameId> sent;
  LabelCount label_count;                          // bound anew each step
  std::shared_ptr<const Program> evaluation = {};  // what runs behind a step; null: nothing
  std::vector<NameId> cached_casts;  // let go when autocast exits; Dispatch lists them
  std::vector<std::string> assumptions;
  std::vector<Doubt> doubts;       // what recovery guessed and no flag said
  std::vector<std::string> notes;  // what recovery did, for -v
  Warnings warnings;

  // How this came about, for those who ask why.
  std::vector<NameId> name_of;      // by value of the file; kNoName: no tensor on the device
  std::vector<NameKeeper> keepers;  // by NameId
};

// Whether backward has somewhere to begin.
inline bool HasBackward(const Program& program) {
  return program.loss != kNoName || !program.sent.empty() || !program.actions.empty();
}

// Whether the last of its inputs are labels, which the loss alone takes.
inline bool HasLabels(const Program& program) {
  return program.loss != kNoName && !program.loss_is_output;
}

// Whether it is a whole step, with its own backward passes and optimizers.
inline bool IsWholeStep(const Program& program) { return !program.actions.empty(); }

// One line a call, "%h = relu(%x)  # /layer1/relu", for tests and -v.
std::string ToString(const Program& program);

}  // namespace onnxfit
