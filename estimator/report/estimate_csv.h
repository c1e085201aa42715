// Estimates as comma-separated values: a header, then a record for each run.
#pragma once

#include <cstddef>
#include <string>

#include "estimator/fit/estimate.h"
#include "estimator/fit/sweep.h"

namespace onnxfit {

struct CsvOptions {
  bool ascii = false;  // no letter beyond ASCII
  size_t rows = 8;     // of the tensors of --why
};

// One estimate is a table of one record.  The columns are: model, batch, dim_NAME for each
// dimension given, precision, optimizer, mode; exact_bytes, allocated_bytes, reserved_bytes,
// device_bytes; KIND_bytes for each kind of the breakdown, which add up to device_bytes;
// NAME_verdict and NAME_used_bytes for each target; error.  Bytes are exact; what is not known is
// empty.  Where a tensor was asked for (--why), there is a record for each of its lives instead:
// none where it is never on the device.
std::string ToCsv(const Estimate& estimate, const CsvOptions& options = {});
std::string ToCsv(const SweepAnswer& answer, const CsvOptions& options = {});

}  // namespace onnxfit
