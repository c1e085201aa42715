#include "estimator/onnx/loader.h"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <unistd.h>

#include <chrono>
#include <fstream>
#include <random>
#include <string>
#include <vector>

#include "estimator/base/bytes.h"
#include "estimator/base/error.h"
#include "estimator/base/text.h"
#include "estimator/onnx/tensor_contents.h"
#include "tests/onnx_bytes.h"
#include "tests/temp_folder.h"

namespace onnxfit::loader_test {
namespace {

constexpr uint64_t kFloat = 1;
constexpr uint64_t kUint8 = 2;
constexpr uint64_t kInt64 = 7;
constexpr uint64_t kBool = 9;

// What loading `path` says is wrong, without the path.
std::string ErrorOf(const std::string& path) {
  try {
    LoadGraph(path);
  } catch (const Error& error) {
    const std::string what = error.what();
    CHECK(what.starts_with(path + ": "));
    return what.substr(path.size() + 2);
  }
  return "no error";
}

std::string Zeros(int64_t count) { return std::string(static_cast<size_t>(count), '\0'); }

std::string RawData(int64_t size) { return bytes::Bytes(9, Zeros(size)); }

TEST_CASE("files that are no models are named for what they are") {
  struct Row {
    const char* name;
    std::string bytes;
    const char* error;
  };
  const char* kExport = " (try: export it: torch.onnx.export(model, args, 'model.onnx'))";
  const Row rows[] = {
      {"empty", "", "an ONNX file was expected, the file is empty"},
      {"text", "hello, world\n",
       "an ONNX model was expected, found text (try: an .onnx file; ONNX's text form needs the "
       "ending .onnxtxt)"},
      {"lfs", "version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 102\n",
       "an ONNX model was expected, found a Git LFS pointer, the model itself is not here (try: "
       "git lfs pull)"},
      {"page", "<!DOCTYPE html><html>404</html>",
       "an ONNX model was expected, found a web page, so the download went wrong (try: download it "
       "again)"},
      {"keras", "\x89HDF\r\n\x1a\n",
       "an ONNX model was expected, found HDF5, as Keras writes (try: "
       "an ONNX export of the same model)"},
      {"tflite", std::string("\x1c\0\0\0TFL3", 8),
       "an ONNX model was expected, found a TensorFlow Lite model (try: an ONNX export of the same "
       "model)"},
      {"zeros", Zeros(100), "an ONNX model was expected, found zeros (try: copy it again)"},
  };
  const TempFolder folder;
  for (const Row& row : rows) {
    CAPTURE(row.name);
    CHECK(ErrorOf(folder.Write(row.name, row.bytes)) == row.error);
  }
  CHECK(ErrorOf(folder.Write("model.pt", "PK\x03\x04...")) ==
        std::string("an ONNX model was expected, found a zip archive, as torch.save and numpy "
                    "write") +
            kExport);
  CHECK(ErrorOf(folder.Write("model.safetensors", Zeros(8) + "{\"w\":")) ==
        std::string("an ONNX model was expected, found safetensors: weights without a graph") +
            kExport);
}

TEST_CASE("paths that cannot be read say why") {
  const TempFolder folder;
  const std::string model = folder.Write("resnet50.onnx", bytes::Relu());
  CHECK(ErrorOf(folder.Path("resnet5.onnx")) ==
        "an ONNX file was expected, there is no such file (try: " + model + ")");
  CHECK(ErrorOf(folder.Path("none/of.these")) ==
        "an ONNX file was expected, there is no such file (try: python -m onnxfit export "
        "MODULE:FUNCTION, which writes one from Python: docs/python.md)");
  CHECK(ErrorOf(folder.Path("")) == "an ONNX file was expected, found a directory");
  CHECK(ErrorOf("/dev/null") == "an ONNX file was expected, found a device");
  CHECK(ErrorOf(model + "/x") == "cannot be opened: Not a directory");
  if (geteuid() != 0) {
    std::filesystem::permissions(model, std::filesystem::perms::none);
    CHECK(ErrorOf(model) == "cannot be opened: Permission denied");
  }
}

TEST_CASE("bytes that are no model are refused with their place") {
  const std::string hint = " (try: copy or export it again, it is damaged or cut off)";
  const std::string other = " (try: copy or export it again, it is damaged or no ONNX model)";
  const std::string too_deep = [] {
    std::string graph = bytes::Node("Relu", {"x"}, {"y"});
    for (int i = 0; i < 1000; ++i) graph = bytes::Bytes(1, bytes::Bytes(5, bytes::Bytes(6, graph)));
    return graph;
  }();
  struct Row {
    const char* name;
    std::string bytes;
    std::string error;
  };
  const Row rows[] = {
      {"only a version", bytes::Number(1, 8), "a model with a graph was expected, found none"},
      {"a group", "\x0b\x0c",
       "byte 0: a field of ModelProto was expected, found wire type 3" + hint},
      {"the end of one", "\x0c\x01",
       "byte 0: a field of ModelProto was expected, found wire type 4" + hint},
      {"wire type 6", "\x0e",
       "byte 0: a field of ModelProto was expected, found wire type 6" + hint},
      {"wire type 7", "\x0f",
       "byte 0: a field of ModelProto was expected, found wire type 7" + hint},
      {"field 0", std::string("\x02\0", 2),
       "byte 0: a field of ModelProto was expected, found number 0" + hint},
      {"an endless number", "\x08" + std::string(11, '\xff'),
       "byte 1: a number of ModelProto was expected, found one of more than 10 bytes" + hint},
      {"a number cut off", "\x08\xff", "byte 1: ModelProto ends in the middle of a number" + hint},
      {"beyond the end", bytes::Number(1, 8) + bytes::Head(7, 5000) + "\x0a",
       "byte 2: field 7 of ModelProto should have 5000 bytes, 1 are left" + hint},
      {"one beyond the end", bytes::Head(7, 2) + "\x0a",
       "byte 0: field 7 of ModelProto should have 2 bytes, 1 are left" + hint},
      {"2^63 bytes", bytes::Head(7, uint64_t{1} << 63) + "\x0a",
       "byte 0: field 7 of ModelProto should have 9223372036854775808 bytes, 1 are left" + hint},
      {"beyond the message", bytes::Model(bytes::Head(1, 99) + "\x0a"),
       "byte 4: field 1 of GraphProto should have 99 bytes, 1 are left" + hint},
      {"a number for a graph", bytes::Number(7, 1) + bytes::Number(1, 8),
       "byte 0: ModelProto.graph: a message was expected, found a number" + other},
      {"a name that is no text", bytes::Model(bytes::Bytes(2, "\xc3(")),
       "byte 4: GraphProto.name: a name in UTF-8 was expected, found other bytes"},
      {"nested too deep", bytes::Model(too_deep),
       "byte 302: at most 100 messages inside one another were expected, found more"},
      {"no operator",
       bytes::Model(bytes::Node("", {"x"}, {"y"}) + bytes::Input("x") + bytes::Output("y")),
       "node ' #0': an operator was expected, found none"},
      {"a negative dimension of an input",
       bytes::Model(bytes::Node("Relu", {"x"}, {"y"}) + bytes::Input("x", {2, -3}) +
                    bytes::Output("y")),
       "input 'x': dimensions of 0 or more were expected, found -3 (try: export it again, with a "
       "name for a free dimension)"},
      {"a negative dimension of an initializer",
       bytes::Relu(bytes::Initializer("w", bytes::Tensor(kFloat, {2, -3}))),
       "initializer 'w': dimensions of 0 or more were expected, found -3"},
      {"more than 63 bits",
       bytes::Relu(bytes::Initializer("w", bytes::Tensor(kFloat, {1 << 30, 1 << 30, 8}))),
       "initializer 'w': a size of at most 2^63 - 1 bytes was expected, found float32[1073741824, "
       "1073741824, 8]"},
      {"an unknown element type", bytes::Relu(bytes::Initializer("w", bytes::Tensor(99, {2}))),
       "initializer 'w': an element type from 1 to 28 was expected, found 99"},
      {"contents of another size",
       bytes::Relu(bytes::Initializer("w", bytes::Tensor(kFloat, {2}, RawData(5)))),
       "initializer 'w': float32[2] has 8 bytes, found 5"},
      {"an initializer without a name", bytes::Relu(bytes::Initializer("", bytes::Tensor(1, {2}))),
       "initializer '': a name was expected, found none"},
  };
  const TempFolder folder;
  for (const Row& row : rows) {
    CAPTURE(row.name);
    CHECK(ErrorOf(folder.Write("m.onnx", row.bytes)) == row.error);
  }
}

// A file of `head`, `gap` zeros and `tail`, of which the zeros take no room.
std::string WriteSparse(const std::string& path, const std::string& head, int64_t gap,
                        const std::string& tail) {
  std::ofstream file(path, std::ios::binary);
  file << head;
  file.seekp(gap, std::ios::cur);
  file << tail;
  return path;
}

TEST_CASE("100 MB where a number or a name belongs are not read") {
  constexpr int64_t kLong = 100 * kMiB;
  struct Row {
    uint32_t field;
    const char* error;
  };
  const Row rows[] = {
      {1,
       "byte 2: ModelProto.ir_version: a number was expected, found a string of 104857600 bytes "
       "(try: copy or export it again, it is damaged or no ONNX model)"},
      {2,
       "byte 2: ModelProto.producer_name: a name of at most 65536 bytes was expected, found one of "
       "104857600: '????????????????????????????????????????…'"},
  };
  const TempFolder folder;
  for (const Row& row : rows) {
    CAPTURE(row.field);
    const std::string path =
        WriteSparse(folder.Path("long.onnx"),
                    bytes::Number(5, 1) + bytes::Head(row.field, static_cast<uint64_t>(kLong)),
                    kLong, bytes::Relu());
    const auto start = std::chrono::steady_clock::now();
    CHECK(ErrorOf(path) == row.error);
    CHECK(std::chrono::steady_clock::now() - start < std::chrono::seconds(1));
  }
}

TEST_CASE("UTF-8 is told from other bytes") {
  for (const char* text : {"", "conv1", "a name that is long", "é", "名前", "\xf0\x9f\x99\x82"}) {
    CAPTURE(text);
    CHECK(IsUtf8(text));
  }
  // Latin-1, cut off, too long a form, a surrogate, above U+10FFFF, a lone continuation.
  for (const char* text : {"caf\xe9", "\xe5\x90", "\xc0\x80", "\xed\xa0\x80", "\xf4\x90\x80\x80",
                           "\x80", "twelve bytes \xff"}) {
    CAPTURE(text);
    CHECK_FALSE(IsUtf8(text));
  }
}

TEST_CASE("files of too many small things are refused before they take memory") {
  const TempFolder folder;
  std::string nodes;
  for (int i = 0; i < 3'000'000; ++i) nodes += bytes::Bytes(1, "");
  const std::string error = ErrorOf(folder.Write("m.onnx", bytes::Model(nodes)));
  CHECK(error.ends_with("at most 2097152 messages were expected, found more"));
}

TEST_CASE("contents are kept by size and type; all around them stays to the byte") {
  const LoadOptions options{.keep_bytes = 16, .keep_integer_bytes = 64};
  struct Row {
    const char* name;
    std::string tensor;
    std::string left;  // of it
  };
  const auto packed = [](uint32_t field, int64_t size) { return bytes::Bytes(field, Zeros(size)); };
  const auto row = [&](const char* name, uint64_t type, int64_t numel, const std::string& contents,
                       bool kept) {
    return Row{name, bytes::Tensor(type, {numel}, contents),
               bytes::Tensor(type, {numel}, kept ? contents : "")};
  };
  std::string unpacked;
  for (int i = 0; i < 10; ++i) unpacked += bytes::Number(7, 1);
  const Row rows[] = {
      row("16 bytes of floats", kFloat, 4, RawData(16), true),
      row("20 bytes of floats", kFloat, 5, RawData(20), false),
      row("16 bytes of float_data", kFloat, 4, packed(4, 16), true),
      row("20 bytes of float_data", kFloat, 5, packed(4, 20), false),
      row("24 bytes of double_data", 11, 3, packed(10, 24), false),
      row("64 bytes of int64", kInt64, 8, RawData(64), true),
      row("72 bytes of int64", kInt64, 9, RawData(72), false),
      row("65 bools", kBool, 65, RawData(65), false),
      row("64 bools", kBool, 64, RawData(64), true),
      row("65 bools as int32_data", kBool, 65, packed(5, 65), false),
      row("65 uint64_data", 13, 65, packed(11, 65), false),
      row("20 bytes of strings", 8, 2, packed(6, 10) + packed(6, 10), false),
      row("int64_data one by one", kInt64, 10, unpacked, true),
      {"contents before their type", RawData(20) + bytes::Tensor(kFloat, {5}),
       bytes::Tensor(kFloat, {5})},
  };
  for (const Row& r : rows) {
    // In an initializer, an attribute, a body, a function, a sparse tensor; all at once.
    const auto model = [](const std::string& tensor) {
      const auto attribute = [](uint32_t field, const std::string& value) {
        return bytes::Bytes(5, bytes::Bytes(1, "value") + bytes::Bytes(field, value));
      };
      const std::string constant = bytes::Node("Constant", {}, {"c"}, attribute(5, tensor));
      const std::string body = constant + bytes::Initializer("b", tensor) + bytes::Output("c");
      return bytes::Model(constant + bytes::Node("If", {"x"}, {"y"}, attribute(6, body)) +
                          bytes::Initializer("w", tensor) + bytes::Output("y") +
                          bytes::Bytes(15, bytes::Bytes(1, tensor) + bytes::Bytes(2, tensor))) +
             bytes::Bytes(25, bytes::Bytes(1, "F") + bytes::Bytes(7, constant.substr(2)));
    };
    CAPTURE(r.name);
    const std::string whole = model(r.tensor);
    const Shortened shortened = ShortenModel(whole, options);
    CHECK(shortened.copy.has_value() == (r.tensor != r.left));
    CHECK(shortened.copy.value_or(whole) == model(r.left));
  }
}

TEST_CASE("fields that onnx.proto does not have, and overlong texts, are left out") {
  const std::string doc = bytes::Bytes(6, std::string(17 << 20, 'd'));
  const std::string model = bytes::Relu();
  const Shortened shortened =
      ShortenModel(model + bytes::Number(99, 1) + doc + bytes::Bytes(98, "new"), {});
  CHECK(shortened.copy == model);
  CHECK(shortened.cut_texts == 1);
}

TEST_CASE("a model has the same graph with and without its contents") {
  const TempFolder folder;
  const std::string path = folder.Write(
      "m.onnx", bytes::Relu(bytes::Initializer("w", bytes::Tensor(kUint8, {3000}, RawData(3000)))));
  const std::string expected = "input x\ninitializer w uint8[3000]\ny = Relu(x)\noutput y\n";
  CHECK(ToString(LoadGraph(path)) == expected);
  CHECK(ToString(LoadGraph(path, {.keep_bytes = 0, .keep_integer_bytes = 0})) == expected);
}

TEST_CASE("a model of 3 GiB loads without its weights being read") {
  constexpr int64_t kBytes = 3 * kGiB;
  const std::string tensor = bytes::Bytes(8, "w") + bytes::Tensor(kFloat, {768, kMiB}) +
                             bytes::Head(9, static_cast<uint64_t>(kBytes));
  const std::string head = bytes::Head(5, tensor.size() + static_cast<uint64_t>(kBytes)) + tensor;
  const std::string tail =
      bytes::Node("Add", {"x", "w"}, {"y"}) + bytes::Input("x", {1}) + bytes::Output("y");
  const uint64_t graph = head.size() + static_cast<uint64_t>(kBytes) + tail.size();
  const TempFolder folder;
  const std::string path =
      WriteSparse(folder.Path("big.onnx"), bytes::Number(1, 8) + bytes::Head(7, graph) + head,
                  kBytes, tail + bytes::Bytes(8, bytes::Number(2, 17)));
  CHECK(std::filesystem::file_size(path) > static_cast<uint64_t>(kBytes));
  CHECK(ToString(LoadGraph(path)) ==
        "input x\ninitializer w float32[768, 1048576]\ny = Add(x, w)\noutput y\n");
}

TEST_CASE("external data is read for small integer tensors alone, and may be missing") {
  const auto external = [](const char* name, uint64_t type, int64_t numel, const char* location,
                           const char* offset, const char* length = "") {
    const auto entry = [](std::string_view key, std::string_view value) {
      return bytes::Bytes(13, bytes::Bytes(1, key) + bytes::Bytes(2, value));
    };
    return bytes::Initializer(name,
                              bytes::Tensor(type, {numel},
                                            entry("location", location) + entry("offset", offset) +
                                                (*length == 0 ? "" : entry("length", length))) +
                                  bytes::Number(14, 1));
  };
  struct Row {
    const char* name;
    std::string initializer;
    const char* type;
    const char* note;
  };
  const Row rows[] = {
      {"weights, missing", external("w", kFloat, 8, "weights.bin", "0"), "float32[8] external",
       "external data 'weights.bin' is not there; nothing in it was needed"},
      {"integers, missing", external("w", kInt64, 2, "weights.bin", "0"), "int64[2] external",
       "external data 'weights.bin' is not there; small integer tensors in it may be needed for "
       "shapes"},
      {"weights", external("w", kFloat, 8, "here.bin", "0"), "float32[8] external",
       "external data 'here.bin' holds nothing that shapes need"},
      {"integers", external("w", kInt64, 2, "here.bin", "16"), "int64[2]",
       "external data 'here.bin' was opened for its small integer tensors"},
      {"integers beyond the end", external("w", kInt64, 2, "here.bin", "17"), "int64[2] external",
       "external data 'here.bin' does not hold all the small integer tensors that it should"},
      {"of that length", external("w", kInt64, 2, "here.bin", "16", "16"), "int64[2]",
       "external data 'here.bin' was opened for its small integer tensors"},
      {"of another length", external("w", kInt64, 2, "here.bin", "0", "24"), "int64[2] external",
       "external data 'here.bin' does not hold all the small integer tensors that it should"},
      {"a bad offset", external("w", kInt64, 2, "here.bin", "-x"), "int64[2] external",
       "external data 'here.bin' does not hold all the small integer tensors that it should"},
      {"a path that leads out", external("w", kInt64, 2, "../here.bin", "0"), "int64[2] external",
       "external data '../here.bin' was not opened: its path leads out of the model's folder"},
      {"an absolute path", external("w", kInt64, 2, "/etc/passwd", "0"), "int64[2] external",
       "external data '/etc/passwd' was not opened: its path leads out of the model's folder"},
  };
  const TempFolder folder;
  folder.Write("here.bin", Zeros(32));
  for (const Row& row : rows) {
    CAPTURE(row.name);
    const Graph graph = LoadGraph(folder.Write("m.onnx", bytes::Relu(row.initializer)));
    CHECK(ToString(graph) ==
          "input x\ninitializer w " + std::string(row.type) + "\ny = Relu(x)\noutput y\n");
    REQUIRE(graph.notes.size() == 1);
    CHECK(graph.notes[0] == row.note);
  }
}

// Points standard input to `file` for as long as it lives.
class StandardInput {
 public:
  explicit StandardInput(int file) : saved_(dup(STDIN_FILENO)) { dup2(file, STDIN_FILENO); }
  ~StandardInput() {
    dup2(saved_, STDIN_FILENO);
    close(saved_);
  }
  StandardInput(const StandardInput&) = delete;
  StandardInput& operator=(const StandardInput&) = delete;

