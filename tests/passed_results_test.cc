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
