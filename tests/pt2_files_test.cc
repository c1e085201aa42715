// Files that PyTorch 2.11 wrote, whole and damaged.
#include <doctest/doctest.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <string>

#include "estimator/base/expression.h"
#include "tests/files.h"
#include "tests/paths.h"
#include "tests/pt2_archive.h"

namespace onnxfit::pt2_files_test {
namespace {

std::string PathOf(const std::string& name) {
  return std::filesystem::path(kSourceDir) / "tests/data/pt2" / (name + ".train.pt2");
}

pt2::ExportedProgram Load(const std::string& name) {
  return pt2::LoadExportedProgram(PathOf(name));
}

TEST_CASE("an MLP") {
  CHECK(ToString(Load("mlp_2000")) == R"text(torch 2.11.0+cu130, schema 8.17
forward [a_0]
range s10 2..
input parameter p_model_0_weight is model.0.weight
input parameter p_model_0_bias is model.0.bias
input parameter p_model_2_weight is model.2.weight
input parameter p_model_2_bias is model.2.bias
input user a_0
output user linear_1
module ''
module 'model'
module 'model.0'
module 'model.1'
module 'model.2'
inputs [%p_model_0_weight, %p_model_0_bias, %p_model_2_weight, %p_model_2_bias, %a_0]
linear: [%linear] = torch.ops.aten.linear.default(input=%a_0, weight=%p_model_0_weight, bias=%p_model_0_bias)
  in '' __main__.Wrap
  in 'model' torch.nn.modules.container.Sequential
  in 'model.0' torch.nn.modules.linear.Linear
  at export_pt2.py:11 forward: def forward(self, *a): return self.spec.forward(self.model, dict(zip(self.keys, a)))
  at torch/nn/modules/container.py:253 forward: input = module(input)
  at torch/nn/modules/linear.py:134 forward: return F.linear(input, self.weight, self.bias)
relu: [%relu] = torch.ops.aten.relu.default(self=%linear)
  in '' __main__.Wrap
  in 'model' torch.nn.modules.container.Sequential
  in 'model.1' torch.nn.modules.activation.ReLU
  at export_pt2.py:11 forward: def forward(self, *a): return self.spec.forward(self.model, dict(zip(self.keys, a)))
  at torch/nn/modules/container.py:253 forward: input = module(input)
  at torch/nn/modules/activation.py:143 forward: return F.relu(input, inplace=self.inplace)
linear_1: [%linear_1] = torch.ops.aten.linear.default(input=%relu, weight=%p_model_2_weight, bias=%p_model_2_bias)
  in '' __main__.Wrap
  in 'model' torch.nn.modules.container.Sequential
  in 'model.2' torch.nn.modules.linear.Linear
  at export_pt2.py:11 forward: def forward(self, *a): return self.spec.forward(self.model, dict(zip(self.keys, a)))
  at torch/nn/modules/container.py:253 forward: input = module(input)
  at torch/nn/modules/linear.py:134 forward: return F.linear(input, self.weight, self.bias)
outputs [%linear_1]
tensor a_0 float32[s10 = 2, 784] strides [784, 1]
tensor linear float32[s10 = 2, 2000] strides [2000, 1]
tensor linear_1 float32[s10 = 2, 10] strides [10, 1]
tensor p_model_0_bias float32[2000] strides [1] grad
tensor p_model_0_weight float32[2000, 784] strides [784, 1] grad
tensor p_model_2_bias float32[10] strides [1] grad
tensor p_model_2_weight float32[10, 2000] strides [2000, 1] grad
tensor relu float32[s10 = 2, 2000] strides [2000, 1]
)text");
}

TEST_CASE("ResNet-18") {
  const pt2::ExportedProgram program = Load("resnet18");
  CHECK(program.notes.empty());
  CHECK(program.graph.calls.size() == 89);
  CHECK(program.graph.tensors.size() == 212);
  CHECK(program.inputs.size() == 123);
  const auto is_parameter = [](const pt2::InputSpec& input) {
    return input.kind == pt2::InputSpec::Kind::kParameter;
  };
  CHECK(std::ranges::count_if(program.inputs, is_parameter) == 62);
  int64_t parameters = 0;
  for (const pt2::InputSpec& input : program.inputs) {
    if (!is_parameter(input)) continue;
    int64_t numel = 1;
    for (const pt2::Size& size : program.graph.tensors.at(input.name).sizes) numel *= size.number;
    parameters += numel;
  }
  CHECK(parameters == 11'689'512);  // as torchvision says of its weights

  // One ReLU, called twice in a block.
  std::map<std::string, int> relus;
  for (const pt2::Call& call : program.graph.calls) {
    if (call.target == "torch.ops.aten.relu_.default")
      ++relus[std::string(call.modules.back().path)];
  }
  CHECK(relus.at("model.layer1.0.relu") == 1);
  CHECK(relus.at("model.layer1.0.relu@1") == 1);
}

TEST_CASE("sizes are what they were at the export") {
  for (const char* name : {"lenet", "mlp_2000", "resnet18"}) {
    CAPTURE(name);
    const pt2::ExportedProgram program = Load(name);
    size_t expressions = 0;
    for (const auto& [tensor_name, tensor] : program.graph.tensors) {
      for (const pt2::Size& size : tensor.sizes) {
        if (size.expression.empty()) continue;
        CHECK(Evaluate(size.expression, {{"s10", 2}}) == size.hint);
        ++expressions;
      }
    }
    CHECK(expressions > 0);
  }
}

// Pseudo-random, the same everywhere: Knuth's MMIX.
class Numbers {
 public:
  size_t Below(size_t limit) {
    state_ = state_ * 6364136223846793005 + 1442695040888963407;
    return static_cast<size_t>(state_ >> 33) % limit;
  }

