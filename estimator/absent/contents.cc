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

// Ranges that do not overlap, by their first address.
class Contents {
 public:
  void Write(uint64_t address, std::string bytes) {
    Forget(address, bytes.size());
    if (!bytes.empty()) kept_[address] = std::move(bytes);
  }

  // O(ranges that overlap).
  void Forget(uint64_t address, uint64_t bytes) {
    const uint64_t end = address + bytes;
    for (auto it = FirstBehind(address); it != kept_.end() && it->first < end;) {
      const uint64_t begin = it->first;
      const std::string old = std::move(it->second);
      it = kept_.erase(it);
      if (begin < address) kept_[begin] = old.substr(0, address - begin);
      if (begin + old.size() > end) it = kept_.emplace(end, old.substr(end - begin)).first;
    }
  }

  void ForgetAround(uint64_t address) {
    const auto it = FirstBehind(address);
    if (it != kept_.end() && it->first <= address) kept_.erase(it);
  }

  // Zeros where nothing is kept.  Returns how many bytes are.
  size_t Read(uint64_t address, char* to, size_t bytes) const {
    std::memset(to, 0, bytes);
    size_t known = 0;
    const uint64_t end = address + bytes;
    for (auto it = FirstBehind(address); it != kept_.end() && it->first < end; ++it) {
      const uint64_t from = std::max(address, it->first);
      const uint64_t until = std::min(end, it->first + it->second.size());
      std::memcpy(to + (from - address), it->second.data() + (from - it->first), until - from);
      known += until - from;
    }
    return known;
  }

  bool is_empty() const { return kept_.empty(); }

 private:
  using Kept = std::map<uint64_t, std::string>;

  // The first range that ends behind `address`.
  Kept::const_iterator FirstBehind(uint64_t address) const {
    auto it = kept_.upper_bound(address);
    if (it == kept_.begin()) return it;
    const auto before = std::prev(it);
    return before->first + before->second.size() > address ? before : it;
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

std::string BytesAt(const void* from, size_t bytes) {
  if (!IsDevice(from)) return {static_cast<const char*>(from), bytes};
  std::string read(bytes, '\0');
  Kept().Read(AddressOf(from), read.data(), bytes);
  return read;
}

}  // namespace

void CopyBytes(void* to, const void* from, size_t bytes) {
  if (bytes == 0) return;
  const std::lock_guard lock(Mutex());
  if (!IsDevice(to) && !IsDevice(from)) {
    std::memmove(to, from, bytes);
  } else if (!IsDevice(to)) {
    Kept().Read(AddressOf(from), static_cast<char*>(to), bytes);
  } else if (bytes <= kMostKept) {
    Kept().Write(AddressOf(to), BytesAt(from, bytes));
  } else {
    Kept().Forget(AddressOf(to), bytes);
  }
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
    Kept().Write(AddressOf(to), std::move(filled));
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

ABSENT_API void onnxfit_poke(uint64_t device, const void* host, size_t bytes) {
  const std::lock_guard lock(Mutex());
  Kept().Write(device, {static_cast<const char*>(host), bytes});
}

ABSENT_API size_t onnxfit_peek(void* host, uint64_t device, size_t bytes) {
  const std::lock_guard lock(Mutex());
  return Kept().Read(device, static_cast<char*>(host), bytes);
}

}  // namespace onnxfit::absent
