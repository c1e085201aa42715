// PyTorch's caching allocator, written slowly: a segment is a list of pieces, every search
// looks at all of them.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <vector>

#include "estimator/base/bytes.h"
#include "estimator/memory/allocator.h"

namespace onnxfit {

class SlowAllocator {
 public:
  SlowAllocator(int64_t card_bytes, const AllocatorConf& conf)
      : card_bytes_(card_bytes), conf_(conf) {
    limit_ = conf.memory_fraction < 1
                 ? static_cast<int64_t>(conf.memory_fraction * static_cast<double>(card_bytes))
                 : AllocatorConf::kUnlimited;
  }

  bool Alloc(int buffer, int64_t bytes) {
    if (bytes > 0 && !Place(buffer, Rounded(bytes))) return false;
    sizes_[buffer] = bytes;
    return true;
  }

  void Free(int buffer) {
    sizes_.erase(buffer);
    for (Segment& segment : segments_) {
      for (Piece& piece : segment.pieces) {
        if (piece.buffer == buffer) piece = {kFree, piece.bytes, searches_[segment.small]};
      }
    }
    Join();
  }

  AllocatorStats stats() const {
    AllocatorStats stats = {.reserved_bytes = Reserved(), .retries = retries_};
    for (const auto& [buffer, bytes] : sizes_) stats.requested_bytes += bytes;
    for (const Segment& segment : segments_) {
      for (const Piece& piece : segment.pieces) {
        if (piece.buffer >= 0) stats.allocated_bytes += piece.bytes;
      }
    }
    return stats;
  }

 private:
  static constexpr int kFree = -1;
  static constexpr int kUnmapped = -2;  // addresses without memory

  struct Piece {
    int buffer;
    int64_t bytes;
    int64_t freed_at = 0;  // searches of its pool before it became free
  };
  struct Segment {
    bool small;
    std::vector<Piece> pieces;
  };
  struct Found {
    Segment* segment = nullptr;
    size_t piece = 0;
    int64_t bytes = 0;
  };

  int64_t Rounded(int64_t bytes) const {
    int64_t power = 1;
    while (power * 2 <= bytes) power *= 2;
    size_t size_class = 0;
    while (size_class < 15 && (2 * kMiB) << size_class <= bytes) ++size_class;
    const int64_t divisions = conf_.roundup_divisions[size_class];
    const bool in_steps = divisions > 1 && bytes > 512 * divisions;
    const int64_t step = in_steps ? power / divisions : 512;
    int64_t rounded = step;
    while (rounded < bytes) rounded += step;
    return rounded;
  }

  int64_t SegmentBytes(int64_t need) const {
    if (need <= kMiB) return 2 * kMiB;
    if (need < 10 * kMiB) return conf_.large_segment_bytes;
    return (need + 2 * kMiB - 1) / (2 * kMiB) * (2 * kMiB);
  }

  int64_t PageBytes(bool small) const { return small ? 2 * kMiB : conf_.large_segment_bytes; }

  int64_t PagesFor(int64_t bytes, bool small) const {
    const int64_t page = PageBytes(small);
    return (bytes + page - 1) / page * page;
  }

  int64_t Reserved() const {
    int64_t bytes = 0;
    for (const Segment& segment : segments_) {
      for (const Piece& piece : segment.pieces)
        bytes += piece.buffer == kUnmapped ? 0 : piece.bytes;
    }
    return bytes;
  }

  bool Place(int buffer, int64_t need) {
    const bool small = need <= kMiB;
    ++searches_[small];
    Found found = BestFit(need, small);
    if (found.segment == nullptr) found = New(need, small);
    if (found.segment == nullptr) return false;
    std::vector<Piece>& pieces = found.segment->pieces;
    const int64_t tail = found.bytes - need;
    const bool in_steps = small || conf_.expandable_segments;
    const bool split = in_steps ? tail >= 512 : tail > kMiB && need < conf_.max_split_bytes;
    pieces[found.piece] = {buffer, split ? need : found.bytes};
    const auto behind = pieces.begin() + static_cast<std::ptrdiff_t>(found.piece) + 1;
    if (split) pieces.insert(behind, {kFree, tail, searches_[small]});
    return true;
  }

