#include <doctest/doctest.h>
#include <fmt/format.h>

#include <string>

#include "tests/trace_helpers.h"

namespace onnxfit::device_integers_test {
namespace {

std::string Lowered(const std::string& body) {
  const PreparedRun built = Build(R"(net (int64[B, 24] ids) => (float[B, 24, 4] y)
      < float[32, 4] "m.wpe.weight" = ["location": "none"],
        float[32, 4] "m.wte.weight" = ["location": "none"] > {
      zero = Constant <value = int64 {0}> () one = Constant <value = int64 {1}> ()
      e = Gather ("m.wte.weight", ids) s = Shape <start = 1, end = 2> (ids)
      n = Squeeze (s) )" + body + " y = Add (e, p) }",
                                  {.mode = Mode::kEval}, {.batch = 2});
  std::string text;
  for (const ModuleTensor& buffer : built.roles.buffers) text += buffer.name + " ";
  return text + ToString(built.program);
}

constexpr char kTokens[] = "\n%e = embedding(%m.wte.weight, %ids)  # Gather #2\n";
constexpr char kSum[] = "%y = add(%e, %p)  # Add #";

TEST_CASE("position ids are made on the device, sizes are not") {
  CHECK(Lowered("r = Range (zero, n, one) [p] p = Gather (\"m.wpe.weight\", r)")
            .starts_with(std::string(kTokens) +
                         "%r = constant()  # Range #5\n"
                         "%p = embedding(%m.wpe.weight, %r)  # p\n" +
                         kSum));
  CHECK(Lowered("r = Range (zero, n, one) t = Add (r, one) u = Unsqueeze (t, zero) "
                "[p] p = Gather (\"m.wpe.weight\", u)")
            .starts_with(std::string(kTokens) +
                         "%r = constant()  # Range #5\n%t = add.Scalar(%r)  # Add #6\n"
                         "%u = view(%t)  # Unsqueeze #7\n"
                         "%p = embedding(%m.wpe.weight, %u)  # p\n" +
                         kSum));
}

// torch.cumsum(torch.ones(n), 0).long() - 1 of OPT.
TEST_CASE("position ids that are summed up are made on the device") {
  CHECK(Lowered("s1 = Unsqueeze (n, zero) o = ConstantOfShape <value = float[1] {1.0}> (s1) "
                "c = CumSum (o, zero) t = Cast <to = 7> (c) [p] p = Gather (\"m.wpe.weight\", t)")
            .starts_with(std::string(kTokens) +
                         "%o = constant()  # ConstantOfShape #6\n"
                         "%c = cumsum(%o)  # CumSum #7\n"
                         "%t = to(%c)  # Cast #8\n"
                         "%p = embedding(%m.wpe.weight, %t)  # p\n" +
                         kSum));
}

TEST_CASE("a mask that was floats is made on the device") {
  const PreparedRun built = Build(R"(net (float[B, 4] x) => (float[B, 4] y) {
      one = Constant <value = float {1}> () four = Constant <value = int64[1] {4}> ()
      low = Constant <value = float {-9}> ()
      b = Shape <start = 0, end = 1> (x) s = Concat <axis = 0> (b, four)
      ones = Expand (one, s) shown = Cast <to = 9> (ones) hidden = Not (shown)
      y = Where (hidden, low, x) })",
                                  {.mode = Mode::kEval}, {.batch = 2});
  CHECK(ToString(built.program) ==
        "\n%one = constant()  # Expand #5\n"
        "%ones = expand(%one)  # Expand #5\n"
        "%shown = to(%ones)  # Cast #6\n"
        "%hidden = logical_not(%shown)  # Not #7\n"
        "%y = masked_fill(%x, %hidden)  # Where #8\n");
}