 private:
  uint64_t state_ = 1;
};

// One place of `text` changed, cut out, or doubled.
std::string Damaged(std::string text, Numbers& numbers) {
  const size_t at = numbers.Below(text.size());
  const std::string_view letters = "\"{}[]:,\\0919-e.tfn\x80\xff \n'u";
  switch (numbers.Below(5)) {
    case 0:
      return text.erase(at, 1 + numbers.Below(20));
    case 1:
      return text.insert(at, text.substr(numbers.Below(text.size()), numbers.Below(200)));
    case 2:
      text[at] = static_cast<char>(numbers.Below(256));
      return text;
    case 3:
      text[at] = '\0';
      return text;
    default:
      text[at] = letters[numbers.Below(letters.size())];
      return text;
  }
}

// An answer or an Error: anything else fails the test by itself.
void ReadSomehow(const std::string& archive, int& answers, int& errors) {
  try {
    ToString(ReadPt2(archive));
    ++answers;
  } catch (const Error& error) {
    CHECK(error.parts().file == "net.pt2");
    ++errors;
  }
}

TEST_CASE("a damaged archive is an Error or an answer") {
  const std::string whole = ContentsOf(PathOf("mlp_2000"));
  Numbers numbers;
  int answers = 0;
  int errors = 0;
  for (int i = 0; i < 600; ++i) ReadSomehow(Damaged(whole, numbers), answers, errors);
  for (int i = 0; i < 100; ++i) {
    ReadSomehow(whole.substr(0, numbers.Below(whole.size())), answers, errors);
  }
  CHECK(answers > 0);
  CHECK(errors > 200);
}

TEST_CASE("a damaged program is an Error or an answer") {
  Numbers numbers;
  int answers = 0;
  int errors = 0;
  for (int i = 0; i < 1000; ++i) {
    ReadSomehow(Pt2Of(Damaged(std::string(kSmallProgram), numbers)), answers, errors);
  }
  CHECK(answers > 100);
  CHECK(errors > 100);
}

// Each value of the program in turn is another one.
TEST_CASE("a program with a value of another kind is an Error or an answer") {
  const std::string whole(kSmallProgram);
  int answers = 0;
  int errors = 0;
  for (size_t at = whole.find("\": "); at != whole.npos; at = whole.find("\": ", at + 1)) {
    for (const char* value : {"null", "-1", "1e300", "\"\"", "[]", "{}", "[[1]]", "true"}) {
      std::string json = whole;
      json.insert(at + 3, std::string(value) + ", \"old\": ");
      ReadSomehow(Pt2Of(json), answers, errors);
    }
  }
  CHECK(answers > 100);
  CHECK(errors > 100);
}

}  // namespace
}  // namespace onnxfit::pt2_files_test
