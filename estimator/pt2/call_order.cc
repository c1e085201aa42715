#include "estimator/pt2/call_order.h"

#include <fmt/format.h>

#include <set>
#include <string>
#include <string_view>

#include "estimator/base/error.h"
#include "estimator/base/quote.h"

namespace onnxfit::pt2 {
namespace {

using Kind = Argument::Kind;
using NameSet = std::set<std::string_view>;

void AddMade(const Argument& made, NameSet& names) {
  if (made.kind == Kind::kTensor || made.kind == Kind::kSymbol) names.insert(made.text);
  for (const Argument& item : made.items) AddMade(item, names);
}

class OrderCheck {
 public:
  explicit OrderCheck(const ExportedProgram& exported)
      : path_(exported.path), is_watched_(exported.watching.has_value()) {}

  // `made` before the graph runs: a body reads what is around it, too.
  void Check(const Graph& graph, NameSet made) const {
    for (const Argument& input : graph.inputs) AddMade(input, made);
    for (const Call& call : graph.calls) {
      const std::string where = fmt::format("call {}", Quote(call.name));
      for (const auto& [name, argument] : call.arguments) {
        CheckRead(argument, "input", where, made, graph);
      }
      for (const Argument& result : call.results) AddMade(result, made);
    }
    for (const Argument& output : graph.outputs) CheckRead(output, "output", "", made, graph);
  }

 private:
  void CheckRead(const Argument& read, std::string_view what, const std::string& where,
                 const NameSet& made, const Graph& graph) const {
    if (read.graph != nullptr) Check(*read.graph, made);
    for (const Argument& item : read.items) CheckRead(item, what, where, made, graph);
    if (read.kind != Kind::kTensor && read.kind != Kind::kSymbol) return;
    // Of a watched program, sizes that follow the batch: no call makes them.
    const bool is_size = read.kind == Kind::kSymbol && graph.symbols.contains(read.text);
    if (is_watched_ && is_size) return;
    if (!read.text.empty() && !made.contains(read.text)) Refuse(read.text, what, where, graph);
  }

  [[noreturn]] void Refuse(std::string_view name, std::string_view what, std::string where,
                           const Graph& graph) const {
    std::string later;
    for (const Call& call : graph.calls) {
      NameSet made;
      for (const Argument& result : call.results) AddMade(result, made);
      if (made.contains(name)) later = std::string(call.name);
    }
    throw Error(
        {.file = path_,
         .where = std::move(where),
         .text = fmt::format("{} {} should be made by an input or a call before it, found {}", what,
                             Quote(name),
                             later.empty() ? "none that makes it"
                                           : fmt::format("call {}, which is not", Quote(later))),
         .hint = "copy or export it again, it is damaged"});
  }

  const std::string& path_;
  const bool is_watched_;
};

}  // namespace

void CheckOrder(const ExportedProgram& exported) { OrderCheck(exported).Check(exported.graph, {}); }

}  // namespace onnxfit::pt2
