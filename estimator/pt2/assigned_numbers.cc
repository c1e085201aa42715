#include "estimator/pt2/assigned_numbers.h"

#include <map>
#include <vector>

namespace onnxfit::pt2 {
namespace {

constexpr std::string_view kMade = "torch.ops.aten.scalar_tensor.default";
constexpr std::string_view kViewed = "torch.ops.aten.view.default";
constexpr std::string_view kExpanded = "torch.ops.aten.expand.default";
constexpr std::string_view kWritten = "torch.ops.aten.copy_.default";

}  // namespace

std::set<std::string_view> FindAssignedNumbers(const Graph& graph) {
  std::map<std::string_view, std::vector<std::string_view>> views;  // a number and its views so far
  std::set<std::string_view> found;
  for (const Call& call : graph.calls) {
    const bool makes = !call.results.empty();
    if (makes && call.target == kMade) views[call.results[0].text] = {call.results[0].text};
    const bool is_view = call.target == kViewed || call.target == kExpanded;
    if (!is_view && call.target != kWritten) continue;
    const Argument* number = FindArgument(call, is_view ? "self" : "src");
    const auto known = number == nullptr ? views.end() : views.find(number->text);
    if (known == views.end()) continue;
    if (!is_view) found.insert(known->second.begin(), known->second.end());
    if (!is_view || !makes) continue;
    std::vector<std::string_view> more = known->second;
    more.push_back(call.results[0].text);
    views[call.results[0].text] = std::move(more);
  }
  return found;
}

}  // namespace onnxfit::pt2
