#include "estimator/program/repeated_modules.h"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <string>
#include <string_view>
#include <vector>

#include "estimator/base/index.h"

namespace onnxfit::numbered_repeats_test {
namespace {

std::vector<std::string> Parts(std::string_view path) {
  std::vector<std::string> parts = {""};
  for (const char c : path) {
    if (c == '/') {
      parts.emplace_back();
    } else {
      parts.back() += c;
    }
  }
  return parts;
}

// The scopes of calls, after; `parameters` are the module's.
std::string Marked(const std::vector<std::string>& scopes,
                   const std::vector<std::string>& parameters = {}) {
  Program program;
  for (const std::string& scope : scopes) {
    program.calls.push_back(
        {.op = "relu", .where = scope, .module = program.modules.Enter(Parts(scope))});
  }
  for (const std::string& name : parameters) {
    program.parameters.push_back(static_cast<NameId>(program.values.size()));
    program.values.push_back({name, {}});
  }
  MarkNumberedModules(program);
  std::string marked;
  for (const AtenCall& call : program.calls) {
    marked += fmt::format("{} ", fmt::join(program.modules.NamesOf(call.module), "/"));
  }
  return marked;
}

TEST_CASE("a module runs again where its own nodes are numbered, and its children with it") {
  CHECK(Marked({"m/l/fc", "m/l", "m/l/fc_1", "m/l_1"}) == "m/l/fc m/l m/l@1/fc m/l@1 ");
  CHECK(Marked({"l/fc", "l", "l/fc_1", "l_1"}) == "l/fc l l@1/fc l@1 ");
  // A part without nodes of its own, and one that runs twice each time.
  CHECK(Marked({"m/l/a/fc", "m/l", "m/l/a/fc_1", "m/l_1"}) == "m/l/a/fc m/l m/l@1/a/fc m/l@1 ");
  CHECK(Marked({"m/l/a/fc", "m/l/a", "m/l/a/fc_1", "m/l/a_1", "m/l", "m/l/a/fc_2", "m/l/a_2",
                "m/l/a/fc_3", "m/l/a_3", "m/l_1"}) ==
        "m/l/a/fc m/l/a m/l/a@1/fc m/l/a@1 m/l m/l@1/a/fc m/l@1/a m/l@1/a@1/fc m/l@1/a@1 m/l@1 ");
}

TEST_CASE("a loop over modules calls each of them once") {
  CHECK(Marked({"m/fc", "m/g/l.0/a", "m/g/l.0", "m/g/l.0/a_1", "m/g/l.0_1"}) ==
        "m/fc m/g/l.0/a m/g/l.0 m/g@1/l.0/a m/g@1/l.0 ");
  CHECK(Marked({"m/fc", "m/g/l/a", "m/g/l", "m/g/l/a_1", "m/g/l_1"}) ==
        "m/fc m/g/l/a m/g/l m/g/l@1/a m/g/l@1 ");
}

TEST_CASE("numbers that say nothing of modules stay") {
  CHECK(Marked({"m/relu", "m", "m/relu_1", "m"}) == "m/relu m m/relu_1 m ");
  CHECK(Marked({"m/l_1/fc", "m/l_2/fc", "m/l_2"}) == "m/l_1/fc m/l_2/fc m/l_2 ");
  CHECK(Marked({"m/l/fc", "m/l", "m/l_1/fc", "m/l_1"}, {"m.l.fc.w", "m.l_1.fc.w"}) ==
        "m/l/fc m/l m/l_1/fc m/l_1 ");
  CHECK(Marked({"", "fc_x", "fc_99999999999999999999"}) == " fc_x fc_99999999999999999999 ");
}

}  // namespace
}  // namespace onnxfit::numbered_repeats_test
