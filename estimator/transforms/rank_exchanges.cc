#include "estimator/transforms/rank_exchanges.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <set>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "estimator/base/index.h"
#include "estimator/writer/program_writer.h"

namespace onnxfit {
namespace {

constexpr std::string_view kGather = "gather_tokens";  // for all that come

class ExchangeWriter {
 public:
  ExchangeWriter(Program& program, const SharedLayers& layers, const SharedTokens& tokens,
                 int64_t ranks)
      : program_(program), tokens_(tokens), ranks_(ranks) {
    for (const SharedLayer& shared : layers.layers) {
      if (!shared.whole_for.empty()) continue;
      for (const LinearRun& run : shared.layer.runs) layers_[run.product] = &shared;
    }
    for (const TokenCall& call : tokens.calls) {
      if (call.op == "gather_tokens_of_all") gathered_.insert(call.made);
    }
  }

  void Write() && {
    std::vector<AtenCall> before = std::exchange(program_.calls, {});
    std::vector<int64_t> now_at;  // by call before: the last one in its place
    for (size_t i = 0; i < before.size(); ++i) {
      const auto at = static_cast<int64_t>(i);
      WriteTokens(at, before[i]);
      ReadTokens(at, before[i]);
      WriteCall(at, std::move(before[i]));
      EndTokens(at);
      for (const NameId output : program_.calls.back().outputs) made_at_[output] = at;
      now_at.push_back(std::ssize(program_.calls) - 1);
    }
    for (Rebinding& rebinding : program_.rebindings) {
      if (rebinding.behind >= 0) rebinding.behind = now_at[Index(rebinding.behind)];
    }
  }

 private:
  NameId Like(NameId name, std::string_view what) {
    const ProgramValue& value = program_.values[Index(name)];
    return AddValue(program_, fmt::format("{}.{}", value.name, what), TensorType(value.type));
  }

  // A call in the place of `at`, which no name's life ends with.
  static AtenCall Beside(const AtenCall& at, std::string_view op, std::vector<NameId> inputs,
                         NameId output) {
    AtenCall call = CallAt(at, op, std::move(inputs), {output});
    call.held.clear();
    call.last_reads.clear();
    call.dies.clear();
    return call;
  }

  // --- Products ---

  void WriteCall(int64_t at, AtenCall call) {
    const auto found = layers_.find(at);
    const ParallelStyle style =
        found == layers_.end() ? ParallelStyle::kNone : found->second->style;
    if (style == ParallelStyle::kNone) return program_.calls.push_back(std::move(call));
    if (style == ParallelStyle::kColumns) return WriteColumns(std::move(call));
    if (style == ParallelStyle::kRows) WriteRows(call);
    if (style == ParallelStyle::kGathered) WriteGathered(call);
  }

  void WriteColumns(AtenCall product) {
    const bool is_gathered = gathered_.contains(product.inputs[0]);
    if (!is_gathered) {
      const NameId given = Like(product.inputs[0], "replicated");
      program_.calls.push_back(Beside(product, "from_local", {product.inputs[0]}, given));
      product.inputs[0] = given;
      product.dies.push_back(given);
    }
    if (product.op == "linear") product.op = "linear_of_columns";
    program_.calls.push_back(std::move(product));
  }

  void WriteRows(const AtenCall& product) {
    const NameId result = product.outputs[0];
    const bool shares_tokens = tokens_.shards.contains(result);
    const NameId partial = Like(result, "partial");
    if (shares_tokens) {
      program_.values[Index(partial)].type.dims[tokens_.shards.at(result).dim] *= ranks_;
    }
    const std::string_view op = product.op == "linear" ? "linear_of_rows" : product.op;
    program_.calls.push_back(Beside(product, op, product.inputs, partial));
    WriteEnd(product, shares_tokens ? "reduce_scatter" : "all_reduce", partial);
  }

