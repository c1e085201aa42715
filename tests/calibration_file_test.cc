// --calibration, and the file that it names.
#include "cli/calibration_file.h"

#include <doctest/doctest.h>

#include <cstdlib>
#include <filesystem>

#include "cli/check_config.h"
#include "estimator/report/calibration_json.h"
#include "tests/files.h"
#include "tests/measured_card.h"
#include "tests/parsed_options.h"
#include "tests/run_command.h"
#include "tests/trace_helpers.h"
#include "tests/working_folder.h"

namespace onnxfit::calibration_file_test {
namespace {

// A convolution of any batch.
constexpr char kModel[] = R"(<ir_version: 8, opset_import: ["" : 17]>
net (float[N, 3, 8, 8] x) => (float[N, 4, 6, 6] y)
<float[4, 3, 3, 3] w = ["location": "none"]> { y = Conv (x, w) }
)";

// What was measured of it at batch 8.
Calibration MeasuredModel(int64_t bytes) {
  const std::vector<Convolution> convolutions =
      ConvolutionsIn(ParseGraph(kModel), {.binding = {.batch = 8}});
  return CalibrationOf(Workspaces(convolutions, bytes));
}

constexpr char kAssumption[] =
    "  - as measured on NVIDIA A100-SXM4-40GB (driver 580.65.06, CUDA 13.0, cuBLAS\n"
    "    13.1.0, cuDNN 9.19.0; ";

bool IsMeasured(const std::vector<std::string>& args) {
  const CommandResult result = RunCommand(args);
  REQUIRE_MESSAGE(result.err.empty(), result.err);
  return result.out.find("as measured on NVIDIA A100-SXM4-40GB") != std::string::npos;
}

const Args kRun = {"net.onnxtxt", "-b", "8", "--gpu", "a100-40gb"};

Args With(Args args, const Args& more) {
  args.insert(args.end(), more.begin(), more.end());
  return args;
}

}  // namespace

TEST_CASE("a calibration is saved beside others, in the place of its own") {
  const WorkingFolder folder;
  SaveCalibration("c.json", MeasuredModel(100));
  CHECK(ContentsOf("c.json") == ToJson(std::vector<Calibration>{MeasuredModel(100)}));
  Calibration other = MeasuredModel(300);
  other.cudnn = "9.9.0";
  SaveCalibration("c.json", other);
  SaveCalibration("c.json", MeasuredModel(200));
  CHECK(ContentsOf("c.json") == ToJson(std::vector<Calibration>{other, MeasuredModel(200)}));
  const std::vector<SharedCalibration> read = ReadCalibrationFile("c.json");
  REQUIRE(read.size() == 2);
  CHECK(read[1]->file == "c.json");
  CHECK(read[1]->convolutions == MeasuredModel(200).convolutions);

  folder.Write("broken.json", "{");
  CHECK_THROWS_WITH_AS(SaveCalibration("broken.json", other),
                       "broken.json: line 1, column 2: expected JSON, found the end of the file "
                       "(try: delete it; onnxfit verify MODEL.onnx --save measures anew)",
                       Error);
  CHECK(ContentsOf("broken.json") == "{");
  CHECK_THROWS_WITH_AS(ReadCalibrationFile("c.jsn"),
                       "c.jsn: a calibration was expected, there is no such file (try: c.json)",
                       Error);
}

TEST_CASE("an answer says what of it was measured, and where that stands") {
  const WorkingFolder folder;
  folder.Write("net.onnxtxt", kModel);
  SaveCalibration("c.json", MeasuredModel(1000));
  const CommandResult text = RunCommand(With(kRun, {"--calibration", "c.json"}));
  CHECK_MESSAGE(
      text.out.find(std::string(kAssumption) +
                    "c.json): its CUDA context, cuDNN's workspaces in 2 of\n") != std::string::npos,
      text.out);
  CHECK(text.out.find("calibration c.json") != std::string::npos);
  const CommandResult json =
      RunCommand(With(kRun, {"--calibration", "c.json", "--format", "json"}));
  CHECK_MESSAGE(json.out.find(R"(
    "gpu": "A100-SXM4-40GB",
    "calibration": {
      "file": "c.json",
      "card": "NVIDIA A100-SXM4-40GB",
      "basis": "measured",
      "driver": "580.65.06",
      "cuda": "13.0",
      "cublas": "13.1.0",
      "cudnn": "9.19.0"
    })") != std::string::npos,
                json.out);
}

