// What shells complete, and the page of the manual: both made of the flags.
#pragma once

#include <string>
#include <string_view>

namespace onnxfit {

// A script for "bash", "zsh" or "fish": commands, flags of the command that was typed, values of
// flags that have a list, cards, files.  "man": a page for man(1), in roff.  "" for another name.
std::string CompletionFor(std::string_view shell);

}  // namespace onnxfit
