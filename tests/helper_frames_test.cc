#include "estimator/locals/helper_frames.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

namespace onnxfit::helper_frames_test {
namespace {

// "name: operator until call; " of the names in a line that makes `ops`, one after the other.
std::string Names(const char* line, const std::vector<const char*>& ops,
                  std::string_view file = {}) {
  Program program;
  program.values.resize(ops.size() + 1);
  for (const char* op : ops) {
    const auto made = static_cast<NameId>(program.calls.size() + 1);
    program.calls.push_back({.op = op, .where = op, .inputs = {made - 1}, .outputs = {made}});
  }
  const Statement statement = {.first = 0,
                               .last = static_cast<int64_t>(ops.size()) - 1,
                               .source = program.source.Read(3, line, file)};
  std::string text;
  for (const KnownName& known : FindHelperNames(program, ModuleRuns(program), statement).locals) {
    text += known.name + ": " + ops[static_cast<size_t>(known.value) - 1] + " until " +
            std::to_string(known.until) + "; ";
  }
  return text;
}

const std::vector<const char*> kExperts = {
    "sort", "index",       "index",       "to",          "histc",       "cumsum",
    "ge",   "masked_fill", "linear",      "_grouped_mm", "masked_fill", "silu",
    "mul",  "_grouped_mm", "masked_fill", "mul",         "index",       "sum"};

}  // namespace

TEST_CASE("names of a function whose text is known hold what its calls make") {
  const std::string names = Names("return experts_forward(self, *args, **kwargs)", kExperts);
  CHECK(names.find("selected_hidden_states_g: index until 17; ") != std::string::npos);
  // Bound anew by the next product.
  CHECK(names.find("proj_out: masked_fill until 12; ") != std::string::npos);
  CHECK(names.find("proj_out: mul until 13; ") != std::string::npos);
  CHECK(names.find("proj_out: masked_fill until 17; ") != std::string::npos);
}

// Two turns of the loop over positions.
const std::vector<const char*> kScan = {
    "add",    "softplus", "mul", "exp", "mul",    "mul", "constant", "mul", "add", "to",
    "matmul", "mul",      "add", "to",  "matmul", "cat", "add",      "mul", "sum"};

TEST_CASE("a line of a text may be missing where nothing reads what it makes") {
  const auto names = [](bool has_last) {
    Program program;
    const auto add = [&](const char* op, const std::string& module = "") {
      const auto made = static_cast<NameId>(program.calls.size() + 1);
      const ModuleId outer = program.modules.Enter({"m"});
      program.calls.push_back(
          {.op = op,
           .where = op,
           .inputs = {made - 1},
           .outputs = {made},
           .module = module.empty() ? outer : program.modules.Enter(outer, "m." + module)});
    };
    for (const char* stage : {"1", "2", "3", "4"}) {
      add("convolution", std::string("patch_embed") + stage);
      add("cat");
      add("add", std::string("serial_blocks") + stage + ".0");
      if (has_last || std::string(stage) != "4") add("contiguous");
    }
    add("layer_norm", "norm4");
    const auto last = static_cast<int64_t>(program.calls.size()) - 1;
    program.values.resize(program.calls.size() + 1);
    const Statement statement = {.first = 0,
                                 .last = last,
                                 .source = program.source.Read(3, "x = self.forward_features(x)"),
                                 .level = 1};
    return FindHelperNames(program, ModuleRuns(program), statement).locals.size();
  };
  CHECK(names(true) == 17);
  CHECK(names(false) == 16);
}

// With segment_sum around what is multiplied first, and around what chunks decay by.
const std::vector<const char*> kChunks = {"add",
                                          "softplus",
                                          "clamp",
                                          "repeat_interleave",
                                          "repeat_interleave",
                                          "pad",
                                          "mul",
                                          "mul",
                                          "mul",
                                          "pad",
                                          "pad",
                                          "pad",
                                          "pad",
                                          "cumsum",
                                          "tril",
                                          "neg",
                                          "masked_fill",
                                          "cumsum",
                                          "tril",
                                          "neg",
                                          "masked_fill",
                                          "exp",
                                          "sum",
                                          "sum",
                                          "sum",
                                          "exp",
                                          "mul",
                                          "sum",
                                          "bernoulli",
                                          "cat",
                                          "pad",
                                          "tril",
                                          "masked_fill",
                                          "cumsum",
                                          "tril",
                                          "masked_fill",
                                          "exp",
                                          "sum",
                                          "exp",
                                          "mul",
                                          "mul",
                                          "add",
                                          "add"};

TEST_CASE("a scan by chunks holds its names, a comprehension what it goes over") {
  const std::string names = Names("scan_result = mamba2_chunk_scan(", kChunks);
  CHECK(names.find("dt: clamp until 42; ") != std::string::npos);
  CHECK(names.find("hidden_states: mul until 12; ") != std::string::npos);
  CHECK(names.find("B: repeat_interleave until 12; ") != std::string::npos);
  CHECK(names.find("padded_B: pad until 42; ") != std::string::npos);
  CHECK(names.find("mask: tril until 20; ") != std::string::npos);
  CHECK(names.find("tensor_segsum: masked_fill until 21; ") != std::string::npos);
  CHECK(names.find("states: cat until 37; ") != std::string::npos);
}

TEST_CASE("of another function, or where calls of the text are missing, nothing is known") {
  CHECK(Names("return forward(self)", kExperts).empty());
  CHECK(Names("return experts_forward(self)", {"sort", "index", "sum"}).empty());
}

TEST_CASE("a cast that did nothing, and zeros that are a number, are found without their calls") {
  const std::string names =
      Names("return self.processor(self, hidden_states)",
            {"linear", "linear", "linear", "cat", "convolution", "convolution", "cat", "relu",
             "relu", "pad", "matmul", "matmul", "div", "linear"});
  CHECK(names.find("value: linear until 6; ") != std::string::npos);
  CHECK(names.find("value: cat until 13; ") != std::string::npos);
  CHECK(names.find("scaled: matmul until 12; ") != std::string::npos);
  CHECK(Names("x, w = self._attn(query, key, value, attention_mask)",
              {"constant", "baddbmm", "add", "softmax", "matmul"})
            .find("attn_scores: constant until 4; ") != std::string::npos);
  CHECK(Names("x, w = self._attn(query, key, value, attention_mask)",
              {"constant", "baddbmm", "softmax", "matmul"})
            .empty());
}

TEST_CASE("what a dropout makes of weights takes their name") {
  Program program;
  const ModuleId attention = program.modules.Enter({"m"});
  for (const char* op : {"constant", "baddbmm", "add", "softmax", "dropout", "to", "matmul"}) {
    const auto made = static_cast<NameId>(program.calls.size() + 1);
    program.calls.push_back(
        {.op = op, .where = op, .inputs = {made - 1}, .outputs = {made}, .module = attention});
  }
  program.calls[4].module = program.modules.Enter(attention, "m.attention_dropout");
  program.values.resize(8);
  const StatementId source =
      program.source.Read(3, "x, w = self._attn(query, key, value, attention_mask)");
  const Statement statement = {.first = 0, .last = 6, .source = source, .level = 1};
  const auto locals = FindHelperNames(program, ModuleRuns(program), statement).locals;
  const auto weights = std::ranges::find(locals, 4, &KnownName::value);
  REQUIRE(weights != locals.end());
  CHECK(weights->until == 4);
}

TEST_CASE("halves of queries that rotate have names of their own") {
  const std::string names =
      Names("query_layer, key_layer = self.apply_rotary_position_embeddings(",
            {"cat", "cat", "cat", "mul", "mul", "add", "cat", "mul", "mul", "add"});
  CHECK(names.find("rotate_half_query_layer: cat until 9; ") != std::string::npos);
  CHECK(names.find("rotate_half_key_layer: cat until 9; ") != std::string::npos);
}

TEST_CASE("masks of transformers have names while they are made") {
  CHECK(Names("causal_mask = self._update_causal_mask(",
              {"constant", "tril", "mul_", "clone", "add", "eq", "masked_fill", "eq", "all",
               "mul"}) == "padding_mask: add until 5; padding_mask: eq until 6; ");
  CHECK(Names("encoder_mask = self.invert_attention_mask(mask)",
              {"view", "to", "neg", "mul.Scalar"}) ==
        "encoder_extended_attention_mask: to until 3; "
        "encoder_extended_attention_mask: mul.Scalar until 3; ");
  // A cast to the type that the mask has comes before that of what is given.
  CHECK(Names("attention_mask = _prepare_4d_causal_attention_mask_for_sdpa(",
              {"constant", "masked_fill", "to", "to", "neg", "to", "masked_fill", "to",
               "masked_fill", "eq"}) ==
        "causal_4d_mask: constant until 2; expanded_mask: to until 6; inverted_mask: neg until 6; "
        "causal_4d_mask: to until 8; expanded_attn_mask: masked_fill until 8; "
        "expanded_attn_mask: masked_fill until 9; ");
  CHECK(Names("loss = self.loss_function(", {"pad", "contiguous", "_log_softmax", "nll_loss"}) ==
        "labels: pad until 3; ");
}

TEST_CASE("logits in fp32 and those without the last token are held until the loss is there") {
  const char* line = "loss = self.loss_function(";
  const std::vector<const char*> shifted = {"slice",      "contiguous",   "slice",
                                            "contiguous", "_log_softmax", "nll_loss"};
  CHECK(Names(line, shifted) ==
        "shift_labels: contiguous until 5; shift_logits: contiguous until 5; ");
  std::vector<const char*> in_16_bits = {"to"};
  in_16_bits.insert(in_16_bits.end(), shifted.begin(), shifted.end());
  CHECK(Names(line, in_16_bits) ==
        "logits: to until 6; shift_labels: contiguous until 6; "
        "shift_logits: contiguous until 6; ");
}

TEST_CASE("a method's names hold what it computes beside a module") {
  const std::string names = Names("embeddings = self.project_per_layer_inputs(x, y)",
                                  {"linear", "mul.Scalar", "add", "mul.Scalar"});
  CHECK(names.empty());  // its norm does not run
}

}  // namespace onnxfit::helper_frames_test
