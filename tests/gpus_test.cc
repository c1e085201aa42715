// `onnxfit gpus`: what is printed, for filters that find cards and for others.
#include <doctest/doctest.h>

#include <sstream>
#include <string>
#include <vector>

#include "estimator/base/cards.h"
#include "estimator/report/layout.h"
#include "tests/run_command.h"
#include "tests/temp_folder.h"

namespace onnxfit::gpus_test {
namespace {

CommandResult RunArgs(std::vector<std::string> args) {
  args.insert(args.begin(), "gpus");
  return RunCommand(args);
}

std::vector<std::string> Lines(const std::string& text) {
  std::istringstream stream(text);
  std::vector<std::string> lines;
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

std::string Count() { return std::to_string(Cards().size()); }

bool Holds(const std::string& text, std::string_view part) {
  return text.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("cards are listed with what was seen of them and what was not") {
  const CommandResult result = RunArgs({"8GiB"});
  CHECK(result.code == 0);
  CHECK(result.err == "");
  const CommandResult few = RunArgs({"rtx 30", "8GiB"});
  CHECK(few.out ==
        "3 of " + Count() +
            " cards\n"
            "\n"
            "card       name                    memory   CC  SMs   context\n"
            "rtx3060ti  GeForce RTX 3060 Ti  *8.00 GiB  8.6   38  ~162 MiB\n"
            "rtx3070    GeForce RTX 3070      7.57 GiB  8.6   46  ~196 MiB\n"
            "rtx3070ti  GeForce RTX 3070 Ti  *8.00 GiB  8.6   48   210 MiB\n"
            "\n"
            "memory: the least that CUDA was seen to show as total; * seen on Windows alone,\n"
            "        Linux shows less\n"
            "CC, SMs: compute capability, multiprocessors\n"
            "context: what each process takes of it before any tensor; ~ assumed, not\n"
            "         measured\n");
}

TEST_CASE("a cloud's machines are listed with the cards in them") {
  const std::string colab = RunArgs({"colab"}).out;
  CHECK(Holds(colab, "3 of " + Count() + " cards\n"));
  CHECK(Holds(colab, "\nMachines\n  colab, t4: colab colab-t4\n  colab, l4: colab-l4\n"));
  CHECK(Holds(RunArgs({"p4d"}).out, "\nMachines\n  aws, 8 \xC3\x97 a100-40gb: p4d.24xlarge\n"));
  CHECK(Holds(RunArgs({"p4d", "--ascii"}).out, "aws, 8 x a100-40gb"));
  CHECK(!Holds(RunArgs({"t4"}).out, "Machines"));
  for (const std::string& line : Lines(RunArgs({"aws"}).out)) CHECK(Columns(line) <= 80);
  CHECK(Holds(RunArgs({"k80", "-f", "json"}).out,
              "\"machines\": [\n"
              "      {\n"
              "        \"cloud\": \"aws\",\n"
              "        \"name\": \"p2.xlarge\",\n"
              "        \"cards\": 1\n"));
}

TEST_CASE("notes are those of the cards that are listed") {
  CHECK(!Holds(RunArgs({"t4"}).out, "~"));
  CHECK(!Holds(RunArgs({"t4"}).out, "*"));
  CHECK(Holds(RunArgs({"a30"}).out, "~ not seen: derived"));
  CHECK(Holds(RunArgs({"a6000"}).out,
              "\nECC: the memory is that with it on, which counts; with it off CUDA shows 47.4\n"
              "     GiB of a6000\n"));
  CHECK(Holds(RunArgs({"22.5gib"}).out, " 23.6\n     GiB of a5000, 23.9 GiB of p40\n"));
  CHECK(!Holds(RunArgs({"t4"}).out, "ECC"));
  CHECK(!Holds(RunArgs({"a4000"}).out, "~ assumed"));
  CHECK(Holds(RunArgs({"orin"}).out, "the CPU has a share of that memory"));
  CHECK(!Holds(RunArgs({"t4"}).out, "the CPU has a share of that memory"));
}

TEST_CASE("all cards fit 80 columns") {
  const CommandResult result = RunArgs({});
  CHECK(result.code == 0);
  const std::vector<std::string> lines = Lines(result.out);
  CHECK(lines[0] == Count() + " cards");
  CHECK(lines[2].starts_with("card "));
  CHECK(lines[3].starts_with("k520 "));
  CHECK(lines[Cards().size() + 2].starts_with("jetson-thor "));
  CHECK(lines[Cards().size() + 3] == "");
  for (const std::string& line : lines) CHECK(Columns(line) <= 80);
  for (const char c : RunArgs({"--ascii"}).out) CHECK(static_cast<unsigned char>(c) < 128);
  CHECK(!Holds(result.out, "\xE2\x80\xA6"));  // no name is cut
}

TEST_CASE("colours and quiet are as elsewhere") {
  CHECK(RunArgs({"laptop", "-q"}).out == "16 of " + Count() + " cards\n");
  CHECK(!Holds(RunArgs({"a30"}).out, "\033"));
  CHECK(Holds(RunArgs({"a30", "--color", "always"}).out, "\033[33m~23.3 GiB\033[0m"));
}

TEST_CASE("JSON is an array of objects") {
  const std::string json = RunArgs({"tesla t4", "--format", "json"}).out;
  const std::string_view begin =
      "[\n"
      "  {\n"
      "    \"alias\": \"t4\",\n"
      "    \"name\": \"Tesla T4\",\n"
      "    \"family\": \"datacenter\",\n"
      "    \"memory_type\": \"GDDR6\",\n"
      "    \"sold_bytes\": 17179869184,\n"
      "    \"total_bytes\": 15642656768,\n"
      "    \"total_source\": \"seen\",\n"
      "    \"shares_memory\": false,\n"
      "    \"compute_capability\": \"7.5\",\n"
      "    \"multiprocessors\": 40,\n"
      "    \"context\": {\n"
      "      \"bytes\": 142606336,\n"
      "      \"low\": 103809024,\n"
      "      \"high\": 147849216,\n"
      "      \"basis\": \"measured\",\n"
      "      \"evidence\": \"hpcaitech/Open-Sora#697, AlphaGPU/leetgpu-challenges#52, "
      "facebookresearch/tribev2#28, Zheng-Chong/CatVTON#133, Farzad-R/Finetune-LLAVA-NEXT#2, "
      "tsugumi-sys/SA-ConvLSTM-Pytorch#22, lllyasviel/FramePack#608, "
      "ragntune/code-llama-finetune#3, FoundationVision/GenerateU#10\"\n"
      "    },\n"
      "    \"machines\": [\n";
  CHECK(json.substr(0, begin.size()) == begin);
  CHECK(RunArgs({"p40", "-f", "json"}).out.ends_with("\"assumed\"\n    }\n  }\n]\n"));
  CHECK(Holds(RunArgs({"p40", "-f", "json"}).out, "\"without_ecc_bytes\": 25630343168,\n"));
  CHECK(!Holds(RunArgs({"t4", "-f", "json"}).out, "without_ecc_bytes"));
  const std::string amd = RunArgs({"mi300x", "-f", "json"}).out;
  CHECK(!Holds(amd, "compute_capability"));
  CHECK(!Holds(amd, "evidence"));
  CHECK(Holds(amd, "\"basis\": \"assumed\""));
}

TEST_CASE("CSV has a header and a row a card") {
  CHECK(RunArgs({"k520", "-f", "csv"}).out ==
        "alias,name,family,memory_type,sold_bytes,total_bytes,total_source,shares_memory,"
        "compute_capability,multiprocessors,context_bytes,context_low,context_high,"
        "context_basis,without_ecc_bytes\n"
        "k520,GRID K520 (per GPU),cloud,GDDR5,4294967296,4294770688,seen,false,3.0,8,120586240,"
        "76546048,132120576,assumed,\n");
  CHECK(Lines(RunArgs({"--format=csv"}).out).size() == Cards().size() + 1);
}

TEST_CASE("Markdown is a table with its notes") {
  CHECK(RunArgs({"h800", "-f", "markdown"}).out ==
        "| card | name | memory | CC | SMs | context |\n"
        "| --- | --- | ---: | ---: | ---: | ---: |\n"
        "| h800 | H800 | \\~77.2 GiB | 9.0 | 132 | 751 MiB |\n"
        "\n"
        "- memory: the least that CUDA was seen to show as total; \\~ not seen: derived from what "
        "nvidia-smi shows, what it is sold with, or its memory without ECC\n"
        "- CC, SMs: compute capability, multiprocessors\n"
        "- context: what each process takes of it before any tensor\n");
}

TEST_CASE("a list goes to a file, but not over one") {
  const TempFolder folder;
  const std::string file = folder.Path("cards.csv");
  CHECK(RunArgs({"t4", "-f", "csv", "--output", file}).out == "");
  const CommandResult again = RunArgs({"t4", "--output", file});
  CHECK(again.code == 2);
  CHECK(again.err == "error: " + file + ": --output: the file exists (try: --force)\n");
  CHECK(RunArgs({"t4", "--output", file, "--force"}).code == 0);
}

TEST_CASE("what finds no card is an error with what may have been meant") {
  struct Case {
    std::vector<std::string> filters;
    const char* error;
  };
  const Case cases[] = {
      {{"rtx3909"}, "no card matches 'rtx3909' (did you mean 'rtx3090'?)"},
      {{"t4", "rtx4099"}, "no card matches 'rtx4099' (did you mean 'rtx4090'?)"},
      {{"toaster"}, "no card matches 'toaster' (try: onnxfit gpus)"},
      {{""}, "no card matches nothing (try: onnxfit gpus)"},
      {{"5GiB"}, "no card matches '5GiB' (try: onnxfit gpus)"},
      {{">500GiB"}, "no card matches '>500GiB' (try: onnxfit gpus)"},
      {{"12..8GiB"}, "no card matches '12..8GiB' (try: onnxfit gpus)"},
      {{"laptop", "80GiB"}, "no card matches 'laptop' and '80GiB' at once (try: onnxfit gpus)"},
      {{">=a"}, "FILTER: expected a size, found 'a' (try: 8GiB or 512MiB)"},
  };
  for (const Case& c : cases) {
    const CommandResult result = RunArgs(c.filters);
    CAPTURE(c.error);
    CHECK(result.code == 2);
    CHECK(result.out == "");
    CHECK(result.err == "error: " + std::string(c.error) + "\n");
  }
}

TEST_CASE("help shows the flags that gpus has") {
  const std::string help = RunArgs({"--help"}).out;
  CHECK(help.starts_with("onnxfit gpus: "));
  CHECK(Holds(help, "--format"));
  CHECK(!Holds(help, "--batch"));
  CHECK(!Holds(help, "The run"));
  for (const std::string& line : Lines(help)) CHECK(Columns(line) <= 80);
}

}  // namespace onnxfit::gpus_test
