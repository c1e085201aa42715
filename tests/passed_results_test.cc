// What a line passes to a method as a module makes it, and lists that methods return.
#include "estimator/names/passed_results.h"

#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "tests/death_of.h"

namespace onnxfit::passed_results_test {
namespace {

constexpr char kInner[] = "return f(x)";

// Calls: norm makes 1, the method 2 to 4, of which `last` runs call 4 (name 5), then the sum.
int64_t DeathOfNormed(const std::string& line, const std::string& last) {
  return DeathOf(1, {{{0}, {"m", "m.norm"}, {{5, line}, {1, kInner}}},
                     {{1}, {"m", "m.qkv"}, {{5, line}, {1, kInner}}},
                     {{2}, {"m"}, {{5, line}}},
                     {{3}, {"m", "m.out"}, {{5, line}, {1, kInner}}},
                     {{4}, {"m", last}, {{5, line}, {1, kInner}}},
                     {{0, 5}, {"m"}, {{5, line}}},
                     {{6}, {"m"}, {{6, "return x.relu()"}}}});
}

TEST_CASE("a method holds what a module made for it until it returns") {
  CHECK(DeathOfNormed("x = x + self.attend(self.norm(x), pos)", "m.proj") == 4);
  CHECK(DeathOfNormed("x = x + self.drop(self.attend(self.norm(x), pos))", "m.drop") == 3);
  CHECK(DeathOfNormed("y = self.attend(self.norm(x))", "m.proj") == 5);
}

TEST_CASE("a module lets go of it with its last call, and so does what is no call") {
  CHECK(DeathOfNormed("x = x + self.qkv(self.norm(x))", "m.proj") == 1);
  CHECK(DeathOfNormed("x = x + self.attend(norm(x))", "m.proj") == 1);
  CHECK(DeathOfNormed("x = x + attend(self.norm(x))", "m.proj") == 1);
}

// Calls: q makes 1, in line `made_at`; the function in line 7 makes 2 and 3.
int64_t DeathOfArgument(int64_t made_at, const std::string& line) {
  return DeathOf(1, {{{0}, {"m", "m.q"}, {{made_at, "(q,) = self.q(x)"}, {1, kInner}}},
                     {{1}, {"m"}, {{7, line}}},
                     {{2}, {"m"}, {{7, line}}},
                     {{3}, {"m"}, {{8, "return q.relu()"}}}});
}

TEST_CASE("a function's caller holds what an earlier line has made until it returns") {
  CHECK(DeathOfArgument(5, "q = rotate(q, k)") == 2);
  CHECK(DeathOfArgument(9, "q = rotate(q, k)") == 1);  // an argument in a line below
  CHECK(DeathOfArgument(5, "q = rotate(qs.pop(), k)") == 1);
}

// "k = (" in line 4, which makes no call; its value, 2, is read in line 7.
int64_t DeathOfChain(const std::string& line) {
  return DeathOf(2, {{{0}, {"m", "m.k"}, {{5, "self.k(x)"}, {1, kInner}}},
                     {{1}, {"m"}, {{6, ".view(n)"}}},
                     {{2}, {"m"}, {{7, line}}},
                     {{3}, {"m"}, {{8, "x = relu(k)"}}},
                     {{4}, {"m"}, {{9, "return x.relu()"}}}});
}

TEST_CASE("a function whose arguments it binds anew lets go of one whose name no line shows") {
  CHECK(DeathOfChain("q, k = rotate(q, k)") == 2);
  CHECK(DeathOfChain("y = rotate(z, k)") == 4);
}

TEST_CASE("a value in a line of its own has a name, unless what reads it stands above") {
  const auto death = [](int64_t reader) {
    return DeathOf(1, {{{0}, {"m", "m.q"}, {{5, "self.q(x)"}, {1, kInner}}},
                       {{1}, {"m"}, {{reader, "y = attend("}}},
                       {{2}, {"m"}, {{9, "return y.relu()"}}}});
  };
  CHECK(death(7) == 2);
  CHECK(death(4) == 1);
}

TEST_CASE("a term that is scaled is held by the name that the line has for it") {
  const auto death = [](const std::string& line) {
    return DeathOf(1, {{{0}, {"m", "m.norm"}, {{5, "x = self.norm(x)"}, {1, kInner}}},
                       {{1}, {"m", "m.attn"}, {{6, "x = self.attn(x)"}, {1, kInner}}},
                       {{1}, {"m"}, {{7, line}}, "mul.Scalar"},
                       {{2}, {"m"}, {{7, line}}, "mul.Scalar"},
                       {{3, 4}, {"m"}, {{7, line}}, "add"},
                       {{5}, {"m"}, {{8, "return x.relu()"}}}});
  };
  CHECK(death("x = residual * self.a + x * self.b") == 5);
  CHECK(death("x = f(residual) + g(x)") == 2);
}

// Two levels of two pictures, of which later lines read one by one.
TEST_CASE("lists that a method returns hold what is in them") {
  const auto death = [](const std::string& line) {
    const auto level = [&](NameId read, const std::string& path) {
      return Line{{read}, {"m", path}, {{5, line}, {1, kInner}}};
    };
    return DeathOf(2, {level(0, "m.enc.0"),
                       level(1, "m.enc.1"),
                       level(0, "m.enc.0"),
                       level(3, "m.enc.1"),
                       {{2, 4}, {"m"}, {{8, "y = torch.cat([f1, f2])"}}},
                       {{5, 1, 3}, {"m"}, {{9, "y = torch.cat([y, f1, f2])"}}},
                       {{6}, {"m"}, {{10, "return y.relu()"}}}});
  };
  CHECK(death("c1, c2 = self.pyramid(im1), self.pyramid(im2)") == 6);
  CHECK(death("self.encode(im1, im2)") == 4);
}

}  // namespace
}  // namespace onnxfit::passed_results_test
