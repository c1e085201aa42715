#include "estimator/report/oom_csv.h"

#include "estimator/fit/oom_formats.h"
#include "estimator/report/csv.h"
#include "estimator/report/layout.h"
#include "estimator/report/oom_sentences.h"

namespace onnxfit {
namespace {

using Fields = std::vector<std::string>;

template <typename Number>
std::string Text(const std::optional<Number>& number) {
  return number ? std::to_string(*number) : "";
}

std::string Known(int64_t bytes) { return bytes > 0 ? std::to_string(bytes) : ""; }

Fields Header() {
  Fields fields = {"log", "process", "line", "framework", "format", "gpu", "verdict"};
  for (size_t i = 0; i < kOomFields; ++i) {
    fields.push_back(std::string(ToString(static_cast<OomField>(i))) + "_bytes");
  }
  for (const char* name :
       {"card_bytes", "short_bytes", "request_low_bytes", "request_high_bytes", "more_messages",
        "model", "batch", "model_fails", "max_batch", "summary"}) {
    fields.emplace_back(name);
  }
  return fields;
}

void AddReplay(const OomReplay* replay, Fields& fields) {
  if (replay == nullptr) {
    fields.resize(fields.size() + 4);
    return;
  }
  fields.push_back(replay->model);
  fields.push_back(std::to_string(replay->batch));
  const char* fails = replay->fails_at ? "yes" : "no";
  fields.emplace_back(replay->card_bytes > 0 ? fails : "");
  fields.push_back(replay->largest ? std::to_string(replay->largest->batch) : "");
}

Fields Record(const std::string& log, const OomExplanation& e, const OomReplay* replay) {
  const OomMessage& m = e.message;
  Fields fields = {log,
                   m.process,
                   std::to_string(m.line),
                   std::string(ToString(m.format->family)),
                   std::string(m.format->name),
                   Text(m.gpu),
                   VerdictName(e.judgement.verdict)};
  for (const auto& size : m.sizes) fields.push_back(size ? std::to_string(size->bytes) : "");
  const auto lack = e.facts.Short();
  fields.push_back(Known(e.card_bytes));
  fields.push_back(lack ? Known(lack->rounded()) : "");
  fields.push_back(e.request ? std::to_string(e.request->low_bytes) : "");
  fields.push_back(e.request ? std::to_string(e.request->high_bytes) : "");
  fields.push_back(std::to_string(e.more));
  AddReplay(replay, fields);
  fields.push_back(e.summary[0]);
  return fields;
}

}  // namespace

std::string ToCsv(const std::string& log, const std::vector<OomExplanation>& processes,
                  const std::optional<OomReplay>& replay, bool ascii) {
  std::string text = CsvLine(Header());
  for (size_t i = 0; i < processes.size(); ++i) {
    Fields fields = Record(log, processes[i], i == 0 && replay ? &*replay : nullptr);
    for (std::string& field : fields) field = Clean(field, ascii);
    text += CsvLine(fields);
  }
  return text;
}

}  // namespace onnxfit
