// Prints the calls of a training step, one a line, for calls.py here.  Six fields between tabs:
//   operator      as it runs; "_" behind it where it writes over its first operand
//   operands      each "p:NAME" of a parameter or buffer, "i:N" of an input, "c:LINE.N" of what
//                 the call of that line (from 0) made, "-" of none
//   results       each "float32[8, 64]"
//   integers
//   module        the innermost around it
//   dies          operands, as above, whose names are dropped once the call has returned
// Takes what `onnxfit estimate` takes; flags of the report mean nothing here.
#include <fmt/format.h>

#include <iostream>
#include <string>
#include <vector>

#include "benchmarks/accuracy/printer.h"
#include "cli/asked_of_file.h"
#include "cli/commands.h"
#include "estimator/base/index.h"
#include "estimator/eager/in_place.h"
#include "estimator/fit/predict.h"
#include "estimator/program/like.h"

namespace onnxfit {
namespace {

class CallPrinter {
 public:
  CallPrinter(const Program& program, const std::vector<bool>& in_place)
      : program_(program), in_place_(in_place), names_(program.values.size(), "?") {
    for (const auto* list : {&program.parameters, &program.frozen, &program.buffers}) {
      for (const NameId id : *list) names_[Index(id)] = "p:" + program.values[Index(id)].name;
    }
    for (size_t i = 0; i < program.inputs.size(); ++i) {
      names_[Index(program.inputs[i])] = fmt::format("i:{}", i);
    }
  }

  void Print(std::ostream& out) {
    for (size_t i = 0; i < program_.calls.size(); ++i) out << Line(i);
  }

 private:
  std::string Line(size_t place) {
    const AtenCall& call = program_.calls[place];
    for (size_t i = 0; i < call.outputs.size(); ++i) {
      if (call.outputs[i] != kNoName) {
        names_[Index(call.outputs[i])] = fmt::format("c:{}.{}", place, i);
      }
    }
    std::vector<std::string> results;
    for (const NameId id : call.outputs) results.push_back(TypeText(id));
    return fmt::format("{}{}\t{}\t{}\t{}\t{}\t{}\n", RuleNameOf(call.op),
                       in_place_[place] && !call.op.ends_with("_") ? "_" : "", Names(call.inputs),
                       fmt::join(results, " "), fmt::join(call.ints, " "),
                       program_.modules.PathOf(call.module), Names(call.dies));
  }

  std::string Names(const std::vector<NameId>& ids) const {
    std::vector<std::string> names;
    for (const NameId id : ids) names.push_back(id == kNoName ? "-" : names_[Index(id)]);
    return fmt::format("{}", fmt::join(names, " "));
  }

  std::string TypeText(NameId id) const {
    if (id == kNoName) return "-";
    const StridedType& type = program_.values[Index(id)].type;
    return fmt::format("{}[{}]", Name(type.dtype), fmt::join(type.dims, ","));
  }

  const Program& program_;
  const std::vector<bool>& in_place_;  // by call
  std::vector<std::string> names_;     // by NameId
};

int PrintCalls(const Options& options) {
  const Graph graph = LoadModel(options.model);
  const EstimateRequest request = AskedOf(graph, options.request);
  const Program program = Predict(graph, request).program;
  const std::vector<bool> in_place = FindInPlaceCalls(program, request.settings);
  CallPrinter(program, in_place).Print(std::cout);
  return kExitDone;
}

}  // namespace
}  // namespace onnxfit

int main(int argc, char** argv) { return onnxfit::RunPrinter(argc, argv, onnxfit::PrintCalls); }