 private:
  int saved_;
};

TEST_CASE("standard input may be a pipe or a file") {
  const std::string model = bytes::Relu();
  int ends[2];
  REQUIRE(pipe(ends) == 0);
  REQUIRE(write(ends[1], model.data(), model.size()) == static_cast<ssize_t>(model.size()));
  close(ends[1]);
  const TempFolder folder;
  const int file = open(folder.Write("m.onnx", model).c_str(), O_RDONLY);
  for (const int input : {ends[0], file}) {
    const StandardInput redirected(input);
    const Graph graph = LoadGraph("-");
    CHECK(graph.path == "<stdin>");
    CHECK(ToString(graph) == "input x\ny = Relu(x)\noutput y\n");
  }
  close(ends[0]);
  close(file);
}

TEST_CASE("text files are told by their ending") {
  const TempFolder folder;
  const std::string text = "g (float[2] x) => (float[2] y) { y = Relu(x) }";
  CHECK(ToString(LoadGraph(folder.Write("m.onnxtxt", text))) == "input x\ny = Relu(x)\noutput y\n");
  CHECK(ErrorOf(folder.Write("bad.onnxtxt", "g (float[2] x) = y")) ==
        "line 1, column 17: Expected character > not found, in: g (float[2] x) = y");
}

// A small model with a bit of everything.
std::string Mixture() {
  const auto entry = [](uint32_t field) {
    return bytes::Bytes(field, bytes::Bytes(1, "key") + bytes::Bytes(2, "value"));
  };
  const std::string body = bytes::Node("Neg", {"x"}, {"o"}) + bytes::Output("o");
  const auto branch = [&](const char* name) {
    return bytes::Bytes(5, bytes::Bytes(1, name) + bytes::Bytes(6, body) + bytes::Number(20, 5));
  };
  const std::string call = bytes::Bytes(7, "local") + entry(9);
  const std::string function = bytes::Bytes(1, "F") + bytes::Bytes(4, "a") + bytes::Bytes(5, "b") +
                               bytes::Bytes(7, bytes::Node("Relu", {"a"}, {"b"}).substr(2)) +
                               bytes::Bytes(9, bytes::Number(2, 17)) + bytes::Bytes(10, "local");
  return bytes::Model(
             bytes::Node("F", {"x"}, {"h"}, call) +
             bytes::Node("If", {"c"}, {"i"}, branch("then_branch") + branch("else_branch")) +
             bytes::Node("Add", {"h", "w"}, {"y"}) +
             bytes::Initializer("w", bytes::Tensor(kFloat, {4}, RawData(16))) +
             bytes::Initializer("c", bytes::Tensor(kBool, {}, RawData(1))) +
             bytes::Input("x", {4}) + bytes::Output("y") + entry(16)) +
         bytes::Bytes(8, bytes::Bytes(1, "local") + bytes::Number(2, 1)) +
         bytes::Bytes(25, function);
}

// True where `model` loads, false where it is refused with an Error.
bool Loads(const TempFolder& folder, const std::string& model) {
  try {
    const Graph graph = LoadGraph(folder.Write("m.onnx", model));
    CHECK(!graph.nodes.empty());
    return true;
  } catch (const Error& error) {
    CHECK(!error.parts().text.empty());
    return false;
  }
}

TEST_CASE("a model cut off at any byte is refused, or whole without its end") {
  const TempFolder folder;
  const std::string model = Mixture();
  REQUIRE(Loads(folder, model));
  int loaded = 0;
  for (size_t size = 0; size < model.size(); ++size) {
    CAPTURE(size);
    loaded += Loads(folder, model.substr(0, size)) ? 1 : 0;
  }
  CHECK(loaded == 2);  // before the opset of the functions, and before the functions
}

TEST_CASE("a damaged model is refused or loads, and nothing else happens") {
  const TempFolder folder;
  const std::string model = Mixture();
  std::mt19937 random(1);
  const auto below = [&random](size_t limit) { return random() % limit; };
  for (int round = 0; round < 4000; ++round) {
    CAPTURE(round);
    std::string damaged = model;
    for (size_t change = 0; change <= below(4); ++change) {
      const size_t at = below(damaged.size());
      switch (below(4)) {
        case 0:
          damaged[at] = static_cast<char>(random());
          break;
        case 1:
          damaged[at] = static_cast<char>(damaged[at] ^ (1 << below(8)));
          break;
        case 2:
          damaged.erase(at, 1 + below(8));
          break;
        default:
          damaged.insert(at, damaged.substr(below(damaged.size()), below(16)));
      }
      if (damaged.empty()) break;
    }
    Loads(folder, damaged);
  }
}

}  // namespace
}  // namespace onnxfit::loader_test
