// Models of a config that are Python, exported by a Python that is a script here.
#include "cli/python_models.h"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include "tests/files.h"
#include "tests/run_command.h"
#include "tests/working_folder.h"

namespace onnxfit::python_models_test {
namespace {

namespace fs = std::filesystem;

constexpr const char* kLog = "exports.txt";

// Notes what it was asked, and where, then does `what`; "$6" is the file that it has to write.
std::string Script(const std::string& what) {
  return fmt::format("#!/bin/sh\necho \"$(pwd) $5 $7 $8 $9 ${{10}}\" >> {}\n{}\n", kLog, what);
}

std::string WritesNet() {
  return fmt::format("cp '{}/models/resnet18.train.onnx' \"$6\"", kSourceDir);
}

// A folder whose ./py is such a Python, and $ONNXFIT_PYTHON for as long as it lives.
class PythonFolder : public WorkingFolder {
 public:
  explicit PythonFolder(const std::string& what = WritesNet()) {
    WritePython("py", what);
    setenv("ONNXFIT_PYTHON", "./py", 1);
  }
  ~PythonFolder() { unsetenv("ONNXFIT_PYTHON"); }
  PythonFolder(const PythonFolder&) = delete;
  PythonFolder& operator=(const PythonFolder&) = delete;

  void WritePython(const std::string& name, const std::string& what) const {
    fs::permissions(Write(name, Script(what)), fs::perms::owner_all);
  }
};

// "[[check]]" with these further lines.
std::string CheckOf(const std::string& lines, const std::string& more = "") {
  return fmt::format("[[check]]\n{}\nlock = \"none\"\n{}", lines, more);
}

CommandResult Check(const std::vector<std::string>& more = {}) {
  std::vector<std::string> args = {"check"};
  args.insert(args.end(), more.begin(), more.end());
  return RunCommand(args);
}

// In one line, without the headline.
std::string Told(const CommandResult& result) {
  std::string text = result.out.substr(result.out.find('\n') + 1);
  for (size_t at = text.find("\n      "); at != std::string::npos; at = text.find("\n      ")) {
    text.replace(at, 7, " ");
  }
  return text;
}

std::vector<std::string> Exports() {
  const std::string text = fs::exists(kLog) ? ContentsOf(kLog) : "";
  std::vector<std::string> lines;
  for (size_t begin = 0; begin < text.size(); begin = text.find('\n', begin) + 1) {
    const std::string line = text.substr(begin, text.find('\n', begin) - begin);
    lines.push_back(line.substr(0, line.find_last_not_of(' ') + 1));
  }
  std::ranges::sort(lines);
  return lines;
}

}  // namespace

TEST_CASE("what names a model that is Python") {
  const WorkingFolder folder;
  folder.Write("odd:name", "x");
  struct Row {
    const char* text;
    bool is_python;
  };
  const Row rows[] = {{"net:build", true},
                      {"training.nets:build", true},
                      {"torchvision:vgg16", true},
                      {"hf:org/name-7b", true},
                      {"net.py:build", true},
                      {"net.onnx", false},
                      {"net", false},
                      {":build", false},
                      {"net:", false},
                      {"a:b.onnx", false},
                      {"a:b.pt2", false},
                      {"odd:name", false}};
  for (const Row& row : rows) {
    CAPTURE(row.text);
    CHECK(NamesPython(row.text, "") == row.is_python);
  }
}

TEST_CASE("a model that is Python is exported, and checked as any") {
  const PythonFolder folder;
  folder.Write("onnxfit.toml", CheckOf("model = \"net:build\"\nbatch = 4", "budget = \"9GiB\"\n"));
  const CommandResult result = Check();
  CHECK(result.code == 0);
  folder.Write("file.toml", CheckOf(fmt::format("name = \"net:build\"\nmodel = '{}/models/"
                                                "resnet18.train.onnx'\nbatch = 4",
                                                kSourceDir),
                                    "budget = \"9GiB\"\n"));
  CHECK(result.out == Check({"file.toml"}).out);
  const std::string here = fs::current_path().string();
  CHECK(Exports() == std::vector<std::string>{here + " net:build --for-check"});
}

TEST_CASE("the lock has it by its name, wherever check is run") {
  const PythonFolder folder;
  const std::string config = "[[check]]\nname = \"net\"\nmodel = \"net:build\"\nbatch = 4\n";
  folder.Write("ci/onnxfit.toml", config);
  setenv("ONNXFIT_PYTHON", fs::absolute("py").c_str(), 1);
  CHECK(Check({"ci/onnxfit.toml", "--update"}).code == 0);
  CHECK(ContentsOf("ci/onnxfit.lock.json").find("\"path\":\"net:build\"") != std::string::npos);
  CHECK(Check({"ci/onnxfit.toml"}).out == "PASS: 1 pass\nPASS  net: 839.0 MiB, as before\n");
  fs::current_path("ci");
  CHECK(Check().out == "PASS: 1 pass\nPASS  net: 839.0 MiB, as before\n");
  CHECK(Exports().size() == 3);  // in the config's folder
  CHECK(Exports()[0].starts_with(fs::current_path().string() + " net:build"));
  fs::current_path("..");
}

TEST_CASE("checks of one function export once, those that differ in the export apart") {
  const PythonFolder folder;
  folder.Write("onnxfit.toml",
               CheckOf("name = \"a\"\nmodel = \"net:build\"\nbatch = [2, 4]") +
                   CheckOf("name = \"b\"\nmodel = \"net:build\"\nprecision = \"amp-bf16\"") +
                   CheckOf("name = \"c\"\nmodel = [\"net:build\", \"net:large\"]") +
                   CheckOf("name = \"d\"\nmodel = \"net:build\"\nmode = \"eval\"") +
                   CheckOf("name = \"e\"\nmodel = \"net:build\"\ninput = \"x=N,3\"") +
                   CheckOf("name = \"off\"\nmodel = \"net:off\"\nlevel = \"off\""));
  CHECK(Check().code == 0);
  const std::string here = fs::current_path().string();
  CHECK(Exports() == std::vector<std::string>{here + " net:build --for-check",
                                              here + " net:build --for-check --eval",
                                              here + " net:build --for-check --input x=N,3",
                                              here + " net:large --for-check"});
}

TEST_CASE("which Python it is: the config's, the environment's, that of the PATH") {
  const PythonFolder folder("echo wrong >&2; exit 1");
  folder.WritePython("bin/python3", WritesNet());
  const std::string check = CheckOf("model = \"net:build\"");
  folder.Write("onnxfit.toml", "[defaults]\npython = \"bin/python3\"\n" + check);
  CHECK(Check().code == 0);
  folder.Write("onnxfit.toml", check);
  CHECK(Check().code == 2);
  setenv("ONNXFIT_PYTHON", "bin/python3", 1);
  CHECK(Check().code == 0);
  unsetenv("ONNXFIT_PYTHON");
  const std::string path = std::getenv("PATH");
  setenv("PATH", (fs::absolute("bin").string() + ":" + path).c_str(), 1);
  const CommandResult found = Check();
  setenv("PATH", path.c_str(), 1);
  CHECK(found.code == 0);
}

TEST_CASE("what keeps a model that is Python from an answer") {
  struct Row {
    const char* what;  // the script does
    const char* told;
  };
  const Row rows[] = {
      {"echo '/usr/bin/python3: No module named onnxfit' >&2; exit 1",
       "ERROR net:build: ./py: expected the Python package onnxfit, found none (try: ./py -m pip "
       "install . in the folder of onnxfit; python = \".venv/bin/python\" in the config, or "
       "ONNXFIT_PYTHON, for another)\n"},
      {"echo 'warning: w' >&2; echo 'error: net:build: expected a, found b (try: c)' >&2; exit 2",
       "ERROR net:build: net:build: expected a, found b (try: c)\n"},
      {"printf 'Traceback:\\n  x\\nKeyError: 3\\n\\n' >&2; exit 1",
       "ERROR net:build: ./py -m onnxfit export: expected a file, found exit code 1: KeyError: "
       "3\n"},
      {"exit 0", "ERROR net:build: ./py -m onnxfit export: expected a file, found exit code 0\n"},
      {"kill -9 $$",
       "ERROR net:build: ./py -m onnxfit export: expected a file, found a signal that ended it\n"},
      {"echo text > \"$6\"",
       "ERROR net:build: net:build: an ONNX model was expected, found text (try: an .onnx file; "
       "ONNX's text "
       "form "
       "needs the ending .onnxtxt)\n"},
  };
  for (const Row& row : rows) {
    CAPTURE(row.what);
    const PythonFolder folder(row.what);
    setenv("ONNXFIT_PYTHON", "./py", 1);
    folder.Write("onnxfit.toml", CheckOf("model = \"net:build\""));
    const CommandResult result = Check();
    CHECK(result.code == 2);
    CHECK(Told(result) == std::string(row.told));
  }
}

TEST_CASE("a Python that does not start is said") {
  const PythonFolder folder;
  folder.Write("onnxfit.toml", CheckOf("model = \"net:build\"\npython = \"no-such-python\""));
  CHECK(Told(Check()) ==
        "ERROR net:build: python: expected a Python that exports net:build: "
        "no-such-python could not be started: No such file or directory (try: python = "
        "\".venv/bin/python\" in the config, or ONNXFIT_PYTHON, for another)\n");
}

TEST_CASE("keys of models that are Python are held to what they are") {
  const PythonFolder folder;
  folder.Write("net.onnxtxt", OneLayer(10));
  struct Row {
    std::string config;
    const char* told;
  };
  const Row rows[] = {
      {CheckOf("model = \"net.onnxtxt\"\ninput = \"x=N,3\""),
       "ERROR net: line 3: input: expected beside a model that is Python, found it beside "
       "'net.onnxtxt' (try: shapes, for a file)\n"},
      {CheckOf("model = \"net:build\"\ninput = \"x\""),
       "ERROR net:build: line 3: input: expected NAME[:DTYPE]=DIM,DIM,… or a list of them, found "
       "'x'\n"},
      {CheckOf("model = \"net:build\"\npython = \"\""),
       "ERROR net:build: line 3: python: expected the path of a Python, found nothing\n"},
      {"[defaults]\ninput = \"x=N,3\"\n" + CheckOf("model = \"net:build\""),
       "ERROR onnxfit.toml: line 2: input: expected in a [[check]], found in [defaults]\n"},
  };
  for (const Row& row : rows) {
    CAPTURE(row.told);
    folder.Write("onnxfit.toml", row.config);
    CHECK(Told(Check()) == row.told);
  }
}

TEST_CASE("the code of another ref is not run") {
  const PythonFolder folder;
  folder.MakeRepository();
  folder.Write("onnxfit.toml", "[[check]]\nmodel = \"net:build\"\n");
  folder.Commit("one");
  const CommandResult result = Check({"--against", "git:main"});
  CHECK(result.code == 1);
  CHECK(Told(result).starts_with(
      "FAIL  net:build: not compared: it is Python, and the code of another ref is not run: the "
      "lock has what it took (check without --against); lock = \"none\" leaves it to its "
      "budgets\n"));
  folder.Write("onnxfit.toml", CheckOf("model = \"net:build\"", "budget = \"1MiB\"\n"));
  const CommandResult budget = Check({"--against", "git:main"});
  CHECK(budget.code == 1);
  CHECK(budget.out.find("not compared: it is Python") == std::string::npos);
  CHECK(budget.out.find("1MiB") != std::string::npos);
}

}  // namespace onnxfit::python_models_test