TEST_CASE("that of the current folder is for estimate and max-batch") {
  const WorkingFolder folder;
  folder.Write("net.onnxtxt", kModel);
  CHECK_FALSE(IsMeasured(kRun));
  SaveCalibration(std::string(kCalibrationName), MeasuredModel(1000));
  CHECK(IsMeasured(kRun));
  CHECK(IsMeasured(With({"max-batch"}, {"net.onnxtxt", "--gpu", "a100-40gb", "--max", "8"})));
  CHECK_FALSE(IsMeasured(With(kRun, {"--calibration", "none"})));
  const auto count = [](const Args& args) { return CalibrationsFor(Parse(args)).size(); };
  CHECK(count({"net.onnxtxt"}) == 1);
  CHECK(count({"max-batch", "net.onnxtxt"}) == 1);
  CHECK(count({"diff", "net.onnxtxt", "net.onnxtxt"}) == 0);
  CHECK(count({"explain-oom", "x.log", "--model", "net.onnxtxt"}) == 0);
  CHECK(count({"diff", "net.onnxtxt", "net.onnxtxt", "--calibration",
               std::string(kCalibrationName)}) == 1);
  setenv("ONNXFIT_CALIBRATION", "none", 1);
  CHECK_FALSE(IsMeasured(kRun));
  unsetenv("ONNXFIT_CALIBRATION");
  folder.Write("onnxfit.toml", "[defaults]\ncalibration = \"none\"\n");
  CHECK_FALSE(IsMeasured(kRun));
  CHECK(IsMeasured(With(kRun, {"--calibration", std::string(kCalibrationName)})));
}

TEST_CASE("measurements of another card are not used, which -v says") {
  const WorkingFolder folder;
  folder.Write("net.onnxtxt", kModel);
  SaveCalibration("c.json", MeasuredModel(1000));
  const Args other = {"net.onnxtxt", "-b", "8", "--gpu", "t4"};
  const CommandResult plain = RunCommand(other);
  CHECK(RunCommand(With(other, {"--calibration", "c.json"})).out == plain.out);
  const auto notes = [&](const Args& args) {
    const Args all = With(args, {"--calibration", "c.json", "-v"});
    std::string text = RunCommand(all).out;
    std::erase(text, '\n');
    return text.find("c.json has measurements of NVIDIA A100-SXM4-40GB, which is no card") !=
           std::string::npos;
  };
  CHECK(notes(other));
  CHECK(notes({"net.onnxtxt", "-b", "8"}));  // of an A100, but of which?
  CHECK_FALSE(notes(kRun));
  CHECK_FALSE(notes(With(other, {"--gpu", "a100-40gb"})));
}

TEST_CASE("a check has the calibration that its config names, beside the config") {
  const WorkingFolder folder;
  folder.Write("ci/net.onnxtxt", kModel);
  SaveCalibration("ci/c.json", MeasuredModel(1000));
  SaveCalibration(std::string(kCalibrationName), MeasuredModel(1000));
  const auto check = [&](const std::string& keys) {
    folder.Write("ci/onnxfit.toml",
                 "[[check]]\nmodel = \"net.onnxtxt\"\nbudget = \"a100-40gb\"\n" + keys);
    return ReadCheckConfig("ci/onnxfit.toml").checks.at(0);
  };
  CHECK(check("").request.settings.device.calibration == nullptr);
  CHECK(check("calibration = \"none\"\n").request.settings.device.calibration == nullptr);
  const Check measured = check("calibration = \"c.json\"\n");
  REQUIRE(measured.request.settings.device.calibration != nullptr);
  CHECK(measured.request.settings.device.calibration->file == "ci/c.json");
  CHECK(measured.request.targets[0].device.context.basis == Basis::kMeasured);
  CHECK(check("calibration = \"d.json\"\n").error ==
        "line 4: calibration: ci/d.json: a calibration was expected, there is no such file (try: "
        "ci/c.json)");
  folder.Write("onnxfit.toml", "[defaults]\ncalibration = \"ci/c.json\"\n");
  CHECK(CalibrationsFor(Parse({"diff", "a", "b"})).size() == 1);
}

TEST_CASE("an error is explained for the one card that was measured") {
  const WorkingFolder folder;
  folder.Write("net.onnxtxt", kModel);
  folder.Write("x.log",
               "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 20.00 MiB. GPU 0 has "
               "a total capacity of 39.39 GiB\n");
  SaveCalibration("c.json", MeasuredModel(1000));
  const Args args = {"explain-oom", "x.log", "--model", "net.onnxtxt", "-b", "8"};
  CHECK(RunCommand(args).out.find("(the context of cards of 39.39") != std::string::npos);
  const CommandResult measured = RunCommand(With(args, {"--calibration", "c.json"}));
  CHECK_MESSAGE(measured.out.find("the context of A100-SXM4-40GB, 300.0") != std::string::npos,
                measured.out);
}

}  // namespace onnxfit::calibration_file_test
