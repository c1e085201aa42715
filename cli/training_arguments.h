// transformers' TrainingArguments, as flags.
#pragma once

#include "cli/flags.h"

namespace onnxfit {

// --training-args FILE.json, which TrainingArguments.to_json_string() writes: sets what its flags
// would, and --loop trainer.  Throws Error for a file that is none, and for an optimizer that no
// flag is.
void SetTrainingArguments(const Typed& typed, Options& options);

}  // namespace onnxfit
