// Which way casts go in a run in 16 bits, where they did nothing in the export, which was in 32:
// x.float() and x.to(dtype) are the same call there.  Internal to the room pt2/.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "estimator/pt2/exported_program.h"

namespace onnxfit::pt2 {

enum class CastWay : uint8_t {
  kOtherOfArgument,  // to the other width; its caller goes on reading what it gave the helper
  kOtherOfLocal,     // to the other width
  kSameOfArgument,   // as the cast before it: "[x.to(dtype) for x in (a, b)]"
  kSameOfLocal,
  kAgainOfArgument,  // of what a cast before it was given: "q.float() * cos + half(q.float()) *
                     // sin"
  kBack,             // to the run's type: "f(x.float()).to(dtype)"
  kForPower,         // to the other width for a power alone: "x.to(torch.float32).pow(2)"
  kForProduct,       // the same for a product alone: "torch.matmul(x.to(dtype), y)"
  kToFloat32,        // of a softmax with a type of its own, which is cast back behind it
  kFloatOfArgument,  // to fp32, as a row of CastRows says
  kFloatOfLocal,
};

// Those that the line of a cast does not tell by itself.  Where a helper casts, whose lines the
// file does not show, all casts of one call of it but the last change the type, which goes back;
// not those whose result is multiplied with what no cast has made, where both types have to be
// equal: what else reads such a cast, reads what it was given.  Those between which are views alone
// are a list's, to one type.  Where a line spells float32 and a
// cast behind it, a cast of what the line has made is the latter.  What a row of CastRows
// (libraries.h) says of the call before or behind a cast comes first.  O(calls × rows).
std::map<const Call*, CastWay> FindCastWays(const Graph& graph);

// The call whose first operand has the type that `cast`, one of `calls`, goes back to, as rows of
// CastRows say of its line: "return q_embed.to(q_type)", or that call's cast of it, where a row
// says that it is one to the other width; null of others.  O(calls of the line × rows).
const Call* FirstOfCastLine(const std::vector<Call>& calls, const Call& cast);

// Whether the call's line has a cast behind one to float32: "norm(x.float()).to(dtype)",
// "softmax(x, dtype=torch.float32).type_as(x)".
bool SpellsCastBack(const Call& call);

// Whether the operands have to be of one type.
bool IsProduct(const Call& call);

bool IsPower(const Call& call);

}  // namespace onnxfit::pt2
