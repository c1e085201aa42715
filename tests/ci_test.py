"""Runs what ci/ offers to other repositories, in repositories made on the fly: the GitHub
action's script with the variables that the action gives it, the GitLab job's lines, the entry of
the pre-commit hook, all with a command that is there (wheel_test.py installs the wheel), and the
comment of docs/ci.md with a `gh` that only writes down what it is asked.

    ci_test.py --binary build/release/onnxfit
"""

import argparse
import json
import os
import re
import shlex
import subprocess
import sys
import tempfile
import unittest
import xml.etree.ElementTree as ET
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LENET = (ROOT / "models/lenet.onnxtxt").read_text(encoding="utf-8")
GROWN = LENET.replace("120", "1200")
MARKER = "<!-- onnxfit-check -->"
FILES = {"sarif": "memory.sarif", "junit": "memory.junit.xml", "markdown": "memory.md",
         "bench": "memory.bench.json"}
BINARY = ""  # of --binary

# --- YAML, as far as our own files need it --------------------------------------------------


def indent_of(line):
    return len(line) - len(line.lstrip())


def block(text, opening):
    """The lines below the first one that is `opening`, as far as they are deeper, moved left."""
    lines = text.split("\n")
    first = next(i for i, line in enumerate(lines) if line.strip() == opening)
    deeper = []
    for line in lines[first + 1:]:
        if line.strip() and indent_of(line) <= indent_of(lines[first]):
            break
        deeper.append(line)
    edge = min(indent_of(line) for line in deeper if line.strip())
    return "\n".join(line[edge:] for line in deeper).rstrip() + "\n"


def keys(text):
    """name → value of the keys of `text` that are not deeper than its first."""
    found = re.findall(r"^([A-Za-z_-]+):[ ]*([^#\n]*?)(?:[ ]+#.*)?$", text, re.MULTILINE)
    return {name: value.strip("'\"") for name, value in found}


def read(path):
    return (ROOT / path).read_text(encoding="utf-8")


# --- What a runner does ---------------------------------------------------------------------


def environment(home, **more):
    """This process's, without what would steer git, onnxfit or a script."""
    steering = ("ONNXFIT_", "CHECK_", "GIT_", "GITHUB_", "CI_", "RUNNER_")
    plain = {k: v for k, v in os.environ.items() if not k.startswith(steering)}
    who = {f"GIT_{role}_{part}": f"{role.lower()}@example.com"
           for role in ("AUTHOR", "COMMITTER") for part in ("NAME", "EMAIL")}
    return plain | who | {"HOME": str(home), "GIT_CONFIG_NOSYSTEM": "1",
                          "GIT_CONFIG_GLOBAL": os.devnull} | more


class Run:
    def __init__(self, words, folder, env):
        done = subprocess.run(words, cwd=folder, env=env, stdin=subprocess.DEVNULL, timeout=60,
                              encoding="utf-8", capture_output=True)
        self.code, self.out, self.err = done.returncode, done.stdout, done.stderr
        self.outputs, self.summary = {}, ""

    @property
    def commands(self):
        """The workflow commands: GitHub reads both streams."""
        lines = (self.out + self.err).splitlines()
        return [line for line in lines if line.lstrip().startswith("::") or "##[" in line]


def action_step():
    text = read("ci/github/action.yml")
    return text[text.index("- name: Check\n"):]


def action_variables(inputs):
    """The variables of the action's step, for what a workflow writes under `with:`."""
    declared = block(read("ci/github/action.yml"), "inputs:")
    defaults = {name: keys(block(declared, f"{name}:"))["default"] for name in keys(declared)}
    assert set(inputs) <= set(defaults), inputs
    values = defaults | inputs
    return {name: values[re.search(r"inputs\.([a-z-]+)", value)[1]]
            for name, value in keys(block(action_step(), "env:")).items()}


def action_command():
    return re.search(r"^ *run: (.*)$", action_step(), re.MULTILINE)[1]


