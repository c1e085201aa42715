// Programs of torch.export, written by hand.
#pragma once

#include <string_view>
#include <utility>
#include <vector>

#include "estimator/fit/predict.h"
#include "estimator/pt2/exported_program.h"
#include "estimator/pt2/make_program.h"

namespace onnxfit::pt2 {

inline Argument Ref(std::string_view name) {
  return {.kind = Argument::Kind::kTensor, .text = name};
}
inline Argument Number(int64_t number) {
  return {.kind = Argument::Kind::kNumber, .number = number};
}
inline Argument Real(double real) { return {.kind = Argument::Kind::kReal, .real = real}; }
inline Argument Bool(bool value) {
  return {.kind = Argument::Kind::kBool, .number = value ? 1 : 0};
}
inline Argument Text(std::string_view text) {
  return {.kind = Argument::Kind::kText, .text = text};
}
inline Argument List(std::vector<Argument> items) {
  return {.kind = Argument::Kind::kList, .items = std::move(items)};
}
inline Argument Numbers(const std::vector<int64_t>& numbers) {
  Argument list = List({});
  for (const int64_t number : numbers) list.items.push_back(Number(number));
  return list;
}

using Arguments = std::vector<std::pair<std::string_view, Argument>>;

// A program that grows: inputs, then calls.
class ExportedBuilder {
 public:
  ExportedBuilder() { program_.path = "net.pt2"; }

  ExportedBuilder& Parameter(std::string_view name, std::string_view target,
                             const std::vector<int64_t>& sizes, DType dtype = DType::kFloat32) {
    return AddInput(InputSpec::Kind::kParameter, name, target, Fixed(sizes), dtype);
  }
  ExportedBuilder& Buffer(std::string_view name, std::string_view target,
                          const std::vector<int64_t>& sizes) {
    return AddInput(InputSpec::Kind::kBuffer, name, target, Fixed(sizes), DType::kFloat32);
  }
  // Its first dimension is the symbol "s0".
  ExportedBuilder& Input(std::string_view name, const std::vector<int64_t>& rest,
                         DType dtype = DType::kFloat32) {
    return AddInput(InputSpec::Kind::kUser, name, "", Batched(rest), dtype);
  }
  ExportedBuilder& FixedInput(std::string_view name, const std::vector<int64_t>& sizes) {
    return AddInput(InputSpec::Kind::kUser, name, "", Fixed(sizes), DType::kFloat32);
  }

  // The call `target` of the namespace aten, whose result is called `name` and has the batch first.
  ExportedBuilder& Make(std::string_view target, std::string_view name, Arguments arguments,
                        const std::vector<int64_t>& rest, DType dtype = DType::kFloat32) {
    return Add(target, name, std::move(arguments), Batched(rest), dtype);
  }
  // The same without the batch.
  ExportedBuilder& MakeFixed(std::string_view target, std::string_view name, Arguments arguments,
                             const std::vector<int64_t>& sizes, DType dtype = DType::kFloat32) {
    return Add(target, name, std::move(arguments), Fixed(sizes), dtype);
  }

  // Calls that follow are of that statement, in the model's own forward.
  ExportedBuilder& At(std::string_view file, int64_t line, std::string_view text) {
    line_ = {.file = file, .line = line, .function = "forward", .text = text};
    return *this;
  }
  // The last call is of that method: "float".
  ExportedBuilder& By(std::string_view method) {
    program_.graph.calls.back().method = method;
    return *this;
  }
  // Of which class the model is.
  ExportedBuilder& OfClass(std::string_view type) {
    model_ = type;
    return *this;
  }
  // Calls that follow are of that module.
  ExportedBuilder& In(std::string_view path, std::string_view type = "net.Part") {
    module_ = path;
    type_ = type;
    return *this;
  }

  ExportedProgram Return(std::string_view name) {
    program_.graph.outputs.push_back(Ref(name));
    program_.outputs.push_back({.kind = OutputSpec::Kind::kUser, .name = name, .target = ""});
    return program_;
  }

  ExportedProgram& program() { return program_; }

 private:
  static std::vector<Size> Fixed(const std::vector<int64_t>& sizes) {
    std::vector<Size> made;
    for (const int64_t size : sizes) made.push_back({.number = size});
    return made;
  }
  static std::vector<Size> Batched(const std::vector<int64_t>& rest) {
    std::vector<Size> sizes = {{.expression = "s0", .hint = 2}};
    for (const Size& size : Fixed(rest)) sizes.push_back(size);
    return sizes;
  }

  ExportedBuilder& AddInput(InputSpec::Kind kind, std::string_view name, std::string_view target,
                            std::vector<Size> sizes, DType dtype) {
    program_.graph.tensors[name] = {.dtype = dtype,
                                    .sizes = std::move(sizes),
                                    .strides = {},
                                    .requires_grad = kind == InputSpec::Kind::kParameter};
    program_.graph.inputs.push_back(Ref(name));
    program_.inputs.push_back({.kind = kind, .name = name, .target = target});
    return *this;
  }

  ExportedBuilder& Add(std::string_view target, std::string_view name, Arguments arguments,
                       std::vector<Size> sizes, DType dtype) {
    program_.graph.tensors[name] = {.dtype = dtype, .sizes = std::move(sizes), .strides = {}};
    Call call = {.target = target, .name = name, .arguments = std::move(arguments)};
    call.results = {Ref(name)};
    call.modules = {{.path = "", .type = model_}};
    if (!module_.empty()) call.modules.push_back({.path = module_, .type = type_});
    if (line_.line > 0) call.lines = {line_};
    program_.graph.calls.push_back(std::move(call));
    return *this;
  }

  ExportedProgram program_;
  SourceLine line_;
  std::string_view model_ = "net.Net";
  std::string_view module_;
  std::string_view type_;
};

// The program at a batch of 4, without a loss unless the settings have one.
inline PreparedRun Made(const ExportedProgram& exported, const TrainingSettings& settings = {}) {
  return PrepareRun(InputGraph(exported), {.binding = {.batch = 4}, .settings = settings});
}

// Its calls as "op(inputs)", in order, without those of the loss.
inline std::string CallsOf(const Program& program) {
  std::string text;
  for (const AtenCall& call : program.calls) {
    if (call.where == "loss") continue;
    text += text.empty() ? "" : " ";
    text += call.op;
    text += call.written_in_place == true ? "!(" : "(";
    for (size_t i = 0; i < call.inputs.size(); ++i) {
      if (i > 0) text += ",";
      text += call.inputs[i] == kNoName ? "none"
                                        : program.values[static_cast<size_t>(call.inputs[i])].name;
    }
    for (const int64_t number : call.ints) text += ";" + std::to_string(number);
    text += ")";
  }
  return text;
}

}  // namespace onnxfit::pt2
