// The sections of a page.  Internal to the room picture/.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "estimator/picture/page.h"

namespace onnxfit {

// A page around its `body`; `data` is JSON, which stands in it as text for programs and its script.
struct PageParts {
  std::string title;
  std::string body;
  std::string footer;
  std::string data;
};
std::string WholePage(const PageParts& parts);

// The model's name and its run, the verdict on each card, and in a sentence each what takes most,
// when the peak is and what to do first.
std::string HeadOfPage(const PageContent& content);

// "FITS on t4: …", with what fails and why it is tight.  `was`: the verdict before, if it is known.
std::string VerdictCard(const JudgedTarget& judged, std::string_view was = "");

// Memory over one step, stacked by kind; the cards' lines across it, the peak marked and named.
// `before`: of the run that it is compared with, as a line.
std::string CurveSection(const Estimate& estimate, const Estimate* before = nullptr);

// What lives at the peak: by kind, by module, and the largest tensors with their lives.
std::string PeakSection(const Estimate& estimate);

// Modules as a map of areas; "" where the file names none.
std::string ModuleMap(const Estimate& estimate);

// Memory against batch size, with the cards' lines.
std::string BatchSection(const PageContent& content);

// What each change would bring, for cards that the run does not fit; "" without any.
std::string AdviceSection(const Estimate& estimate);

// Nodes, parameters and inputs with what they have at the peak: to be sorted and searched.
std::string PlacesSection(const Estimate& estimate);

// What the page's script searches the table "places" with, and a table in a box of its own.
std::string SearchField();
std::string ScrolledTable(std::string_view label, std::string_view table);

// What was assumed, warned of and how sure the numbers are.
std::string TrustSection(const Estimate& estimate);

// What a page looks like, and what it does.
std::string PageStyle();
std::string_view PageScript();

// "activations": the class and the words of a kind.
std::string KindClass(std::string_view kind);
std::string KindWords(std::string_view kind);

// "42.1%"
std::string PercentText(int64_t bytes, int64_t total);

// The lines across a plot of device memory: the cards asked about or, without any, common sizes of
// memory up to somewhat above `most`.
struct CardLine {
  std::string name;
  int64_t bytes = 0;
};
std::vector<CardLine> CardLines(const Estimate& estimate, int64_t most);

// A plot's frame: `drawing` (SVG without words, stretched to the box), ticks, card lines, what else
// stands upon it.  `id` is of the figure; `below` follows the box.
struct Plot {
  std::string id;
  std::string data = {};  // where its numbers stand in the page's JSON: "curve"; "" for nowhere
  std::string label;      // what it shows, for those who do not see it
  int64_t top = 0;        // bytes at the upper edge
  size_t columns = 0;
  std::string drawing = {};
  std::string over = {};   // HTML upon the box
  std::string below = {};  // HTML under it
  std::vector<CardLine> lines = {};
};
inline constexpr int64_t kPlotHeight = 1000;  // of the drawing's own units
std::string PlotFigure(const Plot& plot, std::string_view caption);

// Of `bytes` where `top` is kPlotHeight.
int64_t HeightOf(int64_t bytes, int64_t top);

// A line down a plot at one of its points, with a name at its upper end.
std::string PlotMark(size_t point, size_t points, std::string_view name);

// Names below a plot, at shares of its width in order; those too close to the one before are left
// out.
struct PlotName {
  double left = 0;  // 0 to 1
  std::string name;
};
std::string NamesBelow(const std::vector<PlotName>& names);

// What a process has on its card at each batch.
struct BatchPoint {
  int64_t batch = 0;
  int64_t bytes = 0;
  bool fails = false;  // for want of memory: beside the line through the others
};

// Memory on the device against batch size, up to `top`.  `asked`: the batch that is marked.
// REQUIRES: points, by batch.
Plot BatchPlot(const std::vector<BatchPoint>& points, int64_t asked, int64_t top,
               const std::vector<CardLine>& lines);

}  // namespace onnxfit
