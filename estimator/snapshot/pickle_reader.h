// Plain values of a file that Python's pickle module wrote (PEP 307, PEP 3154, pickletools): what
// torch.cuda.memory's snapshots are made of.  Runs no code: what names a class or a function is
// refused.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

namespace onnxfit {

enum class PickleType : uint8_t {
  kNone,
  kBool,
  kInteger,
  kFloat,
  kText,
  kBytes,
  kList,
  kTuple,
  kDict,
};
std::string_view ToString(PickleType type);  // "a list", "an integer": for messages

using PickleId = int32_t;  // index into PickleValues::nodes
inline constexpr PickleId kNoPickle = -1;

struct PickleNode {
  PickleType type = PickleType::kNone;
  // An integer or a bool (those beyond 64 bits are the nearest of 64), the length of a text, where
  // in `items` those of a container are.
  int64_t value = 0;
  size_t at = 0;  // where in the file it is written: the letters of a text, the opcode of others
};

// A value and all that it is made of, side by side.  A value that a pickle has once and refers to
// from many places is one node; so it may hold itself.
struct PickleValues {
  std::string_view bytes = {};  // the file, of which texts are parts: it must outlive this
  std::vector<PickleNode> nodes = {};
  std::vector<std::vector<PickleId>> items = {};  // a dict's are key, value, key, value …
  PickleId root = 0;

  const PickleNode& At(PickleId id) const { return nodes[static_cast<size_t>(id)]; }
  PickleType TypeOf(PickleId id) const { return At(id).type; }
  // REQUIRES: a text or bytes; a list, a tuple or a dict.
  std::string_view TextOf(PickleId id) const {
    return bytes.substr(At(id).at, static_cast<size_t>(At(id).value));
  }
  const std::vector<PickleId>& ItemsOf(PickleId id) const {
    return items[static_cast<size_t>(At(id).value)];
  }

  // The value of `key`, the last of equal ones, or kNoPickle.  REQUIRES: a dict.  O(its items).
  PickleId Find(PickleId dict, std::string_view key) const;
};

// Whether `bytes` begin as pickles of protocols 2 to 5 do.
bool LooksLikePickle(std::string_view bytes);

// The first value in `bytes`, of protocols 2 to 5: None, bool, int, float, str, bytes, list, tuple,
// dict.  What follows it is not read, as pickle.load does not.  Throws Error that says at which
// byte what was expected and found.  O(bytes) in time and memory: 4 bytes of it for each of a
// snapshot's, 60 at most, whatever the file.
PickleValues ReadPickle(std::string_view bytes);

}  // namespace onnxfit
