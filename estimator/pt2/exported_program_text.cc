#include <fmt/format.h>

#include "estimator/pt2/exported_program.h"

namespace onnxfit::pt2 {
namespace {

// "3", "s10", "s10 = 2" with the number at the export.
std::string SizeText(const Size& size) {
  if (size.expression.empty()) return std::to_string(size.number);
  std::string text(size.expression);
  return size.hint ? fmt::format("{} = {}", text, *size.hint) : text;
}

template <typename Item, typename ToItemText>
std::string ListText(const std::vector<Item>& items, ToItemText to_text) {
  std::string text;
  for (const Item& item : items) text += (text.empty() ? "" : ", ") + to_text(item);
  return "[" + text + "]";
}

std::string TensorText(const Tensor& tensor) {
  return fmt::format("{}{} strides {}{}", Name(tensor.dtype), ListText(tensor.sizes, SizeText),
                     ListText(tensor.strides, SizeText), tensor.requires_grad ? " grad" : "");
}

// A number with a point, so that it is no whole one.
std::string RealText(double real) {
  std::string text = fmt::format("{}", real);
  return text.find_first_not_of("-0123456789") == text.npos ? text + ".0" : text;
}

// Values as in Python's text of a graph: %x is a tensor, $n a symbol.
std::string ArgumentText(const Argument& argument) {
  using Kind = Argument::Kind;
  switch (argument.kind) {
    case Kind::kNone:
      return "None";
    case Kind::kTensor:
      return fmt::format("%{}", argument.text);
    case Kind::kNumber:
      return std::to_string(argument.number);
    case Kind::kReal:
      return RealText(argument.real);
    case Kind::kBool:
      return argument.number != 0 ? "True" : "False";
    case Kind::kText:
      return fmt::format("'{}'", argument.text);
    case Kind::kSymbol:
      return fmt::format("${}", argument.text);
    case Kind::kList:
      return ListText(argument.items, ArgumentText);
    case Kind::kGraph:
      return fmt::format("graph {}", argument.text);
    case Kind::kOther:
      break;
  }
  return fmt::format("<{}>{}", argument.text,
                     argument.items.empty() ? "" : ListText(argument.items, ArgumentText));
}

std::string CallText(const Call& call) {
  std::string arguments;
  for (const auto& [name, argument] : call.arguments) {
    if (!arguments.empty()) arguments += ", ";
    if (!name.empty()) arguments += fmt::format("{}=", name);
    arguments += ArgumentText(argument);
  }
  return fmt::format("{}: {} = {}({})", call.name, ListText(call.results, ArgumentText),
                     call.target, arguments);
}

std::string GraphText(const Graph& graph, const std::string& indent);

void AddSubgraphs(const std::vector<Argument>& arguments, const std::string& indent,
                  std::string& text);

void AddSubgraph(const Argument& argument, const std::string& indent, std::string& text) {
  if (argument.graph != nullptr) {
    text += fmt::format("{}graph {}\n", indent, argument.text);
    text += GraphText(*argument.graph, indent + "  ");
  }
  AddSubgraphs(argument.items, indent, text);
}

void AddSubgraphs(const std::vector<Argument>& arguments, const std::string& indent,
                  std::string& text) {
  for (const Argument& argument : arguments) AddSubgraph(argument, indent, text);
}

std::string GraphText(const Graph& graph, const std::string& indent) {
  std::string text = fmt::format("{}inputs {}\n", indent, ListText(graph.inputs, ArgumentText));
  for (const Call& call : graph.calls) {
    text += fmt::format("{}{}\n", indent, CallText(call));
    for (const ModuleFrame& frame : call.modules) {
      text += fmt::format("{}  in '{}' {}\n", indent, frame.path, frame.type);
    }
    for (const SourceLine& line : call.lines) {
      text += fmt::format("{}  at {}:{} {}: {}\n", indent, line.file, line.line, line.function,
                          line.text);
    }
    for (const auto& [name, argument] : call.arguments) AddSubgraph(argument, indent + "  ", text);
  }
  text += fmt::format("{}outputs {}\n", indent, ListText(graph.outputs, ArgumentText));
  for (const auto& [name, tensor] : graph.tensors) {
    text += fmt::format("{}tensor {} {}\n", indent, name, TensorText(tensor));
  }
  for (const auto& [name, size] : graph.symbols) {
    text += fmt::format("{}symbol {} {}\n", indent, name, SizeText(size));
  }
  return text;
}

std::string InputText(const InputSpec& input) {
  constexpr std::string_view kNames[] = {"user", "parameter", "buffer", "constant", "other"};
  std::string text =
      fmt::format("input {} {}", kNames[static_cast<size_t>(input.kind)], input.name);
  if (!input.target.empty()) text += fmt::format(" is {}", input.target);
  if (!input.persistent) text += ", not persistent";
  if (input.constant) text += fmt::format(" = {}", ArgumentText(*input.constant));
  if (!input.storage.empty()) text += fmt::format(" in {}", input.storage);
  return text;
}

std::string OutputText(const OutputSpec& output) {
  constexpr std::string_view kNames[] = {"user", "mutation", "other"};
  std::string text =
      fmt::format("output {} {}", kNames[static_cast<size_t>(output.kind)], output.name);
  if (!output.target.empty()) text += fmt::format(" of {}", output.target);
  return text;
}

std::string LimitText(const std::optional<int64_t>& limit) {
  return limit ? std::to_string(*limit) : "";
}

}  // namespace

std::string ToString(const ExportedProgram& program) {
  std::string text = fmt::format("torch {}, schema {}.{}\n", program.torch, program.schema_major,
                                 program.schema_minor);
  const auto as_text = [](std::string_view name) { return std::string(name); };
  text += fmt::format("forward {}\n", ListText(program.argument_names, as_text));
  for (const auto& [symbol, range] : program.ranges) {
    text += fmt::format("range {} {}..{}\n", symbol, LimitText(range.low), LimitText(range.high));
  }
  for (const InputSpec& input : program.inputs) text += InputText(input) + "\n";
  for (const OutputSpec& output : program.outputs) text += OutputText(output) + "\n";
  for (const ModuleFrame& frame : program.module_calls) {
    text += fmt::format("module '{}'\n", frame.path);
  }
  text += GraphText(program.graph, "");
  for (const std::string& note : program.notes) text += fmt::format("note: {}\n", note);
  for (const std::string& assumed : program.assumptions)
    text += fmt::format("assumed: {}\n", assumed);
  return text;
}

}  // namespace onnxfit::pt2
