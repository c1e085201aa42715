// Who holds which storage, from when to when: lifetimes follow from it, and --why tells it.
#pragma once

#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "estimator/memory/trace.h"
#include "estimator/operators/op_rule.h"

namespace onnxfit {

struct Holder {
  enum class Type : uint8_t {
    kName,      // of the program; id: NameId
    kSaved,     // a call, for its backward; id: index of the call
    kGradient,  // p.grad; id: NameId of the parameter
    kCache,     // autocast's, of casts; id: NameId of what was cast
  };
  static constexpr int64_t kForGood = -1;

  Type type = Type::kName;
  int32_t id = 0;
  Slots slot = {};  // of kSaved: which of the call's tensors it is
  BufferId buffer = -1;
  bool is_view = false;      // it sees the storage in another shape or order
  int64_t from = 0;          // Trace::events that came before
  int64_t until = kForGood;  // the same; the free, if there is one, is the next event
};

using Holders = std::vector<Holder>;  // in the order in which they begin

// Writes them down while the machine runs.
class HolderLog {
 public:
  // Both must outlive it.
  HolderLog(const Trace& trace, Holders& holders) : trace_(trace), holders_(holders) {}

  // `key` says later who lets go: all that it holds as `holder.type` ends together.
  void Begin(int32_t key, Holder holder);
  void End(Holder::Type type, int32_t key);

 private:
  int64_t Now() const { return static_cast<int64_t>(trace_.events.size()); }

  const Trace& trace_;
  Holders& holders_;
  std::multimap<std::pair<Holder::Type, int32_t>, size_t> open_;  // by who: index of holders_
};

}  // namespace onnxfit
