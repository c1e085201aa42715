// Which calls of a Program an ATen call of a .pt2 is: a row of a table each.  Internal to the
// room pt2/.
#pragma once

#include <span>
#include <string_view>

#include "estimator/pt2/call_writer.h"

namespace onnxfit::pt2 {

// Of the operators of ATen: "torch.ops.aten.conv2d.default".
inline constexpr std::string_view kAtenNamespace = "torch.ops.aten.";

struct CallRow {
  std::string_view target;  // "conv2d.default", of the namespace aten
  std::string_view op;      // a row of the operator table (operators/op_rule.h)
  void (*write)(CallWriter&, const Call&, std::string_view op);
};

// The rows by family, one file each.
std::span<const CallRow> LayerRows();        // layer_rows.cc
std::span<const CallRow> LossRows();         // loss_rows.cc
std::span<const CallRow> ElementwiseRows();  // elementwise_rows.cc
std::span<const CallRow> ReductionRows();    // reduction_rows.cc
std::span<const CallRow> MovementRows();     // movement_rows.cc
std::span<const CallRow> ViewRows();         // view_rows.cc
std::span<const CallRow> IndexingRows();     // indexing_rows.cc
std::span<const CallRow> MakingRows();       // making_rows.cc
std::span<const CallRow> FourierRows();      // fourier_rows.cc

// --- What rows of several families do ---

// The first argument is the tensor, and what else there is are settings.
void WriteUnary(CallWriter& writer, const Call& call, std::string_view op);
// Every tensor is an operand.
void WriteAll(CallWriter& writer, const Call& call, std::string_view op);
// A tensor that is made from numbers alone.
void WriteConstant(CallWriter& writer, const Call& call, std::string_view op);
// The result is the first argument: nothing runs.
void ReturnFirst(CallWriter& writer, const Call& call, std::string_view op);
// Several results.
void WriteParts(CallWriter& writer, const Call& call, std::string_view op);

// A copy of a view by the view's name: the view of `permute_copy`, then a clone.
void WriteCopyOfView(CallWriter& writer, const Call& call, std::string_view op);

// x.float(), by Call::method.
constexpr std::string_view kToFloat = "float";

// Whether the code spells float32 ("x.to(torch.float32)", "x.float()"), whatever the run's type is:
// the file has numbers for both.
bool SpellsFloat32(const Call& call);
// Whether that line shows no type at all: a helper's, of whose lines the file has none.
bool HidesTypes(const Call& call);
// x of "softmax(y, dtype=x.dtype)" and "torch.rand(size, dtype=x.dtype)" under autocast, which the
// file has in fp32; kNoName of others, and where it is not known.
NameId GiverUnderAutocast(const CallWriter& writer, const Call& call);

// The row of a call, which may be that of its twin out of place ("relu" for "relu_"), or null.
// O(1).
const CallRow* FindCallRow(std::string_view target);
// The row of the view that a call copies ("permute" for "permute_copy"), or null.  O(1).
const CallRow* ViewOfCopy(std::string_view target);

// Whether a call allocates nothing on the device: asserts, sizes.
bool RunsOnHost(std::string_view target);

// "relu_.default" writes over its first argument.
bool WritesInPlace(std::string_view target);

// Attention, without masks that torch.export alone makes (attention_calls.cc).
void WriteAttention(CallWriter& writer, const Call& call, std::string_view op);

// --- Calls that run as several (composite_calls.cc) ----------------------------

// torch.einsum (program/einsum.h).
void WriteEinsum(CallWriter& writer, const Call& call, std::string_view op);

// Products of each element with each: of views, by mul.
// Source: outer and kron of aten/src/ATen/native/LinearAlgebra.cpp, pytorch v2.11.0.
void WriteOuter(CallWriter& writer, const Call& call, std::string_view op);
void WriteKron(CallWriter& writer, const Call& call, std::string_view op);

// A product of matrices, of which both are made first: permute, reshape, mm, view.
// Source: tensordot of aten/src/ATen/native/Linear.cpp, pytorch v2.11.0.
void WriteTensordot(CallWriter& writer, const Call& call, std::string_view op);

// torch.nn.functional.bilinear: of rows, and the sum with its bias.
// Source: bilinear of the same file.
void WriteBilinear(CallWriter& writer, const Call& call, std::string_view op);

// One call of `op` ("lstm", "gru", "rnn") for all layers of a module (program/recurrent_layers.h).
void WriteRecurrent(CallWriter& writer, const Call& call, std::string_view op);

}  // namespace onnxfit::pt2
