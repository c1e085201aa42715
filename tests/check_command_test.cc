#include <doctest/doctest.h>
#include <fmt/format.h>

#include <filesystem>
#include <string>
#include <vector>

#include "tests/files.h"
#include "tests/run_command.h"
#include "tests/working_folder.h"

namespace onnxfit::check_command_test {
namespace {

namespace fs = std::filesystem;

using Args = std::vector<std::string>;

constexpr const char* kLock = "onnxfit.lock.json";

// A check of one layer of `width`, whose steps take 12 x 128 bytes a unit.
constexpr const char* kConfig = R"([[check]]
name = "net"
model = "net.onnxtxt"
)";

CommandResult Check(const Args& more = {}) {
  Args args = {"check"};
  args.insert(args.end(), more.begin(), more.end());
  return RunCommand(args);
}

// The lines of `text` that begin with `word`.
size_t Lines(const std::string& text, const std::string& word) {
  size_t count = text.starts_with(word + " ") ? 1 : 0;
  for (size_t at = text.find("\n" + word + " "); at != std::string::npos;
       at = text.find("\n" + word + " ", at + 1)) {
    ++count;
  }
  return count;
}

// Without the ends of lines that go on below.
std::string Unwrapped(std::string text) {
  for (size_t at = text.find("\n  "); at != std::string::npos; at = text.find("\n  ")) {
    const size_t word = text.find_first_not_of("\n ", at);
    text.replace(at, word - at, " ");
  }
  return text;
}

// `text` with the first `part` made `other`.
std::string Renamed(std::string text, const std::string& part, const std::string& other) {
  return text.replace(text.find(part), part.size(), other);
}

std::string Version() { return RunCommand({"--version"}).out.substr(8, 5); }

// The number behind `field` in JSON.
int64_t NumberAt(const std::string& json, const std::string& field) {
  return std::stoll(json.substr(json.find(field) + field.size()));
}

bool Has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

// A folder with a model, a config and its lock.
class GatedFolder : public WorkingFolder {
 public:
  explicit GatedFolder(const std::string& config = kConfig) {
    Write("net.onnxtxt", OneLayer(20'000));
    Write("onnxfit.toml", config);
    REQUIRE(Check({"--update"}).code == 0);
  }
  void Grow() const { Write("net.onnxtxt", OneLayer(40'000)); }
};

}  // namespace

TEST_CASE("a check without a lock fails, then passes, then fails where it grew") {
  const WorkingFolder folder;
  folder.Write("net.onnxtxt", OneLayer(20'000));
  folder.Write("onnxfit.toml", kConfig);
  const CommandResult first = Check();
  CHECK(first.code == 1);
  CHECK(Lines(first.out, "NEW") == 1);
  CHECK(first.out.starts_with("FAIL: 1 fail, 1 new, nothing compared\n"));
  CHECK(Has(Unwrapped(first.out),
            "FAIL  onnxfit.lock.json: not compared: there is no such file, so no growth can be "
            "seen; lock = \"none\" in the config does without one"));
  CHECK(first.out.ends_with("Run `onnxfit check --update` and commit the lock.\n"));
  folder.Write("other.toml", kConfig);
  CHECK(RunCommand({"check", "other.toml", "--lock", "a.json"})
            .out.ends_with("Run `onnxfit check other.toml --lock a.json --update` and commit the "
                           "lock.\n"));
  CHECK(Check({"--exit-zero"}).code == 0);
  CHECK(!fs::exists(kLock));

  const CommandResult update = Check({"--update"});
  CHECK(update.code == 0);
  CHECK(Has(update.out, "onnxfit.lock.json is written"));
  const std::string lock = ContentsOf(kLock);
  CHECK(Check({"--update"}).code == 0);
  CHECK(ContentsOf(kLock) == lock);
  CHECK(Lines(Check().out, "PASS") == 1);

  folder.Write("net.onnxtxt", OneLayer(40'000));
  const CommandResult grown = Check();
  CHECK(grown.code == 1);
  CHECK(grown.out.starts_with("FAIL: 1 fail\nFAIL  net: grew by "));
  // The grown node is in the first three lines.
  const size_t third = grown.out.find('\n', grown.out.find('\n', grown.out.find('\n') + 1) + 1);
  CHECK(grown.out.find("fc_weight") < third);
  CHECK(Check({"--exit-zero"}).code == 0);
  CHECK(ContentsOf(kLock) == lock);

  CHECK(Check({"--update"}).code == 0);
  CHECK(Lines(Check().out, "PASS") == 1);
}

TEST_CASE("what shrank passes") {
  const GatedFolder folder;
  folder.Write("net.onnxtxt", OneLayer(10'000));
  const CommandResult result = Check();
  CHECK(result.code == 0);
  CHECK(Has(result.out, "shrank by "));
}

TEST_CASE("a check that the lock lacks and one that is gone fail, and --update puts that right") {
  const GatedFolder folder;
  folder.Write("onnxfit.toml", "[[check]]\nname = \"other\"\nmodel = \"net.onnxtxt\"\n");
  const CommandResult result = Check();
  CHECK(result.code == 1);
  CHECK(result.out.starts_with("FAIL: 2 fail\n"));
  CHECK(Has(result.out, "FAIL  other: not compared: the lock does not have it\n"));
  CHECK(Has(result.out, "FAIL  net: not compared: it is in the lock, and no check has it\n"));
  CHECK(result.out.ends_with("Run `onnxfit check --update` and commit the lock.\n"));
  CHECK(Lines(Check({"--only", "o*"}).out, "FAIL") == 1);
  CHECK(Has(Check({"-f", "sarif"}).out, "\"ruleId\": \"not-compared\""));
  const CommandResult update = Check({"--update"});
  CHECK(update.code == 0);
  CHECK(Lines(update.out, "GONE") == 1);
  CHECK(Check().out.starts_with("PASS: 1 pass\n"));
}

TEST_CASE("the config says what a lock may lack") {
  struct Row {
    const char* what;      // happens to the lock
    const char* defaults;  // keys of [defaults]
    const char* keys;      // of the one check
    int code;
    const char* first;  // line
  };
  const Row rows[] = {
      {"missing", "", "", 1, "FAIL: 1 fail, 1 new, nothing compared"},
      {"missing", "lock = \"required\"", "", 1, "FAIL: 1 fail, 1 new, nothing compared"},
      {"missing", "lock = \"optional\"", "", 0, "PASS: 1 new, nothing compared"},
      {"missing", "lock = \"none\"", "", 0, "PASS: 1 pass"},
      {"missing", "", "lock = \"optional\"", 0, "PASS: 1 new, nothing compared"},
      {"missing", "", "lock = \"none\"", 0, "PASS: 1 pass"},
      {"missing", "lock = \"none\"", "lock = \"required\"", 1,
       "FAIL: 1 fail, 1 new, nothing compared"},
      {"missing", "level = \"warn\"", "", 0, "WARN: 1 warn, 1 new, nothing compared"},
      {"missing", "level = \"off\"", "", 0, "PASS: 1 off"},
      {"renamed", "", "", 1, "FAIL: 2 fail"},
      {"renamed", "lock = \"optional\"", "", 0, "PASS: 1 new, 1 gone, nothing compared"},
      {"renamed", "lock = \"none\"", "", 0, "PASS: 1 pass"},
      {"renamed", "", "lock = \"optional\"", 1, "FAIL: 1 fail, 1 new, nothing compared"},
      {"renamed", "level = \"warn\"", "", 0, "WARN: 2 warn"},
      {"of another version", "", "", 1, "FAIL: 1 fail, 1 new, nothing compared"},
      {"of another version", "lock = \"optional\"", "", 0, "WARN: 1 warn, 1 new, nothing compared"},
      {"of another version", "lock = \"none\"", "", 0, "PASS: 1 pass"},
      {"unreadable", "", "", 2, "ERROR: 1 error, 1 new"},
      {"unreadable", "lock = \"none\"", "", 0, "PASS: 1 pass"},
      {"as it was", "", "", 0, "PASS: 1 pass"},
      {"as it was", "lock = \"optional\"", "", 0, "PASS: 1 pass"},
      {"as it was", "lock = \"often\"", "", 2, "ERROR: 1 error"},
  };
  const GatedFolder folder;
  const std::string lock = ContentsOf(kLock);
  for (const Row& row : rows) {
    CAPTURE(row.what);
    CAPTURE(row.defaults);
    CAPTURE(row.keys);
    const std::string what = row.what;
    folder.Write(kLock, what == "unreadable"           ? "{"
                        : what == "renamed"            ? Renamed(lock, "\"net\"", "\"old\"")
                        : what == "of another version" ? Renamed(lock, Version(), "0.0.1")
                                                       : lock);
    if (what == "missing") fs::remove(kLock);
    folder.Write("onnxfit.toml",
                 fmt::format("[defaults]\n{}\n{}{}\n", row.defaults, kConfig, row.keys));
    const CommandResult result = Check();
    CHECK(result.code == row.code);
    CHECK(result.out.substr(0, result.out.find('\n')) == row.first);
  }
}

TEST_CASE("growth fails whether or not the lock has to have the check") {
  const GatedFolder folder(std::string(kConfig) + "lock = \"optional\"\n");
  folder.Grow();
  CHECK(Check().out.starts_with("FAIL: 1 fail\nFAIL  net: grew by "));
  folder.Write("onnxfit.toml", std::string(kConfig) + "lock = \"none\"\n");
  CHECK(Check().code == 0);
  CHECK(Check({"--against", kLock}).code == 1);
}

TEST_CASE("a lock has what asks for one") {
  const GatedFolder folder(std::string(kConfig) +
                           "[[check]]\nname = \"two\"\nmodel = \"net.onnxtxt\"\n");
  CHECK(Has(ContentsOf(kLock), "\"two\""));
  folder.Write("onnxfit.toml", std::string(kConfig) +
                                   "[[check]]\nname = \"two\"\nmodel = \"net.onnxtxt\"\n"
                                   "lock = \"none\"\n");
  CHECK(Check({"--update"}).code == 0);
  CHECK(!Has(ContentsOf(kLock), "\"two\""));
  CHECK(Check().out.starts_with("PASS: 2 pass\n"));
  folder.Write("onnxfit.toml", std::string(kConfig) + "lock = \"none\"\n");
  const CommandResult none = Check({"--update"});
  CHECK(none.code == 2);
  CHECK(Has(Unwrapped(none.out), "--update: expected a check that has a lock"));
}

TEST_CASE("a lock of another name is beside nothing") {
  const GatedFolder folder;
  fs::remove(kLock);
  CHECK(Check({"--lock", "locks/a.json", "--update"}).code == 2);
  fs::create_directory("locks");
  const CommandResult update = Check({"--lock", "locks/a.json", "--update"});
  CHECK(update.code == 0);
  CHECK(Has(update.out, "note: locks/a.json is written: commit it\n"));
  CHECK(Has(ContentsOf("locks/a.json"), "\"path\":\"net.onnxtxt\""));
  CHECK(!fs::exists(kLock));
  CHECK(Check().code == 1);
  CHECK(Check({"--lock", "locks/a.json"}).out.starts_with("PASS: 1 pass\n"));
  folder.Grow();
  CHECK(Check({"--lock", "locks/a.json"}).out.starts_with("FAIL: 1 fail\n"));
  CHECK(Has(Check({"--lock", "none.json"}).out, "FAIL  none.json: not compared: there is no such"));
  CHECK(Check({"--lock", "locks/a.json", "-f", "json=locks/a.json"}).code == 2);
  CHECK(Check({"--lock", "locks/a.json", "--against", "net.onnxtxt"}).code == 2);
  CHECK(Check({"--lock", ""}).code == 1);  // as if nobody said it
}

TEST_CASE("a lock has the paths of its own folder where a model is not below the config") {
  const WorkingFolder folder;
  folder.Write("nets/net.onnxtxt", OneLayer(10));
  folder.Write("ci/onnxfit.toml", "[[check]]\nmodel = \"../nets/net.onnxtxt\"\n");
  CHECK(Check({"ci/onnxfit.toml", "--update"}).code == 0);
  CHECK(Has(ContentsOf("ci/onnxfit.lock.json"), "\"path\":\"../nets/net.onnxtxt\""));
  CHECK(Check({"ci/onnxfit.toml", "--update", "--lock", "my.lock.json"}).code == 0);
  CHECK(Has(ContentsOf("my.lock.json"), "\"path\":\"nets/net.onnxtxt\""));
}

TEST_CASE("--strict is of all checks") {
  const GatedFolder folder(std::string(kConfig) + "budget = \"gtx1050\"\n");
  const std::string json = Check({"-f", "json"}).out;
  const int64_t room = NumberAt(json, "\"limit_bytes\":") - NumberAt(json, "\"used_bytes\":");
  const std::string tight =
      fmt::format("{}budget = \"gtx1050\"\nreserve = \"{}\"\n", kConfig, room);
  struct Row {
    std::string config;
    Args args;
    int code;
    bool fails;
  };
  const Row rows[] = {
      {tight, {}, 0, false},
      {tight, {"--strict"}, 1, true},
      {tight, {"--strict=no"}, 0, false},
      {tight, {"--strict", "--exit-zero"}, 0, true},
      {tight + "strict = true\n", {}, 1, true},
      {tight + "strict = true\n", {"--strict"}, 1, true},
      {std::string(kConfig) + "budget = \"gtx1050\"\n", {"--strict"}, 0, false},
  };
  for (const Row& row : rows) {
    CAPTURE(row.config);
    CAPTURE(row.args.size());
    folder.Write("onnxfit.toml", row.config);
    const CommandResult result = Check(row.args);
    CHECK(result.code == row.code);
    CHECK(result.out.starts_with("FAIL: ") == row.fails);
    CHECK(Has(result.out, "TIGHT on gtx1050") == row.fails);
  }
}

TEST_CASE("--only updates what it names and leaves the rest") {
  const GatedFolder folder(std::string(kConfig) +
                           "[[check]]\nname = \"two\"\nmodel = \"net.onnxtxt\"\n");
  folder.Grow();
  CHECK(Check({"--update", "--only", "two"}).code == 0);
  const CommandResult result = Check();
  CHECK(result.code == 1);
  CHECK(Lines(result.out, "FAIL") == 1);
  CHECK(Has(result.out, "FAIL  net: "));
}

TEST_CASE("a check that has no answer keeps its place in the lock") {
  const GatedFolder folder("[[check]]\nname = \"zoo\"\nmodel = \"*.onnxtxt\"\n");
  const std::string lock = ContentsOf(kLock);
  folder.Write("onnxfit.toml", "[[check]]\nname = \"zoo\"\nmodel = \"none/*.onnxtxt\"\n");
  const CommandResult result = Check({"--update"});
  CHECK(result.code == 2);
  CHECK(Lines(result.out, "ERROR") == 1);
  CHECK(Lines(result.out, "GONE") == 0);
  folder.Write("onnxfit.toml", "[[check]]\nname = \"zoo\"\nmodel = \"*.onnxtxt\"\nbatch = 0\n");
  CHECK(Check({"--update"}).code == 2);
  CHECK(ContentsOf(kLock) == lock);
}

TEST_CASE("levels and budgets decide the exit code") {
  struct Row {
    const char* keys;
    const char* word;
    int code;
  };
  const Row rows[] = {
      {"budget = \"8GiB\"", "PASS", 0},
      {"budget = \"100MiB\"", "FAIL", 1},
      {"budget = [\"8GiB\", \"100MiB\"]", "FAIL", 1},
      {"budget = \"100MiB\"\nlevel = \"warn\"", "WARN", 0},
      {"budget = \"100MiB\"\nlevel = \"off\"", "OFF", 0},
      {"budget = \"t4\"", "PASS", 0},
      {"budget = \"1% of t4\"", "FAIL", 1},
      {"batch = 100000000\nmax-increase = \"100GiB\"\nbudget = \"t4\"", "FAIL", 1},
      {"max-increase = \"1GiB\"\nbatch = 1000", "PASS", 0},
      {"max-increase = \"1KiB\"\nbatch = 1000", "FAIL", 1},
      {"bugdet = \"t4\"", "ERROR", 2},
  };
  const GatedFolder folder;
  for (const Row& row : rows) {
    CAPTURE(row.keys);
    folder.Write("onnxfit.toml", std::string(kConfig) + row.keys + "\n");
    const CommandResult result = Check();
    CHECK(Lines(result.out, row.word) == 1);
    CHECK(result.code == row.code);
  }
}

TEST_CASE("trouble with one is told and the others are answered") {
  const GatedFolder folder;
  folder.Write("onnxfit.toml", std::string(kConfig) + R"([[check]]
name = "missing"
model = "none.onnxtxt"
[[check]]
name = "glob"
model = "none/*.onnx"
[[check]]
name = "nothing"
[[check]]
name = "net"
model = "net.onnxtxt"
)");
  const CommandResult result = Check();
  CHECK(result.code == 2);
  CHECK(result.out.starts_with("ERROR: 4 error, 1 pass\n"));
  CHECK(
      Has(result.out, "ERROR missing: none.onnxtxt: an ONNX file was expected, there is no such"));
  CHECK(Has(result.out, "ERROR glob: line 9: model: expected files, found none that match"));
  CHECK(Has(result.out, "ERROR nothing: line 10: model: expected the path of a model"));
  CHECK(Has(result.out, "'net' is given twice, first at line 1"));
  CHECK(Has(result.out, "PASS  net: "));
}

TEST_CASE("a lock that cannot be read is an error, and budgets still hold") {
  struct Row {
    const char* lock;
    const char* error;
  };
  const Row rows[] = {
      {"", "a lock was expected, the file is empty"},
      {"x", "line 1, column 1: expected JSON"},
      {"{\"lock\": 1,\n<<<<<<< HEAD\n",
       "line 2, column 1: expected JSON, found the marks of a merge"},
      {"{\"lock\": 2}", "\"lock\": expected 1, found the lock of another onnxfit"},
      {"{\"lock\": 1, \"version\": \"0.1.0\", \"checks\": {\"net\": {}}}",
       "check 'net': \"model\": expected this field"},
  };
  const GatedFolder folder;
  for (const Row& row : rows) {
    CAPTURE(row.lock);
    folder.Write(kLock, row.lock);
    const std::string flat = Unwrapped(Check().out);
    CHECK(Check().code == 2);
    CHECK(Has(flat, row.error));
    CHECK(Has(flat, "onnxfit check --update"));
    CHECK(Has(flat, "NEW   net: "));
    CHECK(Has(flat, ", not compared: the lock cannot be read"));
  }
  CHECK(Check({"--update"}).code == 0);
  CHECK(Lines(Check().out, "PASS") == 1);
}

TEST_CASE("a lock of another version is one failure") {
  const GatedFolder folder;
  REQUIRE(Has(ContentsOf(kLock), Version()));
  folder.Write(kLock, Renamed(ContentsOf(kLock), Version(), "0.0.1"));
  folder.Grow();
  const CommandResult result = Check();
  CHECK(result.code == 1);
  CHECK(Lines(result.out, "FAIL") == 1);
  CHECK(Lines(result.out, "NEW") == 1);
  CHECK(result.out.ends_with("Run `onnxfit check --update` and commit the lock.\n"));
  folder.Write("other.lock.json", ContentsOf(kLock));
  const CommandResult other = Check({"--against", "other.lock.json"});
  CHECK(other.code == 1);
  CHECK(Has(other.out, "FAIL  other.lock.json: not compared: written by onnxfit 0.0.1, this is "));
  CHECK(Lines(result.out, "PASS") == 0);
  CHECK(Has(Unwrapped(result.out), ", not compared: the lock is of onnxfit 0.0.1"));
  CHECK(Has(result.out, "written by onnxfit 0.0.1"));
  CHECK(Check({"--update"}).code == 0);
  CHECK(Lines(Check().out, "FAIL") == 0);
}

// `lock` with `less` taken off the number behind `field`.
std::string Lessened(const std::string& lock, const std::string& field, int64_t less) {
  const size_t at = lock.find(field) + field.size();
  const int64_t bytes = std::stoll(lock.substr(at)) - less;
  return lock.substr(0, at) + std::to_string(bytes) + lock.substr(lock.find_first_of(",}", at));
}

TEST_CASE("figures that were changed by hand are told") {
  const GatedFolder folder;
  const std::string lock = Lessened(ContentsOf(kLock), "\"device_bytes\":", 1 << 20);
  folder.Write(kLock, Lessened(lock, "\"kind\":\"context\",\"bytes\":", 1 << 20));
  const CommandResult result = Check();
  CHECK(result.code == 1);
  CHECK(Has(Unwrapped(result.out), "the old figures were changed by hand"));
  folder.Write(kLock, lock);  // whose parts are more than the whole
  CHECK(Check().code == 2);
}

TEST_CASE("a part of a lock is renewed where the rest can be read") {
  const GatedFolder folder(std::string(kConfig) +
                           "[[check]]\nname = \"two\"\nmodel = \"net.onnxtxt\"\n");
  const std::string lock = ContentsOf(kLock);
  std::string other = lock;
  other.replace(other.find(": \"0."), 7, ": \"9.9.9");
  for (const std::string& damaged : {"<<<<<<< HEAD\n" + lock, other}) {
    folder.Write(kLock, damaged);
    const CommandResult result = Check({"--update", "--only", "two"});
    CHECK(result.code == 2);
    CHECK(Has(Unwrapped(result.out), "onnxfit check --update without --only"));
    CHECK(ContentsOf(kLock) == damaged);
  }
  CHECK(Check({"--update"}).code == 0);
  CHECK(ContentsOf(kLock) == lock);
}

TEST_CASE("a lock has the config's paths, wherever it was written from") {
  const GatedFolder folder;
  const std::string lock = ContentsOf(kLock);
  const fs::path here = fs::current_path();
  fs::current_path("/");
  CHECK(Check({(here / "onnxfit.toml").string(), "--update"}).code == 0);
  fs::current_path(here);
  CHECK(ContentsOf(kLock) == lock);
  CHECK(!Has(lock, here.string()));
}

TEST_CASE("a lock that is a link stays one, and keeps its mode") {
  const GatedFolder folder;
  fs::create_directory("real");
  fs::rename(kLock, "real/lock.json");
  fs::permissions("real/lock.json", fs::perms::owner_read | fs::perms::owner_write);
  fs::create_symlink("real/lock.json", kLock);
  folder.Grow();
  CHECK(Check({"--update"}).code == 0);
  CHECK(fs::is_symlink(kLock));
  CHECK(fs::status("real/lock.json").permissions() ==
        (fs::perms::owner_read | fs::perms::owner_write));
  CHECK(Lines(Check().out, "PASS") == 1);
}

TEST_CASE("a model of another name serves where all checks are of one") {
  const GatedFolder folder;
  folder.Write("old.onnxtxt", OneLayer(20'000));
  folder.Write("old.json", RunCommand({"old.onnxtxt", "-f", "json"}).out);
  folder.Write("onnxfit.toml", std::string(kConfig) + "[[check]]\nmodel = \"second.onnxtxt\"\n");
  folder.Write("second.onnxtxt", OneLayer(40'000));
  for (const char* against : {"old.onnxtxt", "old.json"}) {
    CAPTURE(against);
    const CommandResult none = Check({"--against", against});
    CHECK(none.code == 1);
    CHECK(Lines(none.out, "NEW") == 2);
    CHECK(Has(Unwrapped(none.out), std::string("FAIL  ") + against +
                                       ": not compared: it has none of these models with such "
                                       "settings"));
    CHECK(Lines(Check({"--against", against, "--only", "second"}).out, "FAIL") == 1);
  }
  CHECK(Lines(Check({"--against", "second.onnxtxt"}).out, "PASS") == 1);
}

TEST_CASE("a report takes the place of no input") {
  const GatedFolder folder;
  for (const char* file : {"onnxfit.toml", kLock, "net.onnxtxt", "./net.onnxtxt"}) {
    CAPTURE(file);
    const std::string before = ContentsOf(file);
    CHECK(Check({"--format", std::string("json=") + file}).code == 2);
    CHECK(ContentsOf(file) == before);
  }
}

TEST_CASE("a lock that cannot be written leaves the old one") {
  const GatedFolder folder;
  const std::string lock = ContentsOf(kLock);
  folder.Grow();
  fs::remove(kLock);
  fs::create_directory(kLock);  // root may write where others may not
  const CommandResult result = Check({"--update"});
  CHECK(result.code == 2);
  CHECK(Has(result.out, "the lock could not be written"));
  CHECK(fs::is_directory(kLock));
  for (const auto& entry : fs::directory_iterator(".")) {
    CHECK(!entry.path().string().ends_with(".new"));
  }
}

TEST_CASE("git, a report, a model and another lock are compared with") {
  const GatedFolder folder;
  folder.MakeRepository();
  folder.Commit("one");
  folder.Write("old.json", RunCommand({"net.onnxtxt", "-f", "json"}).out);
  folder.Write("table.json", RunCommand({"net.onnxtxt", "-b", "1,2", "-f", "json"}).out);
  folder.Write("old.onnxtxt", OneLayer(20'000));
  fs::copy(kLock, "old.lock.json");
  fs::remove(kLock);
  folder.Grow();
  std::string headline;
  for (const char* against :
       {"git:main", "old.json", "table.json", "old.onnxtxt", "old.lock.json"}) {
    CAPTURE(against);
    const CommandResult result = Check({"--against", against});
    CHECK(result.code == 1);
    CHECK(result.out.starts_with(std::string("FAIL: 1 fail, compared with ") + against + "\n"));
    const size_t begin = result.out.find('\n') + 1;
    const std::string line = result.out.substr(begin, result.out.find('(') - begin);
    CHECK(line.starts_with("FAIL  net: grew by "));
    if (headline.empty()) headline = line;
    CHECK(line == headline);
  }
  const CommandResult missing = Check({"--against", "git:none"});
  CHECK(missing.code == 2);
  CHECK(Has(missing.out, "ERROR git:none: expected a branch, a tag or a commit"));
  CHECK(missing.out.starts_with("ERROR: 1 error, 1 new, not compared with git:none\n"));
  CHECK(Lines(missing.out, "PASS") == 0);
  CHECK(Has(Unwrapped(missing.out), ", not compared: git:none cannot be read"));
  CHECK(Check({"--against", "git:main", "--update"}).code == 2);
}

TEST_CASE("a model that a ref does not have is new") {
  const GatedFolder folder;
  folder.MakeRepository();
  folder.Commit("one");
  folder.Write("second.onnxtxt", OneLayer(10));
  folder.Write("onnxfit.toml", std::string(kConfig) + "[[check]]\nmodel = \"second.onnxtxt\"\n");
  const CommandResult result = Check({"--against", "git:main"});
  CHECK(result.code == 0);
  CHECK(Has(result.out, "NEW   second: "));
  CHECK(Has(result.out, "PASS  net: "));
  // All of them: a branch that is older than the models.
  folder.Write("onnxfit.toml", "[[check]]\nmodel = \"second.onnxtxt\"\n");
  const CommandResult all = Check({"--against", "git:main"});
  CHECK(all.code == 0);
  CHECK(all.out.starts_with("WARN: 1 warn, 1 new, not compared with git:main\n"));
  CHECK(Has(all.out, "WARN  git:main: not compared: it has none of these models\n"));
}

TEST_CASE("several formats are written at once") {
  const GatedFolder folder;
  const CommandResult result =
      Check({"--format", "junit=out/a.xml", "--format=sarif=out/b.sarif", "-f", "json", "-f",
             "markdown=out/c.md", "-f", "gitlab=out/d.json", "-f", "bench=out/e.json", "-f",
             "github=out/f.txt", "-f", "text=out/g.txt"});
  CHECK(result.code == 0);
  CHECK(result.out.starts_with("{\n  \"schema\": 1,"));
  for (const char* name : {"a.xml", "b.sarif", "c.md", "d.json", "e.json", "f.txt", "g.txt"}) {
    CAPTURE(name);
    CHECK(!ContentsOf(fs::path("out") / name).empty());
  }
  CHECK(Has(Check({"-f", "junit=out/a.xml"}).out, "PASS  net: "));
  CHECK(Check({"-f", "json", "-f", "text"}).code == 2);
  CHECK(Check({"-f", "xml"}).code == 2);
  fs::create_directory("folder");
  const CommandResult refused = Check({"-f", "junit=folder", "-f", "sarif=out/late.sarif"});
  CHECK(refused.code == 2);
  CHECK(fs::exists("out/late.sarif"));
}

TEST_CASE("a config elsewhere has its lock beside it and its models below it") {
  const WorkingFolder folder;
  folder.Write("ci/models/net.onnxtxt", OneLayer(10));
  folder.Write("ci/memory.toml", "[[check]]\nmodel = \"models/*.onnxtxt\"\nname = \"all\"\n");
  CHECK(Check({"ci/memory.toml", "--update"}).code == 0);
  CHECK(fs::exists("ci/memory.lock.json"));
  CHECK(Has(Check({"ci/memory.toml"}).out, "PASS  all[models/net.onnxtxt]: "));
}

TEST_CASE("trouble with all of the config is the one row of every format") {
  const WorkingFolder folder;
  const CommandResult none = Check({"-f", "junit=a.xml", "-f", "text"});
  CHECK(none.code == 2);
  CHECK(Unwrapped(none.out) ==
        "ERROR: 1 error\nERROR onnxfit.toml: expected a config of checks, there is none here (try: "
        "onnxfit init writes one)\n");
  CHECK(Has(ContentsOf("a.xml"), "expected a config of checks"));
  folder.Write("onnxfit.toml", "[[check\n");
  const CommandResult broken = Check({"-f", "github"});
  CHECK(broken.code == 2);
  CHECK(broken.out.starts_with("::error file=onnxfit.toml,title=onnxfit%3A onnxfit.toml::line 1"));
  folder.Write("onnxfit.toml", kConfig);
  CHECK(Has(Check({"--only", "x*"}).out, "--only: expected a check of the config"));
  CHECK(Check({"a.toml", "b.toml"}).code == 2);
}

TEST_CASE("what is typed and belongs in the config is told so") {
  const GatedFolder folder;
  struct Row {
    Args args;
    const char* key;
  };
  const Row rows[] = {{{"--batch", "3"}, "batch"},      {{"--gpu", "t4"}, "budget"},
                      {{"--memory", "8GiB"}, "budget"}, {{"--budget", "t4"}, "budget"},
                      {{"--dim", "n=3"}, "dims"},       {{"--max-increase", "2%"}, "max-increase"},
                      {{"--level=warn"}, "level"},      {{"-b", "3"}, "batch"}};
  for (const Row& row : rows) {
    CAPTURE(row.args[0]);
    const CommandResult result = Check(row.args);
    CHECK(result.code == 2);
    CHECK(Has(result.err, fmt::format("(try: {}, a key of [[check]] in onnxfit.toml)", row.key)));
  }
}

TEST_CASE("an empty --against is the lock, any other is named") {
  const GatedFolder folder;
  folder.Write("old.onnxtxt", OneLayer(20'000));
  CHECK(Check({"--against", ""}).out.starts_with("PASS: 1 pass\n"));
  CHECK(Check({"--against="}).out.starts_with("PASS: 1 pass\n"));
  CHECK(Check({"--against=old.onnxtxt"})
            .out.starts_with("PASS: 1 pass, compared with old.onnxtxt\n"));
}

TEST_CASE("of several models one has to have a dimension that the config names") {
  const WorkingFolder folder;
  folder.Write("a.onnxtxt", TokenLayer("seq"));
  folder.Write("b.onnxtxt", TokenLayer("64"));
  constexpr const char* kAll = "[[check]]\nname = \"all\"\nmodel = \"*.onnxtxt\"\ndims = ";
  folder.Write("onnxfit.toml", std::string(kAll) + "{ seq = 32 }\n");
  CHECK(Check().out.starts_with("FAIL: 1 fail, 2 new, nothing compared\n"));
  folder.Write("onnxfit.toml", std::string(kAll) + "{ seq = 32, sec = 8 }\n");
  const std::string wrong = Check().out;
  CHECK(wrong.starts_with("ERROR: 2 error"));
  CHECK(Has(Unwrapped(wrong), "--dim sec=8: "));
  // What [defaults] say is for those that leave it open, what a check says is for its model.
  constexpr const char* kFixed = "\n[[check]]\nmodel = \"b.onnxtxt\"\n";
  folder.Write("onnxfit.toml", std::string("[defaults]\ndims = { seq = 32 }\n") + kFixed);
  CHECK(Check().out.starts_with("FAIL: 1 fail, 1 new, nothing compared\n"));
  CHECK(RunCommand({"b.onnxtxt"}).code == 0);
  CHECK(RunCommand({"b.onnxtxt"}).out.find("seq") == std::string::npos);
  CHECK(RunCommand({"b.onnxtxt", "--dim", "seq=32"}).code == 2);
  folder.Write("onnxfit.toml", std::string(kFixed) + "dims = { seq = 32 }\n");
  CHECK(Has(Unwrapped(Check().out), "--dim seq=32: no free dimension has this name"));
}

}  // namespace onnxfit::check_command_test
