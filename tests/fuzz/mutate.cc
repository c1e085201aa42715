#include "tests/fuzz/mutate.h"

#include <algorithm>
#include <iterator>
#include <limits>

// libFuzzer's own, or that of blind_main.cc.
extern "C" size_t LLVMFuzzerMutate(uint8_t* data, size_t size, size_t most);

namespace onnxfit::fuzz {
namespace {

constexpr int64_t kNumbers[] = {0,
                                1,
                                2,
                                3,
                                4,
                                5,
                                7,
                                8,
                                9,
                                10,
                                11,
                                12,
                                16,
                                17,
                                23,
                                63,
                                64,
                                65,
                                127,
                                128,
                                255,
                                256,
                                1023,
                                1024,
                                65535,
                                65536,
                                (1 << 20) + 1,
                                std::numeric_limits<int32_t>::max(),
                                int64_t{1} << 31,
                                int64_t{1} << 32,
                                (int64_t{1} << 40) - 1,
                                int64_t{1} << 46,
                                int64_t{1} << 62,
                                std::numeric_limits<int64_t>::max(),
                                std::numeric_limits<int64_t>::min(),
                                std::numeric_limits<int32_t>::min(),
                                -1,
                                -2,
                                -3,
                                -4,
                                -64,
                                -65};

constexpr std::string_view kTexts[] = {
    // what nobody expects
    "", " ", ".", "/", "//", "a/", "\n", "\xff", "\xc3\x28", "%s", "{}", "[", "0", "-1", "1e999",
    "nan", "N", "1+s0", "(s0*s1)//2",
    // ONNX
    "Add", "Cast", "Concat", "Constant", "ConstantOfShape", "Conv", "Dropout", "Einsum", "Expand",
    "Flatten", "Gather", "GatherND", "Gemm", "If", "LSTM", "LayerNormalization", "Loop", "MatMul",
    "Pad", "Range", "ReduceMean", "Reshape", "Resize", "Scan", "ScatterND", "SequenceAt", "Shape",
    "Slice", "Softmax", "Split", "Squeeze", "Transpose", "Unsqueeze", "Where", "com.microsoft",
    "ai.onnx.ml", "Attention", "MultiHeadAttention", "SkipLayerNormalization", "FusedConv",
    "QuickGelu", "DequantizeLinear",
    // attributes
    "axes", "axis", "body", "equation", "group", "keepdims", "kernel_shape", "pads", "perm",
    "split", "strides", "then_branch", "to", "value",
    // what torch.onnx says of nodes
    "pkg.torch.onnx.class_hierarchy", "pkg.torch.onnx.fx_node", "pkg.torch.onnx.name_scopes",
    "pkg.torch.onnx.stack_trace", "namespace", "['', 'model.layer', 'linear']",
    "['torch.nn.modules.linear.Linear', 'aten.linear.default']",
    "%linear : [num_users=1] = call_function[target=torch.ops.aten.relu.default](args = (%x,))",
    "File \"model.py\", line 1, in forward\n    x = self.relu(x)", "aten.dropout.default",
    "aten.scaled_dot_product_attention.default", "/model/layer/MatMul_output_0", "onnx::MatMul_12",
    "model.layer.weight", "model.layer.bias", "running_mean",
    // what programs call things
    "as_tensor", "as_tensors", "as_ints", "as_sym_int", "as_none", "as_graph", "as_bool",
    "torch.ops.aten.add.Tensor", "torch.ops.aten.view.default", "torch.ops.higher_order.cond",
    // configurations, reports
    "batch", "precision", "budget", "defaults", "[[check]]", "model", "dims", "places", "checks",
    "version", "error", "null", "true", "GiB", "8GiB", "50% of t4", "amp-bf16", "8:64:8",
    // logs
    "CUDA out of memory. Tried to allocate ", "GiB (GPU 0; ", "[rank1]: ", "total capacity",
    "MiB is free"};

}  // namespace

int64_t OddNumber(int64_t now, Random& random) {
  if (OneIn(3, random)) {
    const auto shift = static_cast<uint64_t>(Below(5, random)) - 2;
    return static_cast<int64_t>(static_cast<uint64_t>(now) + shift);
  }
  return kNumbers[Below(std::size(kNumbers), random)];
}

std::string OddText(Random& random) {
  std::string text(kTexts[Below(std::size(kTexts), random)]);
  if (OneIn(20, random)) text.append(Below(300, random), 'x');
  return text;
}

std::string MutateBytes(std::string bytes, size_t most) {
  const size_t size = std::min(bytes.size(), most);
  bytes.resize(most);
  bytes.resize(LLVMFuzzerMutate(reinterpret_cast<uint8_t*>(bytes.data()), size, most));
  return bytes;
}

}  // namespace onnxfit::fuzz
