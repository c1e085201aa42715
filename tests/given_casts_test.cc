#include "estimator/operators/given_casts.h"

#include <doctest/doctest.h>

#include "estimator/base/index.h"
#include "tests/checkpointed_net.h"
#include "tests/trace_helpers.h"

namespace onnxfit::given_casts_test {
namespace {

TEST_CASE("what a module under a policy is given is cast before it, and held until it ends") {
  const Program program =
      CastGivenToModules(Build(kTwoBlocks, {}).program, {"auto"}, DType::kBFloat16);
  CHECK(ToString(program).starts_with(R"(
%x.cast = to(%x)  # /h.0/fc/MatMul
%a = matmul(%x.cast, %h.0.fc.weight)  # /h.0/fc/MatMul
%b = sigmoid(%a)  # /h.0/act/Sigmoid
%c = matmul(%b, %h.0.out.weight)  # /h.0/out/MatMul
%c.cast = to(%c)  # /h.1/fc/MatMul
%d = matmul(%c.cast, %h.1.fc.weight)  # /h.1/fc/MatMul
%e = sigmoid(%d)  # /h.1/act/Sigmoid
%f = matmul(%e, %h.1.out.weight)  # /h.1/out/MatMul
%y = matmul(%f, %head.weight)  # /head/MatMul
)"));
  CHECK(program.values[Index(program.calls[0].outputs[0])].type.dtype == DType::kBFloat16);
  CHECK(program.modules.PathOf(program.calls[4].module).empty());
  CHECK(NamesText(program, program.calls[3].dies).ends_with(" x.cast"));
  CHECK(NamesText(program, program.calls[7].dies).ends_with(" c.cast"));
}

}  // namespace
}  // namespace onnxfit::given_casts_test
