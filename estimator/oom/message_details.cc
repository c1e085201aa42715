// What of a message is no number, or a number that its neighbours do not explain: shapes, names of
// operations, counts of tokens.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "estimator/base/bytes.h"
#include "estimator/oom/formats.h"
#include "estimator/oom/log_lines.h"
#include "estimator/oom/pattern.h"
#include "estimator/oom/programs.h"

namespace onnxfit {
namespace {

constexpr size_t kNameNear = 80;  // letters to a name in brackets

// What stands between `open` and `close` behind `begin`; "" without them.
std::string Between(const Letters& letters, size_t begin, size_t limit, std::string_view open,
                    std::string_view close) {
  const std::string_view text = std::string_view(letters.lower).substr(0, limit);
  const size_t at = text.find(open, begin);
  if (at == std::string_view::npos) return "";
  const size_t from = at + open.size();
  const size_t end = text.find(close, from);
  if (end == std::string_view::npos) return "";
  return letters.written.substr(from, end - from);
}

// "32,1024,64,64", every number from 0; nullopt for anything else.
std::optional<Dims> ReadDims(std::string_view text) {
  Dims dims;
  while (!text.empty()) {
    int64_t dim = 0;
    const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), dim);
    if (code != std::errc() || dim < 0) return std::nullopt;
    dims.push_back(dim);
    text.remove_prefix(static_cast<size_t>(end - text.data()));
    if (!text.empty() && text[0] != ',') return std::nullopt;
    if (!text.empty()) text.remove_prefix(1);
  }
  return dims;
}

DType DTypeOf(std::string_view name) {
  for (const DTypeSpelling& row : OomDTypes()) {
    if (row.name == name) return row.dtype;
  }
  return DType::kUndefined;
}

// The bytes of a tensor with absurd sizes are more than any number says.
int64_t BytesOrMost(const TensorType& type) {
  double bytes = BitsOf(type.dtype) / 8.0;
  for (const int64_t dim : type.dims) bytes *= static_cast<double>(dim);
  return bytes < static_cast<double>(kMostBytes) ? BytesOf(type) : kMostBytes;
}

// "OOM when allocating tensor with shape[32,1024,64,64] and type float on /job…": the size is
// that of the shape.  The oldest say no type: floats were meant.
void ReadTensorFlow(const Letters& letters, size_t begin, size_t limit, OomMessage& message) {
  const std::string shape = Between(letters, begin, limit, "tensorwithshape[", "]");
  const auto dims = ReadDims(shape);
  if (shape.empty() || !dims) return;
  const DType named = DTypeOf(Between(letters, begin, limit, "]andtype", "on/"));
  message.tensor = {named == DType::kUndefined ? DType::kFloat32 : named, *dims};
  message.Size(OomField::kTried) = PrintedBytes{BytesOrMost(message.tensor), 0};
  const std::string gpu = Between(letters, begin, limit, "device:gpu:", "by");
  if (gpu.size() == 1 && IsDigit(gpu[0])) message.gpu = gpu[0] - '0';
}

// The [[node NAME …]] of a graph, or the operation of eager mode.
void ReadTensorFlowNode(const Letters& letters, size_t begin, size_t limit, OomMessage& message) {
  message.node = Between(letters, begin, limit, "[op:", "]");
  if (message.node.empty()) message.node = Between(letters, begin, limit, "[[{{node", "}}");
  if (message.node.empty()) message.node = Between(letters, begin, limit, "[[node:", "=");
  if (message.node.empty()) message.node = Between(letters, begin, limit, "[[node", "(");
}

// The first of "Peak buffers", which is the largest.
void ReadXla(const Letters& letters, size_t begin, size_t limit, OomMessage& message) {
  const size_t peak = letters.lower.find("peakbuffers:", begin);
  if (peak >= limit) return;
  const size_t next = std::min(letters.lower.find("buffer2:", peak), limit);
  message.node = Between(letters, peak, next, "op_name=\"", "\"");
  const std::string shape = Between(letters, peak, next, "shape:", "]");
  const size_t bracket = shape.find('[');
  if (bracket == std::string::npos) return;
  const auto dims = ReadDims(std::string_view(shape).substr(bracket + 1));
  const DType dtype = DTypeOf(std::string_view(shape).substr(0, bracket));
  if (dims && dtype != DType::kUndefined) message.tensor = {dtype, *dims};
}

// "while running Mul node. Name:'Mul_8702'" stands before the size.
void ReadOnnxRuntime(const Letters& letters, size_t begin, size_t /*limit*/, OomMessage& message) {
  const size_t at = std::string_view(letters.lower).substr(0, begin).rfind("node.name:");
  if (at == std::string_view::npos) return;
  std::string name = Between(letters, at, begin, "'", "'");
  if (name.ends_with('\\')) name.pop_back();
  message.node = name;
}

// A size that is written with its unit apart, "3.25/23.43 GiB".
void PutGib(std::string_view number, OomField field, OomMessage& message) {
  const auto size = ReadSize(std::string(number) + "GiB");
  if (size && size->has_unit && CanBe(field, size->size.bytes)) message.Size(field) = size->size;
}

