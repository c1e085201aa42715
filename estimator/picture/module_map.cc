#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "estimator/base/bytes.h"
#include "estimator/picture/html.h"
#include "estimator/picture/module_lines.h"
#include "estimator/picture/page_parts.h"
#include "estimator/picture/treemap.h"

namespace onnxfit {
namespace {

// The map's own box: as wide as three squares over two.
constexpr Rectangle kField = {0, 0, 150, 100};
constexpr double kLeastArea = 6;     // of 15,000: smaller ones are left blank
constexpr double kLeastSplit = 300;  // smaller ones are not split further

using Modules = std::vector<ModuleSum>;

// The modules directly in the one at `place` that have anything, largest first.
std::vector<size_t> LargestFirst(const Modules& modules, size_t place) {
  std::vector<size_t> inside = ModulesIn(modules, place);
  std::erase_if(inside, [&](size_t i) { return modules[i].bytes() == 0; });
  std::ranges::stable_sort(
      inside, [&](size_t a, size_t b) { return modules[a].bytes() > modules[b].bytes(); });
  return inside;
}

// What most of a module's bytes are: its class.
std::string_view MostOf(const ModuleSum& sum) {
  const int64_t most =
      std::max({sum.weight_bytes, sum.training_bytes, sum.activation_bytes, sum.other_bytes});
  if (most == sum.activation_bytes) return "activations";
  if (most == sum.training_bytes) return "optimizer_state";
  return most == sum.weight_bytes ? "parameters" : "workspaces";
}

std::string StoryOf(const ModuleSum& sum, int64_t total) {
  std::string text = fmt::format("{}: {}, {} of the peak", sum.path.empty() ? "(model)" : sum.path,
                                 FormatBytes(sum.bytes()), PercentText(sum.bytes(), total));
  const std::pair<int64_t, const char*> parts[] = {{sum.weight_bytes, "weights"},
                                                   {sum.training_bytes, "gradients and states"},
                                                   {sum.activation_bytes, "made in it"},
                                                   {sum.other_bytes, "inputs and workspaces"}};
  for (const auto& [bytes, what] : parts) {
    if (bytes > 0) text += fmt::format("; {} {}", what, FormatBytes(bytes));
  }
  return text;
}

// The last names of a path, where there is room for them.
std::string CellLabel(std::string_view path, const Rectangle& area) {
  constexpr double kLeastWidth = 7;
  constexpr double kLeastHeight = 4;
  constexpr int kNames = 3;
  if (area.width < kLeastWidth || area.height < kLeastHeight) return "";
  size_t dot = path.size();
  for (int i = 0; i < kNames && dot != path.npos; ++i) {
    dot = dot == 0 ? path.npos : path.rfind('.', dot - 1);
  }
  return HtmlBreakable(dot == path.npos ? path : path.substr(dot + 1));
}

class MapDrawing {
 public:
  explicit MapDrawing(const Modules& modules) : modules_(modules), total_(modules[0].bytes()) {}

  std::string Draw() {
    Split(0, kField);
    return text_;
  }

 private:
  // Fills `field` with what is in the module at `place`, and what that has itself.
  void Split(size_t place, const Rectangle& field) {
    std::vector<size_t> children = LargestFirst(modules_, place);
    std::vector<double> sizes;
    const int64_t own = OwnOf(modules_, place).bytes();
    for (const size_t child : children) {
      sizes.push_back(static_cast<double>(modules_[child].bytes()));
    }
    if (own > 0) {  // in its place by size, so that sizes fall
      const auto at =
          std::ranges::find_if(sizes, [&](double size) { return size < static_cast<double>(own); });
      children.insert(children.begin() + (at - sizes.begin()), kItself);
      sizes.insert(at, static_cast<double>(own));
    }
    if (sizes.empty()) return;
    const std::vector<Rectangle> areas = Squarify(sizes, field);
    for (size_t i = 0; i < areas.size(); ++i) {
      children[i] == kItself ? DrawOwn(place, own, areas[i]) : DrawModule(children[i], areas[i]);
    }
  }

  void DrawModule(size_t place, const Rectangle& area) {
    if (area.width * area.height < kLeastArea) return;
    const bool is_split =
        area.width * area.height >= kLeastSplit && !LargestFirst(modules_, place).empty();
    if (is_split) return Split(place, area);
    DrawArea(modules_[place].path, StoryOf(modules_[place], total_), MostOf(modules_[place]), area);
  }

  void DrawOwn(size_t place, int64_t own, const Rectangle& area) {
    if (area.width * area.height < kLeastArea) return;
    const std::string name =
        modules_[place].path.empty() ? "outside of modules" : modules_[place].path;
    DrawArea(name,
             fmt::format("{}: {}, {} of the peak", place == 0 ? name : name + " itself",
                         FormatBytes(own), PercentText(own, total_)),
             place == 0 ? "temporaries" : MostOf(modules_[place]), area);
  }

  void DrawArea(const std::string& name, const std::string& story, std::string_view kind,
                const Rectangle& area) {
    const std::string style =
        fmt::format("left:{:.2f}%;top:{:.2f}%;width:{:.2f}%;height:{:.2f}%",
                    area.x / kField.width * 100, area.y / kField.height * 100,
                    area.width / kField.width * 100, area.height / kField.height * 100);
    text_ += Element("li",
                     {{"class", "cell " + KindClass(kind)},
                      {"style", style},
                      {"tabindex", "0"},
                      {"title", story}},
                     CellLabel(name, area));
  }

  static constexpr size_t kItself = static_cast<size_t>(-1);

  const Modules& modules_;
  const int64_t total_;
  std::string text_;
};

}  // namespace

std::string ModuleMap(const Estimate& estimate) {
  if (estimate.modules.size() < 2) return "";
  return Element(
             "figure", {{"class", "map-figure"}},
             Element("figcaption", {},
                     "By module: each area is as large as what the module has at the peak. Blue "
                     "ones are mostly weights, pink ones gradients and optimizer state, orange "
                     "ones what the module has made.") +
                 Element("ul", {{"class", "map"}}, MapDrawing(estimate.modules).Draw())) +
         "\n";
}

}  // namespace onnxfit