class Workplace(unittest.TestCase):
    """A folder of its own for each test."""

    def setUp(self):
        self.make_home()

    def make_home(self):
        holder = tempfile.TemporaryDirectory(prefix="onnxfit ci ")
        self.addCleanup(holder.cleanup)
        self.home = Path(holder.name)

    def git(self, folder, *words):
        return subprocess.run(["git", "-C", str(folder), *words], env=environment(self.home),
                              check=True, encoding="utf-8", capture_output=True).stdout.strip()

    def onnxfit(self, folder, *words):
        subprocess.run([BINARY, *words], cwd=folder, env=environment(self.home), check=True,
                       capture_output=True)

    def write(self, folder, models, config="onnxfit.toml"):
        """A model a name, and a check of each."""
        text = ""
        for name, model in models.items():
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(model, encoding="utf-8")
            text += f"[[check]]\nmodel = {json.dumps(name)}\nbatch = 32\n"
        (folder / config).write_text(text, encoding="utf-8")

    def commit(self, folder):
        self.git(folder, "add", "-A")
        self.git(folder, "commit", "-q", "--allow-empty", "-m", "a change")
        return self.git(folder, "rev-parse", "HEAD")

    def repository(self, models=None, name="work", lock=True, config="onnxfit.toml"):
        folder = self.home / name
        folder.mkdir(parents=True)
        self.git(folder, "init", "-q", "-b", "main")
        self.write(folder, models or {"models/lenet.onnxtxt": LENET}, config)
        if lock:
            self.onnxfit(folder, "check", "--update", "--", config)
        self.commit(folder)
        return folder

    def pull_request(self, model, branch="feature"):
        """A shallow clone of a branch that changes the model, and where it comes from."""
        origin = self.repository(name="origin", lock=False)
        self.commit(origin)
        self.git(origin, "checkout", "-q", "-b", branch)
        self.write(origin, {"models/lenet.onnxtxt": model})
        self.commit(origin)
        self.git(origin, "checkout", "-q", "main")
        return self.clone(origin, branch, "--depth=1"), origin

    def clone(self, origin, branch, *flags, name="clone"):
        self.git(self.home, "clone", "-q", *flags, "--branch", branch, origin.as_uri(), name)
        return self.home / name

    def act(self, folder, env=None, **inputs):
        """The action's last step: its `run` line, as GitHub calls bash."""
        output, summary = self.home / "output", self.home / "summary"
        for file in (output, summary):
            file.write_text("", encoding="utf-8")
        given = action_variables({"binary": BINARY} | inputs)
        runner = {"GITHUB_ACTION_PATH": str(ROOT / "ci/github"), "GITHUB_OUTPUT": str(output),
                  "GITHUB_STEP_SUMMARY": str(summary), "GITHUB_WORKSPACE": str(folder)}
        words = ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", action_command()]
        run = Run(words, folder, environment(self.home, **given, **runner, **(env or {})))
        run.outputs = dict(line.split("=", 1) for line in output.read_text().splitlines())
        run.summary = summary.read_text(encoding="utf-8")
        return run

    def assert_nothing_ran(self):
        self.assertEqual([str(p) for p in self.home.rglob("pwned*")], [])


# --- GitHub ---------------------------------------------------------------------------------


