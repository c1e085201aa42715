// A check of the CI gate, in all formats: those that people read first.
#pragma once

#include <string>
#include <string_view>

#include "estimator/compare/check.h"
#include "estimator/report/formats.h"

namespace onnxfit {

// A check for people: all in a line, then a line a run, the worst first.  Each run begins a line
// with its status' word, PASS to ERROR; options.rows of the nodes that grew below it.  At most 80
// columns wide, every line with its newline.
std::string ToText(const CheckAnswer& answer, const TextOptions& options = {});

// A check as a job's summary, or as a comment on a pull request.  The first line of a report: a
// script finds its own comment by it.
inline constexpr std::string_view kCheckMarker = "<!-- onnxfit-check -->";

// All in a line, a table with the worst first, and what is to be said of each that does not pass.
// Passing ones beyond twenty are a number.  No longer than GitHub takes a comment, unless names are
// very long.
std::string ToMarkdown(const CheckAnswer& answer);

// A check as annotations of a GitHub workflow.  Workflow commands, the worst first: errors for FAIL
// and ERROR, warnings for WARN, notices for NEW and GONE.  GitHub shows ten of a step; a plain line
// says how many more there are.  Then notes and the summary, as plain lines.
std::string ToGithub(const CheckAnswer& answer);

// A check for programs, schema 1.  One object with a newline at its end:
//   {"schema", "version", "config", "against", "status", "counts": {"pass": …}, "checks": […],
//    "notes": […]}
// A check has name, model, line, status, text, error, device_bytes, budgets, allowed_bytes and,
// where it was compared, "comparison", with the fields of a diff.
std::string ToJson(const CheckAnswer& answer, const JsonOptions& options);

// A check for CI servers that read JUnit's XML: Jenkins, GitLab, Azure, CircleCI, Buildkite.  A
// test case for each check: FAIL is a failure, ERROR an error, OFF and GONE are skipped.  WARN
// passes, for a server fails a build otherwise, and says so in its output.  As Jenkins'
// junit-10.xsd has it; without times.
std::string ToJunit(const CheckAnswer& answer);

// A check for viewers of static analysis: SARIF 2.1.0 (OASIS), as GitHub's code scanning reads it.
// One run; a result for each FAIL, ERROR (errors) and WARN (a warning), at the check's line of the
// config.  `version` is onnxfit's.
std::string ToSarif(const CheckAnswer& answer, std::string_view version);

// `path` as a URI: relative ones stay relative, "/a b" is "file:///a%20b".
std::string UriOf(std::string_view path);

// A check for GitLab's code quality widget.  An array with an object for each ERROR (critical),
// FAIL (major) and WARN (minor).
std::string ToGitlab(const CheckAnswer& answer);

// A check as measurements over time: github-action-benchmark's "customSmallerIsBetter".  An array
// with an object for each check that has an answer: its bytes on the device, and with which
// settings.
std::string ToBench(const CheckAnswer& answer);

}  // namespace onnxfit
