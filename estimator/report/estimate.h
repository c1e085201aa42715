// What `onnxfit estimate` tells, in all its formats: of one run, of a table over combinations,
// and of a model that is given by its numbers.
#pragma once

#include <string>

#include "estimator/fit/closed_form.h"
#include "estimator/fit/estimate.h"
#include "estimator/fit/sweep.h"
#include "estimator/report/formats.h"

namespace onnxfit {

// An estimate as a page for people: the answer first, then where the bytes go.  At most 80 columns
// wide, every line with its newline.  The shares of the breakdown add up to 100.0 %; what it leaves
// of device_bytes gets a row of its own.  Where a tensor was asked for (--why), its life takes the
// place of the tables.
std::string ToText(const Estimate& estimate, const TextOptions& options = {});

// An estimate as Markdown, to be pasted into a pull request.  What ToText(estimate, options) says,
// in tables and lists of GitHub's Markdown; names are code and never cut.  With options.quiet the
// first line alone.
std::string ToMarkdown(const Estimate& estimate, const TextOptions& options = {});

// Estimates as comma-separated values: a header, then a record for each run.  One estimate is a
// table of one record.  The columns are: model, batch, dim_NAME for each dimension given,
// precision, optimizer, mode; exact_bytes, allocated_bytes, reserved_bytes, device_bytes;
// KIND_bytes for each kind of the breakdown, which add up to device_bytes; NAME_verdict and
// NAME_used_bytes for each target; error.  Bytes are exact; what is not known is empty.  Where a
// tensor was asked for (--why), there is a record for each of its lives instead: none where it is
// never on the device.
std::string ToCsv(const Estimate& estimate, const CsvOptions& options = {});
std::string ToCsv(const SweepAnswer& answer, const CsvOptions& options = {});

// An estimate as JSON for programs, schema 1.  One object, indented by two spaces, with a newline
// at its end.  Bytes are integers. What is not known is absent: `born` of a tensor made in setup,
// `dies` of one that stays, `node` of a peak outside of operators, `why` where no tensor was asked
// for.  Bad UTF-8 in names becomes U+FFFD.
std::string ToJson(const Estimate& estimate, const JsonOptions& options);

// An array of them, in the order of the rows.  A combination without an answer has schema,
// version, the model's path, settings, and `error`.
std::string ToJson(const SweepAnswer& answer, const JsonOptions& options);

// A table over combinations as a page for people.  The answer in a line, then a row for each
// combination with what varies, its figures and its verdicts, then what all rows share, said once,
// and what some of them do.  At most 80 columns wide: where a row is wider, its targets go below
// one another, then what varies to a line of its own.  With options.quiet the first line alone.
// O(rows × sentences).
std::string ToText(const SweepAnswer& answer, const TextOptions& options = {});

// A table over combinations as Markdown.  What the text says; a column for each target, and one for
// reasons where rows have no answer.
std::string ToMarkdown(const SweepAnswer& answer, const TextOptions& options = {});

// A closed form as a report for people, and as JSON.  That it is a formula and no replay, and how
// many cards would hold it, on the first lines; then the products.
std::string ToText(const ClosedForm& form, const TextOptions& options = {});

// One object: "closed_form": true, the numbers, a breakdown with its products, the cards.
std::string ToJson(const ClosedForm& form, const JsonOptions& options = {});

}  // namespace onnxfit