class Action(Workplace):
    def test_all_pass(self):
        folder = self.repository()
        run = self.act(folder)
        self.assertEqual((run.code, run.err, run.commands), (0, "", []))
        self.assertEqual(run.out, "PASS: 1 pass\n")
        self.assertEqual(run.outputs, FILES | {"status": "pass", "exit-code": "0"})
        self.assertEqual(run.summary, (folder / "memory.md").read_text(encoding="utf-8"))

    def test_a_grown_model_fails(self):
        folder = self.repository()
        self.write(folder, {"models/lenet.onnxtxt": GROWN})
        run = self.act(folder)
        self.assertEqual(run.code, 1)
        self.assertEqual(run.outputs, FILES | {"status": "fail", "exit-code": "1"})
        self.assertEqual(len(run.commands), 1)
        self.assertIn("::error file=onnxfit.toml,line=1,title=onnxfit%3A lenet::grew by 20.0 MiB",
                      run.commands[0])
        self.assertTrue(run.summary.startswith(f"{MARKER}\n**FAIL: 1 fail**\n"))
        self.assertEqual(ET.parse(folder / "memory.junit.xml").getroot().get("failures"), "1")
        sarif = json.loads((folder / "memory.sarif").read_text(encoding="utf-8"))
        self.assertEqual([r["ruleId"] for r in sarif["runs"][0]["results"]], ["memory-grew"])
        bench = json.loads((folder / "memory.bench.json").read_text(encoding="utf-8"))
        self.assertEqual([row["name"] for row in bench], ["lenet"])

    def test_no_lock_yet(self):
        folder = self.repository(lock=False)
        run = self.act(folder)
        self.assertEqual((run.code, run.outputs["status"]), (1, "fail"))
        self.assertEqual([c.split(" ")[0] for c in run.commands], ["::error", "::notice"])
        self.assertIn("::error file=onnxfit.lock.json,title=onnxfit%3A onnxfit.lock.json::"
                      "not compared: there is no such file", run.commands[0])
        self.assertIn("onnxfit check --update", run.commands[0])

    def test_a_config_that_wants_no_lock(self):
        for lock, status in (("optional", ["::notice"]), ("none", [])):
            with self.subTest(lock=lock):
                self.make_home()
                folder = self.repository(lock=False)
                config = (folder / "onnxfit.toml").read_text(encoding="utf-8")
                (folder / "onnxfit.toml").write_text(f'[defaults]\nlock = "{lock}"\n{config}',
                                                     encoding="utf-8")
                run = self.act(folder)
                self.assertEqual((run.code, run.outputs["status"]), (0, "pass"), run.out)
                self.assertEqual([c.split(" ")[0] for c in run.commands], status)

    def test_a_lock_that_lost_its_check(self):
        folder = self.repository({"a.onnxtxt": LENET, "b.onnxtxt": LENET})
        self.write(folder, {"b.onnxtxt": LENET, "c.onnxtxt": LENET})
        run = self.act(folder)
        self.assertEqual((run.code, run.outputs["status"]), (1, "fail"))
        self.assertEqual([c.split("::")[-1].split("%0A")[0] for c in run.commands],
                         ["not compared: the lock does not have it",
                          "not compared: it is in the lock, and no check has it"])

    def test_no_answer(self):
        folder = self.repository()
        self.act(folder)  # leaves files, which a later step must not take for its own
        (folder / "onnxfit.toml").write_text("[[check]\n", encoding="utf-8")
        run = self.act(folder)
        self.assertEqual(run.code, 2)
        self.assertEqual((run.outputs["status"], run.outputs["exit-code"]), ("error", "2"))
        self.assertEqual(len(run.commands), 1)
        self.assertIn("::error file=onnxfit.toml,title=onnxfit%3A onnxfit.toml::line 1",
                      run.commands[0])
        self.assertIn("**ERROR: 1 error**", run.summary)
        for name in FILES.values():
            self.assertNotIn("lenet", (folder / name).read_text(encoding="utf-8"))

    def test_no_binary(self):
        run = self.act(self.repository(), binary="/no/such/onnxfit")
        self.assertEqual((run.code, run.outputs["status"]), (127, "error"))
        self.assertEqual(len(run.commands), 1)

    def test_several_checks(self):
        folder = self.repository({"a.onnxtxt": LENET, "b.onnxtxt": LENET, "c.onnxtxt": LENET})
        self.write(folder, {"a.onnxtxt": GROWN, "b.onnxtxt": LENET, "c.onnxtxt": GROWN})
        rows = (
            ("", 1, "FAIL: 2 fail, 1 pass"),
            ("b", 0, "PASS: 1 pass"),
            ("b\n\nc*\n", 1, "FAIL: 1 fail, 1 pass"),
            ("none", 2, "::error"),
            ("--update", 2, "::error"),
        )
        for only, code, first in rows:
            with self.subTest(only=only):
                run = self.act(folder, only=only)
                self.assertEqual((run.code, first in run.out), (code, True), run.out + run.err)

    def test_files(self):
        folder = self.repository()
        wanted = {"sarif": "", "junit": "reports/my junit.xml", "markdown": "", "bench": "b=c.json"}
        run = self.act(folder, **wanted)
        self.assertEqual(run.code, 0, run.out + run.err)
        self.assertEqual(run.outputs, {"status": "pass", "exit-code": "0",
                                       "junit": "reports/my junit.xml", "bench": "b=c.json"})
        self.assertTrue((folder / "reports/my junit.xml").exists())
        self.assertFalse((folder / "memory.md").exists())
        self.assertTrue(run.summary.startswith(MARKER))

    def test_paths_with_spaces(self):
        folder = self.repository({"my models/le net.onnxtxt": LENET}, name="my work",
                                 config="my config.toml")
        self.write(folder, {"my models/le net.onnxtxt": GROWN}, config="my config.toml")
        run = self.act(folder, config="my config.toml")
        self.assertEqual(run.code, 1)
        self.assertIn("file=my config.toml,", run.commands[0])

    def test_a_config_in_a_folder(self):
        folder = self.repository(name="work/inner").parent
        run = self.act(folder, config="inner/onnxfit.toml", against="git:HEAD")
        self.assertEqual((run.code, run.out), (0, "PASS: 1 pass, compared with git:HEAD\n"))


