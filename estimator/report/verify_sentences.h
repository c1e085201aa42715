// What there is to say of a verification, whatever it is printed as.  Internal to the room report/.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "estimator/fit/verify.h"
#include "estimator/fit/verify_max_batch.h"

namespace onnxfit {

// "PASS", "FAIL", "OOM", "STOPPED"
std::string ProofWord(Proof proof);

// What follows the verdict on the first line: "3.25 GiB at the peak of 10 steps, 0 B off".
std::string ProofText(const Verification& verification);

// "same", "+2.00 MiB, +0.1%"
std::string DifferenceText(const ProofRow& row);

// How exact, what was written, the context, others on the card: a sentence each.
std::vector<std::string> ProofNotes(const Verification& verification);

// "batch 133 runs, 134 does not; 130 was predicted"
std::string MaxBatchText(const VerifiedMaxBatch& answer);

std::vector<std::string> MaxBatchNotes(const VerifiedMaxBatch& answer);

}  // namespace onnxfit