TEST_CASE("position ids that torch.export has computed are made on the device") {
  const auto lowered = [](const std::string& name) {
    const PreparedRun built = Build(R"(net (int64[B, 2] ids) => (float[B, 2, 4] y)
        < float[32, 4] "m.wpe.weight" = ["location": "none"], int64[2] )" +
                                        name +
                                        R"( = {0, 1}, int64 two = {2} > {
        t = Add ()" + name + R"(, two) p = Gather ("m.wpe.weight", t) y = Relu (p) })",
                                    {.mode = Mode::kEval}, {.batch = 2});
    return ToString(built.program);
  };
  CHECK(lowered("arange_1") ==
        "\n%arange_1 = constant()  # Add #0\n"
        "%t = add.Scalar(%arange_1)  # Add #0\n"
        "%p = embedding(%m.wpe.weight, %t)  # Gather #1\n"
        "%y = relu(%p)  # Relu #2\n");
  CHECK(
      lowered("add_1").starts_with("\n%add_1.arange = constant()  # Add #0\n"
                                   "%add_1.position_ids = add.Scalar(%add_1.arange)  # Add #0\n"
                                   "%add_1 = add.Scalar(%add_1.position_ids)  # Add #0\n"));
  CHECK(lowered("val_1").starts_with("\n%t = constant()  # Gather #1\n"));
}

TEST_CASE("position ids that are a buffer are a constant to TorchScript's exporter") {
  const std::string ids = "{0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23,24,25}";
  CHECK(Lowered("b = Constant <value = int64[1, 26] " + ids +
                "> () s0 = Constant <value = int64[1] {0}> () "
                "ax = Constant <value = int64[1] {1}> () [\"/m/Slice\"] c = Slice (b, s0, s, ax) "
                "[p] p = Gather (\"m.wpe.weight\", c)")
            .starts_with("m.buffer_0 " + std::string(kTokens) +
                         "%c = slice(%m.buffer_0)  # /m/Slice\n"
                         "%p = embedding(%m.wpe.weight, %c)  # p\n" +
                         kSum));
}

TEST_CASE("layers that read one layer's buffer have equal ones") {
  const auto buffers = [](const std::string& reader) {
    const PreparedRun built = Build(R"(net (float[2, 2] x) => (float[2, 2] y)
        < float[2, 2] "h.0.attn.mask" = ["location": "none"] > {
        ["/h.0/attn/Add"] a = Add (x, "h.0.attn.mask") ["/h.0/Cast"] c = Cast <to = 1> ("h.0.attn.mask")
        [")" + reader + R"("] y = Add (a, c) })",
                                    {.mode = Mode::kEval});
    std::string names;
    for (const ModuleTensor& buffer : built.roles.buffers) names += buffer.name + " ";
    return names;
  };
  CHECK(buffers("/h.1/attn/Add") == "h.0.attn.mask h.1.attn.mask ");
  CHECK(buffers("/h.0/attn/Add") == "h.0.attn.mask ");
  CHECK(buffers("/g.1/attn/Add") == "h.0.attn.mask ");
  CHECK(buffers("/h.1/Add") == "h.0.attn.mask ");  // which is passed the mask: it has no "attn"
}

TEST_CASE("frequencies of a step that the run is given are no buffer") {
  const auto buffers = [](const std::string& second) {
    const PreparedRun built = Build(R"(net (float[2, 1] t) => (float[2, 17] y) {
        f = Constant <value = float[1, 17] {1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17}> ()
        ["/e/Mul"] m = Mul (t, f) ["/e/Sin"] a = Sin (m) ["/e/)" +
                                        second + R"("] b = )" + second + R"( (m) y = Add (a, b) })",
                                    {.mode = Mode::kEval});
    return built.roles.buffers.size();
  };
  CHECK(buffers("Cos") == 0);
  CHECK(buffers("Exp") == 1);
}