class BaseBranch(Workplace):
    def against_base(self, folder, branch="main", **inputs):
        return self.act(folder, env={"GITHUB_BASE_REF": branch}, against="base", **inputs)

    def test_a_shallow_clone_fetches_the_base(self):
        for model, code in ((LENET, 0), (GROWN, 1)):
            with self.subTest(code=code):
                self.make_home()
                clone, _ = self.pull_request(model)
                run = self.against_base(clone)
                self.assertEqual(run.code, code, run.out + run.err)
                self.assertEqual("grew by 20.0 MiB" in run.out, code == 1)
                self.assertEqual(self.git(clone, "rev-parse", "--is-shallow-repository"), "true")
                self.assertEqual(self.git(clone, "rev-list", "--count", "--all"), "2")

    def test_what_an_earlier_run_fetched_is_not_taken_again(self):
        clone, origin = self.pull_request(GROWN)
        self.assertEqual(self.against_base(clone).code, 1)
        self.write(origin, {"models/lenet.onnxtxt": GROWN})
        self.commit(origin)
        self.assertEqual(self.against_base(clone).code, 0)

    def test_a_tag_of_its_name_is_not_the_base(self):
        clone, origin = self.pull_request(GROWN)
        self.git(origin, "tag", "main", "feature")
        self.assertEqual(self.against_base(clone).code, 1)

    @unittest.skipUnless(os.geteuid() == 0, "gives a folder to another user")
    def test_a_clone_of_another_user(self):
        clone, _ = self.pull_request(GROWN)
        for path in [clone, *clone.rglob("*")]:
            os.chown(path, 1234, 1234)
        run = self.against_base(clone)
        self.assertEqual(run.code, 1, run.out + run.err)

    def test_a_base_that_is_there_needs_no_remote(self):
        _, origin = self.pull_request(GROWN)
        clone = self.clone(origin, "feature", name="whole")
        self.git(clone, "remote", "set-url", "origin", "/no/such/remote")
        self.assertEqual(self.against_base(clone).code, 1)

    def test_a_whole_clone_stays_whole(self):
        _, origin = self.pull_request(GROWN)
        clone = self.clone(origin, "feature", "--single-branch", name="whole")
        self.assertEqual(self.against_base(clone).code, 1)
        self.assertEqual(self.git(clone, "rev-parse", "--is-shallow-repository"), "false")

    def test_a_base_that_cannot_be_fetched(self):
        clone, _ = self.pull_request(LENET)
        run = self.against_base(clone, branch="gone")
        self.assertEqual((run.code, run.outputs), (2, {"status": "error", "exit-code": "2"}))
        self.assertIn("::error title=onnxfit check::error: the base branch 'gone' could not be "
                      "fetched (try: fetch-depth: 0 of actions/checkout), git says: ",
                      run.commands[0])

    def test_several_lines_of_git_are_one_annotation(self):
        clone, _ = self.pull_request(LENET)
        self.git(clone, "remote", "set-url", "origin", "/no/such/100%0A")
        run = self.against_base(clone)
        self.assertEqual((run.code, run.err, run.out.count("\n")), (2, "", 1), run.out)
        self.assertIn("git says: fatal: '/no/such/100%250A' does not appear", run.out)
        self.assertIn("a git repository%0Afatal: ", run.out)
        self.assertIn("\n    fatal: ", run.summary)

    def test_outside_of_pull_requests_it_is_the_lock(self):
        folder = self.repository()
        self.write(folder, {"models/lenet.onnxtxt": GROWN})
        run = self.against_base(folder, branch="")
        self.assertEqual(run.code, 1)
        self.assertIn("not a pull request: compared with the lock\n", run.out)

    def test_another_ref_is_taken_as_it_is(self):
        folder = self.repository()
        self.write(folder, {"models/lenet.onnxtxt": GROWN})
        self.assertEqual(self.act(folder, against="git:HEAD").code, 1)
        self.assertEqual(self.act(folder, against="git:nowhere").code, 2)


