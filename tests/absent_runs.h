// The client of absent_client.cc under `onnxfit run`, for tests.
#pragma once

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "cli/run.h"
#include "tests/temp_folder.h"

namespace onnxfit::absent_runs {

struct Answer {
  int code = 0;
  std::string out;
  std::string err;
  std::string program;  // what it printed
};

// `words` for the client, below a shell that keeps what it prints; `before` is the shell's own.
inline Answer RunClient(const std::vector<std::string>& flags, const std::string& words,
                        const std::string& before = "") {
  const TempFolder folder;
  const std::string file = folder.Path("printed");
  std::vector<std::string> args = {"run"};
  args.insert(args.end(), flags.begin(), flags.end());
  args.insert(args.end(),
              {"--", "sh", "-c", fmt::format("{}{} {} > {}", before, ABSENT_CLIENT, words, file)});
  std::ostringstream out;
  std::ostringstream err;
  const int code = Run(args, out, err);
  std::ifstream printed(file);
  return {code, out.str(), err.str(), {std::istreambuf_iterator<char>(printed), {}}};
}

inline int64_t UsedBy(const std::vector<std::string>& flags, const std::string& words,
                      size_t target) {
  std::vector<std::string> args = flags;
  args.insert(args.end(), {"-f", "json"});
  const Answer answer = RunClient(args, words);
  CAPTURE(answer.err);
  const auto json = nlohmann::json::parse(answer.out, nullptr, /*allow_exceptions=*/false);
  REQUIRE(json.is_object());
  REQUIRE(json["targets"].size() > target);
  return json["targets"][target]["used_bytes"].get<int64_t>();
}

// The first card's, at its peak.
inline int64_t UsedBytes(const std::string& words) { return UsedBy({"-g", "t4"}, words, 0); }

inline std::string Printed(const std::string& words) {
  return RunClient({"-g", "t4"}, words).program;
}

}  // namespace onnxfit::absent_runs