TEST_CASE("where transformers' embeddings show one buffer of ids there is another") {
  const auto buffers = [](const std::string& table) {
    const std::string ids = "{0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23}";
    const PreparedRun built =
        Build(R"(net (float[24, 4] x) => (float[24, 4] y)
        < float[24, 4] "m.position_embeddings.weight" = ["location": "none"],
          float[24, 4] "m.)" +
                  table +
                  R"(.weight" = ["location": "none"], int64[1] shape = {-1} > {
        b = Constant <value = int64[1, 24] )" +
                  ids + R"(> () ["/m/Reshape"] r = Reshape (b, shape)
        ["/m/a/Gather"] p = Gather ("m.position_embeddings.weight", r)
        ["/m/b/Gather"] t = Gather ("m.)" +
                  table + R"(.weight", r) s = Add (p, t) y = Add (s, x) })",
              {});
    std::string names;
    for (const ModuleTensor& buffer : built.roles.buffers) names += buffer.name + " ";
    return names;
  };
  CHECK(buffers("token_type_embeddings") == "m.buffer_0 m.position_ids ");
  CHECK(buffers("other") == "m.buffer_0 ");
}

TEST_CASE("there is another one, too, where the file has the name of the types") {
  const PreparedRun built = Build(R"(net (float[1, 4, 2] x, int64[1, 4] at) => (float[1, 4, 2] y)
      < float[4, 2] "m.position_embeddings.weight" = ["location": "none"],
        float[4, 2] "m.token_type_embeddings.weight" = ["location": "none"],
        int64[1, 4] "m.token_type_ids" = {0, 0, 0, 0} > {
      ["/m/a/Gather"] p = Gather ("m.position_embeddings.weight", at)
      ["/m/GatherElements"] i = GatherElements <axis = 1> ("m.token_type_ids", at)
      ["/m/b/Gather"] t = Gather ("m.token_type_embeddings.weight", i)
      s = Add (p, t) y = Add (s, x) })",
                                  {});
  std::string names;
  for (const ModuleTensor& buffer : built.roles.buffers) names += buffer.name + " ";
  CHECK(names == "m.token_type_ids m.position_ids ");
}

TEST_CASE("what the model slices of the types is a buffer of its embeddings") {
  const std::string ids = "{0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23}";
  const auto buffers = [&](const std::string& reader) {
    const PreparedRun built =
        Build(R"(net (float[24, 4] x) => (float[24, 4] y)
        < float[24, 4] "m.embeddings.position_embeddings.weight" = ["location": "none"],
          float[24, 4] "m.embeddings.token_type_embeddings.weight" = ["location": "none"],
          int64[1] shape = {-1} > {
        b = Constant <value = int64[1, 24] )" +
                  ids + R"(> () ["/m/embeddings/Reshape"] r = Reshape (b, shape)
        c = Constant <value = int64[1, 24] )" +
                  ids + R"(> () [")" + reader + R"("] q = Reshape (c, shape)
        ["/m/embeddings/a/Gather"] p = Gather ("m.embeddings.position_embeddings.weight", r)
        ["/m/embeddings/b/Gather"] t = Gather ("m.embeddings.token_type_embeddings.weight", q)
        s = Add (p, t) y = Add (s, x) })",
              {});
    std::string names;
    for (const ModuleTensor& buffer : built.roles.buffers) names += buffer.name + " ";
    return names;
  };
  CHECK(buffers("/m/Reshape") == "m.buffer_1 m.embeddings.buffer_0 ");
  CHECK(buffers("/other/Reshape") ==
        "m.embeddings.buffer_0 m.embeddings.position_ids other.buffer_1 ");
}

constexpr std::string_view kFrequencies = "value = float[1, 4, 1] {1.0, 0.1, 0.01, 0.001}";

TEST_CASE("frequencies of a rotary embedding are a buffer, of which it has a clone") {
  const auto buffers = [](const std::string& module) {
    const PreparedRun built = Build(fmt::format(R"(net (float[N, 4, 4] x) => (float[N, 4, 4] y)
        < float[4, 4] "m.w" = ["location": "none"], int64[3] shape = {{1, 4, 4}} > {{
        f = Constant <{}> () ["/m/{}/Expand"] e = Expand (f, shape)
        ["/m/{}/Mul"] p = Mul (x, e) ["/m/MatMul"] y = MatMul (p, "m.w") }})",
                                                kFrequencies, module, module),
                                    {});
    std::string names;
    for (const ModuleTensor& buffer : built.roles.buffers) names += buffer.name + " ";
    return names;
  };
  CHECK(buffers("rotary_emb") == "m.rotary_emb.buffer_0 m.rotary_emb.original_buffer_0 ");
  CHECK(buffers("scale") == "");
}