class Malice(Workplace):
    NAMES = ("$(touch pwned)", "`touch pwned`", "; touch pwned", "a & touch pwned", "-x",
             "${{ github.token }}", "x' || touch pwned", 'x" || touch pwned')
    BRANCHES = ("$(touch${IFS}pwned)", "`touch${IFS}pwned`", ";touch${IFS}pwned", "a&pwned",
                "-x", "'\"")

    def test_names_of_files(self):
        for name in self.NAMES:
            with self.subTest(name=name):
                self.make_home()
                model = f"./{name}.onnxtxt"
                folder = self.repository({model: LENET}, config=f"{name}.toml")
                self.write(folder, {model: GROWN}, config=f"{name}.toml")
                run = self.act(folder, config=f"{name}.toml", junit=f"{name}.xml",
                               against="git:HEAD")
                self.assertEqual((run.code, len(run.commands)), (1, 1), run.out + run.err)
                self.assertTrue((folder / f"{name}.xml").exists())
                self.assert_nothing_ran()

    def test_names_of_branches(self):
        for branch in self.BRANCHES:
            with self.subTest(branch=branch):
                self.make_home()
                clone, origin = self.pull_request(GROWN)
                self.git(origin, "update-ref", f"refs/heads/{branch}", "main")
                run = self.act(clone, env={"GITHUB_BASE_REF": branch}, against="base")
                self.assertEqual(run.code, 1, run.out + run.err)
                self.assert_nothing_ran()

    def test_inputs(self):
        folder = self.repository()
        for name in self.NAMES:
            for key in ("config", "against", "only", "binary"):
                with self.subTest(name=name, key=key):
                    run = self.act(folder, **{key: name})
                    self.assertGreaterEqual(run.code, 2)
                    errors = [c for c in run.commands if c.startswith("::error")]
                    self.assertEqual(len(errors), 1)
                    # Each check of the config says that it was not compared.
                    notices = 1 if key == "against" else 0
                    self.assertEqual(len(run.commands), 1 + notices)
                    self.assert_nothing_ran()

    def test_warnings_are_no_commands(self):
        fake = self.home / "onnxfit"
        fake.write_text("#!/bin/sh\necho '::warning::x' >&2\necho 'a ##[error]x' >&2\n")
        fake.chmod(0o755)
        run = self.act(self.repository(lock=False), binary=str(fake))
        self.assertEqual((run.code, run.commands, run.outputs),
                         (0, [], {"status": "pass", "exit-code": "0"}))
        self.assertEqual(run.err, "onnxfit: ::warning::x\nonnxfit: a # #[error]x\n")

    def test_lines_are_no_commands_and_no_outputs(self):
        folder = self.repository()
        run = self.act(folder, config="x\n::warning::pwned")
        self.assertEqual((run.code, len(run.commands)), (2, 1), run.out + run.err)
        run = self.act(folder, sarif="x\nstatus=pass")
        self.assertEqual((run.code, run.outputs), (2, {"status": "error", "exit-code": "2"}))


