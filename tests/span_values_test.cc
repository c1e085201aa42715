#include "estimator/program/span_values.h"

#include <doctest/doctest.h>

#include <string>
#include <utility>
#include <vector>

#include "estimator/program/modules.h"
#include "tests/checkpointed_net.h"
#include "tests/trace_helpers.h"

namespace onnxfit::span_values_test {
namespace {

TEST_CASE("a span is given what it reads, and returns what is held behind it") {
  const Program program = Build(kTwoBlocks, {}).program;
  const CallSpan spans[] = {{0, 2}, {3, 5}};
  const std::vector<SpanValues> values = ValuesAcross(program, spans);
  CHECK(NamesText(program, values[0].given) == " x");
  CHECK(NamesText(program, values[0].returned) == " c");
  CHECK(NamesText(program, values[1].given) == " c");
  CHECK(NamesText(program, values[1].returned) == " f");
}

// The forward of "m" makes p in `positions`, then calls a layer in `called`; the layer makes a of x
// in `own` and y of it.
struct Lines {
  const char* positions = "position_ids = position_ids.unsqueeze(0)";
  const char* called = "x = layer(";
  const char* own = "a = self.attention(x)";
  bool attention_lives = false;
  bool made_once = false;
  const char* outer = nullptr;      // of a forward around, which makes p in place of "m"
  const char* stored_by = nullptr;  // a, in a dict of that module's
  const char* file = "";            // of all lines
};

class Net {
 public:
  explicit Net(const Lines& lines) : file_(lines.file) {
    for (const char* name : {"x", "p", "a", "y"}) program_.values.emplace_back().name = name;
    program_.inputs = {0};
    program_.outputs = {3};
    std::vector<std::string> around;
    std::vector<StatementId> frames;
    if (lines.outer != nullptr) {
      Add(0, {"o"}, {Line(7, lines.positions)});
      around = {"o"};
      frames = {Line(9, lines.outer)};
    } else {
      Add(0, {"m"}, {Line(7, lines.positions)});
    }
    around.insert(around.end(), {"m", "m.layers.0"});
    frames.push_back(Line(8, lines.called));
    const auto with = [&](const StatementId line) {
      std::vector<StatementId> all = frames;
      all.push_back(line);
      return all;
    };
    Add(0, around, with(Line(21, lines.own)));
    Add(2, around, with(Line(22, "return self.mlp(a)")));
    if (lines.stored_by != nullptr) {
      program_.stored = {{.values = {2}, .owner = program_.modules.Enter({lines.stored_by})}};
    }
    program_.calls[1].made_once = lines.made_once;
    if (!lines.attention_lives) program_.calls[2].dies = {2};
  }

  SpanValues Values(ModuleId module = kOutside) const {
    const CallSpan layer = {1, 2, module};
    return ValuesAcross(program_, {&layer, 1})[0];
  }
  SpanValues ValuesOfLayer() const { return Values(program_.calls[1].module); }
  bool ByPosition() const { return Values().by_position; }
  std::string Given() const { return NamesText(program_, Values().given); }
  std::string Returned() const { return NamesText(program_, Values().returned); }
  std::vector<int32_t> Items() const { return Values().items; }
  std::string Attributes() const { return NamesText(program_, Values().attributes); }

 private:
  StatementId Line(int64_t number, const char* text) {
    return program_.source.Read(number, text, file_);
  }

  void Add(NameId input, const std::vector<std::string>& modules, std::vector<StatementId> frames) {
    const auto output = static_cast<NameId>(program_.calls.size() + 1);
    program_.calls.push_back({.op = "relu",
                              .where = "",
                              .inputs = {input},
                              .outputs = {output},
                              .module = program_.modules.Enter(modules),
                              .frames = std::move(frames)});
  }

  const char* file_;
  Program program_;
};

TEST_CASE("a span is given what its caller's line passes, whether it reads it or not") {
  CHECK(Net({}).Given() == " x p");  // a library's layers, in lines that the file does not show
  CHECK(Net({.file = "transformers/models/ctrl/modeling_ctrl.py"}).Given() == " x");
  CHECK(Net({.positions = "mask = x > 0"}).Given() == " x");
  CHECK(Net({.positions = "mask = x > 0", .called = "x = layer(x, mask)"}).Given() == " x p");
  CHECK(Net({.positions = "mask = x > 0", .called = "x = layer(x)"}).Given() == " x");
  CHECK(Net({.positions = "mask = x > 0", .called = "mask = layer(x)"}).Given() == " x");
  const char* joined = "x = self.layers[i](torch.cat((x, mask), -1))";
  CHECK(Net({.positions = "mask = x > 0", .called = joined}).Given() == " x");
  const char* both = "x = self.layers[i](torch.cat((x, mask), -1), mask)";
  CHECK(Net({.positions = "mask = x > 0", .called = both}).Given() == " x p");
}

TEST_CASE("the only layer of a forward is given what that one's line passes") {
  const Net net({.called = "x = layer(x, mask)", .outer = "y = self.encoder("});
  CHECK(!net.Values().by_position);  // the outermost module that runs the span's calls alone
  CHECK(net.ValuesOfLayer().by_position);
}

TEST_CASE("forwards further out pass on what libraries are known to") {
  const auto given = [](const char* positions, const char* called) {
    return Net({.positions = positions, .called = "x = layer(", .outer = called}).Given();
  };
  CHECK(given("position_ids = position_ids.unsqueeze(0)", "x = self.text(") == " x p");
  CHECK(given("mask = x > 0", "x = self.text(") == " x");
  CHECK(given("position_ids = position_ids.unsqueeze(0)", "x = self.text(x)") == " x");
}

// "shared[kind] = self.attention(x)"
TEST_CASE("what lies in a dict is neither given nor returned") {
  const Net net({.attention_lives = true, .stored_by = "m"});
  CHECK(net.Returned() == " y");
  CHECK(net.Items() == std::vector<int32_t>{0});
  CHECK(Net({.attention_lives = true, .stored_by = "n"}).Items().empty());
}

TEST_CASE("a line that is known to its end tells keywords") {
  CHECK(Net({.called = "x = layer(x, mask)"}).ByPosition());
  CHECK_FALSE(Net({.called = "x = layer(x, mask=mask)"}).ByPosition());
  CHECK_FALSE(Net({.called = "x = layer("}).ByPosition());
}

TEST_CASE("what attributes hold is not returned") {
  CHECK(Net({}).Returned() == " y");
  CHECK(Net({.attention_lives = true}).Returned() == " a y");
  const Net kept({.own = "self.weights = self.attention(x)", .attention_lives = true});
  CHECK(kept.Returned() == " y");
  CHECK(kept.Attributes() == " a");
  CHECK(Net({.own = "self.weights = self.attention(x)"}).Attributes().empty());
  CHECK(Net({.attention_lives = true, .made_once = true}).Attributes() == " a");
}

}  // namespace
}  // namespace onnxfit::span_values_test