  void WriteGathered(const AtenCall& product) {
    const NameId part = Like(product.outputs[0], "part");
    program_.values[Index(part)].type.dims.back() /= ranks_;
    WriteColumns(Beside(product, product.op, product.inputs, part));
    WriteEnd(product, "all_gather", part);
  }

  // What the module is given, and names that hold its result, live until it returns.
  void WriteEnd(const AtenCall& product, std::string_view op, NameId own) {
    AtenCall end = CallAt(product, op, {own}, product.outputs);
    end.last_reads.push_back(own);
    end.dies.push_back(own);
    program_.calls.push_back(std::move(end));
  }

  // --- Tokens ---

  // What stands before call `at`.
  void WriteTokens(int64_t at, const AtenCall& call) {
    for (; next_ < tokens_.calls.size() && tokens_.calls[next_].before <= at; ++next_) {
      const TokenCall& token = tokens_.calls[next_];
      AtenCall written = Beside(call, token.op, {token.given}, token.made);
      written.module = token.module;
      written.is_distributed = token.op != "take_tokens" && token.op != kGather;
      if (token.op == kGather) EndPart(token, written);
      program_.calls.push_back(std::move(written));
      made_at_[token.made] = at;
      open_.push_back(&token);
    }
  }

  // The part is let go of, then what lives as long as names outside of the module.
  void EndPart(const TokenCall& token, AtenCall& gather) {
    std::ranges::replace(program_.outputs, token.name, token.made);
    gather.last_reads = {token.given};
    gather.dies = {token.given};
    std::vector<NameId>& dying = program_.calls.back().dies;
    const auto stays = [&](NameId name) { return MadeAt(name) >= token.begin; };
    const auto outside = std::stable_partition(dying.begin(), dying.end(), stays);
    gather.dies.insert(gather.dies.end(), outside, dying.end());
    dying.erase(outside, dying.end());
  }

  // The call before; -1: none.
  int64_t MadeAt(NameId name) const {
    const auto found = made_at_.find(name);
    return found == made_at_.end() ? -1 : found->second;
  }

  void ReadTokens(int64_t at, AtenCall& call) {
    call.is_distributed = tokens_.distributed.contains(at);
    const bool passes = !call.outputs.empty() && tokens_.shards.contains(call.outputs[0]);
    for (auto token = open_.rbegin(); token != open_.rend(); ++token) {
      if ((*token)->op == kGather && passes) continue;
      Replace(call, **token);
    }
  }

  // What a module was given lives on outside of it; of what is gathered for all, nothing else does.
  static void Replace(AtenCall& call, const TokenCall& token) {
    std::ranges::replace(call.inputs, token.name, token.made);
    if (token.op != kGather) {
      std::erase(call.last_reads, token.name);
      return;
    }
    std::ranges::replace(call.last_reads, token.name, token.made);
    std::ranges::replace(call.dies, token.name, token.made);
    for (HeldValue& held : call.held) {
      if (held.value == token.name) held.value = token.made;
    }
  }

  void EndTokens(int64_t at) {
    for (const TokenCall* token : open_) {
      if (token->last == at) program_.calls.back().dies.push_back(token->made);
    }
    std::erase_if(open_, [&](const TokenCall* token) { return token->last == at; });
  }

  Program& program_;
  const SharedTokens& tokens_;
  const int64_t ranks_;
  std::unordered_map<int64_t, const SharedLayer*> layers_;  // by the call of their products
  std::set<NameId> gathered_;                               // for layers' columns
  std::unordered_map<NameId, int64_t> made_at_;             // by value: the call before
  size_t next_ = 0;                                         // of tokens_.calls
  std::vector<const TokenCall*> open_;                      // whose span goes on
};

}  // namespace

void WriteExchanges(Program& program, const SharedLayers& layers, const SharedTokens& tokens,
                    int64_t ranks) {
  ExchangeWriter(program, layers, tokens, ranks).Write();
}

}  // namespace onnxfit
