// What torch 2.11 allocates for F.scaled_dot_product_attention, on a card of compute capability
// 8.0 with 108 multiprocessors, beside q, k and v: forward, then backward, in bytes and in order.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "estimator/base/index.h"
#include "estimator/operators/dispatch.h"
#include "estimator/operators/strides.h"
#include "estimator/training/training.h"
#include "tests/trace_helpers.h"

namespace onnxfit::attention_kernels_test {
namespace {

struct Case {
  const char* name;
  DType dtype;
  int64_t heads, key_heads, rows, head_size;
  bool drops, is_causal;
  DType mask;  // kUndefined: none
  const char* forward;
  const char* backward;
};

// q, k and v as [2, H, S, D] that lie as [2, S, H, D], of parameters of that shape.
NameId AddOperand(Program& program, const char* name, const Case& row, int64_t heads) {
  const Dims dims = {2, row.rows, heads, row.head_size};
  program.values.push_back({name, {{row.dtype, dims}, {}}});
  const auto parameter = static_cast<NameId>(program.values.size() - 1);
  program.parameters.push_back(parameter);
  program.placement.push_back(parameter);
  program.values.push_back({name, {{row.dtype, {2, heads, row.rows, row.head_size}}, {}}});
  program.calls.push_back({.op = "permute",
                           .where = "view",
                           .inputs = {parameter},
                           .outputs = {parameter + 1},
                           .ints = {0, 2, 1, 3}});
  return parameter + 1;
}

// The loss as the kernels lay y out, so that the gradient of y lies as y does.
void SeeAsLaidOut(Program& program, const Case& row) {
  const bool heads_first = std::string_view(row.name).starts_with("the math path");
  const std::vector<int64_t> order =
      heads_first ? std::vector<int64_t>{0, 1, 2, 3} : std::vector<int64_t>{0, 2, 1, 3};
  StridedType type = program.values[Index(program.loss)].type;
  type.dims = Permuted(type.dims, order);
  program.values.push_back({"z", type});
  program.calls.push_back({.op = "permute",
                           .where = "view",
                           .inputs = {program.loss},
                           .outputs = {program.loss + 1},
                           .ints = order});
  ++program.loss;
}

Program AttentionProgram(const Case& row) {
  Program program;
  std::vector<NameId> inputs = {AddOperand(program, "q", row, row.heads),
                                AddOperand(program, "k", row, row.key_heads),
                                AddOperand(program, "v", row, row.key_heads), kNoName};
  if (row.mask != DType::kUndefined) {
    program.values.push_back({"mask", {{row.mask, {2, 1, row.rows, row.rows}}, {}}});
    inputs[3] = static_cast<NameId>(program.values.size() - 1);
    program.inputs.push_back(inputs[3]);
  }
  program.values.push_back({"y", {{row.dtype, {2, row.heads, row.rows, row.head_size}}, {}}});
  program.loss = static_cast<NameId>(program.values.size() - 1);
  program.calls.push_back({.op = "scaled_dot_product_attention",
                           .where = "sdpa",
                           .inputs = inputs,
                           .outputs = {program.loss},
                           .ints = {row.drops ? 1 : 0, row.is_causal ? 1 : 0}});
  SeeAsLaidOut(program, row);
  return program;
}

// Of a product, which says nothing of attention.
bool IsCublas(const Trace& trace, const Event& event) {
  return event.kind == Kind::kWorkspace &&
         trace.labels[Index(trace.buffers[Index(event.id)].label)].starts_with("cuBLAS");
}

// Sizes of what is allocated in `phase` at the attention, the gradient of y and cuBLAS's
// workspaces aside.
std::string Sizes(const Trace& trace, Phase phase) {
  std::string text;
  Phase now = Phase::kSetup;
  bool is_attention = false;
  for (const Event& event : trace.events) {
    if (event.type == Event::Type::kPhase) now = event.phase;
    if (event.type == Event::Type::kAt) is_attention = trace.labels[Index(event.id)] == "sdpa";
    if (event.type != Event::Type::kAlloc || now != phase || !is_attention) continue;
    if (IsCublas(trace, event) || event.kind == Kind::kInput) continue;
    text += fmt::format("{} ", trace.buffers[Index(event.id)].bytes);
  }
  return text;
}

void Check(const Case& row, const TrainingSettings& settings) {
  const Trace trace = RunTraining(Dispatch(AttentionProgram(row), settings), settings);
  CHECK(Sizes(trace, Phase::kForward) == row.forward);
  CHECK(Sizes(trace, Phase::kBackward) == row.backward);
}

constexpr DType kNone = DType::kUndefined;
constexpr DType kFp32 = DType::kFloat32;
constexpr DType kBf16 = DType::kBFloat16;

TEST_CASE("what attention allocates beside its operands") {
  const Case rows[] = {
      {"memory-efficient", kFp32, 4, 4, 197, 64, false, false, kNone, "403456 7168 ",
       "403456 403456 403456 403456 6304 6304 524800 "},
      {"memory-efficient, head size 80", kFp32, 4, 4, 197, 80, false, false, kNone, "504320 7168 ",
       "504320 504320 504320 504320 6304 6304 1049088 "},
      {"flash", kBf16, 4, 4, 197, 64, false, false, kNone, "201728 6304 16 8 ",
       "201728 201728 201728 8192 524288 "},
      {"flash that splits keys", kBf16, 4, 4, 197, 72, false, false, kNone,
       "226944 6304 12608 1210368 16 8 ", "226944 226944 226944 8192 786432 "},
      {"flash with dropout", kBf16, 4, 4, 128, 64, true, false, kNone, "131072 4096 16 8 16 ",
       "131072 131072 131072 4096 262144 "},
      {"flash of grouped heads", kBf16, 8, 2, 128, 64, false, true, kNone, "262144 8192 16 8 ",
       "262144 65536 65536 8192 524288 262144 262144 "},
      {"a mask of bools", kFp32, 4, 4, 128, 64, false, false, DType::kBool,
       "4 4 131072 262144 4096 ", "262144 262144 262144 262144 4096 4096 262400 "},
      {"a mask whose rows are padded", kBf16, 4, 4, 197, 64, false, false, DType::kBool,
       "2 2 155236 157600 201728 7168 ", "201728 201728 201728 6304 524800 "},
      {"16 bits beyond registers", kBf16, 4, 4, 197, 160, false, false, kBf16,
       "157600 504320 7168 1008640 ", "504320 504320 504320 6304 5767936 "},
      {"the math path, a head size of 30", kFp32, 4, 4, 128, 30, false, false, kNone,
       "122880 122880 122880 122880 524288 524288 131072 1024 4 122880 122880 ",
       "122880 524288 524288 524288 122880 122880 122880 122880 "},
      {"the math path of grouped heads", kFp32, 8, 2, 128, 64, false, false, kNone,
       "524288 524288 524288 524288 524288 1048576 1048576 262144 2048 4 524288 ",
       "524288 1048576 1048576 1048576 524288 524288 524288 131072 131072 524288 "},
  };
  for (const Case& row : rows) {
    CAPTURE(row.name);
    Check(row, {.optimizer = Optimizer::kNone, .steps = 1});
  }
}

// "attn = at::dropout (attn, dropout_p, true)"
TEST_CASE("the math path drops out of probabilities that nobody saves, and lets go of them") {
  const Case row = {"", kFp32, 4, 4, 128, 30, true, false, kNone, "", ""};
  const TrainingSettings settings = {.mode = Mode::kEval};
  const std::string trace =
      ToString(RunTraining(Dispatch(AttentionProgram(row), settings), settings));
  CHECK(trace.find("+y.dropout:524288 -y.dropout.mask -y._safe_softmax +") != std::string::npos);
}

TEST_CASE("kernels make the gradients of q, k and v, whichever are wanted") {
  const Case rows[] = {
      {"memory-efficient", kFp32, 4, 4, 197, 64, false, false, kNone, "403456 7168 ",
       "403456 403456 403456 403456 6304 6304 524800 "},
      {"flash", kBf16, 4, 4, 197, 64, false, false, kNone, "201728 6304 16 8 ",
       "201728 201728 201728 8192 524288 "},
  };
  const TrainingSettings settings = {.optimizer = Optimizer::kNone, .steps = 1};
  for (const Case& row : rows) {
    CAPTURE(row.name);
    Program program = AttentionProgram(row);
    program.frozen = {program.parameters[1]};
    program.parameters.erase(program.parameters.begin() + 1);
    const Trace trace = RunTraining(Dispatch(std::move(program), settings), settings);
    CHECK(Sizes(trace, Phase::kBackward) == row.backward);
  }
}

// Keys of 192 take the kernel for heads of any size (recorded events of youtu).
TEST_CASE("values whose keys do not stay in registers are summed up in fp32") {
  const Case row = {"larger keys", kBf16, 4, 4, 197, 192, false, false, kNone, "", ""};
  Program program = AttentionProgram(row);
  for (size_t name = 4; name < program.values.size(); ++name) {
    program.values[name].type.dims[3] = 128;  // v, what is made of it, and the result
  }
  const TrainingSettings settings = {.precision = Precision::kBf16, .mode = Mode::kEval};
  const Trace trace = RunTraining(Dispatch(std::move(program), settings), settings);
  CHECK(Sizes(trace, Phase::kForward).find("403456 806912 ") != std::string::npos);
}

TEST_CASE("what the memory-efficient kernel allocates for grouped heads in torch 2.15") {
  const Case rows[] = {
      {"grouped", kFp32, 8, 2, 128, 64, false, false, kNone, "8 8 524288 8192 ",
       "524288 131072 131072 524288 524288 524288 8192 8192 524800 "},
      {"grouped with dropout", kFp32, 8, 2, 128, 64, true, false, kNone, "524288 8192 ",
       "524288 131072 131072 524288 524288 524288 8192 8192 524800 "},
      {"grouped with a mask", kBf16, 8, 2, 128, 64, false, false, DType::kBool,
       "2 2 65536 8 8 262144 8192 ", "262144 65536 65536 262144 262144 8192 524800 "},
  };
  for (const Case& row : rows) {
    CAPTURE(row.name);
    Check(row, {.framework = Frameworks().back(), .optimizer = Optimizer::kNone, .steps = 1});
  }
}

// Closed forms: seed, offset, the output as q, the log-sum-exp of each row; gradients as q, k
// and v; behind each of both the workspace of attention_kernels.h.
TEST_CASE("what cuDNN's attention allocates on a card of compute capability 9.0") {
  DeviceProfile card = DefaultDevice();
  card.compute_capability = 90;
  const Case rows[] = {
      {"cuDNN's", kBf16, 4, 4, 197, 64, false, false, kNone, "8 8 201728 6304 256 ",
       "201728 201728 201728 410016 "},
      {"grouped", kBf16, 8, 2, 128, 64, false, true, kNone, "8 8 262144 8192 256 ",
       "262144 65536 65536 1057024 "},
      {"a mask of bools", kBf16, 4, 4, 197, 64, false, false, DType::kBool,
       "2 2 155236 8 8 201728 6304 256 ", "201728 201728 201728 410016 "},
  };
  for (const Case& row : rows) {
    CAPTURE(row.name);
    Check(row, {.device = card, .optimizer = Optimizer::kNone, .steps = 1});
  }
}

TEST_CASE("cuDNN's attention makes the gradients that nobody wants, too") {
  DeviceProfile card = DefaultDevice();
  card.compute_capability = 90;
  const TrainingSettings settings = {.device = card, .optimizer = Optimizer::kNone, .steps = 1};
  const Case row = {
      "frozen", kBf16, 8, 2, 128, 64, false, true, kNone, "", "262144 65536 65536 1057024 "};
  for (const int frozen : {0, 1, 2}) {  // q, k or v
    CAPTURE(frozen);
    Program program = AttentionProgram(row);
    const auto name = program.parameters.begin() + frozen;
    program.inputs.push_back(*name);
    std::erase(program.placement, *name);
    program.parameters.erase(name);
    const Trace trace = RunTraining(Dispatch(std::move(program), settings), settings);
    CHECK(Sizes(trace, Phase::kBackward) == row.backward);
  }
}

// What the kernel reads is a padded copy; the mask itself is the caller's.
TEST_CASE("a mask that attention copies stays the caller's") {
  const Case row = {"padded", kBf16, 4, 4, 197, 64, false, false, kBf16, "", ""};
  const Program program = Dispatch(AttentionProgram(row), {});
  for (const AtenCall& call : program.calls) {
    for (const NameId name : call.dies) CHECK(program.values[Index(name)].name != "mask");
  }
}

// Of one head, as strides of x.permute(2, 0, 1).unsqueeze(0) are none of 8.
TEST_CASE("a mask of whole rows is padded where another stride is none of a row") {
  const Program program = Dispatch(Build(R"(n (float[2, 1, 64, 32] q) => (float[2, 1, 64, 32] y)
      < float[64, 64, 1] b = ["location": "none"] > {
      c = Constant <value = float {0.42044820762}> () front = Constant <value = int64[1] {0}> ()
      ["/P"] p = Transpose <perm = [2, 0, 1]> (b) ["/U"] u = Unsqueeze (p, front)
      qc = Mul (q, c) kt = Transpose <perm = [0, 1, 3, 2]> (q) kc = Mul (kt, c)
      s = MatMul (qc, kc) a = Add (s, u) w = Softmax (a) y = MatMul (w, q) })",
                                         {})
                                       .program,
                                   {});
  const auto is_padded = [&](const AtenCall& call) {
    return call.op == "pad" &&
           program.values[Index(call.outputs[0])].type.dims == Dims{1, 1, 64, 72};
  };
  CHECK(std::ranges::any_of(program.calls, is_padded));
}

}  // namespace
}  // namespace onnxfit::attention_kernels_test
