#include "estimator/names/unread_lists.h"

#include <doctest/doctest.h>

#include <string>
#include <utility>
#include <vector>

#include "estimator/base/index.h"

namespace onnxfit::unread_lists_test {
namespace {

// A pyramid of two levels: calls 0 and 2 make features, 1 and 3 their positions; call 4 reads the
// name `read` in a line of the forward around it, call 5 what that makes.
std::string Deaths(NameId read) {
  Program program;
  program.values.resize(7);
  program.inputs = {0};
  SourceLines& source = program.source;
  const StatementId neck = source.Read(9, "xs, ps = self.neck(x)");
  const StatementId conv = source.Read(2, "x = self.convs[i](x)");
  const StatementId at = source.Read(3, "pos = self.position(x)");
  const StatementId inner = source.Read(1, "return f(x)");
  const auto add = [&](const std::vector<std::string>& scopes, std::vector<StatementId> frames,
                       NameId input) {
    program.calls.push_back({.op = "relu",
                             .where = "",
                             .inputs = {input},
                             .outputs = {static_cast<NameId>(program.calls.size() + 1)},
                             .module = program.modules.Enter(scopes),
                             .frames = std::move(frames)});
  };
  for (const std::string turn : {"0", "1"}) {
    const auto given = static_cast<NameId>(program.calls.size());
    add({"m", "m.neck", "m.neck.convs." + turn}, {neck, conv, inner},
        turn == "0" ? given : given - 1);
    add({"m", "m.neck", "m.neck.position@" + turn}, {neck, at, inner}, 0);
  }
  add({"m"}, {source.Read(10, "y = self.head(xs[-1])")}, read);
  add({"m"}, {source.Read(11, "return self.act(y)")}, 5);
  program.outputs = {6};
  const ModuleRuns runs(program);
  ValueLives lives(program, runs);
  const NameBindings bindings(program, runs, lives);
  FollowUnreadLists(program, runs, bindings, FindModuleCalls(program, runs), lives);
  lives.Place(std::vector<bool>(program.values.size()));
  std::string text;
  for (NameId name = 1; name < 5; ++name) {
    for (size_t i = 0; i < program.calls.size(); ++i) {
      for (const NameId dead : program.calls[i].dies) {
        if (dead == name) text += std::to_string(name) + ":" + std::to_string(i) + " ";
      }
    }
  }
  return text;
}

}  // namespace

TEST_CASE("what a module makes in each turn and nothing reads is in a list that is returned") {
  CHECK(Deaths(3) == "1:5 2:5 3:5 4:5 ");
  CHECK(Deaths(2) == "1:2 2:4 3:2 4:3 ");  // of which one is read
}

}  // namespace onnxfit::unread_lists_test
