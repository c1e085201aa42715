#include "estimator/program/helper_frames.h"

#include <doctest/doctest.h>

#include <string>
#include <vector>

namespace onnxfit::helper_frames_test {
namespace {

// "name: operator until call; " of the names in a line that makes `ops`, one after the other.
std::string Names(const char* line, const std::vector<const char*>& ops) {
  Program program;
  program.values.resize(ops.size() + 1);
  for (const char* op : ops) {
    const auto made = static_cast<NameId>(program.calls.size() + 1);
    program.calls.push_back({.op = op, .where = op, .inputs = {made - 1}, .outputs = {made}});
  }
  const Statement statement = {.first = 0,
                               .last = static_cast<int64_t>(ops.size()) - 1,
                               .source = program.source.Read(3, line)};
  std::string text;
  for (const KnownName& known : FindHelperNames(program, statement)) {
    text += known.name + ": " + ops[static_cast<size_t>(known.value) - 1] + " until " +
            std::to_string(known.until) + "; ";
  }
  return text;
}

const std::vector<const char*> kExperts = {
    "sort", "index",       "index",       "to",          "histc",       "cumsum",
    "ge",   "masked_fill", "linear",      "_grouped_mm", "masked_fill", "silu",
    "mul",  "_grouped_mm", "masked_fill", "mul",         "index",       "sum"};

}  // namespace

TEST_CASE("names of a function whose text is known hold what its calls make") {
  const std::string names = Names("return experts_forward(self, *args, **kwargs)", kExperts);
  CHECK(names.find("selected_hidden_states_g: index until 17; ") != std::string::npos);
  // Bound anew by the next product.
  CHECK(names.find("proj_out: masked_fill until 12; ") != std::string::npos);
  CHECK(names.find("proj_out: mul until 13; ") != std::string::npos);
  CHECK(names.find("proj_out: masked_fill until 17; ") != std::string::npos);
}

TEST_CASE("of another function, or where calls of the text are missing, nothing is known") {
  CHECK(Names("return forward(self)", kExperts).empty());
  CHECK(Names("return experts_forward(self)", {"sort", "index", "sum"}).empty());
}

}  // namespace onnxfit::helper_frames_test
