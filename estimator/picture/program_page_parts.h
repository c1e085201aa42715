// The sections of a page about a program's run.  Internal to the room picture/.
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

#include "estimator/report/program_run.h"

namespace onnxfit {

// How many of a run's lines and places a page shows; its JSON has all.
inline constexpr size_t kPageLines = 200;

// A run and where it stands in the page's JSON: "", "runs.1.".
struct ShownRun {
  const ProgramRun& run;
  std::string data;
};

// What one process had in tensors over its run, by line; "" where there is no record.
std::string ProgramCurve(const ShownRun& shown, size_t process);

// Whose lines hold what lives at its peak; "" where nobody knows.
std::string HeldTable(const ProgramProcess& process);

// "k-line3": the colour of that layer of a curve; "" of a line that has none.
std::string LayerClass(const RunCurve& curve, const ProgramPlace& at);
std::string LayerClass(const RunCurve& curve, size_t layer);

// PyTorch's figures, by process and card, and by step.
std::string PeaksSection(const ProgramRun& run);

// What other frameworks count themselves, what an engine that serves says of itself, and RAM of the
// host; "" where there is none.
std::string FrameworksSection(const ProgramRun& run);
std::string EngineSection(const ProgramRun& run);
std::string HostSection(const ProgramRun& run);

// A list of sentences; "" of none.
std::string SentenceList(const std::vector<std::string>& sentences);

// Why it ended early: PyTorch's message explained; "" where it did not.
std::string EndSection(const ProgramRun& run);

// What was read though nobody computed it, and what else a card may do otherwise.
std::string OpenSection(const ProgramRun& run);

// `inner` as cells of a table: HTML, with a class each may have.
std::string HtmlCell(std::string_view inner, std::string_view name = "");
std::string BytesCellOf(int64_t bytes);  // a cell, right-aligned

// A table with a header of such names; those that begin with "#" are of numbers.
std::string HtmlTable(std::initializer_list<std::string_view> names, std::string_view body);

// "train.py:27" and what stands there, as code.
std::string PlaceCells(const ProgramPlace& at, std::string_view place);

}  // namespace onnxfit
