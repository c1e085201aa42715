// What is told of a program's phases, from what the hook wrote (hook/phases.py).
#include "estimator/report/program_phases.h"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace onnxfit::program_phases_test {
namespace {

constexpr int64_t kMiB = 1 << 20;

// {"index": 0, …} of MiB: most allocated, reserved, held; what was left of each.
std::string Card(int index, const std::vector<int>& mebibytes) {
  constexpr const char* kNames[] = {"allocated",      "reserved",      "held",
                                    "left_allocated", "left_reserved", "left_held"};
  std::string card = fmt::format(R"({{"index": {})", index);
  for (size_t i = 0; i < mebibytes.size(); ++i) {
    card += fmt::format(R"(, "{}": {})", kNames[i], mebibytes[i] * kMiB);
  }
  return card + "}";
}

std::string Row(const std::string& kind, const std::string& name, int times,
                const std::string& cards, const std::string& more = "") {
  return fmt::format(R"({{"kind": "{}", "name": "{}", "times": {}, "devices": [{}]{}}})", kind,
                     name, times, cards, more);
}

std::vector<ProgramPhase> Read(const std::vector<std::string>& rows) {
  std::string text;
  for (const std::string& row : rows) text += (text.empty() ? "" : ", ") + row;
  return ReadPhases(Json::parse("[" + text + "]"));
}

TEST_CASE("phases are told with what they took and left, and which took most") {
  const auto phases = Read({Row("start", "", 1, Card(0, {90, 100, 300, 90, 100, 300})),
                            Row("training", "", 3, Card(0, {500, 600, 900, 120, 600, 900})),
                            Row("evaluation", "", 2, Card(0, {700, 800, 1100, 110, 800, 1100})),
                            Row("between", "", 3, Card(0, {200, 800, 1100, 110, 800, 1100}))});
  CHECK(PhasesText(phases, " of rank 1") ==
        "\n"
        "By phase of rank 1  times  allocated   reserved       left\n"
        "  training              3  500.0 MiB  600.0 MiB  120.0 MiB\n"
        "  evaluation            2  700.0 MiB  800.0 MiB  110.0 MiB\n"
        "  - evaluation takes most\n");
  CHECK(PhasesText({}, "") == "");
}

TEST_CASE("what comes before all phases or between them is told where it takes most") {
  const auto of_start = Read({Row("start", "", 1, Card(0, {900, 900, 1200, 90, 900, 1200})),
                              Row("training", "", 1, Card(0, {500, 900, 1200, 90, 900, 1200})),
                              Row("between", "", 1, Card(0, {900, 900, 1200, 90, 900, 1200}))});
  const std::string text = PhasesText(of_start, "");
  CHECK(text.find("  before them") != text.npos);
  CHECK(text.find("between") == text.npos);
  CHECK(text.ends_with("  - before them takes most\n"));
  // Of two that took the same the one with a name.
  const auto same = Read({Row("start", "", 1, Card(0, {500, 900, 1200, 90, 900, 1200})),
                          Row("training", "", 1, Card(0, {500, 900, 1200, 90, 900, 1200}))});
  CHECK(PhasesText(same, "").ends_with("  - training takes most\n"));
}

TEST_CASE("where an engine sleeps, the card has less than PyTorch says") {
  const auto phases = Read({Row("sleep", "vLLM", 2, Card(0, {900, 950, 1200, 900, 950, 350})),
                            Row("engine", "vLLM", 2, Card(0, {900, 950, 1200, 900, 950, 1200})),
                            Row("training", "", 2, Card(0, {990, 999, 500, 910, 999, 450}))});
  CHECK(PhasesText(phases, "") ==
        "\n"
        "By phase          times  allocated  on the card  left there\n"
        "  vLLM's sleep()      2  900.0 MiB     1.17 GiB   350.0 MiB\n"
        "  vLLM's steps        2  900.0 MiB     1.17 GiB    1.17 GiB\n"
        "  training            2  990.0 MiB    500.0 MiB   450.0 MiB\n"
        "  - vLLM's steps takes most of the card\n"
        "  - what an engine gives back while it sleeps, PyTorch counts as allocated all\n"
        "    the same\n");
}

TEST_CASE("decoding says what a call of the model adds") {
  const std::string card = Card(0, {500, 600, 900, 120, 600, 900});
  const std::string grown = R"(, "calls": 63, "growth": 16480)";
  const auto phases = Read({Row("prefill", "", 1, card), Row("decoding", "", 1, card, grown)});
  CHECK(phases[1].growth == PhaseGrowth{63, 16480});
  CHECK(
      PhasesText(phases, "")
          .ends_with("  - generate(), prefill takes most\n"
                     "  - decoding: 63 calls of the model behind the first, each 16.1 KiB more\n"));
  const auto fixed = Read({Row("decoding", "", 1, card, R"(, "calls": 9, "growth": 0)")});
  CHECK(GrowthText(fixed[0]) ==
        "decoding: 9 calls of the model behind the first, none of which takes more");
  CHECK(GrowthText(phases[0]) == "");
}

TEST_CASE("of several cards the one that has most is told, and all are in JSON") {
  const auto phases =
      Read({Row("module", "CLIPTextModel", 1,
                Card(0, {10, 20, 300, 1, 20, 300}) + ", " + Card(1, {70, 80, 300, 2, 80, 300})),
            Row("module", "", 1, Card(1, {50, 80, 300, 2, 80, 300}))});
  CHECK(RowsOfPhases(phases).device == 1);
  CHECK(PhasesText(phases, "") ==
        "\n"
        "By phase         times  allocated  reserved      left\n"
        "  CLIPTextModel      1   70.0 MiB  80.0 MiB  2.00 MiB\n"
        "  other modules      1   50.0 MiB  80.0 MiB  2.00 MiB\n"
        "  - CLIPTextModel takes most\n");
  const Json json = PhasesJson(phases);
  CHECK(json[0]["kind"] == "module");
  CHECK(json[0]["name"] == "CLIPTextModel");
  CHECK(json[0]["devices"][1] == Json{{"device", 1},
                                      {"allocated_bytes", 70 * kMiB},
                                      {"reserved_bytes", 80 * kMiB},
                                      {"device_bytes", 300 * kMiB},
                                      {"left",
                                       {{"allocated_bytes", 2 * kMiB},
                                        {"reserved_bytes", 80 * kMiB},
                                        {"device_bytes", 300 * kMiB}}}});
  CHECK(!json[1].contains("name"));
}

}  // namespace
}  // namespace onnxfit::program_phases_test
