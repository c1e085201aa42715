// What grew, in the formats that are not for a terminal.
#include <doctest/doctest.h>

#include <algorithm>
#include <string>

#include "estimator/report/diff.h"
#include "estimator/report/json_parts.h"
#include "tests/lines.h"
#include "tests/sample_diff.h"

namespace onnxfit::diff_formats_test {
namespace {

TEST_CASE("Markdown") {
  CHECK(
      ToMarkdown(JudgedDiff(), {.rows = 3}) ==
      R"(**FAIL: grew by 400.0 MiB (+25.0%), from 1.56 GiB to 1.95 GiB**: `models/lenet.onnx` to `models/lenet2.onnx`

`t4`: OOM, was FITS

`t4`: FITS, was FITS

| by kind | before | after | change |
| --- | ---: | ---: | ---: |
| parameters | 60.0 MiB | 80.0 MiB | +20.0 MiB |
| activations | 1000.0 MiB | 1.35 GiB | +380.0 MiB |
| cached | 40.0 MiB | 40.0 MiB | |
| context | 500.0 MiB | 500.0 MiB | |

| by node | | change |
| --- | --- | ---: |
| `layer1.*/relu (3)` | grew | +390.0 MiB |
| `fc.weight -> fc2.weight` | renamed | +20.0 MiB |
| `pool` | removed | -10.0 MiB |

and 1 more

- the peak moved from forward to backward at /layer1/conv1/Conv; what is added or removed may be alive at one of them alone
- batch was 8 and is 16
)");
  CHECK(ToMarkdown(SameDiff()) == R"(**takes 1.56 GiB, as before**: `models/lenet.onnx`

| by kind | before | after | change |
| --- | ---: | ---: | ---: |
| activations | 1.56 GiB | 1.56 GiB | |
)");
  CHECK(LinesOf(ToMarkdown(GrownDiff(), {.quiet = true})).size() == 1);
}

TEST_CASE("Markdown has no control characters, and ASCII where that is asked for") {
  const std::string text = ToMarkdown(AwkwardDiff());
  for (const std::string& line : LinesOf(text)) {
    CAPTURE(line);
    CHECK(Clean(line, false) == line);
  }
  CHECK(IsAscii(ToMarkdown(AwkwardDiff(), {.ascii = true})));
}

TEST_CASE("CSV") {
  CHECK(ToCsv(GrownDiff()) == R"(name,old_name,change,op,count,old_bytes,new_bytes
parameters,,kind,,,62914560,83886080
optimizer_state,,kind,,,0,0
activations,,kind,,,1048576000,1447034880
cached,,kind,,,41943040,41943040
context,,kind,,,524288000,524288000
layer1.*/relu,,grew,relu,3,314572800,723517440
fc2.weight,fc.weight,renamed,parameter,1,0,20971520
pool,,removed,,1,10485760,0
/layer1/gelu,,added,relu,1,0,5242880
)");
}

TEST_CASE("JSON") {
  const Json json = Json::parse(ToJson(JudgedDiff(), {.version = "0.1.0"}));
  CHECK(json["schema"] == 1);
  CHECK(json["version"] == "0.1.0");
  CHECK(json["increase_bytes"] == 400 * kMiB);
  CHECK(json["old"]["device_bytes"] == 1600 * kMiB);
  CHECK(json["old"]["phase"] == "forward");
  CHECK_FALSE(json["old"].contains("node"));
  CHECK(json["new"]["node"] == "/layer1/conv1/Conv");
  CHECK(json["new"]["model"] == "models/lenet2.onnx");
  CHECK(json["kinds"].size() == 5);
  CHECK(json["kinds"][0] ==
        Json::parse(R"({"kind": "parameters", "old_bytes": 62914560, "new_bytes": 83886080})"));
  CHECK(json["nodes"][1] == Json::parse(R"({"name": "fc2.weight", "old_name": "fc.weight",
      "change": "renamed", "op": "parameter", "count": 1, "old_bytes": 0, "new_bytes": 20971520,
      "names": ["fc2.weight"]})"));
  CHECK(json["peak_moved"] == true);
  CHECK(json["settings_changed"] == Json::parse(R"([{"name": "batch", "old": "8", "new": "16"}])"));
  CHECK(json["grew_too_much"] == true);
  CHECK(json["targets"].size() == 2);
  CHECK(json["targets"][0]["old"]["verdict"] == "fits");
  CHECK(json["targets"][0]["new"]["verdict"] == "oom");
}

TEST_CASE("JSON has what is known") {
  Diff diff = SameDiff();
  diff.comparison.has_places = false;
  const Json bare = Json::parse(ToJson(diff, {.version = "0.1.0"}));
  for (const char* absent : {"nodes", "grew_too_much", "targets"}) {
    CAPTURE(absent);
    CHECK_FALSE(bare.contains(absent));
  }
  CHECK(bare["settings_changed"] == Json::array());
  CHECK(Json::parse(ToJson(SameDiff(), {.version = ""}))["nodes"] == Json::array());
  CHECK(ToJson(AwkwardDiff(), {.version = "0.1.0"}).ends_with("}\n"));
  CHECK(Json::accept(ToJson(AwkwardDiff(), {.version = "0.1.0"})));
}

TEST_CASE("a share of what it took before is allowed") {
  struct Row {
    Allowance allowance;
    bool fails;
  };
  const Row rows[] = {{{.text = "400MiB", .bytes = 400 * kMiB}, false},
                      {{.text = "", .bytes = 400 * kMiB - 1}, true},
                      {{.text = "25%", .share = 0.25}, false},
                      {{.text = "24%", .share = 0.24}, true},
                      {{}, true}};
  for (const Row& row : rows) {
    CAPTURE(row.allowance.text);
    Diff diff = GrownDiff();
    diff.fail_above = row.allowance;
    CHECK(diff.grew_too_much() == row.fails);
  }
  CHECK_FALSE(GrownDiff().grew_too_much());
  Diff shrunk = ShrunkDiff();
  shrunk.fail_above = Allowance{};
  CHECK_FALSE(shrunk.grew_too_much());
}

}  // namespace
}  // namespace onnxfit::diff_formats_test
