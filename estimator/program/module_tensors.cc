#include "estimator/program/module_tensors.h"

#include "estimator/base/bytes.h"

namespace onnxfit {
namespace {

int64_t SumBytes(const std::vector<ModuleTensor>& tensors) {
  int64_t bytes = 0;
  for (const ModuleTensor& tensor : tensors) bytes = CheckedAdd(bytes, BytesOf(tensor.type));
  return bytes;
}

}  // namespace

int64_t ModuleTensors::ParameterCount() const {
  int64_t count = 0;
  for (const ModuleTensor& tensor : parameters) count = CheckedAdd(count, Numel(tensor.type.dims));
  return count;
}

int64_t ModuleTensors::ParameterBytes() const { return SumBytes(parameters); }
int64_t ModuleTensors::BufferBytes() const { return SumBytes(buffers); }

}  // namespace onnxfit
