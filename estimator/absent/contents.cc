#include "estimator/absent/contents.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <mutex>
#include <string>
#include <utility>

#include "estimator/absent/memory.h"
#include "estimator/absent/status.h"

namespace onnxfit::absent {
namespace {

uint64_t AddressOf(const void* pointer) { return reinterpret_cast<uint64_t>(pointer); }

// Where allocators begin blocks: cudaMalloc's (memory.cc) and PyTorch's (kMinBlockSize in
// c10/cuda/CUDACachingAllocator.cpp).
constexpr uint64_t kUnit = 512;

uint64_t NextUnit(uint64_t address) { return (address + kUnit - 1) / kUnit * kUnit; }

Value PartOf(const Value& value, uint64_t from, uint64_t count = std::string::npos) {
  return {value.bytes.substr(from, count), value.basis};
}

// Ranges that do not overlap, by their first address.
class Contents {
 public:
  void Write(uint64_t address, Value value) {
    Forget(address, value.bytes.size());
    if (!value.bytes.empty()) kept_[address] = std::move(value);
  }

  // Without what was there before.  O(ranges that overlap).
  void Forget(uint64_t address, uint64_t bytes) { Take(address, bytes); }

  // The range that has the address, and what begins in the same unit of memory behind it: remains
  // of what lay there before.
  void ForgetAround(uint64_t address) {
    uint64_t end = address + 1;
    for (auto it = FirstBehind(address); it != kept_.end() && it->first < NextUnit(end);) {
      end = std::max(end, it->first + it->second.bytes.size());
      it = kept_.erase(it);
    }
  }

  void Doubt(uint64_t address, uint64_t bytes) {
    for (auto& [begin, value] : Take(address, bytes)) {
      kept_[begin] = {std::move(value.bytes), Basis::kGuess};
    }
  }

  // What is not kept of `from` is not kept of `to`.
  void Copy(uint64_t to, uint64_t from, uint64_t bytes) {
    const Kept parts = PartsOf(from, bytes);
    Forget(to, bytes);
    for (const auto& [begin, value] : parts) kept_[begin - from + to] = value;
  }

  // Zeros where nothing is kept.  Returns how many bytes are known, and how many are guesses.
  std::pair<size_t, size_t> Read(uint64_t address, char* to, size_t bytes) const {
    std::memset(to, 0, bytes);
    std::pair<size_t, size_t> kept;
    for (const auto& [begin, value] : PartsOf(address, bytes)) {
      std::copy(value.bytes.begin(), value.bytes.end(), to + (begin - address));
      (value.basis == Basis::kKnown ? kept.first : kept.second) += value.bytes.size();
    }
    return kept;
  }

  bool is_empty() const { return kept_.empty(); }

 private:
  using Kept = std::map<uint64_t, Value>;

  Kept PartsOf(uint64_t address, uint64_t bytes) const {
    Kept parts;
    const uint64_t end = address + bytes;
    for (auto it = FirstBehind(address); it != kept_.end() && it->first < end; ++it) {
      const uint64_t from = std::max(address, it->first);
      const uint64_t until = std::min(end, it->first + it->second.bytes.size());
      if (from < until) parts[from] = PartOf(it->second, from - it->first, until - from);
    }
    return parts;
  }

  // The same, which are then kept no longer.
  Kept Take(uint64_t address, uint64_t bytes) {
    Kept parts;
    if (bytes == 0) return parts;
    const uint64_t end = address + bytes;
    for (auto it = FirstBehind(address); it != kept_.end() && it->first < end;) {
      const uint64_t begin = it->first;
      const Value old = std::move(it->second);
      const uint64_t old_end = begin + old.bytes.size();
      it = kept_.erase(it);
      const uint64_t from = std::max(address, begin);
      parts[from] = PartOf(old, from - begin, std::min(end, old_end) - from);
      if (begin < address) kept_[begin] = PartOf(old, 0, address - begin);
      if (old_end > end) it = kept_.emplace(end, PartOf(old, end - begin)).first;
    }
    return parts;
  }

