#include "estimator/report/snapshot_json.h"

#include <doctest/doctest.h>

#include <algorithm>

#include "estimator/fit/sweep.h"
#include "estimator/report/estimate.h"
#include "tests/sample_estimate.h"
#include "tests/trace_helpers.h"

namespace onnxfit::snapshot_json_test {
namespace {

using namespace std::string_literals;

Snapshot SmallSnapshot() {
  Snapshot snapshot;
  snapshot.version = "0.1.0";
  snapshot.model = "models/net.onnx";
  snapshot.digest = "00000000000000aa";
  snapshot.settings = {{"batch", "8"}, {"precision", "fp32"}};
  snapshot.peak = {56, 1536, 2097152};
  snapshot.device_bytes = 2097152 + 400;
  snapshot.phase = "backward";
  snapshot.node = "/a/Conv_1";
  snapshot.kinds = {{"parameters", 8}, {"activations", 48}, {"rounding", 1480}};
  snapshot.places = {{"l0/relu", "relu", 16},
                     {"w", "parameter", 8},
                     {"l1/relu", "relu", 16},
                     {"a \"b\" {1}", "add", 16}};
  return snapshot;
}

Snapshot Sorted(Snapshot snapshot) {
  std::sort(snapshot.places.begin(), snapshot.places.end(),
            [](const Place& a, const Place& b) { return a.name < b.name; });
  return snapshot;
}

// As a lock gives it back.
Snapshot Locked(const Snapshot& snapshot) {
  const Lock lock = {.version = snapshot.version, .checks = {{"name", snapshot}}};
  const Lock read = ReadLock(ToJson(lock));
  CHECK(read.version == snapshot.version);
  REQUIRE(read.checks.size() == 1);
  return read.checks.at("name");
}

TEST_CASE("the text of a lock") {
  Snapshot bare;
  bare.model = "b.onnx";
  const Lock lock = {.version = "0.1.0", .checks = {{"net", SmallSnapshot()}, {"Bare", bare}}};
  CHECK(ToJson(lock) == R"({
  "lock": 1,
  "version": "0.1.0",
  "checks": {
    "Bare": {
      "digest": "cbf29ce484222325",
      "model": {"path":"b.onnx"},
      "settings": {},
      "peak": {"exact_bytes":0,"allocated_bytes":0,"reserved_bytes":0,"device_bytes":0},
      "breakdown": [],
      "places": []
    },
    "net": {
      "digest": "2851c38aef91dc6a",
      "model": {"path":"models/net.onnx","digest":"00000000000000aa"},
      "settings": {"batch":"8","precision":"fp32"},
      "peak": {"exact_bytes":56,"allocated_bytes":1536,"reserved_bytes":2097152,"device_bytes":2097552,"phase":"backward","node":"/a/Conv_1"},
      "breakdown": [
        {"kind":"parameters","bytes":8},
        {"kind":"activations","bytes":48},
        {"kind":"rounding","bytes":1480}
      ],
      "places": [
        {"name":"l{0..1}/relu","op":"relu","count":2,"bytes":32},
        {"name":"w","op":"parameter","bytes":8},
        {"name":"a \"b\" {1}","op":"add","bytes":16}
      ]
    }
  }
}
)");
  CHECK(ToJson(Lock{.version = "0.1.0"}) ==
        "{\n  \"lock\": 1,\n  \"version\": \"0.1.0\",\n  \"checks\": {}\n}\n");
}

TEST_CASE("a lock is read back") {
  CHECK(Sorted(Locked(SmallSnapshot())) == Sorted(SmallSnapshot()));
  CHECK(ReadLock(ToJson(Lock{.version = "7"})).checks.empty());
  CHECK(ReadLock(ToJson(Lock{.version = "7"})).version == "7");
}

TEST_CASE("a run is read back, from its report and from a lock") {
  for (const Mode mode : {Mode::kTrain, Mode::kEval}) {
    const Estimate estimate =
        MakeEstimate(ParseGraph(kTwoLayers), {.settings = {.mode = mode}, .details = true});
    const Snapshot snapshot = SnapshotOf(estimate, "0.1.0");
    CHECK(snapshot.device_bytes == estimate.device_bytes);
    CHECK(snapshot.peak == estimate.peak);
    CHECK(Sorted(snapshot).places.size() == estimate.places.size());
    CHECK(snapshot.kinds.size() == estimate.breakdown.size());
    const std::string report = ToJson(estimate, {.version = "0.1.0"});
    CHECK(ReadReports(report) == std::vector<Snapshot>{snapshot});
    CHECK(ReadReports("[" + report + ",\n" + report + "]") ==
          std::vector<Snapshot>{snapshot, snapshot});
    CHECK(Sorted(Locked(snapshot)) == Sorted(snapshot));
  }
}

TEST_CASE("bad letters are the same in a run and in its report") {
  Estimate estimate = SampleEstimate();
  estimate.model.path = "a\xFF.onnx";
  estimate.dims = {{"n\xFF", 3}};
  estimate.settings.freeze = {"w\xFF*"};
  estimate.settings.loss_output = "y\xFF";
  estimate.peak_node = "\xFF";
  estimate.places = {{"p\xFF", "add", 8}, {"\xC3\xBC{0}\n\"", "add", 8}};
  const Snapshot snapshot = SnapshotOf(estimate, "0.1.0");
  CHECK(snapshot.places[0].name == "p\xEF\xBF\xBD");
  CHECK(ReadReports(ToJson(estimate, {.version = "0.1.0"})) == std::vector<Snapshot>{snapshot});
  CHECK(Locked(snapshot) == snapshot);
}

TEST_CASE("rows of a table without an answer are left out") {
  const std::string report = ToJson(SampleEstimate(), {.version = "0.1.0"});
  CHECK(ReadReports(R"([{"error": "out of range"}, )" + report + "]").size() == 1);
  CHECK(ReadReports(R"([{"error": "out of range"}])").empty());
  CHECK(ReadReports("[]").empty());
}

TEST_CASE("what was not said of a run is no setting") {
  const Snapshot snapshot = SnapshotOf(SampleEstimate(), "0.1.0");
  for (const auto& setting : snapshot.settings) {
    CAPTURE(setting.first);
    CHECK(setting.second != "{}");
    CHECK(setting.second != "[]");
    CHECK_FALSE(setting.second.empty());
  }
}

TEST_CASE("a lock and a report") {
  CHECK(IsLock(ToJson(Lock{})));
  CHECK_FALSE(IsLock(ToJson(SampleEstimate(), {.version = "1"})));
  for (const std::string text : {"", "{", "[]", "7", "\"lock\"", "{\"lock\": 1"}) {
    CHECK_FALSE(IsLock(text));
  }
  CHECK_FALSE(IsLock(std::string(100'000, '[') + std::string(100'000, ']')));
}

std::string With(std::string text, const std::string& what, const std::string& other) {
  const size_t at = text.find(what);
  REQUIRE(at != std::string::npos);
  return text.replace(at, what.size(), other);
}

std::string ErrorOf(const std::string& text) {
  try {
    ReadLock(text);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST_CASE("a lock that is broken says where, and what to do") {
  const std::string whole = ToJson(Lock{.version = "0.1.0", .checks = {{"net", SmallSnapshot()}}});
  struct Row {
    std::string text;
    std::string error;
  };
  const std::string merge = "expected JSON, found the marks of a merge that was not finished";
  const Row rows[] = {
      {"", "line 1, column 1: expected JSON, found the end of the file"},
      {"lock", "line 1, column 1: expected JSON, found something else"},
      {"\0"s, "line 1, column 1: expected JSON, found something else"},
      {"[]", "\"lock\": expected this field, found none"},
      {"{}", "\"lock\": expected this field, found none"},
      {"<<<<<<< HEAD\n" + whole, "line 1, column 1: " + merge},
      {With(whole, "    \"net\"", "<<<<<<< HEAD\n    \"net\""), "line 5, column 1: " + merge},
      {whole.substr(0, whole.size() - 3),
       "line 21, column 4: expected JSON, found the end of the file"},
      {With(whole, "\"lock\": 1", "\"lock\": 2"),
       "\"lock\": expected 1, found the lock of another onnxfit"},
      {With(whole, "\"lock\": 1", "\"lock\": \"1\""),
       "\"lock\": expected a whole number from 0, found a value of type string"},
      {With(whole, "\"version\": \"0.1.0\"", "\"version\": 1"),
       "\"version\": expected a text, found 1"},
      {With(whole, "\"checks\"", "\"check\""), "\"checks\": expected this field, found none"},
      {R"({"lock": 1, "version": "", "checks": []})",
       "\"checks\": expected an object, found a value of type array"},
      {R"({"lock": 1, "version": "", "checks": {"net": null}})",
       "check 'net': \"model\": expected this field, found none"},
      {With(whole, "\"peak\"", "\"peek\""),
       "check 'net': \"peak\": expected this field, found none"},
      {With(whole, "\"device_bytes\":2097552,", ""),
       "check 'net': \"device_bytes\": expected this field, found none"},
      {With(whole, "\"exact_bytes\":56", "\"exact_bytes\":-56"),
       "check 'net': \"exact_bytes\": expected a whole number from 0, found -56"},
      {With(whole, "\"phase\":\"backward\"", "\"phase\":null"),
       "check 'net': \"phase\": expected a text, found null"},
      {With(whole, "\"bytes\":48", "\"bytes\":\"48\""),
       "check 'net': \"bytes\": expected a whole number from 0, found a value of type string"},
      {With(whole, "\"count\":2", "\"count\":3"),
       "check 'net': \"name\": \"l{0..1}/relu\": expected 3 places of one size"},
      {With(whole, "\"settings\": {\"batch\":\"8\",\"precision\":\"fp32\"}", "\"settings\": []"),
       "check 'net': \"settings\": expected an object, found a value of type array"},
  };
  for (const Row& row : rows) {
    CAPTURE(row.text);
    CHECK(ErrorOf(row.text) == row.error);
  }
}

TEST_CASE("rows that add up to more than the whole are refused") {
  Snapshot snapshot = SmallSnapshot();
  snapshot.places[0].bytes = INT64_MAX / 2;
  CHECK_THROWS_WITH_AS(
      Locked(snapshot),
      "check 'name': \"places\": expected rows of 56 B at most, as its peak, found "
      "4.00 EiB",
      Error);
  snapshot.places[1].bytes = INT64_MAX;
  CHECK_THROWS_WITH_AS(Locked(snapshot), doctest::Contains("sizes above 2^63 bytes"), Error);
  snapshot = SmallSnapshot();
  snapshot.kinds[0].bytes = 1 << 30;
  CHECK_THROWS_WITH_AS(Locked(snapshot), doctest::Contains("\"breakdown\": expected rows of"),
                       Error);
}

TEST_CASE("rows of a lock unfold to so many places") {
  std::string rows;
  for (int i = 0; i < 3; ++i) {
    rows += R"({"name":"x{0..999998}y","op":"add","count":999999,"bytes":0},)";
  }
  rows.pop_back();
  const std::string text =
      R"({"lock":1,"version":"0","checks":{"a":{"model":{"path":"p"},"settings":{},
      "peak":{"exact_bytes":1,"allocated_bytes":1,"reserved_bytes":1,"device_bytes":1},
      "breakdown":[],"places":[)" +
      rows + "]}}}";
  CHECK_THROWS_WITH_AS(ReadLock(text), doctest::Contains("at most 1048576 places were expected"),
                       Error);
}

TEST_CASE("a report that is deeper than any is refused") {
  const std::string whole = ToJson(Lock{.version = "0.1.0", .checks = {{"net", SmallSnapshot()}}});
  const std::string deep = std::string(100'000, '[') + "1" + std::string(100'000, ']');
  CHECK(ErrorOf(With(whole, "\"batch\":\"8\"", "\"batch\":" + deep)) ==
        "expected JSON of at most 64 levels, found more");
}

TEST_CASE("errors of reports") {
  CHECK_THROWS_WITH_AS(ReadReports(""),
                       "line 1, column 1: expected JSON, found the end of the file", Error);
  CHECK_THROWS_WITH_AS(ReadReports("{}"), "\"model\": expected this field, found none", Error);
  CHECK_THROWS_WITH_AS(ReadReports("[7]"), "\"model\": expected this field, found none", Error);
  CHECK_THROWS_WITH_AS(ReadReports(R"({"model": {}, "peak": {}})"),
                       "\"path\": expected this field, found none", Error);
}

}  // namespace
}  // namespace onnxfit::snapshot_json_test
