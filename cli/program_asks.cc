#include "cli/program_asks.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "estimator/absent/run_folder.h"
#include "estimator/workspaces/asked_sizes.h"

namespace onnxfit {
namespace {

constexpr int kWaiting = 64;  // processes that ask at once
constexpr size_t kLongestQuestion = 4096;
constexpr timeval kPatience = {2, 0};  // for the rest of a question

bool Bind(int listener, const std::string& folder) {
  const int opened = open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (opened < 0) return false;
  const sockaddr_un address = absent::AsksAddress(opened);
  const bool is_bound =
      bind(listener, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0;
  close(opened);
  return is_bound;
}

std::string ReadLine(int connection) {
  std::string line;
  char byte = 0;
  while (line.size() < kLongestQuestion && recv(connection, &byte, 1, 0) == 1) {
    if (byte == '\n') return line;
    line += byte;
  }
  return "";
}

}  // namespace

ProgramAsks::ProgramAsks(const std::string& folder, std::vector<DeviceProfile> cards)
    : cards_(std::move(cards)) {
  listener_ = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const bool listens =
      listener_ >= 0 && Bind(listener_, folder) && listen(listener_, kWaiting) == 0;
  if (listens && pipe2(stop_, O_CLOEXEC) == 0) thread_ = std::thread([this] { Serve(); });
}

ProgramAsks::~ProgramAsks() {
  if (thread_.joinable()) {
    (void)!write(stop_[1], "", 1);
    thread_.join();
  }
  for (const int file : {listener_, stop_[0], stop_[1]}) {
    if (file >= 0) close(file);
  }
}

void ProgramAsks::Serve() const {
  while (true) {
    pollfd files[] = {{.fd = listener_, .events = POLLIN, .revents = 0},
                      {.fd = stop_[0], .events = POLLIN, .revents = 0}};
    if (poll(files, 2, -1) < 0 && errno != EINTR) return;
    if (files[1].revents != 0) return;
    if (files[0].revents == 0) continue;
    const int connection = accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
    if (connection < 0) continue;
    Answer(connection);
    close(connection);
  }
}

void ProgramAsks::Answer(int connection) const {
  setsockopt(connection, SOL_SOCKET, SO_RCVTIMEO, &kPatience, sizeof kPatience);
  const std::string answer = AnswerTo(ReadLine(connection), cards_) + "\n";
  (void)!send(connection, answer.data(), answer.size(), MSG_NOSIGNAL);
}

}  // namespace onnxfit
