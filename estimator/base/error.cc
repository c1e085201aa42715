#include "estimator/base/error.h"

#include <utility>

namespace onnxfit {
namespace {

std::string Join(const Error::Parts& parts) {
  std::string message;
  if (!parts.file.empty()) message += parts.file + ": ";
  if (!parts.where.empty()) message += parts.where + ": ";
  message += parts.text;
  if (!parts.hint.empty()) message += " (try: " + parts.hint + ")";
  return message;
}

}  // namespace

Error::Error(Parts parts) : std::runtime_error(Join(parts)), parts_(std::move(parts)) {}

}  // namespace onnxfit
