// Each forward of a file beside what its class was watched to do.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "estimator/base/index.h"
#include "estimator/base/settings.h"
#include "estimator/observed/alignment.h"
#include "estimator/observed/known_skeletons.h"
#include "estimator/observed/observe.h"
#include "estimator/program/module_runs.h"
#include "estimator/program/program.h"

namespace onnxfit {

struct ForwardMatch {
  Skeleton skeleton;
  Alignment alignment;
  double share = 0;  // what part of both is the same, but for what files may lack
  uint32_t id = 0;   // IdOf the skeleton
};

// Which of a class's skeletons are looked at, and which are taken rather than others as good.
struct WantedRuns {
  uint8_t taken = kTrainRun | kEvalRun;
  uint8_t preferred = 0;
  bool is_as_written = false;  // the file has calls in place and casts as such
  bool counts_lines = false;   // of a named class, all that a line calls counts as one step
};

// Of a run with these settings: in inference rather than in training, or the other way around.
WantedRuns RunsLike(const TrainingSettings& settings, bool is_as_written);

// Each forward beside the skeleton of its class that has most in common with it; where a file names
// no classes, that of the module around it names them, or its children do.
class ForwardMatches {
 public:
  // All must outlive it.  O(calls × skeletons of a class), and as Align for each that differs.
  ForwardMatches(const Program& program, const ModuleRuns& runs, const KnownSkeletons& known,
                 WantedRuns wanted);

  bool is_as_written() const { return wanted_.is_as_written; }
  bool IsOfLibrary(std::string_view class_name) const { return known_.IsOfLibrary(class_name); }
  // By run, and the model's own behind them (ForwardsOf).
  const std::vector<ForwardOfRun>& forwards() const { return forwards_; }
  // Of forwards()[forward]; nullptr where none is known.
  const ForwardMatch* Of(size_t forward) const { return matches_[forward]; }
  // Forwards that no other one calls.
  const std::vector<int32_t>& roots() const { return roots_; }

 private:
  // What the forward around a run tells of it.
  struct Expected {
    bool is_known = false;  // that one
    bool is_model = false;  // nothing is around it
    std::string_view class_name = {};
    size_t left = 0;  // how many values it leaves; 0: not known
    uint32_t id = 0;  // IdOf what it did; 0: not known
  };

  // Of a forward and all that it calls, beside what classes were watched to do.
  struct Likeness {
    size_t steps = 0;  // that are the same
    size_t fits = 0;   // children that do what they were watched to do in that one
    int64_t life = 0;  // of what those classes make, in steps

    bool operator<(const Likeness& other) const {
      return std::tie(steps, fits, life) < std::tie(other.steps, other.fits, other.life);
    }
  };
  struct ClassLikeness {
    Likeness most;
    std::set<uint32_t> ids = {};  // of the forwards with as many steps and fits
  };

  // What a run calls, all that is below it as well.
  struct Shape {
    uint32_t own = 0;  // the same number where its own steps are the same,
    uint32_t all = 0;  // and where all below are, too
    size_t steps = 0;
    size_t children = 0;
  };
  // One of a class, which was known as the `place`-th.
  struct Candidate {
    KnownSkeleton known;
    size_t most_alike = 0;  // steps of the file that may be alike with its own, at most
    size_t place = 0;
  };
  // Of options: by Shape::own, of likenesses by Shape::all; with the class, and where that is a
  // container which one it is.
  using Key = std::tuple<uint32_t, std::string_view, uint32_t>;  // Interned, or the binary's

  std::vector<uint32_t> FitsOf(const ForwardOfRun& forward);
  void Follow(int32_t run, const Expected& expected);
  static Expected ExpectedAt(const ForwardMatch& match, size_t file_step);
  std::vector<KnownSkeleton> WithId(std::string_view class_name, uint32_t id) const;
  const std::vector<ForwardMatch>& OptionsOf(const ForwardOfRun& forward,
                                             std::string_view class_name, uint32_t id = 0);
  static std::vector<Candidate> CandidatesOf(const ForwardOfRun& forward,
                                             const std::vector<KnownSkeleton>& known);
  const ForwardMatch* BestAmong(const std::vector<const ForwardMatch*>& options,
                                const ForwardOfRun& forward, const Expected& expected);
  const ForwardMatch* BestOf(const ForwardOfRun& forward, const Expected& expected);
  const ForwardMatch* BestByChildren(const ForwardOfRun& forward, const Expected& expected);
  size_t ChildrenThatFit(const ForwardMatch& match, const ForwardOfRun& forward) const;
  size_t InPlaceAlike(const ForwardMatch& match, const ForwardOfRun& forward) const;
  void MeasureShape(size_t run);
  uint32_t NumberOf(const std::string& text);
  // Of one of forwards_.
  const Shape& ShapeOf(const ForwardOfRun& forward) const {
    return shapes_[Index(&forward - forwards_.data())];
  }
  double LeastOf(const ForwardOfRun& forward, const ForwardMatch& match);
  bool IsAlike(const ForwardMatch& match, const ForwardOfRun& forward);
  Likeness LikenessOf(const ForwardMatch& match, const ForwardOfRun& forward);
  const ClassLikeness& LikenessTo(int32_t run, std::string_view class_name, uint32_t id);

  const KnownSkeletons& known_;
  const WantedRuns wanted_;
  const std::vector<ForwardOfRun> forwards_;
  std::vector<int32_t> roots_;
  std::map<std::string, uint32_t> numbers_;
  std::vector<Shape> shapes_;  // by run
  Alignments alignments_;
  std::map<Key, std::vector<ForwardMatch>> options_;
  std::map<Key, ClassLikeness> likenesses_;
  std::vector<std::vector<uint32_t>> fits_;  // by run: ids of what it may have done
  std::vector<const ForwardMatch*> matches_;
};

}  // namespace onnxfit