// "Free memory on device cuda:0 (3.25/23.43 GiB) on startup is less than desired GPU memory
// utilization (0.96, 22.49 GiB)": it has only begun, and holds nothing yet.
void ReadVllmStart(const Letters& letters, size_t begin, size_t limit, OomMessage& message) {
  if (message.format->name != "vllm-start") return;
  const std::string card = Between(letters, begin, limit, "(", "gib)");
  const std::string asked = Between(letters, begin, limit, "utilization(", "gib)");
  const size_t slash = card.find('/');
  const size_t comma = asked.find(',');
  if (slash == std::string::npos || comma == std::string::npos) return;
  PutGib(card.substr(0, slash), OomField::kFree, message);
  PutGib(card.substr(slash + 1), OomField::kTotal, message);
  PutGib(asked.substr(comma + 1), OomField::kTried, message);
  message.Size(OomField::kReserved) = PrintedBytes{};
}

// The digits at the beginning; "" where there are none, or more than a count has.
std::string DigitsOf(std::string_view text) {
  size_t end = 0;
  while (end < text.size() && IsDigit(text[end])) ++end;
  return std::string(text.substr(0, end > 15 ? 0 : end));
}

// "max seq len (131072) is larger than the … that can be stored in KV cache (93760)".
void ReadVllmLength(const Letters& letters, size_t begin, size_t limit, OomMessage& message) {
  const size_t at = std::string_view(letters.lower).substr(0, begin).rfind("maxseqlen(");
  if (message.format->name != "vllm-length" || at == std::string::npos) return;
  const std::string asked = DigitsOf(Between(letters, at, begin, "maxseqlen(", ")"));
  const std::string holds = DigitsOf(Between(letters, begin, limit, "kvcache(", ")"));
  if (asked.empty() || holds.empty()) return;
  message.told = fmt::format("{} tokens asked for, it holds {}", asked, holds);
  message.length = std::stoll(holds);
}

// "Based on the available memory, the estimated maximum model length is 8192."
void ReadVllmRequest(const Letters& letters, size_t begin, size_t limit, OomMessage& message) {
  const std::string fits = DigitsOf(Between(letters, begin, limit, "maximummodellengthis", "."));
  if (!fits.empty()) message.length = std::stoll(fits);
}

// "Killed process 4567 (python3) total-vm:…".
void ReadKilled(const Letters& letters, size_t begin, size_t limit, OomMessage& message) {
  if (!IsListed("kernel-oom|kernel-cgroup-oom", message.format->name)) return;
  message.told = Between(letters, begin, std::min(limit, begin + kNameNear), "(", ")");
}

// "RAM 3431/3956MB (lfb 37x4MB)" in front of and behind the bracket: what is used and what there
// is, and the largest free blocks.
void ReadTegrastats(const Letters& letters, size_t begin, size_t limit, OomMessage& message) {
  if (message.format->name != "tegrastats") return;
  const std::string_view before = std::string_view(letters.lower).substr(0, begin);
  const size_t at = before.rfind("ram");
  if (at == std::string_view::npos || begin - at > kNameNear || !before.ends_with("mb")) return;
  const Decimal used = ReadDecimal(before.substr(at + 3));
  const std::string_view rest = before.substr(at + 3 + used.letters);
  if (used.letters == 0 || !rest.starts_with('/')) return;
  const Decimal total = ReadDecimal(rest.substr(1));
  if (total.letters + 3 != rest.size() || used.value > total.value) return;
  const PrintedBytes card = SizeOf(total, kMiB);
  if (!CanBe(OomField::kTotal, card.bytes)) return;
  message.Size(OomField::kTotal) = card;
  message.Size(OomField::kFree) = {card.bytes - SizeOf(used, kMiB).bytes, card.error};
  const std::string blocks = Between(letters, begin, limit, "(lfb", ")");
  const size_t times = blocks.find('x');
  if (times == std::string::npos) return;
  message.told = fmt::format("the largest free blocks: {} of {}", blocks.substr(0, times),
                             blocks.substr(times + 1));
}

// "FLAGS_fraction_of_gpu_memory_to_use is 0.50 now": the share that it may take.
void ReadPaddleShare(const Letters& letters, size_t begin, size_t limit, OomMessage& message) {
  const std::string share = Between(letters, begin, limit, "gpu_memory_to_useis", "now");
  if (ReadDecimal(share).letters == share.size()) message.told = share;
}

// What is no number, or a number that its neighbours do not explain.
struct Extra {
  OomFamily family;
  void (*read)(const Letters& letters, size_t begin, size_t limit, OomMessage& message);
};
constexpr Extra kExtras[] = {{OomFamily::kTensorFlow, ReadTensorFlow},
                             {OomFamily::kTensorFlow, ReadTensorFlowNode},
                             {OomFamily::kXla, ReadXla},
                             {OomFamily::kPaddle, ReadPaddleShare},
                             {OomFamily::kOnnxRuntime, ReadOnnxRuntime},
                             {OomFamily::kVllm, ReadVllmStart},
                             {OomFamily::kVllm, ReadVllmLength},
                             {OomFamily::kVllm, ReadVllmRequest},
                             {OomFamily::kRam, ReadKilled},
                             {OomFamily::kJetson, ReadTegrastats}};

}  // namespace

void ReadDetails(const Letters& letters, size_t begin, size_t limit, OomMessage& message) {
  for (const Extra& extra : kExtras) {
    if (extra.family == message.format->family) extra.read(letters, begin, limit, message);
  }
}

}  // namespace onnxfit
