#include "estimator/picture/module_lines.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <string_view>

namespace onnxfit {

namespace {

using Modules = std::vector<ModuleSum>;

std::string_view LastName(std::string_view path) { return path.substr(path.rfind('.') + 1); }

bool IsNumber(std::string_view name) {
  return !name.empty() && name.size() < 7 &&
         std::ranges::all_of(name, [](char c) { return c >= '0' && c <= '9'; });
}

// "3" and "4"
bool CountsOn(std::string_view name, std::string_view next) {
  return IsNumber(name) && IsNumber(next) &&
         std::stoi(std::string(name)) + 1 == std::stoi(std::string(next));
}

bool TakeTheSame(const ModuleSum& a, const ModuleSum& b) {
  return a.parameters == b.parameters && a.weight_bytes == b.weight_bytes &&
         a.training_bytes == b.training_bytes && a.activation_bytes == b.activation_bytes &&
         a.other_bytes == b.other_bytes && a.depth == b.depth;
}

// Without its digits: the exporter numbers what it names itself, "clone_3".
std::string WithoutDigits(std::string_view name) {
  std::string text(name);
  std::erase_if(text, [](char c) { return c >= '0' && c <= '9'; });
  return text;
}

// Whether two modules and all in them take the same under the same names.
bool AreAlike(const Modules& modules, size_t a, size_t b) {
  const size_t end = EndOfModule(modules, a);
  if (EndOfModule(modules, b) - b != end - a) return false;
  for (size_t i = a; i < end; ++i) {
    const ModuleSum& other = modules[b + (i - a)];
    const bool is_inside = i != a;
    if (!TakeTheSame(modules[i], other)) return false;
    if (is_inside &&
        WithoutDigits(LastName(modules[i].path)) != WithoutDigits(LastName(other.path))) {
      return false;
    }
  }
  return true;
}

class Folding {
 public:
  explicit Folding(const Modules& modules) : modules_(modules) {}

  std::vector<ModuleLine> Fold() {
    if (!modules_.empty()) Add(0, 1, "(model)");
    return std::move(lines_);
  }

 private:
  void Add(size_t place, int64_t count, std::string name) {
    lines_.push_back({modules_[place], count, std::move(name)});
    const size_t end = EndOfModule(modules_, place);
    for (size_t child = place + 1; child < end;) child = AddRow(child, end, count);
  }

  // The module at `first` with all that follow, count on and are like it; returns the place behind
  // them.
  size_t AddRow(size_t first, size_t end, int64_t count) {
    const std::string_view name = LastName(modules_[first].path);
    size_t last = first;
    size_t next = EndOfModule(modules_, first);
    int64_t alike = 1;
    while (next < end && CountsOn(LastName(modules_[last].path), LastName(modules_[next].path)) &&
           AreAlike(modules_, first, next)) {
      last = next;
      next = EndOfModule(modules_, next);
      ++alike;
    }
    Add(first, count * alike,
        last == first ? std::string(name)
                      : fmt::format("{}..{}", name, LastName(modules_[last].path)));
    return next;
  }

  const Modules& modules_;
  std::vector<ModuleLine> lines_;
};

}  // namespace

std::vector<ModuleLine> FoldModules(const std::vector<ModuleSum>& modules) {
  return Folding(modules).Fold();
}

std::string CountText(int64_t count) {
  constexpr std::pair<int64_t, const char*> kUnits[] = {
      {1'000'000'000, " G"}, {1'000'000, " M"}, {1'000, " k"}};
  if (count == 0) return "";
  for (const auto& [size, unit] : kUnits) {
    if (count >= size) {
      return fmt::format("{:.1f}{}", static_cast<double>(count) / static_cast<double>(size), unit);
    }
  }
  return std::to_string(count);
}

}  // namespace onnxfit
