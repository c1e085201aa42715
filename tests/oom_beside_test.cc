// What people paste beside a message: tables of nvidia-smi, gpustat and free, lines of top.
#include <doctest/doctest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "estimator/base/bytes.h"
#include "estimator/oom/beside.h"
#include "estimator/oom/explanation.h"
#include "estimator/oom/formats.h"
#include "estimator/oom/log.h"

namespace onnxfit::oom_beside_test {
namespace {

OomExplanation Explained(const std::string& log) {
  const OomLog read = ReadOomLog(log);
  REQUIRE(read.processes.size() == 1);
  return ExplainOom(read.processes[0]);
}

bool HasNote(const OomExplanation& e, const std::string& words) {
  return std::ranges::any_of(
      e.notes, [&](const std::string& note) { return note.find(words) != std::string::npos; });
}

constexpr char kBare[] = "RuntimeError: CUDA error: out of memory\n";

// Drivers before 560, and those after it, which move columns.
constexpr char kFull[] =
    "| NVIDIA-SMI 450.80.02    Driver Version: 450.80.02    CUDA Version: 11.0     |\n"
    "| Fan  Temp  Perf  Pwr:Usage/Cap|         Memory-Usage | GPU-Util  Compute M. |\n"
    "|   0  Tesla V100-SXM2...  On   | 00000000:00:08.0 Off |                    0 |\n"
    "| N/A   54C    P0   246W / 300W |  15360MiB / 16384MiB |    100%      Default |\n"
    "+-------------------------------+----------------------+----------------------+\n"
    "|   1  Tesla V100-SXM2...  On   | 00000000:00:09.0 Off |                    0 |\n"
    "| N/A   38C    P0    39W / 300W |      0MiB / 16384MiB |      0%      Default |\n"
    "|=============================================================================|\n"
    "|    0     18382      C   python3                                    15349MiB |\n";
constexpr char kNew[] =
    "|   0  NVIDIA GeForce RTX 4090        Off |   00000000:01:00.0  On |                  Off |\n"
    "| 30%   45C    P8             22W /  450W |   23552MiB /  24564MiB |      2%      Default |\n"
    "|                                         |                        |                  N/A |\n"
    "|    0   N/A  N/A            3120      G   /usr/lib/xorg/Xorg                      312MiB |\n"
    "|    0   N/A  N/A           90211    C+G   python                                23000MiB |\n";
constexpr char kEmpty[] =
    "|   0  Tesla T4                       On  | 00000000:00:07.0 Off |                    0 |\n"
    "| N/A   44C    P8              10W /  70W |      3MiB / 15360MiB |      0%      Default |\n";

TEST_CASE("nvidia-smi's table is read beside a message without numbers") {
  const OomExplanation full = Explained(std::string(kBare) + kFull);
  CHECK(full.judgement.verdict == OomVerdict::kOtherProcess);
  CHECK(full.message.Size(OomField::kTotal)->bytes == 16384 * kMiB);
  CHECK(full.message.Size(OomField::kFree)->bytes == 1024 * kMiB);
  REQUIRE(full.message.others.size() == 1);
  CHECK(full.message.others[0].pid == 18382);
  CHECK(full.summary[0] == "OTHER PROCESS: others hold 15.0 GiB of 16.0 GiB, as nvidia-smi shows");
  CHECK(full.remedies[0].what == "ending other processes");
  CHECK(full.remedies[0].why.find("18382") != std::string::npos);
  CHECK(HasNote(full, "process 18382 (python3)"));
  CHECK(HasNote(full, "CUDA_VISIBLE_DEVICES=1."));
  const OomExplanation above = Explained(std::string(kFull) + kBare);
  CHECK(above.summary[0] == full.summary[0]);
  const OomExplanation later = Explained(std::string(kBare) + kNew);
  CHECK(later.judgement.verdict == OomVerdict::kOtherProcess);
  CHECK(later.message.others.size() == 2);
  CHECK(HasNote(later, "process 90211 (python)"));
}

TEST_CASE("a card that was empty is this program's") {
  const OomExplanation e = Explained(std::string(kBare) + kEmpty);
  CHECK(e.summary[0] == "CAPACITY: CUDA found no room on the card");
  CHECK(e.message.Size(OomField::kTotal)->bytes == 15360 * kMiB);
  CHECK(!e.message.Size(OomField::kFree));
  CHECK(HasNote(e, "nearly empty"));
}

// A container does not see who holds its card.
TEST_CASE("gpustat has no pids, and a card with no process listed is told as it is") {
  const OomExplanation e =
      Explained(std::string(kBare) +
                "[0] Tesla V100-SXM2-16GB | 44'C,   0 % | 15836 / 16130 MB |\n"
                "[1] Tesla V100-SXM2-16GB | 34'C,   0 % |     0 / 16130 MB |\n");
  CHECK(e.summary[0] == "CAPACITY: CUDA found no room on the card: 15.5 GiB of 15.8 GiB in use");
  CHECK(HasNote(e, "CUDA_VISIBLE_DEVICES=1."));
}

TEST_CASE("the message's own numbers are not overwritten") {
  const OomExplanation e = Explained(
      "CUDA out of memory. Tried to allocate 2.00 GiB (GPU 1; 15.78 GiB total capacity; 9.00 GiB "
      "already allocated; 1.20 GiB free; 9.10 GiB reserved in total by PyTorch)\n" +
      std::string(kFull));
  CHECK(e.message.Size(OomField::kFree)->bytes < 2 * kGiB);
  CHECK(e.message.others.empty());
  CHECK(HasNote(e, "0 B of 16.0 GiB in use on GPU 1"));
}

TEST_CASE("tables of RAM are read, whatever their units") {
  struct Row {
    const char* table;
    double ram;  // GiB
    double available;
    double swap;
  };
  const Row rows[] = {
      {"      total  used  free  shared  buff/cache  available\n"
       "Mem:   7.7G  1.3G  5.9G     89M        521M       6.1G\n"
       "Swap:  4.0G  613M  3.4G\n",
       7.7, 6.1, 4},
      {"Mem:           62Gi       3.1Gi        57Gi       1.0Mi       2.4Gi        58Gi\n"
       "Swap:            0B          0B          0B\n",
       62, 58, 0},
      {"$ free -m\nMem:  8192  1024  6144  1  1024  7168\nSwap:  2048  0  2048\n", 8, 7, 2},
      {"Mem:  8388608  1048576  6291456  12  1048576  7340032\nSwap: 2097152 0 2097152\n", 8, 7, 2},
      {"Mem:  64  3  57  0  2  60\n", 64, 60, 0},
      {"KiB Mem : 16777216 total,   213456 free, 15000000 used,  1100668 buff/cache\n", 16, 0, 0},
      {"MemTotal:       16777216 kB\nMemAvailable:    8388608 kB\nSwapTotal: 4194304 kB\n", 16, 8,
       4},
  };
  for (const Row& row : rows) {
    CAPTURE(row.table);
    const MachineBeside machine = ReadBeside(row.table);
    const auto gib = [](const std::optional<PrintedBytes>& size) {
      return size ? static_cast<double>(size->bytes) / static_cast<double>(kGiB) : 0;
    };
    CHECK(gib(machine.ram) == doctest::Approx(row.ram));
    CHECK(gib(machine.available) == doctest::Approx(row.available));
    CHECK(gib(machine.swap) == doctest::Approx(row.swap));
  }
}

TEST_CASE("a bare Killed says what is known, and what a table beside it shows") {
  const OomExplanation e = Explained(
      "Loading data: 91%\nKilled\n$ free -h\nMem:  7.7G 1.3G 5.9G 89M 521M 6.1G\nSwap: 4.0G 613M "
      "3.4G\n");
  CHECK(e.summary[0] == "CAPACITY: a process was killed: most often the machine's RAM is full");
  CHECK(e.remedies[0].what == "looking who ended it");
  CHECK(HasNote(e, "7.7 GiB of RAM in all, 6.1 GiB available; swap 4.0 GiB"));
  CHECK(std::ranges::any_of(e.commands, [](const std::string& command) {
    return command.find("dmesg") != std::string::npos;
  }));
}

TEST_CASE("what DeepSpeed told of RAM is a note of what ended it") {
  const OomExplanation e = Explained(
      "[INFO] [utils.py:837:see_memory_usage] CPU Virtual Memory:  used = 12.5 GB, percent = "
      "40.1%\n"
      "[INFO] [utils.py:837:see_memory_usage] CPU Virtual Memory:  used = 29.71 GB, percent = "
      "95.3%\n"
      "[ERROR] [launch.py:434:sigkill_handler] ['python', '-u', 'train.py', '--deepspeed', "
      "'z.json'] "
      "exits with return code = -9\n");
  CHECK(HasNote(e, "29.71 GiB of RAM in use (95.3%)"));
  CHECK_FALSE(HasNote(e, "12.5"));
  CHECK(e.message.app == "DeepSpeed");
  const auto advises = [&](const std::string& words) {
    return std::ranges::any_of(
        e.remedies, [&](const OomRemedy& r) { return r.what.find(words) != std::string::npos; });
  };
  CHECK(advises("offload to NVMe"));
  CHECK_FALSE(advises("train_micro_batch_size_per_gpu"));
}

TEST_CASE("who was ended is looked for in lines that begin otherwise, and in the kernel's words") {
  const OomExplanation webui = Explained(
      "auto_1  | Creating model from config: /stable-diffusion-webui/configs/v1.yaml\n"
      "auto_1 exited with code 137\n");
  CHECK(webui.message.app == "Stable Diffusion web UI");
  const std::string kernel =
      "Memory cgroup out of memory: Killed process 6626 (dorado) total-vm:9866988kB, "
      "anon-rss:1509872kB\n";
  const auto loads = [](const OomExplanation& e) {
    return std::ranges::any_of(e.remedies, [](const OomRemedy& r) {
      return r.what.find("DataLoader") != std::string::npos;
    });
  };
  CHECK_FALSE(loads(Explained(kernel)));
  std::string python = kernel;
  python.replace(python.find("dorado"), 6, "python3");
  CHECK(loads(Explained(python)));
}

TEST_CASE("an array that is larger than the RAM beside it cannot be") {
  const OomExplanation e = Explained(
      "numpy.core._exceptions._ArrayMemoryError: Unable to allocate 58.0 GiB for an array with "
      "shape (176351, 176460) and data type uint16\nMem:  15Gi 3Gi 9Gi 1Mi 3Gi 12Gi\n");
  CHECK(e.summary[0] == "IMPOSSIBLE: 58.0 GiB asked of the machine's RAM, which has 15 GiB");
}

TEST_CASE("one allocation that tcmalloc tells of is no message, and a note of Colab's") {
  const std::string large = "WARNING tcmalloc: large alloc 2400002048 bytes == 0x99a00000 @\n";
  CHECK(ReadOomLog(large).processes.empty());
  const OomExplanation e =
      Explained("Your session crashed after using all available RAM.\n" + large);
  CHECK(HasNote(e, "2.24 GiB (2400002048 bytes)"));
}

TEST_CASE("tables without a message are none") {
  CHECK(ReadOomLog(kFull).processes.empty());
  CHECK(ReadOomLog("Mem:  7.7G 1.3G 5.9G 89M 521M 6.1G\n").processes.empty());
  CHECK(ReadOomLog("{\"OOMKilled\":false,\"ExitCode\":0}\n").processes.empty());
}

// A path of Windows names the program as others do; "caffe2" is PyTorch's.
TEST_CASE("the program is found in paths of Windows") {
  const OomExplanation e = Explained(
      "OSError: [WinError 1455] The paging file is too small for this operation to complete. Error "
      "loading \"D:\\envs\\lib\\site-packages\\torch\\lib\\caffe2_detectron_ops_gpu.dll\"\n");
  CHECK(e.message.app == "PyTorch");
}

TEST_CASE("the share that Paddle may take is told") {
  const OomExplanation e = Explained(
      "ResourceExhaustedError: Out of memory error on GPU 0. Cannot allocate 30.000244MB memory on "
      "GPU 0, available memory is only 2.349999MB. 2) FLAGS_fraction_of_gpu_memory_to_use is 0.40 "
      "now, please set it to a higher value but less than 1.0.\n");
  CHECK(std::ranges::any_of(e.remedies, [](const OomRemedy& remedy) {
    return remedy.help == Help::kYes && remedy.why.starts_with("it is 0.40 now");
  }));
}

}  // namespace
}  // namespace onnxfit::oom_beside_test
