#include "cli/git_hints.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <sstream>
#include <string_view>

#include "estimator/base/text.h"

namespace onnxfit {
namespace {

std::vector<std::string> LinesOf(const std::string& text) {
  std::istringstream stream(text);
  std::vector<std::string> lines;
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

// A ref, and what of it git is to fetch.
struct MissingRef {
  std::string ref;                   // "origin/main~3"
  std::string name;                  // "origin/main", without steps back
  std::vector<std::string> remotes;  // as the clone calls them
  bool is_shallow = false;

  bool has_steps() const { return name.size() < ref.size(); }
};

// "~3", "^", "@{1}" and ":path" are steps from a name; an "@" alone is HEAD.
std::string NameIn(const std::string& ref) {
  const size_t end = std::min(ref.find_first_of("~^:"), ref.find("@{"));
  const std::string name = ref.substr(0, end);
  return name == "@" ? "HEAD" : name;
}

// Of "origin/main" or "refs/remotes/origin/main" the remote, "" of others.  One remote's name may
// begin another's.
std::string RemoteIn(std::string_view name, const std::vector<std::string>& remotes) {
  std::string found;
  for (const std::string& remote : remotes) {
    if (name.starts_with(remote + "/") && remote.size() > found.size()) found = remote;
  }
  return found;
}

std::string_view WithoutStart(std::string_view name, std::string_view start) {
  return name.starts_with(start) ? name.substr(start.size()) : name;
}

// The one that git itself calls origin, or the first.
std::string UsualRemote(const std::vector<std::string>& remotes) {
  const bool has_origin = std::ranges::find(remotes, "origin") != remotes.end();
  return has_origin ? "origin" : remotes[0];
}

bool IsId(const std::string& name, size_t least) {
  return name.size() >= least && std::ranges::all_of(name, [](unsigned char c) {
           return std::isdigit(c) != 0 || (c >= 'a' && c <= 'f');
         });
}

// "v1.2" or "2.0rc1": tags are called so.
bool IsVersion(std::string_view name) {
  constexpr std::string_view kRests[] = {"rc", "-rc", "a", "b", "-alpha", "-beta", ".post", ".dev"};
  name = WithoutStart(name, "v");
  const std::string_view rest =
      name.substr(std::min(name.size(), name.find_first_not_of("0123456789.")));
  if (rest.size() == name.size() || name.starts_with('.')) return false;
  return rest.empty() || std::ranges::any_of(kRests, [&](std::string_view start) {
           return rest.starts_with(start);
         });
}

// HEAD, FETCH_HEAD: a clone has them by itself, or not at all.
bool IsOfClone(const std::string& name) {
  return std::ranges::all_of(name, [](char c) { return (c >= 'A' && c <= 'Z') || c == '_'; });
}

// What stands behind "git fetch", "" where no name says what to fetch.
std::string WhatToFetch(const MissingRef& missing) {
  const std::string_view name = WithoutStart(missing.name, "refs/");
  const std::string_view branch = WithoutStart(name, "remotes/");
  if (const std::string remote = RemoteIn(branch, missing.remotes); !remote.empty()) {
    return fmt::format("{} {}:refs/remotes/{}", remote, branch.substr(remote.size() + 1), branch);
  }
  const std::string remote = UsualRemote(missing.remotes);
  const std::string local(WithoutStart(name, "heads/"));
  if (name.starts_with("tags/")) return fmt::format("{0} refs/{1}:refs/{1}", remote, name);
  if (missing.name.starts_with("refs/") && local == name) {
    return fmt::format("{0} {1}:{1}", remote, missing.name);
  }
  if (IsId(local, 40)) return remote + ' ' + local;
  if (IsVersion(local)) return fmt::format("{} tag {}", remote, local);
  return fmt::format("{0} {1}:{1}", remote, local);
}

// Refs are words of these letters; what has others cannot be typed as it stands.
bool IsPlain(const std::string& name) {
  return !name.empty() && name[0] != '-' && std::ranges::all_of(name, [](unsigned char c) {
    return std::isalnum(c) != 0 ||
           std::string_view("-_./+@#").find(static_cast<char>(c)) != std::string_view::npos;
  });
}

// A part of an id is no name that a remote knows: it is looked for in all branches.
std::string FetchCommand(const MissingRef& missing) {
  const bool is_part_of_id = IsId(missing.name, 7) && missing.name.size() < 40;
  const bool needs_history = is_part_of_id || missing.has_steps();
  const std::string_view depth = !missing.is_shallow ? ""
                                 : needs_history     ? "--unshallow "
                                                     : "--depth=1 ";
  if (!is_part_of_id) return fmt::format("git fetch {}{}", depth, WhatToFetch(missing));
  return fmt::format("git fetch {0}{1} '+refs/heads/*:refs/remotes/{1}/*'", depth,
                     UsualRemote(missing.remotes));
}

// What the clone has that is meant: the branch of a remote; where there is none to fetch from, a
// name that is nearly this.
std::string KnownName(const MissingRef& missing, const AskGit& ask) {
  const std::vector<std::string> names = LinesOf(ask(
      {"for-each-ref", "--format=%(refname:short)", "refs/heads", "refs/tags", "refs/remotes"}));
  const std::string branch(WithoutStart(missing.name, "origin/"));  // as most clones call it
  for (const std::string& remote : missing.remotes) {
    const std::string name = fmt::format("{}/{}", remote, branch);
    if (name != missing.name && std::ranges::find(names, name) != names.end()) return name;
  }
  if (!missing.remotes.empty() || IsId(missing.name, 7) || IsVersion(missing.name)) return "";
  const std::vector<std::string_view> candidates(names.begin(), names.end());
  return std::string(Nearest(missing.name, candidates));
}

}  // namespace

std::string HintForMissing(const std::string& ref, bool is_shallow, const AskGit& ask) {
  const MissingRef missing = {.ref = ref,
                              .name = NameIn(ref),
                              .remotes = LinesOf(ask({"remote"})),
                              .is_shallow = is_shallow};
  constexpr std::string_view kOfActions = ", or fetch-depth: 0 of actions/checkout";
  if (!IsPlain(missing.name)) return "";
  const bool has_name =
      !ask({"rev-parse", "--verify", "--quiet", missing.name + "^{commit}"}).empty();
  if (has_name || IsOfClone(missing.name)) {
    return is_shallow ? fmt::format("git fetch --unshallow{}", kOfActions) : "";
  }
  if (const std::string known = KnownName(missing, ask); !known.empty()) {
    return fmt::format("git:{}{}", known, ref.substr(missing.name.size()));
  }
  if (missing.remotes.empty()) return "git branch -a, which lists what is here";
  return FetchCommand(missing) + std::string(is_shallow ? kOfActions : "");
}

}  // namespace onnxfit
