#include "estimator/absent/asks.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include <map>
#include <mutex>

#include "estimator/absent/card.h"
#include "estimator/absent/run_folder.h"

namespace onnxfit::absent {
namespace {

constexpr long kSeconds = 5;      // that an answer may take
constexpr int kMostFailures = 3;  // in a row, after which nobody is asked any more

// A file that is closed with it.
class File {
 public:
  explicit File(int number) : number_(number) {}
  ~File() {
    if (number_ >= 0) close(number_);
  }
  File(const File&) = delete;
  File& operator=(const File&) = delete;
  int number() const { return number_; }

 private:
  int number_;
};

bool Connect(int connection) {
  const File folder(open(Machine().folder.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  if (folder.number() < 0) return false;
  const sockaddr_un address = AsksAddress(folder.number());
  const timeval patience = {kSeconds, 0};
  setsockopt(connection, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
  return connect(connection, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0;
}

// The line that comes back, empty where the command does not know; nullopt where none came.
std::optional<std::string> Ask(const std::string& question) {
  const File connection(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (connection.number() < 0 || !Connect(connection.number())) return std::nullopt;
  const std::string line = question + "\n";
  if (send(connection.number(), line.data(), line.size(), MSG_NOSIGNAL) !=
      static_cast<ssize_t>(line.size())) {
    return std::nullopt;
  }
  std::string answer;
  char bytes[256];
  for (ssize_t read = 0; (read = recv(connection.number(), bytes, sizeof bytes, 0)) > 0;) {
    answer.append(bytes, static_cast<size_t>(read));
  }
  if (answer.empty() || answer.back() != '\n') return std::nullopt;
  answer.pop_back();
  return answer;
}

std::optional<std::string> IfAny(const std::string& answer) {
  return answer.empty() ? std::nullopt : std::optional(answer);
}

}  // namespace

std::optional<std::string> AskCommand(const std::string& question) {
  static auto* const mutex = new std::mutex;  // outlives destructors
  static auto* const known = new std::map<std::string, std::string>;
  if (Machine().folder.empty()) return std::nullopt;
  const std::lock_guard lock(*mutex);
  const auto found = known->find(question);
  if (found != known->end()) return IfAny(found->second);
  static int failures = 0;  // in a row
  if (failures == kMostFailures) return std::nullopt;
  const std::optional<std::string> answer = Ask(question);
  failures = answer ? 0 : failures + 1;
  return answer ? IfAny((*known)[question] = *answer) : std::nullopt;
}

}  // namespace onnxfit::absent
