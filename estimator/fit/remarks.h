// What an estimate assumes, and what only -v tells of a run.
#pragma once

#include <string>
#include <vector>

#include "estimator/fit/estimate.h"
#include "estimator/fit/predict.h"

namespace onnxfit {

// Adds all of `from` to `to`.
template <typename Item>
void Append(std::vector<Item>& to, const std::vector<Item>& from) {
  to.insert(to.end(), from.begin(), from.end());
}

// What of the card and of the file an estimate takes for granted, a sentence each.
std::vector<std::string> Assumptions(const Prediction& prediction, const EstimateRequest& request);

// What an estimate assumes of the file and warns of in it, whatever the card.
struct FileRemarks {
  std::vector<std::string> assumptions;
  Warnings warnings;
};

// Throws Error as MakeEstimate does.
FileRemarks RemarksOnFile(const Study& study, const EstimateRequest& request);

// What loading and recovery did, and, where `request` asks for details, RunNotes.
std::vector<std::string> Notes(const Prediction& prediction, const EstimateRequest& request);

// What each step asks of the allocator; the first is step 1.  O(events × log).
std::vector<StepSummary> SummarizeSteps(const Prediction& prediction);

// How many nodes run as calls and on the host, and which calls work in place.
// REQUIRES: `prediction` has its holders.
std::vector<std::string> RunNotes(const Prediction& prediction);

}  // namespace onnxfit
