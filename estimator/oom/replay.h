// What a model says to an out-of-memory message: who asked, and which batch would have fitted.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "estimator/base/device.h"
#include "estimator/base/settings.h"
#include "estimator/base/tensor_type.h"
#include "estimator/fit/estimate.h"
#include "estimator/fit/why.h"
#include "estimator/onnx/graph.h"
#include "estimator/oom/explanation.h"

namespace onnxfit {

// An allocation of the run, with all others of its name and size in its phase.
struct Asked {
  std::string tensor = {};
  TensorType type = {};
  int64_t bytes = 0;
  int64_t tried_bytes = 0;  // what PyTorch says that it tried to allocate for it
  Instant when = {};        // the first of them that matches, else the first of all
  int64_t times = 1;        // in all steps
  bool matches = false;     // as much is allocated before it as the message says
};

// What max-batch answers for the card.
struct LargestBatch {
  int64_t batch = 0;  // 0: not even one sample
  // For the card as large as the rounding of the message and a small context allow, where that is
  // another batch.
  std::optional<int64_t> at_most = {};
  // What the file alone says, where that is no less than the batch that failed; `batch` is then one
  // less than that.
  std::optional<int64_t> by_file = {};
};

struct OomReplay {
  std::string model = {};
  int64_t batch = 1;
  bool asks = true;                    // false: the message does not say how much was asked for
  std::vector<Asked> candidates = {};  // of the size that the message tells; matching ones first
  int64_t card_bytes = 0;              // for this process' tensors and cache
  std::string card_name = {};          // of --gpu: "Tesla T4"; "" where the message tells the card
  bool is_another = false;             // than the message's
  // Whose context is taken off, where the message does not say what others hold: "Tesla T4", or
  // "cards of 3.95 GiB" where several may be meant; and how much.
  std::string context_of = {};
  ContextBytes context = {};
  std::optional<Asked> fails_at = {};        // where the replay on that card fails; absent: it runs
  std::string reading = {};                  // flags of the worse reading, where that alone fails
  bool may_have_lost_dropouts = false;       // the file leaves them open
  std::optional<LargestBatch> largest = {};  // absent where the card's size is not known
  Warnings warnings = {};
};

// Replays ten steps of the file on an endless card for the candidates, and on a card for the rest:
// the first target of the request, which also names the context, or else one of the message's
// size.  Where the target is the message's card, or there is none, what others held is taken off
// and a limit on the process is kept.  No card is larger than it says it is.
// Throws Error as Predict does.  Takes as long as two answers of max-batch.
OomReplay ReplayOom(const Study& study, const EstimateRequest& request, const OomExplanation& oom);

}  // namespace onnxfit
