// How inputs are changed so that most stay nearly valid: bytes that are changed blindly end in a
// parser, fields, attributes and metadata that are changed reach everything behind it.  All are
// functions of their input and of `random` alone.
#pragma once

#include <cstdint>
#include <random>
#include <string>
#include <string_view>
#include <vector>

namespace onnxfit::fuzz {

using Random = std::mt19937;

// 0 to `count` - 1.  REQUIRES: count > 0.
inline size_t Below(size_t count, Random& random) {
  return std::uniform_int_distribution<size_t>(0, count - 1)(random);
}

// True once in `times`.
inline bool OneIn(size_t times, Random& random) { return Below(times, random) == 0; }

// Sizes that code forgets: 0, -1, powers of two and their neighbours, the ends of 32 and 64 bits;
// now and then `now` itself, a little changed.
int64_t OddNumber(int64_t now, Random& random);

// A word that readers look for (an operator, a key of the exporter's metadata, a key of TOML), or
// text that none expects.
std::string OddText(Random& random);

// `bytes`, changed as libFuzzer changes bytes.
std::string MutateBytes(std::string bytes, size_t most);

// A serialized ModelProto, of which fields anywhere inside are set, taken away, copied, moved and
// swapped.  What is no ModelProto: its bytes changed.
std::string MutateModel(const std::string& bytes, size_t most, Random& random);

// The model `bytes`, with parts of the model `other` in the places of its own.
std::string CrossModels(const std::string& bytes, const std::string& other, Random& random);

// Text with brackets, strings and numbers: JSON, TOML, ONNX text, logs.  Numbers, strings and
// whole brackets are replaced, taken away, copied and moved.
std::string MutateText(std::string text, size_t most, Random& random);

// A .pt2 archive, of which one member is changed as text.  What is no archive: its bytes changed.
std::string MutateArchive(const std::string& bytes, size_t most, Random& random);

// A pickle, of which opcodes are replaced, taken away, copied and moved, with all that belongs to
// each, and numbers and texts set.
std::string MutatePickle(const std::string& bytes, size_t most, Random& random);

}  // namespace onnxfit::fuzz
