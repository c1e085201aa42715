// Statements of the model's source on the way to its calls: as an exporter wrote them down, or put
// together where a lost call is put back.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace onnxfit {

struct SourceStatement {
  int64_t line = 0;       // in its file, above 0; of one that was put back beside another, of that
  std::string text = {};  // "x = self.conv(x)"; "" of one that was put back
  std::string file = {};  // "net.py", where the exporter says it
  std::vector<std::string> targets = {};  // names that it binds: "x"
  bool returns = false;                   // from the forward, or a helper of it
  bool is_tail = false;                   // ").view(n)": its first line is unknown
  bool is_open = false;                   // "x = self.mask(": it goes on in lines below
  bool is_put_back = false;               // it stands before or behind the line, not in it
  // Of a graph that torch.export made of a part of the model: the body of `with torch.autocast(…)`.
  bool is_generated = false;
  // "a" and "b" of "x = a + b"; both "" where it has no such operation of two plain names, or more
  // than one.
  std::pair<std::string, std::string> operands = {};
  // "" and "b" of "x = f(a) + b": the terms of a sum of two, each "" where it is no plain name.
  std::pair<std::string, std::string> terms = {};
  // "a" and "" of "x = a * self.scale + f(b)": the terms that are a plain name times an attribute.
  std::pair<std::string, std::string> scaled_terms = {};
  // "x" of "y = x.view(shape)", of a call on a plain name that is no module of Python's; else "".
  std::string receiver = {};
  // "xs" of "y = torch.cat(xs, dim=1)" and of "xs.append(self.conv(x))": a list, by its plain name.
  std::string joins = {};
  std::string appends_to = {};
  std::string stores_in = {};  // "xs" of "xs[i] = f(x)": a dict or a list
  // "xs = [f(x) for x in ys]": the list holds what all turns make.
  bool is_comprehension = false;
  std::string callee = {};  // "self.layers[i]" of "x = self.layers[i](x)": what is called first
  std::string passes =
      {};  // "x" of "y = self.blocks[i](x, size)": the first argument, a plain name
  std::string own_call = {};  // "features" of "y = self.features(x)": what is called last, or ""
  std::string added_call =
      {};                     // "attend" of "x = x + self.attend(y)": what is called before the sum
  std::string function = {};  // "rotate" of "q, k = rotate(q, k)": the same of a plain name
  std::string argument = {};  // of one that was put back: the name that own_call is passed
  int64_t module_calls = 0;   // how many calls in it may be those of modules

  // Whether its text has `word`.
  bool Mentions(std::string_view word) const;
  // Whether what it assigns reads the variable `name`: "bias" of "x, bias = layer(x, bias)"; true
  // where its arguments go on in lines that the file does not show.
  bool MayPassOn(std::string_view name) const;
  // "out" of "y = self.bn1(out)" for module "layer1.0.bn1", and of "input = module(input)" for a
  // child of a Sequential, "x" of "x = r(cat([u(x), s.pop()]))" for one of a list: the name that
  // it passes to the module, or "".
  std::string ArgumentTo(std::string_view module) const;
};

// The line with "torch.float32" where it has PyTorch's other name for that, "torch.float".
// O(length).
std::string WithFloat32(std::string_view line);

// What the line `text` says.  O(length).
SourceStatement ReadStatement(int64_t line, std::string_view text);

// Whether torch.export wrote a line, not the model's author.
bool IsGenerated(std::string_view text);

using StatementId = int32_t;                     // index into SourceLines
inline constexpr StatementId kNoStatement = -1;  // the file does not show it

// The statements of a program, each read once.
class SourceLines {
 public:
  // O(log statements).
  StatementId Read(int64_t line, std::string_view text, std::string_view file = {});
  StatementId PutBack(SourceStatement statement);
  // A statement of its own beside `statement`, which is known: it binds `targets`.
  StatementId PutBeside(StatementId statement, std::vector<std::string> targets);

  // REQUIRES: it is known.
  const SourceStatement& At(StatementId statement) const {
    return statements_[static_cast<size_t>(statement)];
  }
  // Whether both are known to be one statement.
  bool AreSame(StatementId a, StatementId b) const;

 private:
  std::vector<SourceStatement> statements_;
  std::map<std::pair<int64_t, std::string>, StatementId> ids_;
};

}  // namespace onnxfit
