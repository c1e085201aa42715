#!/bin/bash
# `onnxfit check` as a step of GitHub Actions.  Variables say what to do; none of them is ever
# run as shell code:
#   CHECK_CONFIG   the config                                        [onnxfit.toml]
#   CHECK_AGAINST  base (the pull request's base branch), or as of --against [the lock]
#   CHECK_ONLY     names of checks or globs, one a line                       [all]
#   CHECK_BINARY   onnxfit                                                [onnxfit]
#   CHECK_SARIF, CHECK_JUNIT, CHECK_MARKDOWN, CHECK_BENCH
#                  files to write, '' for none                     [memory.sarif …]
# Annotations go to stdout, the Markdown to GITHUB_STEP_SUMMARY as well, the status and the files
# that were written to GITHUB_OUTPUT.
# exit: onnxfit's (0 all hold, 1 one does not, 2 no answer)
set -euo pipefail

config=${CHECK_CONFIG:-onnxfit.toml}
formats=(sarif junit markdown bench)
files=("${CHECK_SARIF-memory.sarif}" "${CHECK_JUNIT-memory.junit.xml}"
       "${CHECK_MARKDOWN-memory.md}" "${CHECK_BENCH-memory.bench.json}")
summary=${GITHUB_STEP_SUMMARY:-/dev/null}
outputs=${GITHUB_OUTPUT:-/dev/null}
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

# A workflow command is one line.
escaped() {
  local text=${1//'%'/%25}
  text=${text//$'\r'/%0D}
  echo "${text//$'\n'/%0A}"
}

set_output() {
  echo "$1=$2" >>"$outputs"
}

status_of() {
  case "$1" in
    0) echo pass ;;
    1) echo fail ;;
    *) echo error ;;
  esac
}

finish() {
  set_output status "$(status_of "$1")"
  set_output exit-code "$1"
  exit "$1"
}

# An annotation, and in the summary a block of code, in which nothing is Markdown.
tell() {
  echo "::error title=onnxfit check::$(escaped "$1")"
  printf '**onnxfit check: no answer**\n\n%s\n' "    ${1//$'\n'/$'\n'    }" >>"$summary"
}

fail() {
  tell "error: $*"
  finish 2
}

# --- The base branch -----------------------------------------------------------

# In a container the checkout is another user's, and git would refuse to read it.
trust_checkout() {
  [[ -n ${GITHUB_WORKSPACE:-} ]] || return 0
  local count=${GIT_CONFIG_COUNT:-0}
  export GIT_CONFIG_COUNT=$((count + 1))
  export "GIT_CONFIG_KEY_$count=safe.directory" "GIT_CONFIG_VALUE_$count=$GITHUB_WORKSPACE"
}

in_repository() {
  git -C "$(dirname -- "$config")" "$@"
}

has_commit() {
  in_repository rev-parse --verify --quiet "$1^{commit}" >/dev/null 2>&1
}

# Fetches the branch $1 to refs/onnxfit/base; a shallow clone stays one.
fetch_base() {
  local depth=()
  [[ $(in_repository rev-parse --is-shallow-repository 2>/dev/null) != true ]] || depth=(--depth=1)
  in_repository fetch --quiet --no-tags --no-recurse-submodules "${depth[@]}" origin \
    "+refs/heads/$1:refs/onnxfit/base"
}

# Sets `against` to what CHECK_AGAINST means, "" for the lock.
choose_baseline() {
  against=${CHECK_AGAINST:-}
  [[ $against == base ]] || return 0
  local branch=${GITHUB_BASE_REF:-}
  against=
  if [[ -z $branch ]]; then
    echo "not a pull request: compared with the lock"
  elif has_commit "refs/remotes/origin/$branch"; then
    against=git:refs/remotes/origin/$branch
  elif fetch_base "$branch" 2>"$scratch/git"; then
    against=git:refs/onnxfit/base
  else
    fail "the base branch '$branch' could not be fetched (try: fetch-depth: 0 of" \
      "actions/checkout), git says: $(cat "$scratch/git")"
  fi
}

# --- The check -----------------------------------------------------------------

# Sets `flags`.  Files of an earlier step go: they would look like answers.
choose_flags() {
  flags=(--format github)
  local i only
  for i in "${!files[@]}"; do
    [[ ${files[i]} != *$'\n'* ]] || fail "expected the name of a ${formats[i]} file, found lines"
    [[ -n ${files[i]} ]] || continue
    rm -f -- "${files[i]}"
    flags+=(--format "${formats[i]}=${files[i]}")
  done
  [[ -n ${files[2]} ]] || flags+=(--format "markdown=$scratch/memory.md")
  [[ -z $against ]] || flags+=("--against=$against")
  while IFS= read -r only; do
    [[ -z $only ]] || flags+=("--only=$only")
  done <<<"${CHECK_ONLY:-}"
}

# What onnxfit says beside its answer.  It names what models contain: no line of it may begin a
# workflow command.
show_warnings() {
  sed 's/^/onnxfit: /; s/##\[/# #[/g' "$scratch/errors" >&2
}

# Files that are there are outputs.
report_files() {
  local i markdown=${files[2]:-$scratch/memory.md}
  for i in "${!files[@]}"; do
    [[ ! -f ${files[i]} ]] || set_output "${formats[i]}" "${files[i]}"
  done
  [[ ! -f $markdown ]] || cat -- "$markdown" >>"$summary"
}

main() {
  local code=0
  trust_checkout
  choose_baseline
  choose_flags
  "${CHECK_BINARY:-onnxfit}" check "${flags[@]}" -- "$config" 2>"$scratch/errors" || code=$?
  report_files
  if ((code > 1)) && [[ -s $scratch/errors ]]; then
    tell "$(cat "$scratch/errors")"
  else
    show_warnings
  fi
  finish "$code"
}

main