  Found BestFit(int64_t need, bool small) {
    std::vector<Found> fits;  // the smallest first, then the oldest
    for (Segment& segment : segments_) {
      for (size_t i = 0; i < segment.pieces.size(); ++i) {
        const Piece& piece = segment.pieces[i];
        const bool fit = segment.small == small && piece.buffer == kFree && piece.bytes >= need;
        if (fit) fits.push_back({&segment, i, piece.bytes});
      }
    }
    std::stable_sort(fits.begin(), fits.end(),
                     [](const Found& a, const Found& b) { return a.bytes < b.bytes; });
    if (fits.empty()) return {};
    size_t best = 0;
    while (conf_.expandable_segments && best + 1 < fits.size() &&
           Expanded(fits[best + 1]) < Expanded(fits[best])) {
      ++best;
    }
    const bool oversize = fits[best].bytes >= conf_.max_split_bytes;
    const bool close = fits[best].bytes < need + conf_.max_non_split_rounding_bytes;
    const bool refused = oversize && (need < conf_.max_split_bytes || !close);
    return refused ? Found() : fits[best];
  }

  static int64_t Expanded(const Found& found) {
    const std::vector<Piece>& pieces = found.segment->pieces;
    const bool grows =
        found.piece + 1 < pieces.size() && pieces[found.piece + 1].buffer == kUnmapped;
    return found.bytes + (grows ? pieces[found.piece + 1].bytes : 0);
  }

  Found New(int64_t need, bool small) {
    if (conf_.memory_fraction < 1 && conf_.garbage_collection_threshold > 0) CollectGarbage();
    Found found = TryNew(need, small);
    if (found.segment == nullptr && ReleaseOversize(need, small)) found = TryNew(need, small);
    if (found.segment != nullptr) return found;
    ++retries_;
    ReleaseCached();
    return TryNew(need, small);
  }

  Found TryNew(int64_t need, bool small) {
    const int64_t bytes = SegmentBytes(need);
    if (Reserved() + bytes > limit_) return {};
    if (conf_.expandable_segments) return Expand(need, small);
    if (Reserved() + bytes > card_bytes_) return {};
    segments_.push_back({small, {{kFree, bytes}}});
    return {&segments_.back(), 0, bytes};
  }

  // From the lowest address with room on: as many pages get memory as it takes.
  Found Expand(int64_t need, bool small) {
    Found found = FindRoom(need, small);
    if (found.segment == nullptr) {
      const int64_t addresses = PagesFor(card_bytes_ + card_bytes_ / 8, small);
      segments_.push_back({small, {{kUnmapped, addresses}}});
      found = FindRoom(need, small);
    }
    if (found.segment == nullptr) return {};
    std::vector<Piece>& pieces = found.segment->pieces;
    bool fits = true;
    for (size_t i = found.piece; fits && found.bytes < need; ++i) {
      if (pieces[i].buffer == kUnmapped) fits = Map(pieces, i, need - found.bytes, small);
      if (fits) found.bytes += pieces[i].bytes;
    }
    Join();
    found.bytes = pieces[found.piece].bytes;
    return fits ? found : Found();
  }

  Found FindRoom(int64_t need, bool small) {
    for (Segment& segment : segments_) {
      for (size_t i = 0; segment.small == small && i < segment.pieces.size(); ++i) {
        if (HasRoom(segment.pieces, i, need)) return {&segment, i, 0};
      }
    }
    return {};
  }

  // Gives pages to the first `need` bytes of a piece, if the card has as many.
  bool Map(std::vector<Piece>& pieces, size_t at, int64_t need, bool small) {
    const int64_t pages = std::min(pieces[at].bytes, PagesFor(need, small));
    if (pages > card_bytes_ - Reserved()) return false;
    const int64_t rest = pieces[at].bytes - pages;
    pieces[at] = {kFree, pages, searches_[small]};
    const auto behind = pieces.begin() + static_cast<std::ptrdiff_t>(at) + 1;
    if (rest > 0) pieces.insert(behind, {kUnmapped, rest});
    return true;
  }

