#include "estimator/program/einsum.h"

#include <doctest/doctest.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <string>
#include <vector>

namespace onnxfit::einsum_test {
namespace {

// "permute(0;1,0)[3, 2] …": inputs, order, dimensions of the result.
std::string Plan(std::string_view equation, const std::vector<Dims>& operands) {
  const auto steps = PlanEinsum(equation, operands);
  if (!steps) return "none";
  std::string text;
  for (const EinsumStep& step : *steps) {
    text += fmt::format("{}{}({}", text.empty() ? "" : " ", step.op, fmt::join(step.inputs, ","));
    if (!step.ints.empty()) text += fmt::format(";{}", fmt::join(step.ints, ","));
    text += fmt::format("){}", fmt::format("{}", step.dims));
  }
  return text;
}

TEST_CASE("one operand is reordered, and summed up") {
  CHECK(Plan("ij->ji", {{2, 3}}) == "permute(0;1,0)[3, 2]");
  CHECK(Plan("ij", {{2, 3}}) == "permute(0;0,1)[2, 3]");
  CHECK(Plan("ba", {{2, 3}}) == "permute(0;1,0)[3, 2]");
  CHECK(Plan("ijk->ki", {{2, 3, 4}}) == "permute(0;2,0,1)[4, 2, 3] sum(-1)[4, 2]");
  CHECK(Plan("...c->c...", {{2, 3, 4}}) == "permute(0;2,0,1)[4, 2, 3]");
}

TEST_CASE("two operands are a product of batches of matrices") {
  CHECK(Plan("bhqd, bhkd -> bhqk", {{2, 3, 5, 7}, {2, 3, 6, 7}}) ==
        "permute(0;0,1,2,3)[2, 3, 5, 7] view(-1)[6, 5, 7] "
        "permute(1;0,1,3,2)[2, 3, 7, 6] view(-3)[6, 7, 6] "
        "bmm(-2,-4)[6, 5, 6] view(-5)[2, 3, 5, 6]");
  // As matrices they are in another order than in the result.
  CHECK(Plan("ibh,hnd->nibd", {{2, 3, 4}, {4, 5, 6}}) ==
        "permute(0;0,1,2)[2, 3, 4] view(-1)[1, 6, 4] "
        "permute(1;0,1,2)[4, 5, 6] view(-3)[1, 4, 30] "
        "bmm(-2,-4)[1, 6, 30] view(-5)[2, 3, 5, 6] permute(-6;2,0,1,3)[5, 2, 3, 6]");
  // What one alone has is summed up before.
  CHECK(Plan("ij,jk->k", {{2, 3}, {3, 4}}) ==
        "permute(0;0,1)[2, 3] sum(-1)[3] permute(-2;0)[3] view(-3)[1, 1, 3] "
        "permute(1;0,1)[3, 4] view(-5)[1, 3, 4] bmm(-4,-6)[1, 1, 4] view(-7)[4]");
}

TEST_CASE("where nothing is summed up over both it is an elementwise product") {
  CHECK(Plan("i,d->id", {{2}, {3}}) ==
        "permute(0;0)[2] view(-1)[2, 1] permute(1;0)[3] view(-3)[1, 3] mul(-2,-4)[2, 3]");
}

TEST_CASE("three operands are contracted from the left") {
  CHECK(Plan("ij,jk,kl->il", {{2, 3}, {3, 4}, {4, 5}}) ==
        "permute(0;0,1)[2, 3] view(-1)[1, 2, 3] permute(1;0,1)[3, 4] view(-3)[1, 3, 4] "
        "bmm(-2,-4)[1, 2, 4] view(-5)[2, 4] "
        "permute(-6;0,1)[2, 4] view(-7)[1, 2, 4] permute(2;0,1)[4, 5] view(-9)[1, 4, 5] "
        "bmm(-8,-10)[1, 2, 5] view(-11)[2, 5]");
}

TEST_CASE("dimensions of ... broadcast, and those of one element with others") {
  CHECK(Plan("...ij,...jk->...ik", {{7, 2, 3}, {3, 4}}) ==
        "permute(0;0,1,2)[7, 2, 3] view(-1)[1, 14, 3] permute(1;0,1)[3, 4] view(-3)[1, 3, 4] "
        "bmm(-2,-4)[1, 14, 4] view(-5)[7, 2, 4]");
  CHECK(Plan("ij,ij->ij", {{1, 3}, {2, 3}}) ==
        "permute(0;0,1)[1, 3] permute(1;0,1)[2, 3] mul(-1,-2)[2, 3]");
}

TEST_CASE("what is no equation of these operands has no plan") {
  CHECK(Plan("ij,jk->ik", {{2, 3}}) == "none");
  CHECK(Plan("ij->ik", {{2, 3}}) == "none");
  CHECK(Plan("ijk->i", {{2, 3}}) == "none");
  CHECK(Plan("ii->i", {{2, 2}}) == "none");
  CHECK(Plan("i1->i", {{2, 2}}) == "none");
  CHECK(Plan("ij,jk->ik", {{2, 3}, {4, 5}}) == "none");
  CHECK(Plan("...ijk->i", {{2, 2}}) == "none");
  CHECK(Plan("", {}) == "none");
}

}  // namespace
}  // namespace onnxfit::einsum_test
