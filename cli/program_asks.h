// Answers what a program under `onnxfit run` asks the command, as long as it runs.
#pragma once

#include <string>
#include <thread>
#include <vector>

#include "estimator/base/device.h"

namespace onnxfit {

class ProgramAsks {
 public:
  // Listens at a socket in the run's `folder`.  Where there can be none nobody is answered, and the
  // program goes on without.
  ProgramAsks(const std::string& folder, std::vector<DeviceProfile> cards);
  ~ProgramAsks();
  ProgramAsks(const ProgramAsks&) = delete;
  ProgramAsks& operator=(const ProgramAsks&) = delete;

 private:
  void Serve() const;
  void Answer(int connection) const;

  std::vector<DeviceProfile> cards_;
  int listener_ = -1;
  int stop_[2] = {-1, -1};  // a pipe: written to when it is enough
  std::thread thread_;
};

}  // namespace onnxfit
