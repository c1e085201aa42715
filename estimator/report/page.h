// What the parts of a text report share.  Internal to the room report/.
#pragma once

#include <algorithm>
#include <string>
#include <string_view>

#include "estimator/report/layout.h"
#include "estimator/report/text.h"

namespace onnxfit {

// An estimate and how it is to be shown.
struct Page {
  const Estimate& estimate;
  const TextOptions& options;
  const Glyphs& glyphs;

  std::string Shown(std::string_view text) const { return Clean(text, options.ascii); }
  std::string Cut(std::string_view text, size_t columns) const {
    return CutMiddle(Shown(text), columns, glyphs.ellipsis);
  }
  std::string_view Paint(std::string_view color) const { return options.color ? color : ""; }
};

// The marks that `options` ask for.
inline const Glyphs& GlyphsOf(const TextOptions& options) {
  return options.ascii ? kAsciiGlyphs : kUnicodeGlyphs;
}

// "optimizer state" of "optimizer_state".
inline std::string WithSpaces(std::string_view kind) {
  std::string text(kind);
  std::replace(text.begin(), text.end(), '_', ' ');
  return text;
}

}  // namespace onnxfit
