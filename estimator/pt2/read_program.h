// From the JSON of a program to plain values (torch/_export/serde/schema.py has its form).
#pragma once

#include <deque>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "estimator/pt2/exported_program.h"
#include "estimator/pt2/json_text.h"

namespace onnxfit::pt2 {

// Texts that no file has, put together while reading.  Views of them stay valid.
class TextPool {
 public:
  std::string_view Keep(std::string text) { return texts_.emplace_back(std::move(text)); }

 private:
  std::deque<std::string> texts_;
};

// What the readers of one program share.
struct ReadState {
  // Each note once, and no more than a reader wants.
  void AddNote(std::string note);

  TextPool& pool;
  std::vector<std::string>& notes;
  std::unordered_map<std::string_view, Size> sizes = {};  // by the expression as it is written
};

// All throw UnexpectedJson for what is not as the schema says.

// The whole, but for `path`, `digest`, `owner` and the storages of `inputs`.
ExportedProgram ReadProgram(const Json& json, TextPool& pool);

Graph ReadGraph(const Json& json, ReadState& state);

// What `read` makes of each item of `list`.
template <typename Read>
auto ReadEach(const Json& list, ReadState& state, Read read) {
  std::vector<decltype(read(list, state))> all;
  const auto items = ItemsOf(list);
  all.reserve(items.Size());
  for (const Json& item : items) all.push_back(read(item, state));
  return all;
}

// {"as_int": 3}: one of many kinds.  A kind that is not known is kOther.
Argument ReadArgument(const Json& json, ReadState& state);

// {"as_int": 3} or {"as_expr": {"expr_str": "2*s0", "hint": {"as_int": 8}}}.
Size ReadSize(const Json& json, ReadState& state);

// The list of strings that is this member; {} where there is none.
std::vector<std::string_view> ReadTextList(const Json& json, std::string_view name);

// graph_module.signature.
std::vector<InputSpec> ReadInputSpecs(const Json& signature, ReadState& state);
std::vector<OutputSpec> ReadOutputSpecs(const Json& signature, ReadState& state);

// Names the storages of parameters and buffers by the archive's table of weights,
// {"config": {"fc.weight": {"path_name": "weight_0", "use_pickle": false, …}}}.  `has_bytes` says
// whether a member holds anything: tensors of the meta device are all of one that is empty.
template <typename HasBytes>
void NameStorages(const Json& config, std::vector<InputSpec>& inputs, HasBytes has_bytes) {
  std::unordered_map<std::string_view, std::string_view> storages;
  for (const auto& [target, payload] : MembersOf(MemberOf(config, "config"))) {
    const std::string_view storage = Text(MemberOf(payload, "path_name"));
    if (has_bytes(storage)) storages.emplace(Text(target), storage);
  }
  for (InputSpec& input : inputs) {
    const auto found = storages.find(input.target);
    if (found != storages.end()) input.storage = found->second;
  }
}

// --- Where a call came from ----------------------------------------------------

// LSTM, GRU and RNN that run_decompositions() took apart, step by step, become the call again that
// cuDNN runs.  (unrolled_layers.cc)  O(calls × log calls).
void RollUpLayers(ExportedProgram& program, TextPool& pool);

// What a call's metadata says of it: texts of PyTorch's own making.

// "nn_module_stack": frames "KEY,PATH,TYPE" with ';' between them, outermost first, such as
//   L__self__,,__main__.Net;L__self__model.act@1,model.act,torch.nn.modules.activation.ReLU
// A key that ends in "@1" is a second call's.  What is no frame is left out.
std::vector<ModuleFrame> ParseModuleStack(std::string_view text, TextPool& pool);

// "stack_trace", as Python's traceback writes it, outermost first:
//   File "net.py", line 11, in forward
//     return self.act(x)
// What is no frame is left out; statements have blanks around "=" (line_spacing.h).
std::vector<SourceLine> ParseStackTrace(std::string_view text, TextPool& pool);

// "y = layer.forward(x)" enters a module that no stack names, but a line: puts in the parent of the
// module that is called there, "m.layers.0" between "m" and "m.layers.0.attn".  Where there are
// lines for all modules nothing is done.
void AddForwardsOfNoStack(std::vector<ModuleFrame>& modules, const std::vector<SourceLine>& lines,
                          TextPool& pool);

}  // namespace onnxfit::pt2
