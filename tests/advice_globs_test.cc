// Which parameters --freeze is to name so that the last module learns.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <string>
#include <vector>

#include "estimator/advise/changes.h"

namespace onnxfit::advice_globs_test {
namespace {

std::string Told(const std::vector<NamedCount>& parameters) {
  const auto found = GlobsBeforeLast(parameters);
  if (!found) return "none";
  return fmt::format("{} | {} | {}", fmt::join(found->globs, " "), fmt::join(found->kept, " "),
                     found->learning);
}

TEST_CASE("all but the last module, in as few globs as it takes") {
  struct Row {
    std::vector<NamedCount> parameters;
    const char* told;
  };
  const Row rows[] = {
      {{{"conv1.weight", 1}, {"layer1.0.w", 1}, {"layer2.0.w", 1}, {"fc.weight", 1}},
       "conv* layer* | fc | 1"},
      // The wrapper's name may be left out.
      {{{"model.conv1.weight", 1}, {"model.fc.weight", 2}, {"model.fc.bias", 1}},
       "conv* | model.fc | 3"},
      // What is last has the number in its name.
      {{{"fc1.weight", 1}, {"fc2.weight", 1}, {"fc3.weight", 1}}, "fc1.* fc2.* | fc3 | 1"},
      {{{"0.weight", 1}, {"2.weight", 1}}, "0.* | 2 | 1"},
      // No dots: parameters are modules.
      {{{"w1", 1}, {"w2", 1}}, "w1 | w2 | 1"},
      // All in one scope.
      {{{"a.b.first.w", 1}, {"a.b.last.w", 1}}, "a.b.first* | a.b.last | 1"},
      // The last learns too little alone.
      {{{"wte.w", 500}, {"h.0.w", 500}, {"ln_f.w", 1}}, "wte* | h ln_f | 501"},
      {{{"h.0.w", 500}, {"ln_f.w", 1}}, "none"},
      {{{"w", 1}}, "none"},
      {{}, "none"},
      // Five globs are too many.
      {{{"a.w", 1}, {"b.w", 1}, {"c.w", 1}, {"d.w", 1}, {"e.w", 1}}, "a* b* c* d* | e | 1"},
      {{{"a.w", 1}, {"b.w", 1}, {"c.w", 1}, {"d.w", 1}, {"e.w", 1}, {"f.w", 1}}, "none"},
  };
  for (const Row& row : rows) CHECK(Told(row.parameters) == row.told);
}

TEST_CASE("what still learns is named, however much it is") {
  CHECK(KeptText({.globs = {}, .kept = {"model.fc"}}) == "model.fc");
  CHECK(KeptText({.globs = {}, .kept = {"h", "ln_f"}}) == "h and ln_f");
  CHECK(KeptText({.globs = {}, .kept = {"a", "b", "c"}}) == "a, b and c");
  CHECK(KeptText({.globs = {}, .kept = {"a", "b", "c", "d", "e"}}) == "a, b, c and 2 more");
}

}  // namespace
}  // namespace onnxfit::advice_globs_test
