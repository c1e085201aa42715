#include "estimator/base/file_bytes.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <filesystem>
#include <string>
#include <string_view>

#include "estimator/base/error.h"
#include "tests/temp_folder.h"

namespace onnxfit::file_bytes_test {
namespace {

constexpr size_t kLarge = 4 << 20;  // is mapped

void CheckNothing(std::string_view) {}

std::string ErrorOf(const FileBytes& file, const std::string& path, size_t size_then) {
  try {
    file.ReadBy([&](std::string_view bytes) {
      std::filesystem::resize_file(path, size_then);
      return std::ranges::count(bytes, 'x');
    });
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST_CASE("a file that becomes shorter while it is mapped is an error, not a signal") {
  const TempFolder folder;
  const std::string path = folder.Write("a.onnx", std::string(kLarge, 'x'));
  const FileBytes file(path, CheckNothing);
  CHECK(ErrorOf(file, path, kLarge).empty());
  constexpr char kError[] =
      "4194304 bytes were expected, as when the file was opened, found 1000: it became shorter "
      "while it was read (try: again, once it is written)";
  CHECK(ErrorOf(file, path, 1000) == kError);
  CHECK(std::ranges::count(file.bytes(), 'x') == 1000);
}

TEST_CASE("what reading makes of the zeros is not told") {
  const TempFolder folder;
  const std::string path = folder.Write("a.onnx", std::string(kLarge, 'x'));
  const FileBytes file(path, CheckNothing);
  std::filesystem::resize_file(path, 10);
  const auto fail = [](std::string_view) -> int { throw Error({.text = "damaged"}); };
  CHECK_THROWS_WITH_AS(file.ReadBy(fail), doctest::Contains("it became shorter while it was read"),
                       Error);
}

TEST_CASE("a small file is read") {
  const TempFolder folder;
  const std::string path = folder.Write("a.onnx", "xxx");
  const FileBytes file(path, CheckNothing);
  CHECK(ErrorOf(file, path, 1).empty());
  CHECK(file.bytes() == "xxx");
}

}  // namespace
}  // namespace onnxfit::file_bytes_test
