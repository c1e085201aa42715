// What was predicted beside what the card at hand did, in all formats.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "estimator/fit/verify.h"
#include "estimator/report/formats.h"

namespace onnxfit {

// PASS, FAIL, OOM or STOPPED on the first line, then term by term.  At most 80 columns wide, every
// line with its newline.
std::string ToText(const Verification& verification, const TextOptions& options = {});
std::string ToText(const VerifiedMaxBatch& answer, const TextOptions& options = {});

// The same to be pasted, and as a table for programs: a row a term.
std::string ToMarkdown(const Verification& verification, const TextOptions& options = {});
std::string ToCsv(const Verification& verification);

// Of a largest batch, whose rows are the batches that were carried out.
std::string ToMarkdown(const VerifiedMaxBatch& answer, const TextOptions& options = {});
std::string ToCsv(const VerifiedMaxBatch& answer);

// For programs: all figures in bytes.
std::string ToJson(const Verification& verification, const JsonOptions& options);
std::string ToJson(const VerifiedMaxBatch& answer, const JsonOptions& options);

}  // namespace onnxfit