  // Whether a run of pieces that are free begins here, with an unmapped one in its first
  // two, and holds `need`.
  static bool HasRoom(const std::vector<Piece>& pieces, size_t start, int64_t need) {
    const bool grows = pieces[start].buffer == kUnmapped ||
                       (pieces[start].buffer == kFree && start + 1 < pieces.size() &&
                        pieces[start + 1].buffer == kUnmapped);
    int64_t room = 0;
    for (size_t i = start; i < pieces.size() && pieces[i].buffer < 0; ++i) room += pieces[i].bytes;
    return grows && room >= need;
  }

  bool ReleaseOversize(int64_t need, bool small) {
    const int64_t most = conf_.max_split_bytes;
    if (conf_.expandable_segments || most == AllocatorConf::kUnlimited) return false;
    const int64_t wanted = std::max(need, most);
    int64_t released = 0;
    while (released < wanted) {
      auto best = segments_.end();  // the smallest that suffices, else the youngest largest
      for (auto it = segments_.begin(); it != segments_.end(); ++it) {
        if (it->small != small || !IsFree(*it) || Bytes(*it) < most) continue;
        const int64_t best_bytes = best == segments_.end() ? 0 : Bytes(*best);
        const bool suffices = Bytes(*it) >= wanted;
        const bool better = best_bytes >= wanted ? suffices && Bytes(*it) < best_bytes
                                                 : suffices || Bytes(*it) >= best_bytes;
        if (better) best = it;
      }
      if (best == segments_.end()) return false;
      released += Bytes(*best);
      segments_.erase(best);
    }
    return true;
  }

  void ReleaseCached() {
    if (!conf_.expandable_segments) {
      std::erase_if(segments_, IsFree);
      return;
    }
    for (Segment& segment : segments_) {
      const int64_t page = PageBytes(segment.small);
      std::vector<Piece> pieces;
      int64_t offset = 0;
      for (const Piece& piece : segment.pieces) {
        const int64_t begin = (offset + page - 1) / page * page;
        const int64_t end = (offset + piece.bytes) / page * page;
        if (piece.buffer != kFree || begin >= end) {
          pieces.push_back(piece);
        } else {
          pieces.push_back({kFree, begin - offset});
          pieces.push_back({kUnmapped, end - begin});
          pieces.push_back({kFree, offset + piece.bytes - end});
        }
        offset += piece.bytes;
      }
      segment.pieces = pieces;
    }
    Join();
    std::erase_if(segments_, [](const Segment& segment) {
      return segment.pieces.size() == 1 && segment.pieces[0].buffer == kUnmapped;
    });
  }

  void CollectGarbage() {
    const double kept = conf_.garbage_collection_threshold * static_cast<double>(limit_);
    const auto old = [&](const Segment& segment) { return IsFree(segment) && !segment.small; };
    while (Reserved() > static_cast<int64_t>(kept)) {
      double ages = 0;
      double count = 0;
      for (const Segment& segment : segments_) {
        if (old(segment)) ages += Age(segment);
        if (old(segment)) ++count;
      }
      if (conf_.expandable_segments || count == 0) return;
      std::erase_if(segments_, [&](const Segment& segment) {
        return old(segment) && Age(segment) >= ages / count;
      });
    }
  }

  double Age(const Segment& segment) const {
    return static_cast<double>(searches_[segment.small] - segment.pieces[0].freed_at);
  }

  static bool IsFree(const Segment& segment) {
    return segment.pieces.size() == 1 && segment.pieces[0].buffer == kFree;
  }

  static int64_t Bytes(const Segment& segment) { return segment.pieces[0].bytes; }

  // Makes one piece of neighbours that are free, and drops empty ones.
  void Join() {
    for (Segment& segment : segments_) {
      std::vector<Piece> joined;
      for (const Piece& piece : segment.pieces) {
        const bool same =
            !joined.empty() && piece.buffer < 0 && joined.back().buffer == piece.buffer;
        if (piece.bytes == 0) continue;
        if (!same) {
          joined.push_back(piece);
          continue;
        }
        joined.back().bytes += piece.bytes;
        joined.back().freed_at = std::max(joined.back().freed_at, piece.freed_at);
      }
      segment.pieces = joined;
    }
  }

  int64_t card_bytes_;
  AllocatorConf conf_;
  int64_t limit_;
  std::vector<Segment> segments_;  // by age
  std::map<int, int64_t> sizes_;
  int64_t searches_[2] = {0, 0};  // of the large and the small pool
  int64_t retries_ = 0;
};

}  // namespace onnxfit