class Metadata(unittest.TestCase):
    def test_no_expression_is_shell_code(self):
        text = read("ci/github/action.yml")
        lines = re.findall(r"^ *(?:- )?run: (.*)$", text, re.MULTILINE)
        self.assertEqual(len(lines), 2)
        self.assertEqual([line for line in lines if "${{" in line or line in "|>"], [])
        for script in ("check.sh", "install.sh"):
            self.assertNotIn("${{", read(f"ci/github/{script}"))

    def test_scripts_read_what_the_action_gives(self):
        text = read("ci/github/action.yml")
        installing = text[text.index("- name: Install"):text.index("- name: Check")]
        rows = (("check.sh", "CHECK_", action_step()), ("install.sh", "INSTALL_", installing))
        for script, prefix, step in rows:
            given = set(keys(block(step, "env:")))
            read_there = set(re.findall(prefix + "[A-Z]+", read(f"ci/github/{script}")))
            self.assertEqual(read_there, given)

    def test_outputs_are_those_of_the_script(self):
        outputs = block(read("ci/github/action.yml"), "outputs:")
        self.assertEqual(set(keys(outputs)), set(FILES) | {"status", "exit-code"})
        for name in keys(outputs):
            value = keys(block(outputs, f"{name}:"))["value"]
            self.assertEqual(value, f"${{{{ steps.check.outputs.{name} }}}}")

    def test_the_example_gives_inputs_that_there_are(self):
        inputs = set(keys(block(read("ci/github/action.yml"), "inputs:")))
        example = read("ci/github/example.yml")
        step = example[example.index("actions/onnxfit"):].replace("# against", "against")
        self.assertEqual(set(keys(block(step, "with:"))), {"config", "against"})
        self.assertLessEqual(set(keys(block(step, "with:"))), inputs)

    def test_scripts_are_bash(self):
        scripts = ("ci/github/check.sh", "ci/github/install.sh", "tools/wheel.sh", "project")
        for script in scripts:
            self.assertEqual(subprocess.run(["bash", "-n", script], cwd=ROOT).returncode, 0)


# --- GitLab and pre-commit ------------------------------------------------------------------


class GitLab(Workplace):
    def job(self, folder, shell="sh", **variables):
        text = read("ci/gitlab/onnxfit.gitlab-ci.yml")
        given = keys(block(text, "variables:")) | {"CHECK_BINARY": BINARY} | variables
        words = {"sh": ["sh", "-e"], "bash": ["bash", "-eo", "pipefail"]}[shell]
        script = block(block(text, "script:"), "- |")
        return Run([*words, "-c", script], folder, environment(self.home, **given))

    def test_all_pass_and_a_grown_model_fails(self):
        for shell in ("sh", "bash"):
            with self.subTest(shell=shell):
                self.make_home()
                folder = self.repository({"my models/le net.onnxtxt": LENET}, name="my work")
                run = self.job(folder, shell)
                self.assertEqual((run.code, run.err), (0, ""))
                self.write(folder, {"my models/le net.onnxtxt": GROWN})
                run = self.job(folder, shell)
                self.assertEqual((run.code, run.err), (1, ""))
                self.assertTrue(run.out.startswith("FAIL: 1 fail\n"))

    def test_reports_are_where_the_job_says(self):
        folder = self.repository()
        self.write(folder, {"models/lenet.onnxtxt": GROWN})
        self.job(folder)
        reports = keys(block(read("ci/gitlab/onnxfit.gitlab-ci.yml"), "reports:"))
        self.assertEqual(set(reports), {"junit", "codequality"})
        self.assertEqual(ET.parse(folder / reports["junit"]).getroot().get("failures"), "1")
        issues = json.loads((folder / reports["codequality"]).read_text(encoding="utf-8"))
        self.assertEqual([issue["check_name"] for issue in issues], ["memory-grew"])
        self.assertTrue((folder / "memory.md").read_text(encoding="utf-8").startswith(MARKER))

    def test_against_the_base(self):
        rows = (
            (LENET, "CI_MERGE_REQUEST_DIFF_BASE_SHA", 0),
            (GROWN, "CI_MERGE_REQUEST_DIFF_BASE_SHA", 1),
            (GROWN, "CI_MERGE_REQUEST_TARGET_BRANCH_SHA", 1),
        )
        for model, variable, code in rows:
            with self.subTest(variable=variable, code=code):
                self.make_home()
                clone, origin = self.pull_request(model)
                sha = {variable: self.git(origin, "rev-parse", "main")}
                run = self.job(clone, CHECK_AGAINST="base", **sha)
                self.assertEqual((run.code, run.err), (code, ""))

    def test_outside_of_merge_requests_it_is_the_lock(self):
        folder = self.repository()
        self.write(folder, {"models/lenet.onnxtxt": GROWN})
        self.assertEqual(self.job(folder, CHECK_AGAINST="base").code, 1)

    def test_a_base_that_is_nowhere_fails(self):
        clone, _ = self.pull_request(LENET)
        sha = {"CI_MERGE_REQUEST_DIFF_BASE_SHA": "1" * 40}
        self.assertNotEqual(self.job(clone, CHECK_AGAINST="base", **sha).code, 0)

    def test_the_example_extends_the_job(self):
        self.assertIn("\n.onnxfit-check:\n", read("ci/gitlab/onnxfit.gitlab-ci.yml"))
        self.assertIn("\n  extends: .onnxfit-check\n", read("ci/gitlab/example.gitlab-ci.yml"))