TEST_CASE("equal frequencies and positions of two modules are a buffer of each") {
  const PreparedRun built = Build(fmt::format(R"(net (float[N, 4, 4] x) => (float[N, 4, 4] y)
      < float[4, 4] "m.w" = ["location": "none"], int64[3] shape = {{1, 4, 4}} > {{
      f = Constant <{}> () ["/m/a/rotary_emb/Expand"] e = Expand (f, shape)
      ["/m/b/rotary_emb/Expand"] g = Expand (f, shape) ["/m/Mul"] p = Mul (x, e)
      ["/m/Add"] q = Add (p, g) ["/m/MatMul"] y = MatMul (q, "m.w") }})",
                                              kFrequencies),
                                  {});
  std::string names;
  for (const ModuleTensor& buffer : built.roles.buffers) names += buffer.name + " ";
  CHECK(names ==
        "m.a.rotary_emb.buffer_0 m.a.rotary_emb.original_buffer_0 m.b.rotary_emb.buffer_0 "
        "m.b.rotary_emb.original_buffer_0 ");
}

TEST_CASE("rotary embeddings of a list's layers are merged, and of other modules like theirs") {
  const auto buffers = [](const std::string& other) {
    const PreparedRun built = Build(fmt::format(R"(net (float[N, 4, 4] x) => (float[N, 4, 4] y)
        < float[4, 4] "m.w" = ["location": "none"], int64[3] shape = {{1, 4, 4}} > {{
        f = Constant <{}> () ["/m/layers.0/attn/rotary_emb/Expand"] e = Expand (f, shape)
        ["/m/layers.0/attn/q/Mul"] p = Mul (x, e) ["/m/{}/attn/q/Mul"] q = Mul (p, e)
        ["/m/MatMul"] y = MatMul (q, "m.w") }})",
                                                kFrequencies, other),
                                    {});
    std::string names;
    for (const ModuleTensor& buffer : built.roles.buffers) names += buffer.name + " ";
    return names;
  };
  const std::string own =
      "m.layers.0.attn.rotary_emb.buffer_0 m.layers.0.attn.rotary_emb.original_buffer_0 ";
  CHECK(buffers("layers.1") == own +
                                   "m.layers.1.attn.rotary_emb.buffer_0 "
                                   "m.layers.1.attn.rotary_emb.original_buffer_0 ");
  CHECK(buffers("cross.0") == own +
                                  "m.cross.0.attn.rotary_emb.buffer_0 "
                                  "m.cross.0.attn.rotary_emb.original_buffer_0 ");
  CHECK(buffers("cross") == own);
}

TEST_CASE("coordinates of which a module's frequencies make sines are counted each time") {
  const auto buffers = [](const std::string& second) {
    const std::string numbers =
        "value = float[2, 5, 2] {1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20}";
    const PreparedRun built = Build(fmt::format(R"(net (float[N, 5, 4] x) => (float[2, 5, 4] y)
        < float[2, 4] "m.w" = ["location": "none"] > {{
        g = Constant <{}> () two = Constant <value = float {{2.0}}> ()
        ["/m/MatMul"] p = MatMul (g, "m.w") ["/m/Mul"] q = Mul (p, two)
        ["/m/Sin"] s = Sin (q) ["/m/{}"] c = {} (q) ["/m/Add"] y = Add (s, c) }})",
                                                numbers, second, second),
                                    {});
    std::string names;
    for (const ModuleTensor& buffer : built.roles.buffers) names += buffer.name + " ";
    return names;
  };
  CHECK(buffers("Cos") == "");
  CHECK(buffers("Abs") == "m.buffer_0 ");
}

