#include "estimator/observed/alignment.h"

#include <algorithm>
#include <string_view>
#include <vector>

#include "estimator/base/index.h"

namespace onnxfit {
namespace {

constexpr size_t kMostPairs = 1 << 24;  // 16 MiB of ways

struct Key {
  bool is_child = false;
  std::string_view name;  // starred

  bool operator==(const Key&) const = default;
};

std::vector<Key> KeysOf(const std::vector<SkeletonStep>& steps) {
  std::vector<Key> keys;
  keys.reserve(steps.size());
  for (const SkeletonStep& step : steps) {  // what is put back of a dropout has a name of its own
    keys.push_back(IsDropout(step) ? Key{.name = "dropout"} : Key{step.is_child, StarredKey(step)});
  }
  return keys;
}

class Aligner {
 public:
  Aligner(const std::vector<SkeletonStep>& known, const std::vector<SkeletonStep>& file)
      : known_(known), file_(file), known_keys_(KeysOf(known)), file_keys_(KeysOf(file)) {
    made_.places.assign(known.size(), -1);
    made_.known.assign(file.size(), -1);
  }

  Alignment Align() {
    size_t first = 0;
    const size_t least = std::min(known_.size(), file_.size());
    while (first < least && Worth(first, first) > 1) Pair(first, first), ++first;
    size_t last = 0;
    while (first + last < least && Worth(known_.size() - 1 - last, file_.size() - 1 - last) > 1) {
      Pair(known_.size() - 1 - last, file_.size() - 1 - last), ++last;
    }
    Fill(first, known_.size() - last, file_.size() - last);
    return std::move(made_);
  }

 private:
  enum Way : char { kPair, kSkipKnown, kSkipFile };

  void Pair(size_t known, size_t file) {
    made_.places[known] = static_cast<int32_t>(file);
    made_.known[file] = static_cast<int32_t>(known);
    ++made_.same;
    if (Worth(known, file) > 1) ++made_.alike;
  }

  // 0 where they differ, 1 of other lines or classes, 2 where one says none, 3 of the same one.
  int Worth(size_t known, size_t file) const {
    if (known_keys_[known] != file_keys_[file]) return 0;
    const std::string_view of_known = known_[known].class_name;
    const std::string_view of_file = file_[file].class_name;
    const bool are_known = !of_known.empty() && !of_file.empty();
    if (are_known && of_known != of_file) return 1;
    if (!are_known && known_[known].leaf != file_[file].leaf) return 1;
    const uint32_t a = known_[known].line;
    const uint32_t b = file_[file].line;
    return a == 0 || b == 0 ? 2 : a == b ? 3 : 1;
  }

  // Steps [first, known_end) and [first, file_end).
  void Fill(size_t first, size_t known_end, size_t file_end) {
    const size_t rows = known_end - first;
    const size_t columns = file_end - first;
    if (rows == 0 || columns == 0 || rows * columns > kMostPairs) return;
    std::vector<char> ways(rows * columns);
    std::vector<int> below(columns + 1);
    std::vector<int> row(columns + 1);
    for (size_t i = rows; i-- > 0;) {
      row[columns] = 0;
      for (size_t j = columns; j-- > 0;) {
        const int worth = Worth(first + i, first + j);
        const int paired = worth == 0 ? -1 : below[j + 1] + worth;
        row[j] = std::max({paired, below[j], row[j + 1]});
        ways[i * columns + j] = row[j] == paired     ? kPair
                                : row[j] == below[j] ? kSkipKnown
                                                     : kSkipFile;
      }
      std::swap(row, below);
    }
    for (size_t i = 0, j = 0; i < rows && j < columns;) {
      const char way = ways[i * columns + j];
      if (way == kPair) Pair(first + i, first + j);
      i += way == kSkipFile ? 0 : 1;
      j += way == kSkipKnown ? 0 : 1;
    }
  }

  const std::vector<SkeletonStep>& known_;
  const std::vector<SkeletonStep>& file_;
  const std::vector<Key> known_keys_;
  const std::vector<Key> file_keys_;
  Alignment made_;
};

}  // namespace

Alignment Align(const std::vector<SkeletonStep>& known, const std::vector<SkeletonStep>& file) {
  return Aligner(known, file).Align();
}

const Alignment& Alignments::Of(const std::vector<SkeletonStep>& known,
                                const std::vector<SkeletonStep>& file, uint32_t shape) {
  const bool has_classes =
      std::ranges::any_of(file, [](const SkeletonStep& step) { return !step.class_name.empty(); });
  const bool has_lines =
      std::ranges::any_of(file, [](const SkeletonStep& step) { return step.line != 0; });
  std::vector<uint32_t> numbers;
  numbers.reserve(known.size());
  for (const SkeletonStep& step : known) {
    const Looks looks = {step.is_child, StarredKey(step), has_classes ? step.class_name : "",
                         step.leaf, has_lines ? step.line : 0};
    numbers.push_back(
        numbers_.try_emplace(looks, static_cast<uint32_t>(numbers_.size())).first->second);
  }
  const auto [made, is_new] = known_.try_emplace({shape, std::move(numbers)});
  if (is_new) made->second = Align(known, file);
  return made->second;
}

}  // namespace onnxfit