class PreCommit(Workplace):
    def hook(self):
        text = read("ci/pre-commit/example.pre-commit-config.yaml")
        return keys(block(text.replace("- id", "  id"), "hooks:"))

    def run_hook(self, folder):
        binaries = self.home / "binaries"
        binaries.mkdir(exist_ok=True)
        if not (binaries / "onnxfit").exists():
            (binaries / "onnxfit").symlink_to(BINARY)
        path = f"{binaries}{os.pathsep}{os.environ['PATH']}"
        return Run(shlex.split(self.hook()["entry"]), folder, environment(self.home, PATH=path))

    def test_its_entry(self):
        folder = self.repository()
        self.assertEqual(self.run_hook(folder).code, 0)
        self.write(folder, {"models/lenet.onnxtxt": GROWN})
        self.assertEqual(self.run_hook(folder).code, 1)

    def test_its_files(self):
        self.assertEqual(self.hook()["pass_filenames"], "false")
        pattern = re.compile(self.hook()["files"])
        rows = (
            ("models/a.onnx", True), ("a.onnxtxt", True), ("onnxfit.toml", True),
            ("models/a.pt2", True), ("a.pt2.bak", False), ("a.pt", False), ("apt2", False),
            ("x/onnxfit.lock.json", True), ("a.onnx.data", False), ("myonnxfit.toml", False),
            ("onnxfit.toml.bak", False), ("train.py", False),
        )
        for name, runs in rows:
            with self.subTest(name=name):
                self.assertEqual(bool(pattern.search(name)), runs)


# --- The docs -------------------------------------------------------------------------------

FAKE_GH = """#!/bin/sh
printf '%s\\n' "$*" >> asked
case "$*" in *--paginate*) cat known ;; esac
"""


class Comment(Workplace):
    def ask(self, known):
        """What `gh` is asked, where the pull request has the comments `known`."""
        (self.home / "gh").write_text(FAKE_GH, encoding="utf-8")
        (self.home / "gh").chmod(0o755)
        (self.home / "known").write_text(known, encoding="utf-8")
        (self.home / "asked").unlink(missing_ok=True)
        env = environment(self.home, PATH=f"{self.home}{os.pathsep}{os.environ['PATH']}",
                          GITHUB_REPOSITORY="o/r", COMMENTS="repos/o/r/issues/7/comments",
                          FILE="memory.md")
        script = block(read("docs/ci.md"), "run: |")
        run = Run(["bash", "-eo", "pipefail", "-c", script], self.home, env)
        self.assertEqual((run.code, run.err), (0, ""))
        return (self.home / "asked").read_text(encoding="utf-8").splitlines()

    def test_one_comment_is_written_and_then_renewed(self):
        asked = self.ask(known="")
        self.assertIn(f'startswith("{MARKER}")', asked[0])
        self.assertEqual(asked[1:], ["api repos/o/r/issues/7/comments -F body=@memory.md"])
        asked = self.ask(known="41\n42\n")
        self.assertEqual(asked[1:],
                         ["api -X PATCH repos/o/r/issues/comments/41 -F body=@memory.md"])


def main():
    global BINARY
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--binary", required=True)
    arguments, rest = parser.parse_known_args()
    BINARY = str(Path(arguments.binary).resolve())
    unittest.main(argv=[sys.argv[0], *rest])


if __name__ == "__main__":
    main()
