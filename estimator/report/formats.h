// What formats of a report leave to who asks.
#pragma once

#include <cstddef>
#include <string>

namespace onnxfit {

// Pages for people: plain text and Markdown.
struct TextOptions {
  size_t rows = 8;       // of the largest tensors
  bool ascii = false;    // no letter beyond ASCII
  bool color = false;    // bars and the codes of warnings
  bool verbose = false;  // adds details and notes
  bool quiet = false;    // the first line alone
};

// Reports for programs.
struct JsonOptions {
  std::string version;  // of onnxfit
  size_t rows = 8;      // of the largest tensors, and of those of --why
};

// Tables for programs.
struct CsvOptions {
  bool ascii = false;  // no letter beyond ASCII
  size_t rows = 8;     // of the tensors of --why
};

}  // namespace onnxfit
