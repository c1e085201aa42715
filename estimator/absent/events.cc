#include "estimator/absent/events.h"

#include <fcntl.h>
#include <unistd.h>

#include <cstdio>
#include <mutex>
#include <set>
#include <string>

#include "estimator/absent/card.h"
#include "estimator/absent/run_folder.h"

namespace onnxfit::absent {
namespace {

// Of this process; a child that was forked has one of its own.
int EventsFile() {
  static int file = -1;
  static int owner = 0;
  if (Machine().folder.empty()) return -1;
  if (owner == getpid()) return file;
  owner = getpid();
  const std::string path = Machine().folder + "/" + std::to_string(owner) + kEventsEnding;
  file = open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
  return file;
}

std::mutex& Mutex() {
  static auto* const mutex = new std::mutex;  // outlives destructors
  return *mutex;
}

// One call a line, so that nothing is lost where the process is killed.
void WriteLine(const std::string& line) {
  const int file = EventsFile();
  if (file >= 0) (void)!write(file, line.data(), line.size());
}

void WriteOnce(const char* what, const char* function) {
  static auto* const seen = new std::set<std::string>;
  const std::lock_guard lock(Mutex());
  const std::string line = std::string(what) + " " + function + "\n";
  if (seen->insert(line).second) WriteLine(line);
}

}  // namespace

void WriteEvent(const DeviceEvent& event) {
  const std::lock_guard lock(Mutex());
  char line[128];
  std::snprintf(line, sizeof line, "%s %d %llu %lld", event.what, event.place,
                static_cast<unsigned long long>(event.address),
                static_cast<long long>(event.bytes));
  WriteLine(line + (event.asker.empty() ? "" : "\t" + event.asker) + "\n");
}

void WritePython() {
  const std::lock_guard lock(Mutex());
  WriteLine("python\n");
}

void WriteUnknown(const char* function) { WriteOnce("unknown", function); }

void WriteMissing(const char* function) { WriteOnce("missing", function); }

void WriteOwnRuntime(const char* file) { WriteOnce("runtime", file); }

void WriteUnknownSize(const char* function) { WriteOnce("size", function); }

}  // namespace onnxfit::absent
