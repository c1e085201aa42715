// The life of one tensor, for somebody who wants to know why it is there.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "estimator/base/tensor_type.h"
#include "estimator/memory/trace.h"

namespace onnxfit {

struct Prediction;

struct Instant {
  int32_t step = 0;  // from 1, 0 for setup
  Phase phase = Phase::kSetup;
  std::string node = {};  // the operator that runs, "" between operators

  bool operator==(const Instant&) const = default;
};

// Somebody who keeps a storage alive.
struct HeldBy {
  enum class By : uint8_t {
    kName,       // a value of the program
    kView,       // the same, seen in another shape or order
    kInPlace,    // the same, written over the storage by a call
    kSaved,      // a call, for its backward
    kGradient,   // p.grad
    kCache,      // autocast's cache of casts
    kModule,     // the model: a parameter or a buffer
    kOptimizer,  // optimizer.state
    kLoop,       // the training loop: the batch, a scaler
    kLibrary,    // cuBLAS, cublasLt
    kEngine,     // backward's engine, on the way from one node to the next
    kOperator,   // only the one that runs
  };
  By by = By::kName;
  std::string name = {};  // of a value
  std::string op = {};    // ATen's name of the call that made it, or saved it
  std::string node = {};  // where that call is
  std::string as = {};  // why: "input 0" of a call that saved it, "Python's out", "argument of fc"
  std::optional<Instant> until = {};  // absent: for good
};
std::string_view ToString(HeldBy::By by);  // the JSON's words: "name", "view", "in_place" …

// How a name came to its storage.
enum class Shares : uint8_t {
  kNothing,   // it is its own
  kView,      // of `storage`
  kInPlace,   // written over it
  kIdentity,  // another name of the same tensor
  kCopy,      // of it, made because a call writes over it and needs it for its backward
};

std::string_view ToString(Shares shares);  // "view", "in_place", "identity", "copy"

struct TensorStory {
  std::string name = {};
  TensorType type = {};
  Kind kind = Kind::kTemporary;  // what holds it at the peak, else what held it last
  int64_t bytes = 0;             // as requested, of the whole storage
  int64_t block_bytes = 0;       // what the allocator hands out for it
  Shares shares = Shares::kNothing;
  std::string storage = {};  // whose it shares, "" for none
  std::string op = {};       // the call that made `name` so, "" where none did
  std::string node = {};     // where that call is
  Instant born = {};
  std::optional<Instant> dies = {};  // absent: it stays
  std::vector<HeldBy> held_by = {};  // the last to let go is the last
  bool at_peak = false;
  int64_t operators_from_peak = 0;  // if not: born so many later, or dead so many earlier (< 0)
};

struct WhyAnswer {
  std::string asked = {};
  std::vector<TensorStory> tensors = {};  // those that are alive at the peak first
  std::string absent = {};                // where there are none: why no tensor is on the device
  int64_t allocated_at_peak = 0;
};

// Tells of `asked`: a value of the file or of the program, a parameter, "NAME.grad", an
// optimizer's state ("NAME.exp_avg"), a node (its results), or the end of one such name.
// Of several lives, one a step, those of the peak's step, else of the last one.
// Throws Error where nothing, or more than one name by its end, is called so.
// REQUIRES: `prediction` has its holders.  O(events × log + names × letters).
WhyAnswer ExplainTensor(const Prediction& prediction, std::string_view asked);

}  // namespace onnxfit
