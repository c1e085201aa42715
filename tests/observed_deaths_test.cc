#include "estimator/observed/observed_deaths.h"

#include <doctest/doctest.h>

#include <charconv>
#include <cstdint>
#include <deque>
#include <string>
#include <string_view>
#include <vector>

#include "estimator/base/index.h"
#include "estimator/base/warnings.h"
#include "estimator/observed/observe.h"
#include "tests/pt2_helpers.h"

namespace onnxfit::observed_deaths_test {
namespace {

using namespace onnxfit::pt2;  // NOLINT(google-build-using-namespace): its helpers

// x → a → b → c, of a block with a child; it is `type`, or nobody says what it is.
Program Chain(std::string_view type) {
  ExportedBuilder builder;
  builder.Input("x", {8});
  builder.In("block", type);
  builder.Make("torch.ops.aten.relu.default", "a", {{"self", Ref("x")}}, {8});
  builder.Make("torch.ops.aten.sigmoid.default", "b", {{"self", Ref("a")}}, {8});
  builder.Make("torch.ops.aten.tanh.default", "c", {{"self", Ref("b")}}, {8});
  return Made(builder.Return("c"), {.mode = Mode::kEval}).program;
}

// "a:c" of what dies behind the call that makes c.
std::string Deaths(const Program& program, std::string_view known, bool counts_lines = false) {
  const std::string bytes = PackSkeletons("lib 1.0", ParseSkeletons(known));
  const auto* const first = reinterpret_cast<const unsigned char*>(bytes.data());
  const KnownSkeletons skeletons({first, bytes.size()});
  const ModuleRuns runs(program);
  WantedRuns wanted = RunsLike({.mode = Mode::kEval}, false);
  wanted.counts_lines = counts_lines;
  const ForwardMatches matches(program, runs, skeletons, wanted);
  const KnownDeaths found = FindKnownDeaths(program, runs, matches);
  std::string text;
  for (size_t name = 0; name < found.behind.size(); ++name) {
    if (!found.behind[name]) continue;
    text += program.values[name].name + ":" + program.calls[Index(*found.behind[name])].where;
    text += found.is_known_until[name] ? "? " : " ";
  }
  return text;
}

TEST_CASE("values of a class that was watched die as they did then") {
  constexpr std::string_view kKnown = "lib.Block\nrelu sigmoid tanh \n0.0-2 1.0-2 2.0 \n";
  CHECK(Deaths(Chain("lib.Block"), kKnown) == "a:c b:c ");
  CHECK(Deaths(Chain("other.Block"), kKnown) == "");
}

TEST_CASE("what the file does not call does not count") {
  constexpr std::string_view kKnown =
      "lib.Block\nrelu dropout sigmoid dropout tanh \n0.0-1 1.0-2 2.0-3 3.0-4 4.0 \n";
  CHECK(Deaths(Chain("lib.Block"), kKnown) == "a:a b:b ");
}

TEST_CASE("behind a step of other code nothing is known to die") {
  ExportedBuilder builder;
  builder.Input("x", {8});
  builder.In("block", "lib.Block");
  const char* read = "x";
  for (const char* name : {"a", "b", "c", "d", "e", "f"}) {
    builder.Make("torch.ops.aten.relu.default", name, {{"self", Ref(read)}}, {8});
    read = name;
  }
  const Program program = Made(builder.Return("f"), {.mode = Mode::kEval}).program;
  CHECK(Deaths(program,
               "lib.Block\nrelu relu exp relu relu relu relu \n"
               "0.0-2 1.0-3 2.0-3 3.0-4 4.0-5 5.0-6 6.0 \n") == "b:c c:d d:e e:f ");
}

// "relu:1f " of a call in that line.
std::string Step(const std::string& op, const std::string& line) {
  char hash[8] = {};
  std::to_chars(hash, hash + sizeof hash - 1, HashOfLine(line), 36);
  return op + ":" + hash + " ";
}

TEST_CASE("all that a line calls counts as one step where lines do") {
  ExportedBuilder builder;
  builder.Input("x", {8}).In("block", "lib.Block");
  std::string known = "lib.Block\n";
  std::deque<std::string> names = {"x"};  // which the builder refers to, as to lines
  std::deque<std::string> lines;
  const auto make = [&](std::string_view target, const std::string& line) {
    const std::string& read = names.back();
    const std::string name = "v" + std::to_string(names.size());
    const SourceLine inner = {.file = "block.py",
                              .line = std::ssize(names),
                              .function = "forward",
                              .text = lines.emplace_back(line)};
    builder.Make(target, names.emplace_back(name), {{"self", Ref(read)}}, {8});
    const SourceLine outer = {
        .file = "net.py", .line = 1, .function = "forward", .text = "self.block(x)"};
    builder.program().graph.calls.back().lines = {outer, inner};
  };
  for (int i = 0; i < 12; ++i) {
    const std::string line = "x = relu(x), " + std::to_string(i);
    make("torch.ops.aten.relu.default", line);
    known += Step("relu", line);
  }
  for (const bool is_same : {true, true, false, false}) {  // a mask that tracing makes otherwise
    make(is_same ? "torch.ops.aten.relu.default" : "torch.ops.aten.tanh.default", "x = mask(x)");
    known += Step(is_same ? "relu" : "exp", "x = mask(x)");
  }
  const Program program = Made(builder.Return("v16"), {.mode = Mode::kEval}).program;
  known += "\n0.0-11 1.0-2 12.0-13 \n";
  CHECK(Deaths(program, known) == "");
  CHECK(Deaths(program, known, true) == "v1:v12 v2:v3 ");
}

TEST_CASE("a step that did nothing may be missing") {
  constexpr std::string_view kKnown =
      "lib.Block\nrelu sigmoid contiguous? tanh \n0.0-2 1.0-3 2.0-3 3.0 \n";
  CHECK(Deaths(Chain("lib.Block"), kKnown) == "a:b b:c ");
}

TEST_CASE("of several the one counts that was seen in such a run") {
  constexpr std::string_view kKnown =
      "lib.Block t\nrelu sigmoid tanh \n0.0-2 1.0-2 2.0 \n"
      "lib.Block T\nrelu sigmoid tanh \n0.0-1 1.0-2 2.0 \n"
      "lib.Block h\nrelu sigmoid tanh \n0.0 1.0 2.0 \n";
  CHECK(Deaths(Chain("lib.Block"), kKnown) == "a:b b:c ");
}

TEST_CASE("of several the one that is most like the file counts") {
  constexpr std::string_view kKnown =
      "lib.Block\nrelu tanh \n0.0-1 1.0 \n"
      "lib.Block\nrelu sigmoid tanh \n0.0-2 1.0-2 2.0 \n"
      "lib.Block\nrelu sigmoid mul \n0.0-1 1.0-2 2.0 \n";
  CHECK(Deaths(Chain("lib.Block"), kKnown) == "a:c b:c ");
}

TEST_CASE("of two that are as much like it the one counts where values live longer") {
  constexpr std::string_view kKnown =
      "lib.Block\nrelu sigmoid tanh \n0.0-1 1.0-2 2.0 \n"
      "lib.Block\nrelu sigmoid tanh \n0.0-2 1.0-2 2.0 \n";
  CHECK(Deaths(Chain("lib.Block"), kKnown) == "a:c b:c ");
}

TEST_CASE("one that has little in common with the file is not taken") {
  constexpr std::string_view kKnown =
      "lib.Block\nrelu exp log cos sin \n0.0-4 1.0-4 2.0-4 3.0-4 4.0 \n";
  CHECK(Deaths(Chain("lib.Block"), kKnown) == "");
}

TEST_CASE("what a child leaves dies in the forward that called it") {
  ExportedBuilder builder;
  builder.Input("x", {8});
  builder.In("block", "lib.Block");
  builder.Make("torch.ops.aten.relu.default", "a", {{"self", Ref("x")}}, {8});
  builder.Make("torch.ops.aten.sigmoid.default", "b", {{"self", Ref("a")}}, {8});
  builder.In("head", "lib.Head");
  builder.Make("torch.ops.aten.tanh.default", "c", {{"self", Ref("b")}}, {8});
  builder.Make("torch.ops.aten.exp.default", "d", {{"self", Ref("c")}}, {8});
  const Program program = Made(builder.Return("d"), {.mode = Mode::kEval}).program;
  CHECK(Deaths(program, "lib.Block\nrelu sigmoid \n0.0-1 1.0 \n") == "a:b ");
}

// x → a → b of a block with two leaves, in `around`.
Program Nested(std::string_view around, std::string_view block) {
  ExportedBuilder builder;
  builder.Input("x", {8});
  builder.OfClass(around).In("block", block);
  builder.Make("torch.ops.aten.relu.default", "a", {{"self", Ref("x")}}, {8});
  builder.Make("torch.ops.aten.sigmoid.default", "b", {{"self", Ref("a")}}, {8});
  return Made(builder.Return("b"), {.mode = Mode::kEval}).program;
}

TEST_CASE("a module of a library that was not watched may hold what its children leave") {
  constexpr std::string_view kKnown = "lib.Block\nrelu sigmoid \n0.0-1 1.0 \n";
  CHECK(Deaths(Nested("lib.Other", "lib.Block"), kKnown) == "a:b? ");
  CHECK(Deaths(Nested("own.Net", "lib.Block"), kKnown) == "a:b ");
}

TEST_CASE("a library's class that nobody watched is said") {
  const std::vector<Warning> told =
      Nested("timm.models.newer.Net", "timm.models.newer.Block").warnings;
  REQUIRE(told.size() == 1);
  CHECK(told[0].code == warning::kUnwatched);
  CHECK(told[0].text.starts_with("timm.models.newer.Block of a library's"));
  CHECK(Nested("timm.models.newer.Net", "their.Block").warnings.empty());
  CHECK(Nested("their.Net", "timm.models.newer.Block").warnings.empty());  // the outermost
}

// ">block=lib.Block~1f" of that skeleton.
std::string Running(const std::string& block) {
  char id[8] = {};
  std::to_chars(id, id + sizeof id - 1, IdOf(ParseSkeletons(block).at(0)), 36);
  return ">block=lib.Block~" + std::string(id);
}

TEST_CASE("of blocks that do the same the module around tells which") {
  const std::string longer = "lib.Block\nrelu sigmoid \n0.0-1 1.0 \n";
  const std::string shorter = "lib.Block\nrelu sigmoid \n0.0-0 1.0 \n";
  const std::string net = "lib.Net\n" + Running(shorter) + " \n0.0 \n";
  CHECK(Deaths(Nested("lib.Net", "lib.Block"), longer + shorter) == "a:b? ");
  CHECK(Deaths(Nested("lib.Net", "lib.Block"), longer + shorter + net) == "a:a ");
}

TEST_CASE("of files without classes, what is below tells the class") {
  constexpr std::string_view kKnown =
      "lib.A tTm\n>block=lib.BlockA \n0.0 \nlib.BlockA\nexp log \n0.0-0 1.0 \n"
      "lib.B tTm\n>block=lib.BlockB \n0.0 \nlib.BlockB\nrelu sigmoid \n0.0-1 1.0 \n"
      "lib.C tTm\n>block=lib.BlockC \n0.0 \nlib.BlockC\nrelu tanh \n0.0-0 1.0 \n";
  CHECK(Deaths(Nested("", ""), kKnown) == "a:b ");
}

TEST_CASE("of files without classes, what a block does tells what is done with it") {
  ExportedBuilder builder;
  builder.Input("x", {8});
  builder.OfClass("").In("block", "");
  builder.Make("torch.ops.aten.relu.default", "a", {{"self", Ref("x")}}, {8});
  builder.Make("torch.ops.aten.sigmoid.default", "b", {{"self", Ref("a")}}, {8});
  builder.In("", "");
  builder.Make("torch.ops.aten.tanh.default", "c", {{"self", Ref("b")}}, {8});
  builder.Make("torch.ops.aten.exp.default", "d", {{"self", Ref("c")}}, {8});
  const Program program = Made(builder.Return("d"), {.mode = Mode::kEval}).program;
  const std::string eager = "lib.Block\nrelu sigmoid \n0.0 1.0 \n";
  const std::string fused = "lib.Block\nrelu gelu \n0.0-1 1.0 \n";
  const std::string of_eager =
      "lib.Net tTm\n" + Running(eager) + " tanh exp \n0.0-1 0.1-1 1.0-1 2.0 \n";
  const std::string of_fused = "lib.Net tTm\n" + Running(fused) + " tanh exp \n0.0-2 1.0-2 2.0 \n";
  CHECK(Deaths(program, eager + fused + of_eager + of_fused) == "a:c b:c c:c ");
}

TEST_CASE("of files without classes, modules that pass other things on are others") {
  const std::string known =
      "lib.Net tTm\n>block=lib.Block~1 \n0.0 \nlib.Block\nrelu sigmoid \n0.0-1 1.0 \n";
  CHECK(Deaths(Nested("", ""), known) == "");
}

// As a model makes its decoder's tokens in one line where it is given none.
TEST_CASE("of files without classes, a line of many steps tells as little as one of few") {
  std::string known = "lib.Net tTm\n";
  for (int step = 0; step < 12; ++step) known += Step("exp", "y = shift(x)");
  known += ">a=lib.Block >b=lib.Block >c=lib.Block \n12.0-14 13.0-14 14.0 \n";
  ExportedBuilder builder;
  builder.Input("x", {8});
  builder.OfClass("");
  const char* read = "x";
  for (const char* block : {"a", "b", "c"}) {
    builder.In(block, "");
    builder.Make("torch.ops.aten.relu.default", block, {{"self", Ref(read)}}, {8});
    read = block;
  }
  const Program program = Made(builder.Return("c"), {.mode = Mode::kEval}).program;
  known += "lib.Block\nrelu \n0.0 \n";
  CHECK(Deaths(program, known) == "a:c b:c ");
}

TEST_CASE("a view that an exporter has joined with another lives as long as both") {
  ExportedBuilder builder;
  builder.Input("x", {8});
  builder.OfClass("").In("block", "");
  builder.Make("torch.ops.aten.relu.default", "a", {{"self", Ref("x")}}, {8});
  builder.Make("torch.ops.aten.view.default", "b", {{"self", Ref("a")}}, {8});
  builder.Make("torch.ops.aten.tanh.default", "c", {{"self", Ref("b")}}, {8});
  builder.Make("torch.ops.aten.exp.default", "d", {{"self", Ref("c")}}, {8});
  const Program program = Made(builder.Return("d"), {.mode = Mode::kEval}).program;
  CHECK(Deaths(program,
               "lib.Net tTm\n>block=lib.Block \n0.0 \n"
               "lib.Block\nrelu view permute tanh exp \n0.0-1 1.0-1 2.0-4 3.0-4 4.0 \n") ==
        "a:b b:d c:d ");
}

}  // namespace
}  // namespace onnxfit::observed_deaths_test