  // The first range that ends behind `address`.
  Kept::const_iterator FirstBehind(uint64_t address) const {
    auto it = kept_.upper_bound(address);
    if (it == kept_.begin()) return it;
    const auto before = std::prev(it);
    return before->first + before->second.bytes.size() > address ? before : it;
  }
  Kept::iterator FirstBehind(uint64_t address) {
    const auto it = std::as_const(*this).FirstBehind(address);
    return it == kept_.end() ? kept_.end() : kept_.find(it->first);
  }

  Kept kept_;
};

std::mutex& Mutex() {
  static auto* const mutex = new std::mutex;  // both outlive destructors
  return *mutex;
}

Contents& Kept() {
  static auto* const contents = new Contents;
  return *contents;
}

}  // namespace

void CopyBytes(void* to, const void* from, size_t bytes) {
  if (bytes == 0) return;
  const std::lock_guard lock(Mutex());
  if (!IsDevice(to) && !IsDevice(from)) {
    std::memmove(to, from, bytes);
  } else if (!IsDevice(to)) {
    Kept().Read(AddressOf(from), static_cast<char*>(to), bytes);
  } else if (bytes > kMostKept) {
    Kept().Forget(AddressOf(to), bytes);
  } else if (IsDevice(from)) {
    Kept().Copy(AddressOf(to), AddressOf(from), bytes);
  } else {
    Kept().Write(AddressOf(to), {{static_cast<const char*>(from), bytes}, Basis::kKnown});
  }
}

void WriteBytes(void* to, const void* from, size_t bytes, Basis basis) {
  const std::lock_guard lock(Mutex());
  Kept().Write(AddressOf(to), {{static_cast<const char*>(from), bytes}, basis});
}

std::optional<Value> ReadValue(const void* device, size_t bytes) {
  const std::lock_guard lock(Mutex());
  Value value = {std::string(bytes, '\0')};
  const auto [known, guessed] = Kept().Read(AddressOf(device), value.bytes.data(), bytes);
  if (known + guessed < bytes) return std::nullopt;
  if (guessed > 0) value.basis = Basis::kGuess;
  return value;
}

void Doubt(void* device, size_t bytes) {
  const std::lock_guard lock(Mutex());
  Kept().Doubt(AddressOf(device), bytes);
}

void FillBytes(void* to, const void* pattern, size_t pattern_bytes, size_t bytes) {
  const bool is_device = IsDevice(to);
  const std::lock_guard lock(Mutex());
  if (is_device && bytes > kMostKept) return Kept().Forget(AddressOf(to), bytes);
  std::string filled(bytes, '\0');
  for (size_t i = 0; i < bytes; ++i) {
    filled[i] = static_cast<const char*>(pattern)[i % pattern_bytes];
  }
  if (is_device) {
    Kept().Write(AddressOf(to), {std::move(filled), Basis::kKnown});
  } else {
    std::memcpy(to, filled.data(), bytes);
  }
}

void ForgetContents(uint64_t address, uint64_t bytes) {
  const std::lock_guard lock(Mutex());
  Kept().Forget(address, bytes);
}

void ForgetAround(uint64_t address) {
  const std::lock_guard lock(Mutex());
  Kept().ForgetAround(address);
}

bool IsNothingKept() {
  const std::lock_guard lock(Mutex());
  return Kept().is_empty();
}

ABSENT_API void onnxfit_poke(void* device, const void* host, size_t bytes, int is_guess) {
  WriteBytes(device, host, bytes, is_guess != 0 ? Basis::kGuess : Basis::kKnown);
}

ABSENT_API size_t onnxfit_peek(void* host, uint64_t device, size_t bytes) {
  const std::lock_guard lock(Mutex());
  return Kept().Read(device, static_cast<char*>(host), bytes).first;
}

}  // namespace onnxfit::absent