TEST_CASE("offsets into a table are a buffer of the module that adds them") {
  const auto buffers = [](const std::string& table) {
    const PreparedRun built = Build(fmt::format(R"(net (int64[N, 3] ids) => (float[N, 3, 4] y)
        < float[24, 4] "m.table" = ["location": "none"] > {{
        f = Constant <value = int64[3] {{0, 8, 16}}> () ["/m/embeddings/Add"] i = Add (ids, f)
        ["/m/embeddings/{}/Gather"] e = Gather ("m.table", i) ["/m/Relu"] y = Relu (e) }})",
                                                table),
                                    {});
    std::string names;
    for (const ModuleTensor& buffer : built.roles.buffers) names += buffer.name + " ";
    return names;
  };
  CHECK(buffers("embed") == "m.embeddings.buffer_0 ");
  CHECK(buffers("other") == "");
}

TEST_CASE("a mask of which a file has a slice is as large as a table of positions") {
  const auto buffers = [](const std::string& attention) {
    const PreparedRun built = Build(fmt::format(R"(net (float[N, 3, 4] x) => (float[N, 3, 4] y)
        < float[24, 4] "m.position_embeds_layer.weight" = ["location": "none"],
          int64[3] ids = {{0, 1, 2}} > {{
        ["/m/position_embeds_layer/Gather"] p = Gather ("m.position_embeds_layer.weight", ids)
        ["/m/Add"] a = Add (x, p) ["/m/layers.0/{}/Relu"] y = Relu (a) }})",
                                                attention),
                                    {});
    std::string names;
    for (const ModuleTensor& buffer : built.roles.buffers) {
      names += fmt::format("{} {} ", buffer.name, Numel(buffer.type.dims));
    }
    return names;
  };
  CHECK(buffers("attn") == "ids 3 m.layers.0.attn.bias 576 ");
  CHECK(buffers("mlp") == "ids 3 ");
}

// dim_t of positions in two dimensions, which both read: two constants.
TEST_CASE("what a forward computes of numbers is not a buffer") {
  const auto buffers = [](const std::string& other) {
    const std::string row =
        "value = float[20] {1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20}";
    const PreparedRun built = Build(fmt::format(R"(net (float[N, 20] x) => (float[N, 20] y)
        < float[20, 20] "m.w" = ["location": "none"] > {{
        a = Constant <{}> () b = Constant <{}> () ["/m/Div"] p = Div (x, a)
        ["/{}/Div"] q = Div (p, b) ["/m/MatMul"] y = MatMul (q, "m.w") }})",
                                                row, row, other),
                                    {});
    std::string names;
    for (const ModuleTensor& buffer : built.roles.buffers) names += buffer.name + " ";
    return names;
  };
  CHECK(buffers("m") == "");
  CHECK(buffers("n") == "m.buffer_0 n.buffer_1 ");
}

TEST_CASE("what the outermost module has is told from what the exporter computed") {
  const auto tensors = [](const std::string& node) {
    const PreparedRun built = Build(R"(net (float[N, 4] x, int64[N, 3] i) => (float[N, 3, 4] y)
        < float[9, 4] "m.w" = ["location": "none"], int64[3] offsets = {0, 3, 6},
          float[1] bias = {0.5} > {
        [")" + node + R"("] j = Add (i, offsets) e = Gather ("m.w", j) y = Add (e, bias) })",
                                    {});
    std::string names;
    for (const auto* list : {&built.roles.parameters, &built.roles.buffers}) {
      for (const ModuleTensor& tensor : *list) names += tensor.name + " ";
    }
    return names;
  };
  CHECK(tensors("/Add") == "bias m.w offsets ");
  CHECK(tensors("Add_1") == "m.w ");
}

