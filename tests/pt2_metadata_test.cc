#include <doctest/doctest.h>

#include <string>
#include <string_view>
#include <vector>

#include "estimator/pt2/read_program.h"

namespace onnxfit::pt2_metadata_test {
namespace {

// "path: type" a line.
std::string StackText(std::string_view text) {
  pt2::TextPool pool;
  std::string frames;
  for (const pt2::ModuleFrame& frame : pt2::ParseModuleStack(text, pool)) {
    frames += std::string(frame.path) + ": " + std::string(frame.type) + "\n";
  }
  return frames;
}

TEST_CASE("the modules that a call is in") {
  struct Row {
    const char* text;
    const char* frames;
  };
  const Row rows[] = {
      {"L__self__,,__main__.Wrap;L__self__model,model,zoo.LeNet",
       ": __main__.Wrap\nmodel: zoo.LeNet\n"},
      {"L__self__layer1.0.relu@1,layer1.0.relu,torch.nn.modules.activation.ReLU",
       "layer1.0.relu@1: torch.nn.modules.activation.ReLU\n"},
      // A key that is made otherwise.
      {"L__self___layer1_0_relu@12,layer1.0.relu,torch.nn.ReLU",
       "layer1.0.relu@12: torch.nn.ReLU\n"},
      {"k@1,layer@1,torch.nn.ReLU", "layer@1: torch.nn.ReLU\n"},
      {"me@home,layer,torch.nn.ReLU", "layer: torch.nn.ReLU\n"},
      // A part of a ModuleList.
      {"L__self__h.slice(None, 2, None),h.slice(None, 2, None),torch.nn.ModuleList",
       "h.slice(None, 2, None): torch.nn.ModuleList\n"},
      // Damaged ones are left out.
      {"", ""},
      {"a;b,c;d,e,f,g;h,i,j", "i: j\n"},
      {"a,b(,c;h,i,j;", "i: j\n"},
      {";;;", ""},
  };
  for (const Row& row : rows) {
    CAPTURE(row.text);
    CHECK(StackText(row.text) == row.frames);
  }
}

// The paths of modules around a call of "m", "m.h.0.attn" and its child, below a line of "m".
std::string PathsBelow(std::string_view line, size_t lines) {
  pt2::TextPool pool;
  std::vector<pt2::ModuleFrame> modules = {
      {.path = "m"}, {.path = "m.h.0.attn"}, {.path = "m.h.0.attn.q"}};
  std::vector<pt2::SourceLine> trace(lines, {.text = "y = self.q(x)"});
  trace[0].text = line;
  pt2::AddForwardsOfNoStack(modules, trace, pool);
  std::string paths;
  for (const pt2::ModuleFrame& module : modules) paths += std::string(module.path) + " ";
  return paths;
}

TEST_CASE("a forward that is called by its name is a module, too") {
  CHECK(PathsBelow("y = layer.forward(x)", 4) == "m m.h.0 m.h.0.attn m.h.0.attn.q ");
  constexpr char kAsTheyAre[] = "m m.h.0.attn m.h.0.attn.q ";
  CHECK(PathsBelow("y = layer.forward(x)", 3) == kAsTheyAre);
  CHECK(PathsBelow("y = super().forward(x)", 4) == kAsTheyAre);
  CHECK(PathsBelow("y = Block.forward(self, x)", 4) == kAsTheyAre);
  CHECK(PathsBelow("y = layer(x)", 4) == kAsTheyAre);
}

// "file:line function: text" a line.
std::string TraceText(std::string_view text) {
  std::string lines;
  pt2::TextPool pool;
  for (const pt2::SourceLine& line : pt2::ParseStackTrace(text, pool)) {
    lines += std::string(line.file) + ":" + std::to_string(line.line) + " " +
             std::string(line.function) + ": " + std::string(line.text) + "\n";
  }
  return lines;
}

TEST_CASE("the lines of Python that a call is of") {
  struct Row {
    const char* text;
    const char* lines;
  };
  const Row rows[] = {
      {"File \"net.py\", line 11, in forward\n    return self.act(x)\n"
       "  File \"torch/nn/modules/activation.py\", line 144, in forward\n    return F.relu(input)",
       "net.py:11 forward: return self.act(x)\n"
       "torch/nn/modules/activation.py:144 forward: return F.relu(input)\n"},
      // Without what Python does not read.
      {"File \"a.py\", line 2, in f\n    x = x.float()  # [N, C], as F.pad(\"#\") has it\n",
       "a.py:2 f: x = x.float()\n"},
      {"File \"a.py\", line 2, in f\n    x = g(x, \"# of\")\n", "a.py:2 f: x = g(x, \"# of\")\n"},
      // With blanks around what assigns.
      {"File \"a.py\", line 2, in f\n    x=g(x, d=1)\n", "a.py:2 f: x = g(x, d=1)\n"},
      // Without text, as of code that is nowhere; with marks, as of Python 3.11; of several lines.
      {"  File \"<eval>\", line 1, in <lambda>\n  File \"a.py\", line 2, in f\n    x = g(\n      "
       "1)\n",
       "<eval>:1 <lambda>: \na.py:2 f: x = g(\n"},
      {"  File \"a.py\", line 2, in f\n    x = g(1)\n        ^^^^~~\n  File \"b.py\", line 3\n    "
       "y",
       "a.py:2 f: x = g(1)\nb.py:3 : y\n"},
      {"  File \"a.py\", line 2, in f\n    ^^^^\n    x = g(1)\n", "a.py:2 f: x = g(1)\n"},
      {"File \"a\", line 3, in b.py\", line 4, in f\r\n  x\r\n", "a\", line 3, in b.py:4 f: x\n"},
      // Damaged ones are left out.
      {"", ""},
      {"nothing\n", ""},
      {"File \"a.py\", line x, in f\n    x\nFile \"b.py\", line 4, in g", "b.py:4 g: \n"},
      {"File \"a.py\"\nFile \"a.py\", line -4, in g\nFile \"a.py\", line ", ""},
      {"File \"a.py\", line 99999999999999999999, in g", ""},
  };
  for (const Row& row : rows) {
    CAPTURE(row.text);
    CHECK(TraceText(row.text) == row.lines);
  }
}

}  // namespace
}  // namespace onnxfit::pt2_metadata_test
