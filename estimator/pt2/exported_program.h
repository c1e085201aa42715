// What a .pt2 says: the program that torch.export has written, as plain values.  Nothing is
// interpreted; names are the file's own.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "estimator/base/tensor_type.h"

namespace onnxfit::pt2 {

// A whole number, or an expression of symbols in Python's notation, whichever the file has: "s10",
// "128*s10", "Min(768, 768*s10)".  What it comes to for other sizes: Evaluate (expression.h).
struct Size {
  int64_t number = 0;  // where `expression` is ""
  std::string_view expression = {};
  std::optional<int64_t> hint = {};  // the number at the export
};

struct Tensor {
  DType dtype = DType::kUndefined;  // of complex32, which there is no number for: uint32
  std::vector<Size> sizes = {};     // numbers are >= 0
  std::vector<Size> strides = {};
  bool requires_grad = false;
  std::string_view device = {};  // "cpu", "meta", "cuda"; "" where the file does not say
};

struct Graph;

// An argument of a call, or a result.
struct Argument {
  enum class Kind : uint8_t {
    kNone,
    kTensor,  // `text` names it
    kNumber,  // `number`; what is beyond int64_t is its limit
    kReal,    // `real`
    kBool,    // `number` 0 or 1
    kText,    // a string, a dtype as PyTorch writes it ("float32"), a device ("cuda:0"), a layout
              // ("strided"), a memory format ("contiguous_format"), an operator
    kSymbol,  // a number that another call makes: `text` names it (as_sym_int, _bool, _float)
    kList,    // `items`: numbers, tensors, lists, kNone where an optional tensor is left out
    kGraph,   // of a higher-order operator: `graph`, `text` names it
    kOther,   // `text` says its kind as the file does ("as_custom_obj"); `items` of a dict are its
              // values
  };
  Kind kind = Kind::kNone;
  std::string_view text = {};
  int64_t number = 0;
  double real = 0;
  std::vector<Argument> items = {};
  std::shared_ptr<const Graph> graph = {};
};

// "torch.nn.modules.conv.Conv2d" at "model.conv1"; the path of a second call ends in "@1".
struct ModuleFrame {
  std::string_view path = {};  // "" is the module that was exported
  std::string_view type = {};
};

// A line of Python.
struct SourceLine {
  std::string_view file = {};
  int64_t line = 0;
  std::string_view function = {};
  std::string_view text = {};  // the first line of the statement, "" where there is none
};

// What a watched run of the module's says of a call (python/onnxfit/watching.py).
struct WatchedCall {
  std::vector<std::string_view> dies = {};  // that Python let go of behind it, in order
  std::vector<std::string_view> dies_of_step_before = {};  // the same, as that step made them
  std::vector<std::string_view> drops = {};   // parameters whose gradients it let go of then
  bool is_made_once = false;                  // in the first step alone
  bool asks_for_gradients = false;            // its result's requires_grad_(True) followed it
  bool leaves_autograd = false;               // it ran under torch.no_grad()
  bool leaves_autocast = false;               // under torch.autocast(enabled=False)
  DType enters_autocast = DType::kUndefined;  // of torch.autocast(dtype=…) of the module's own
  int64_t checkpoint = -1;      // under which of the module's torch.utils.checkpoint; -1: none
  bool is_reentrant = false;    // that one: use_reentrant=True
  bool is_nested = false;       // it ran inside another
  bool returns_first = false;   // its first operand itself: nothing was to be done
  bool is_in_function = false;  // in the forward of a torch.autograd.Function of the module's own
  bool is_in_backward = false;  // in its backward
};

struct Call {
  std::string_view target = {};  // "torch.ops.aten.conv2d.default"
  std::string_view name = {};    // its own ("split"); where the file has none, its first result's
  // By name, in the file's order; defaults are left out.  Those of higher-order operators have no
  // names ("") where they were given by position.
  std::vector<std::pair<std::string_view, Argument>> arguments = {};
  std::vector<Argument> results = {};     // a list of tensors is one result, a kList
  std::vector<ModuleFrame> modules = {};  // outermost first
  std::vector<SourceLine> lines = {};     // outermost first
  // The Python function or method that was called, also in helpers whose lines the file does not
  // show: "float" of x.float(), which is aten.to.dtype as x.to(dtype) is.  "" where no file says.
  std::string_view method = {};
  // Its result's requires_grad_(True) follows; said by exports of our own alone.
  bool asks_for_gradients = false;
  // It runs under torch.utils.checkpoint(…, use_reentrant=False); said by exports of our own alone.
  bool is_checkpointed = false;
  std::shared_ptr<const WatchedCall> watched = {};  // null where nobody has watched it
};

// The argument called `name`; null where it is left out or None.
const Argument* FindArgument(const Call& call, std::string_view name);

// Adds every tensor that `argument` names, those in lists too.
void AddNames(const Argument& argument, std::set<std::string_view>& names);

// The tensors that a call is given, in order, those in lists too: einsum's operands.
std::vector<std::string_view> OperandsOf(const Call& call);

struct Graph {
  std::vector<Argument> inputs = {};
  std::vector<Argument> outputs = {};
  std::vector<Call> calls = {};
  std::map<std::string_view, Tensor> tensors = {};
  std::map<std::string_view, Size> symbols = {};  // sym_int_values: numbers that calls make
  std::map<std::string_view, Size> truths = {};   // sym_bool_values: 0 or 1
};

// What a graph input is to the module.
struct InputSpec {
  enum class Kind : uint8_t { kUser, kParameter, kBuffer, kConstant, kOther };
  Kind kind = Kind::kUser;
  std::string_view name = {};             // of the graph's value
  std::string_view target = {};           // "layer1.0.conv1.weight"
  bool persistent = true;                 // of kBuffer
  std::optional<Argument> constant = {};  // of kUser: what was given as a Python number
  // The member that holds its values ("weight_3"): what names the same one is tied.  "" where the
  // file does not say, as older ones, and exports without weights (from the meta device).
  std::string_view storage = {};
  // Of a tied parameter that is kept apart (ties_apart.h): the first of its names.
  std::string_view first_name = {};
};

// What a graph output is to the module's caller.
struct OutputSpec {
  enum class Kind : uint8_t { kUser, kMutation, kOther };  // kMutation: of a buffer or an input
  Kind kind = Kind::kUser;
  std::string_view name = {};  // "" where a Python number is given back
  std::string_view target = {};
};

struct Range {
  std::optional<int64_t> low = {}, high = {};  // both included; nothing: no limit
};

// A parameter group of an optimizer that a watched step has, in words of the command line.
struct WatchedGroup {
  std::string_view optimizer = {};                // "adamw"
  std::string_view impl = {};                     // "fused"; "": PyTorch's choice
  std::vector<std::string_view> args = {};        // "weight_decay"
  std::vector<std::string_view> parameters = {};  // the graph's names
};
using WatchedOptimizer = std::vector<WatchedGroup>;

// How a program was watched, whose calls are those of a run rather than of torch.export.
struct Watching {
  std::string_view precision = {};  // "amp-bf16", as --precision is told; "own": the file's types
  bool is_whole_step = false;       // some calls are actions (watched_actions.cc)
  std::vector<WatchedOptimizer> optimizers = {};
};

struct ExportedProgram {
  std::string path = {};    // as typed
  std::string digest = {};  // of the program's JSON
  std::string torch = {};   // "2.11.0+cu130"; "" where the file does not say
  int64_t schema_major = 0, schema_minor = 0;
  bool is_as_written = false;  // calls that write in place do so: not run_decompositions()'s
  Graph graph;
  std::vector<InputSpec> inputs = {};    // one for each of graph.inputs
  std::vector<OutputSpec> outputs = {};  // one for each of graph.outputs
  // module_call_graph, which does not say types: in the order of named_modules(), called or not.
  std::vector<ModuleFrame> module_calls = {};
  std::map<std::string_view, Range> ranges = {};      // of symbols
  std::vector<std::string_view> argument_names = {};  // of forward
  std::vector<std::string> notes = {};
  std::optional<Watching> watching = {};
  // Of who exported it (kNotesMember in schema.h).
  std::vector<std::string> assumptions = {};
  std::string batch_place = {};            // "1 input" (onnx/named_sizes.h); "" where nobody says
  std::shared_ptr<const void> owner = {};  // of the text that all views are of
};

// Reads `path` ("-" is standard input).  Weights stay where they are: O(bytes of the program).
// Throws Error for what is no .pt2, is damaged, or of a schema that is not known.
ExportedProgram LoadExportedProgram(const std::string& path);

// The same for the bytes of a file that messages and reports call `name`.
ExportedProgram LoadExportedProgramFrom(std::string_view bytes, const std::string& name);

// A program that is in no archive.
struct ProgramTexts {
  std::string program;       // JSON, as of models/model.json
  std::string program_name;  // in messages
  std::string ties = {};  // JSON, {"lm_head.weight": "wte.weight"}: names of one tensor; "": none
  std::string ties_name = {};
  std::string notes = {};  // JSON, as of onnxfit/notes.json; "": none
  std::string notes_name = {};
};

// The same for it.  The errors know no file.
ExportedProgram ReadExportedProgram(ProgramTexts texts);

// Whether a file that begins so may be a .pt2: a zip archive.  What else a zip archive may be, the
// functions above say in an Error.
bool MayBeExportedProgram(std::string_view first);

// The program as text, a line for each thing it has.
std::string ToString(const ExportedProgram& program);

// torch.export lists a tied parameter under each of its names, in the order of
// named_parameters(remove_duplicate=False): the names of graph inputs that are not the first of
// theirs, and that first one.  Tied are those that the file stores once; where it stores nothing,
// one that no call reads is the one that a call of its module reads instead.  None where they are
// kept apart.  Buffers that the file stores once are tied, too.
// O(calls × log calls).
std::map<std::string_view, std::string_view> FindFirstNames(const ExportedProgram& exported);

}  // namespace onnxfit::pt2
