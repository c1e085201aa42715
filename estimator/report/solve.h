// The largest size of a run on one or more cards: text and JSON.
#pragma once

#include <string>

#include "estimator/fit/solve.h"
#include "estimator/report/formats.h"

namespace onnxfit {

// One row: the size and its verdict, what is around it, what it takes.  Several: a line each.  At
// most 80 columns wide, every line with its newline.  With options.quiet the first line alone.
std::string ToText(const SolveAnswer& answer, const TextOptions& options = {});

// Schema 1, one object:
//   {"schema", "version", "text", "model", "solve", "multiple_of", "framework",
//    "rows": [{"batch", "dims", "precision", "optimizer", "mode", "gpu", "memory_bytes",
//      "fits": {"size", "used_bytes"}, "runs": {"size", "used_bytes"},
//      "next": {"size", "verdict", "fails_at"}, "limited", "end",
//      "guessed": {"size", "reading"}, "allocated_bytes", "reserved_bytes", "device_bytes",
//      "one_more_bytes": {"last", "half"}, "target": as estimate's, "assumptions": [],
//      "warnings": []}]}
// What there is none of is absent; a size of 0: none.  Figures, "target" included, are of the size
// to take: "fits", else "runs", else the least that fails.
std::string ToJson(const SolveAnswer& answer, const JsonOptions& options);

}  // namespace onnxfit