// relative_position_index of windowed attention: equal constants are one, and a name is a buffer's.
TEST_CASE("what takes rows of a module's own table is a buffer of that module") {
  const auto buffers = [](const std::string& index) {
    const std::string numbers = "{0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19}";
    const PreparedRun built =
        Build(R"(net (float[20, 4] x) => (float[20, 4] y)
        < float[24, 4] "a.table" = ["location": "none"],
          float[24, 4] "b.table" = ["location": "none"],
          int64[20] "a.index" = )" +
                  numbers + R"(, int64[1] shape = {-1} > {
        c = Constant <value = int64[20] )" +
                  numbers + R"(> () ["/a/Reshape"] r = Reshape ("a.index", shape)
        ["/a/Gather"] p = Gather ("a.table", )" +
                  index + R"() ["/b/Gather"] q = Gather ("b.table", c)
        s = Add (p, q) y = Add (s, x) })",
              {});
    std::string names;
    for (const ModuleTensor& buffer : built.roles.buffers) names += buffer.name + " ";
    return names;
  };
  CHECK(buffers("c") == "buffer_0 a.index buffer_0.copy_1 ");
  CHECK(buffers("r") == "buffer_0 a.index ");
}

// One token is decoded: its position is a number, and still on the device.
TEST_CASE("a single position is made on the device") {
  const PreparedRun built = Build(R"(net (float[N, 4] x) => (float[N, 4] y) {
      zero = Constant <value = int64 {0}> () one = Constant <value = int64 {1}> ()
      r = Range (zero, one, one) [to] f = Cast <to = 1> (r) y = Mul (x, f) })",
                                  {.mode = Mode::kEval});
  CHECK(ToString(built.program) ==
        "\n%r = constant()  # Range #2\n%f = to(%r)  # to\n%y = mul(%x, %f)  # Mul #4\n");
}

// pos = torch.arange(n) is a line of the caller's, who may have passed the call itself.
TEST_CASE("what the caller passed is made in its forward") {
  const auto maker = [](const std::string& line) {
    Graph graph = ParseGraph(R"(net (float[N, 4] x) => (float[2, 4] p)
      < float[32, 4] "m.wpe.weight" = ["location": "none"], int64[2] arange = {0, 1} > {
        p = Gather ("m.wpe.weight", arange) })");
    const std::string frames =
        "File \"net.py\", line 7, in forward\n  " + line +
        "\nFile \"sparse.py\", line 9, in forward\n  return F.embedding(input)\n";
    graph.nodes[0].metadata.emplace_back("pkg.torch.onnx.stack_trace", frames);
    graph.nodes[0].metadata.emplace_back("pkg.torch.onnx.name_scopes", "['', 'm.wpe', 'gather']");
    const PreparedRun built = Build(graph, {.mode = Mode::kEval});
    const AtenCall& call = built.program.calls[0];
    const SourceStatement& made_in = built.program.source.At(call.frames.back());
    const std::string made =
        made_in.is_put_back ? fmt::format("{} = …", made_in.targets[0]) : made_in.text;
    return fmt::format("{} in {} modules: {}", call.op, built.program.modules.DepthOf(call.module),
                       made);
  };
  CHECK(maker("x = e + self.wpe(pos)") == "constant in 1 modules: pos = …");
  CHECK(maker("x = e + self.wpe(torch.arange(n))") ==
        "constant in 2 modules: return F.embedding(input)");
}

// F.one_hot(x) of a module's forward, which has run before: no argument of the caller's.
TEST_CASE("what a running module counts is made in its own forward") {
  Graph graph = ParseGraph(R"(net (float[N, 4] x) => (float[N, 4] y)
      < int64[4] arange = {0, 1, 2, 3} > { h = Neg (x) i = ArgMax (h) y = Equal (i, arange) })");
  const std::string frames =
      "File \"net.py\", line 3, in forward\n  return self.m(x)\n"
      "File \"net.py\", line 9, in forward\n  return F.one_hot(x, 4)\n";
  for (Node& node : graph.nodes) {
    node.metadata.emplace_back("pkg.torch.onnx.stack_trace", frames);
    node.metadata.emplace_back("pkg.torch.onnx.name_scopes", "['', 'm', 'node']");
  }
  const Program program = Build(graph, {.mode = Mode::kEval}).program;
  CHECK(program.calls[2].op == "constant");
  CHECK(program.modules.DepthOf(program.calls[2].module) == 2);
}

}  // namespace
}  // namespace onnxfit::device_integers_test
