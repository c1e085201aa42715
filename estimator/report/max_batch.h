// The largest batch of one or more cards, in all formats.
#pragma once

#include <string>

#include "estimator/fit/max_batch.h"
#include "estimator/report/formats.h"

namespace onnxfit {

// The largest batch of one or more cards as a page for people.  One card: the batch and its
// verdict, what is around it, what would raise it.  Several: a line each.  At most 80 columns wide,
// every line with its newline.
std::string ToText(const MaxBatchAnswer& answer, const TextOptions& options = {});

// A table to be pasted, with a list of what else there is to say of a single card; and a table for
// programs: a row a card.
std::string ToMarkdown(const MaxBatchAnswer& answer);
std::string ToCsv(const MaxBatchAnswer& answer);

// The largest batch as JSON for programs, schema 1.  One object with a target each; `next`,
// `luckier`, `estimate` and `advice` are absent where they were not asked for.  Indented by two
// spaces, with a newline at its end.
std::string ToJson(const MaxBatchAnswer& answer, const JsonOptions& options);

}  // namespace onnxfit
