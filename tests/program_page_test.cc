// The page of a program's run, from plain values.
#include "estimator/picture/program_page.h"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "estimator/base/cards.h"
#include "estimator/fit/target.h"
#include "tests/files.h"
#include "tests/run_command.h"
#include "tests/temp_folder.h"

namespace onnxfit::program_page_test {
namespace {

constexpr int64_t kMiB = 1 << 20;

bool Has(const std::string& page, const std::string& text) {
  return page.find(text) != std::string::npos;
}

size_t Count(const std::string& page, const std::string& text) {
  size_t count = 0;
  for (size_t at = page.find(text); at != std::string::npos; at = page.find(text, at + 1)) ++count;
  return count;
}

JudgedTarget On(const char* card, int64_t used, Verdict verdict = Verdict::kFits) {
  JudgedTarget judged = {.target = MakeTarget({.card = FindCard(card)}), .judgement = {}};
  judged.judgement.usable_bytes = judged.target.usable_bytes();
  judged.judgement.used_bytes = judged.judgement.low_bytes = judged.judgement.high_bytes = used;
  judged.judgement.verdict = verdict;
  return judged;
}

// Two lines of bytes over so many points.
RunCurve CurveOfTwo(size_t points) {
  RunCurve drawn;
  drawn.curve.events = 100'000;
  drawn.curve.layers.resize(3);
  drawn.curve.layers[2].what = LineLayer::What::kOthers;
  drawn.lines = {{"net.py:5", "return self.up(x)"}, {"train.py:9", "net = Net().cuda()"}, {}};
  for (size_t i = 0; i < points; ++i) {
    const auto more = static_cast<int64_t>(i * 37 % 200);
    drawn.curve.layers[0].bytes.push_back(more * kMiB);
    drawn.curve.layers[1].bytes.push_back(200 * kMiB);
    drawn.curve.layers[2].bytes.push_back(0);
    drawn.curve.requested_bytes.push_back((200 + more) * kMiB);
    drawn.curve.reserved_bytes.push_back(500 * kMiB);
    drawn.curve.staying_bytes.push_back(200 * kMiB);
    drawn.asked_by.emplace_back("net.py:5");
  }
  const auto most = std::ranges::max_element(drawn.curve.requested_bytes);
  drawn.curve.peak = static_cast<size_t>(most - drawn.curve.requested_bytes.begin());
  drawn.curve.turns = {points / 4, points / 2, points * 3 / 4};
  return drawn;
}

ProgramProcess Trained() {
  ProgramProcess process = {.pid = 7, .torch = "2.11.0", .steps = 3};
  process.peaks = {
      {.requested_bytes = 398 * kMiB, .allocated_bytes = 399 * kMiB, .reserved_bytes = 500 * kMiB}};
  process.step_peaks = {{300 * kMiB, 500 * kMiB}, {399 * kMiB, 500 * kMiB}};
  process.held = {{{"train.py:20", "loss = net(x) < \"</script><b>\""},
                   199 * kMiB,
                   4,
                   {{{"net.py:5", "return self.up(x)"}, 149 * kMiB, 4}}},
                  {{"train.py:9", "net = Net().cuda()"}, 199 * kMiB, 2}};
  process.held_bytes = 398 * kMiB;
  process.curve = CurveOfTwo(300);
  process.unknown = {{{"train.py:30", "if loss.item() > best:"}, 3}};
  return process;
}

ProgramRun Run(const char* card = "t4", Verdict verdict = Verdict::kFits) {
  ProgramRun run = {.command = {"python", "train.py"}};
  run.cards = {On(card, 800 * kMiB, verdict)};
  run.processes = {Trained()};
  return run;
}

std::string PageOf(const ProgramRun& run) { return ProgramPage(std::vector{run}, "1"); }

// The JSON that stands in it.
nlohmann::json DataOf(const std::string& page) {
  const std::string name = "id=\"data\">";
  const size_t at = page.find(name) + name.size();
  return nlohmann::json::parse(page.substr(at, page.find("</script>", at) - at));
}

TEST_CASE("a page says the verdict, the peaks, whose lines hold them and what stays open") {
  const std::string page = PageOf(Run());
  CHECK(page.starts_with("<!doctype html>\n<html lang=\"en\">"));
  CHECK(Has(page, "<h1>python train.<wbr>py</h1>"));
  CHECK(Has(page, "run on t4, PyTorch 2.11.0, 3 steps"));
  CHECK(Has(page, "<strong>FITS</strong> on t4: 800.0 MiB of 14.6 GiB, 5.4%"));
  CHECK(Has(page, "PyTorch's peaks: 399.0 MiB allocated, 500.0 MiB reserved."));
  for (const char* id : {"time", "lines", "peaks", "open"}) {
    CAPTURE(id);
    CHECK(Has(page, fmt::format("<section id=\"{}\"", id)));
  }
  CHECK_FALSE(Has(page, "<section id=\"end\""));
  CHECK(Has(page, "if loss.item() &gt; best:"));
  CHECK(Count(page, "<h1>") == 1);
}

TEST_CASE("a line has the colour of its layer of the curve") {
  const std::string page = PageOf(Run());
  CHECK(Has(page, "<path class=\"k-line0\""));
  CHECK(Has(page, "<i class=\"k-line0\"></i>net.py:5 <code>"));
  CHECK(Has(page, "<i class=\"bar k-line0\" style=\"width:74.9%\">"));
  CHECK(Has(page, "<i class=\"bar k-line1\" style=\"width:100.0%\">"));
  CHECK(Has(page, "<tr class=\"within\">"));
}

TEST_CASE("it loads nothing from anywhere, and what lines say is text") {
  const std::string page = PageOf(Run());
  for (const char* word : {"http://", "https://", "src=", "href=", "@import", "url("}) {
    CAPTURE(word);
    CHECK_FALSE(Has(page, word));
  }
  CHECK_FALSE(Has(page, "</script><b>"));
}

TEST_CASE("its numbers stand in it once more as JSON, the curve where its figure says") {
  const std::string page = PageOf(Run());
  CHECK(Has(page, "data-json=\"processes.0.curve\""));
  const nlohmann::json data = DataOf(page);
  const auto& curve = data["processes"][0]["curve"];
  CHECK(curve["requested"][curve["peak"].get<size_t>()] == 399 * kMiB);
  CHECK(curve["lines"][0]["name"] == "net.py:5");
  CHECK(curve["lines"][2]["name"] == "other lines");
  CHECK(data["basis"] == "run");
}

TEST_CASE("turns have numbers, unless the record does not begin where the run does") {
  ProgramRun run = Run();
  CHECK(Has(PageOf(run), "In tensors over 100000 allocations"));
  CHECK(Has(PageOf(run), ">turn 1</li>"));
  run.processes[0].curve->curve.is_cut = true;
  CHECK(Has(PageOf(run), "In tensors over the last 100000 allocations"));
  CHECK_FALSE(Has(PageOf(run), "turn 1</li>"));
}

TEST_CASE("a page of 100,000 events and 1,000 steps is below 400 kB") {
  ProgramRun run = Run();
  for (int64_t step = 0; step < 1000; ++step) {
    run.processes[0].step_peaks.push_back({(step % 700 + 1) * kMiB, 700 * kMiB});
  }
  CHECK(PageOf(run).size() < 400'000);
}

TEST_CASE("out of memory is told by the line, in words and in the program's own") {
  ProgramRun run = Run("t4", Verdict::kOom);
  run.exit_code = 1;
  ProgramProcess& process = run.processes[0];
  process.is_oom = true;
  process.exception = "torch.OutOfMemoryError";
  process.message = "CUDA out of memory. Tried to allocate 64.00 MiB.";
  process.full_at = {"train.py:20", "loss = net(x)"};
  process.oom = {"CAPACITY: 64.00 MiB asked"};
  process.curve->curve.full = 299;
  const std::string page = PageOf(run);
  CHECK(Has(page, "<strong>OOM</strong> on t4: "));
  CHECK(Has(page, "Why it ran out of memory"));
  CHECK(Has(page, "train.<wbr>py:20 <code>loss = net(x)</code>"));
  CHECK(Has(page, "<li>CAPACITY: 64.00 MiB asked.</li>"));
  CHECK(
      Has(page, ">torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 64.00 MiB.</pre>"));
  CHECK(Has(page, "<span>out of memory</span>"));
  CHECK(Has(page, "When it ran out, 398.0 MiB"));
}

TEST_CASE("a failure has no verdict, and a run without a card no question") {
  ProgramRun run = Run();
  run.failed = true;
  run.exit_code = 3;
  run.processes[0].exception = "ValueError";
  run.processes[0].message = "no <labels>";
  const std::string page = PageOf(run);
  CHECK(Has(page, "<strong>FAILED</strong> on t4: until then 800.0 MiB"));
  CHECK(Has(page, "the program ended with 3 after 3 steps: ValueError: no &lt;labels&gt;</pre>"));
  run = Run("a100-80gb");
  run.is_assumed = true;
  CHECK(Has(PageOf(run), "<p>800.0 MiB on the device</p>"));
  CHECK_FALSE(Has(PageOf(run), "<strong>"));
}

TEST_CASE("of several processes the largest is told, the others can be opened") {
  ProgramRun run = Run();
  run.cards.push_back(On("t4", 700 * kMiB));
  run.processes.push_back(Trained());
  run.processes[0].rank = "0";
  run.processes[1].rank = "1";
  run.processes[1].held_bytes += kMiB;
  const std::string page = PageOf(run);
  CHECK(Has(page, "At the peak of rank 1, 399.0 MiB"));
  CHECK(Has(page, "<details><summary>At the peak of rank 0, 398.0 MiB"));
  CHECK(Count(page, "<figure id=\"curve-") == 2);
  CHECK(Count(page, "<th scope=\"row\">rank ") == 2);
}

TEST_CASE("of several cards all have a row, and the one that is told has its curve") {
  const std::string page = ProgramPage(
      std::vector{Run("t4", Verdict::kOom), Run("a100-40gb"), Run("l4", Verdict::kTight)}, "1");
  CHECK(Count(page, "<strong>") == 3);
  CHECK(Has(page, "What follows is of the run on a100-40gb."));
  CHECK(Has(page, "data-json=\"runs.1.processes.0.curve\""));
  CHECK(Count(page, "<figure") == 1);
  const nlohmann::json runs = DataOf(page)["runs"];
  CHECK_FALSE(runs[0]["processes"][0].contains("curve"));
  CHECK(runs[1]["processes"][0].contains("curve"));
}

TEST_CASE("a search shows all that was run, in order, and the run of its batch") {
  ProgramSearch search = {
      .command = {"python", "train.py", "{}"}, .steps = 10, .found = {.batch = 96}};
  search.found.fails = 97;
  search.largest = Run();
  search.found.tried = {{64, Verdict::kFits, 500 * kMiB},
                        {128, Verdict::kOom, 900 * kMiB},
                        {96, Verdict::kTight, 800 * kMiB}};
  const std::string page = ProgramPage(std::vector{search}, "1");
  CHECK(Has(page, "<li>The largest batch that runs on t4: 96.</li><li>97 does not run.</li>"));
  const size_t at_64 = page.find("<th scope=\"row\">64</th>");
  const size_t at_96 = page.find("<tr class=\"total\"><th scope=\"row\">96</th>");
  const size_t at_128 = page.find("<th scope=\"row\">128</th>");
  CHECK(at_64 < at_96);
  CHECK(at_96 < at_128);
  CHECK(at_128 != page.npos);
  CHECK(Has(page, "<b class=\"point fails\""));
  CHECK(Has(page, "data-json=\"targets.0.run.processes.0.curve\""));
}

TEST_CASE("a run without PyTorch has a page without curve and lines") {
  ProgramRun run = Run();
  run.processes.clear();
  const std::string page = PageOf(run);
  CHECK(Has(page, "<strong>FITS</strong>"));
  CHECK_FALSE(Has(page, "<figure"));
  CHECK(Has(page, "<section id=\"open\""));
}

TEST_CASE("nothing is run for a page that cannot be kept") {
  const TempFolder folder;
  folder.Write("r.html", "mine");
  const auto error = [](const std::string& path) {
    return RunCommand({"run", "--html", path, "--", "/nowhere"}).err;
  };
  CHECK(error(folder.Path("r.html")) ==
        "error: " + folder.Path("r.html") + ": --html: the file exists (try: --force)\n");
  CHECK(ContentsOf(folder.Path("r.html")) == "mine");
  CHECK(error("/") == "error: /: --html: expected a file, found a directory\n");
  CHECK(error("/nowhere/r.html") ==
        "error: /nowhere/r.html: --html: expected a folder /nowhere, found none\n");
}

TEST_CASE("frameworks, engines and the machine's RAM have sections of their own") {
  ProgramRun run = {.command = {"python", "mlp.py"}, .cards = {On("t4", 3000 * kMiB)}};
  const std::string without = ProgramPage({run}, "1");
  for (const char* id : {"frameworks", "engine", "host"}) {
    CHECK(!Has(without, fmt::format("<section id=\"{}\"", id)));
  }
  run.frameworks = {{.name = "JAX", .version = "0.10"}};
  run.frameworks[0].pools = {{.used_bytes = 263 * kMiB, .pool_bytes = 11190 * kMiB}};
  run.frameworks[0].in_advance = "XLA_PYTHON_CLIENT_PREALLOCATE=false";
  run.engine = ServingEngine{.name = "vLLM", .version = "0.33", .weight_bytes = 512 * kMiB};
  run.engine->kv_tokens = 4096;
  run.host = {.bytes = 3072 * kMiB, .processes = 5, .limit_bytes = 2048 * kMiB};
  run.host.verdict = HostVerdict(run.host);
  const std::string page = ProgramPage({run}, "1");
  CHECK(Has(page, "<h3>JAX 0.10</h3>"));
  CHECK(Has(page, "263.0 MiB</td>"));
  CHECK(Has(page, "JAX takes 10.9 GiB in advance"));
  CHECK(Has(page, ">vLLM 0.33</h2>"));
  CHECK(Has(page, "<li>Keys and values of 4,096 tokens have room"));
  CHECK(Has(page, "<li>RAM of the host, at most 3.00 GiB of 2.00 GiB in 5 processes."));
  CHECK(Count(page, "<li>RAM of the host has no room for it") == 2);  // first, and in its section
}

}  // namespace
}  // namespace onnxfit::program_page_test
