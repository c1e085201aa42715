#include "estimator/recover/merged_runs.h"

#include <doctest/doctest.h>

#include <string>

#include "tests/trace_helpers.h"

namespace onnxfit::merged_runs_test {
namespace {

// What runs of "cross", of which the second reads `key` beside its own query.
std::string CrossCalls(const std::string& key, const std::string& query = "Neg") {
  const Program program =
      Build(R"(net (float[2, 8] x) => (float[2, 8] y) { ["/data/Abs"] data = Abs (x)
      ["/cross/q/Neg"] q = Neg (data) ["/cross/k/Exp"] k = Exp (data) ["/cross/Add"] a = Add (q, k)
      ["/mlp/Tanh"] m = Tanh (a) ["/cross/q_1/)" +
                query + R"("] r = )" + query + R"( (m) ["/cross_1/Add"] y = Add (r, )" + key +
                ") }",
            {.mode = Mode::kEval})
          .program;
  std::string calls;
  for (const AtenCall& call : program.calls) {
    const std::string& path = program.modules.PathOf(call.module);
    if (path.starts_with("cross")) calls += path + " " + std::string(call.op) + "; ";
  }
  return calls;
}

constexpr char kFirst[] = "cross.q neg; cross.k exp; cross add; ";

}  // namespace

TEST_CASE("a module's second run makes anew what the exporter has merged with the first one's") {
  CHECK(CrossCalls("k") == std::string(kFirst) + "cross@1.q neg; cross@1.k exp; cross@1 add; ");
}

TEST_CASE("what the first run returns, and what another run makes, is not made anew") {
  const std::string second = "cross@1.q neg; cross@1 add; ";
  CHECK(CrossCalls("a") == kFirst + second);
  CHECK(CrossCalls("data") == kFirst + second);
  CHECK(CrossCalls("k", "Sin") == std::string(kFirst) + "cross@1.q sin; cross@1 add; ");
}

}  // namespace onnxfit::merged_runs_test
