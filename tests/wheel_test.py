"""What other people do with onnxfit's wheel, in bare folders with an index of packages on this
machine: install it by pip, run the GitHub action, the GitLab job and the pre-commit hook of ci/.

    wheel_test.py --wheel build/dist/onnxfit-0.2.0-py3-none-manylinux_2_28_x86_64.whl
    wheel_test.py --binary build/release/onnxfit     # a wheel of this command, made in seconds

Runs with .deps/packing's Python, which has what packs a wheel, and pre-commit.
"""

import argparse
import functools
import http.server
import os
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import unittest
import zipfile
from pathlib import Path

import virtualenv.seed.wheels.embed
import yaml

ROOT = Path(__file__).resolve().parent.parent
VERSION = re.search(r"^project\(onnxfit VERSION ([0-9.]+)", (ROOT / "CMakeLists.txt").read_text(),
                    re.MULTILINE)[1]
LENET = ROOT / "models/lenet.onnxtxt"
PT2 = ROOT / "tests/data/pt2"
FILES = {"models/le net.onnxtxt": LENET, "models/net.pt2": PT2 / "lenet.train.pt2"}
CONFIG = "".join(f'[[check]]\nmodel = "{name}"\nbatch = 32\n' for name in FILES)
WHEEL = Path()  # of --wheel, or of --binary
INDEX = ""      # an address

# --- A wheel, and an index that has it ------------------------------------------------------


def wheel_of(binary, folder):
    """The wheel that pip would build, of a command that is there."""
    subprocess.run([sys.executable, "-m", "pip", "wheel", str(ROOT), "--quiet", "--no-deps",
                    "--no-build-isolation", "--wheel-dir", folder,
                    "--config-settings", f"cmake.define.ONNXFIT_COMMAND={Path(binary).resolve()}",
                    "--config-settings", f"build-dir={folder}/build"], check=True)
    return next(Path(folder).glob("*.whl"))


def serve(folder):
    """A simple index of the wheel, and of setuptools, which pre-commit's own packages need."""
    embedded = Path(virtualenv.seed.wheels.embed.__file__).parent
    for wheel in [WHEEL, *embedded.glob("setuptools-*.whl")]:
        place = Path(folder) / "simple" / wheel.name.split("-")[0]
        place.mkdir(parents=True, exist_ok=True)
        shutil.copy(wheel, place)
    handler = functools.partial(Quiet, directory=folder)
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return f"http://127.0.0.1:{server.server_port}/simple/"


class Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_):
        pass


# --- What a runner does ---------------------------------------------------------------------


def environment(home, **more):
    """This process's, without what would steer pip, git, onnxfit or a script."""
    steering = ("PIP_", "ONNXFIT_", "CHECK_", "GIT_", "GITHUB_", "CI_", "RUNNER_", "INSTALL_",
                "PYTHON", "VIRTUAL_ENV", "PRE_COMMIT")
    plain = {k: v for k, v in os.environ.items() if not k.startswith(steering)}
    who = {f"GIT_{role}_{part}": "who@example.com"
           for role in ("AUTHOR", "COMMITTER") for part in ("NAME", "EMAIL")}
    return plain | who | {"HOME": str(home), "PIP_CONFIG_FILE": os.devnull,
                          "GIT_CONFIG_GLOBAL": os.devnull, "RUNNER_TEMP": f"{home}/runner",
                          "GIT_CONFIG_NOSYSTEM": "1"} | more


def read_yaml(path):
    return yaml.safe_load((ROOT / path).read_text(encoding="utf-8"))


class BareFolder(unittest.TestCase):
    """A repository of two models and a config, an ONNX file and a .pt2, beside nothing else."""

    def setUp(self):
        holder = tempfile.TemporaryDirectory(prefix="onnxfit wheel ")
        self.addCleanup(holder.cleanup)
        self.home = Path(holder.name)
        self.folder = self.home / "work"
        for name, file in FILES.items():
            (self.folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(file, self.folder / name)
        (self.folder / "onnxfit.toml").write_text(CONFIG, encoding="utf-8")

    def run_in(self, words, **env):
        return subprocess.run(words, cwd=self.folder, env=environment(self.home, **env),
                              stdin=subprocess.DEVNULL, timeout=300, encoding="utf-8",
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)

    def lock(self):
        """Commits what the models take now, by the command that is in the wheel."""
        with zipfile.ZipFile(WHEEL) as archive:
            name = f"onnxfit-{VERSION}.data/scripts/onnxfit"
            command = Path(archive.extract(name, self.home))
        command.chmod(0o755)
        for words in (["git", "init", "-q", "-b", "main"], [str(command), "check", "--update"],
                      ["git", "add", "-A"], ["git", "commit", "-q", "-m", "models"]):
            run = self.run_in(words)
            self.assertEqual(run.returncode, 0, run.stdout)

    def grow(self):
        text = LENET.read_text(encoding="utf-8").replace("120", "1200")
        (self.folder / "models/le net.onnxtxt").write_text(text, encoding="utf-8")
        shutil.copy(PT2 / "resnet18.train.pt2", self.folder / "models/net.pt2")

    def assert_grows_are_seen(self, check):
        """`check` runs once: passes on what is committed, names both models where both grew."""
        self.lock()
        run = check()
        self.assertEqual(run.returncode, 0, run.stdout)
        self.grow()
        run = check()
        self.assertEqual((run.returncode, run.stdout.count("grew by")), (1, 2), run.stdout)


# --- The wheel ------------------------------------------------------------------------------


class Wheel(BareFolder):
    def test_what_is_in_it(self):
        with zipfile.ZipFile(WHEEL) as archive:
            names = {n for n in archive.namelist() if ".dist-info/" not in n}
        package = {f"onnxfit/{p.name}" for p in (ROOT / "python/onnxfit").iterdir() if p.is_file()}
        self.assertEqual(names, package | {f"onnxfit-{VERSION}.data/scripts/onnxfit"})
        self.assertRegex(WHEEL.name, rf"^onnxfit-{re.escape(VERSION)}-py3-none-")

    def test_a_plain_venv(self):
        python = self.home / "venv/bin/python"
        ask = "import onnxfit; print(onnxfit.estimate('models/net.pt2', batch=32).peak.device_bytes)"
        rows = (
            ([sys.executable, "-m", "venv", self.home / "venv"], "^$"),
            ([python, "-m", "pip", "install", "--index-url", INDEX, f"onnxfit=={VERSION}"],
             "Successfully installed onnxfit"),
            ([self.home / "venv/bin/onnxfit", "--version"], f"^onnxfit {re.escape(VERSION)}\n"),
            ([self.home / "venv/bin/onnxfit", "models/net.pt2", "-b", "32"], "batch 32, fp32"),
            ([python, "-c", ask], r"^[0-9]+\n$"),
        )
        for words, expected in rows:
            run = self.run_in([str(word) for word in words])
            self.assertEqual(run.returncode, 0, run.stdout)
            self.assertRegex(run.stdout, expected)

    def test_its_glibc_is_checked(self):
        """The check refuses a command that needs a newer one than the name of its wheel says."""
        own = re.search(r"manylinux_(\d+_\d+)_", WHEEL.name)  # a wheel made in seconds has none
        for glibc, code in (("9_99", 0), ("2_2", 1), (own[1] if own else "9_99", 0)):
            named = self.home / re.sub(r"none-.*", f"none-manylinux_{glibc}_any.whl", WHEEL.name)
            shutil.copy(WHEEL, named)
            run = self.run_in([sys.executable, str(ROOT / "tools/check_wheel.py"), str(named)])
            self.assertEqual(run.returncode, code, run.stdout)
            self.assertEqual("found a symbol of GLIBC_2." in run.stdout, code == 1)


# --- ci/ ------------------------------------------------------------------------------------


class GitHub(BareFolder):
    """The action's steps, in a copy of its folder, as the docs say."""

    def setUp(self):
        super().setUp()
        self.action = self.folder / ".github/actions/onnxfit"
        shutil.copytree(ROOT / "ci/github", self.action)

    def act(self, **inputs):
        action = yaml.safe_load((self.action / "action.yml").read_text(encoding="utf-8"))
        self.assertLessEqual(set(inputs), set(action["inputs"]))
        given = {name: row["default"] for name, row in action["inputs"].items()} | inputs
        outputs = {}
        for step in action["runs"]["steps"]:
            if "if" in step:
                self.assertEqual(step["if"], "inputs.binary == ''")
                if given["binary"]:
                    continue
            env = {k: self.value(v, given, outputs) for k, v in step.get("env", {}).items()}
            run, outputs[step["id"]] = self.step(step["run"], env)
            if run.returncode:
                break
        return run

    @staticmethod
    def value(expression, given, outputs):
        """Of "${{ inputs.a || steps.b.outputs.c }}"."""
        found = ""
        for name in re.fullmatch(r"\$\{\{ (.*) \}\}", expression)[1].split(" || "):
            parts = name.split(".")
            found = found or (given[parts[1]] if parts[0] == "inputs" else
                              outputs.get(parts[1], {}).get(parts[3], ""))
        return found

    def step(self, command, env):
        output = self.home / "output"
        output.write_text("", encoding="utf-8")
        run = self.run_in(["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", command],
                          GITHUB_ACTION_PATH=str(self.action), GITHUB_OUTPUT=str(output),
                          GITHUB_WORKSPACE=str(self.folder), **env)
        return run, dict(line.split("=", 1) for line in output.read_text().splitlines())

    def test_grown_models_fail(self):
        self.assert_grows_are_seen(lambda: self.act(**{"index-url": INDEX}))

    def test_its_version_is_this_one(self):
        inputs = read_yaml("ci/github/action.yml")["inputs"]
        self.assertEqual(str(inputs["version"]["default"]), VERSION)

    def test_what_cannot_be_installed_is_an_annotation(self):
        run = self.act(**{"index-url": INDEX, "version": "$(touch pwned)"})
        self.assertEqual(run.returncode, 2, run.stdout)
        self.assertIn("::error title=onnxfit check::onnxfit could not be installed", run.stdout)
        self.assertEqual(list(self.folder.rglob("pwned")), [])

    def test_the_example_uses_the_copy(self):
        steps = read_yaml("ci/github/example.yml")["jobs"]["memory"]["steps"]
        used = [step["uses"] for step in steps if step["uses"].startswith("./")]
        self.assertEqual(used, ["./" + str(self.action.relative_to(self.folder))])


class GitLab(BareFolder):
    def job(self):
        job = read_yaml("ci/gitlab/onnxfit.gitlab-ci.yml")[".onnxfit-check"]
        self.assertEqual(str(job["variables"]["CHECK_VERSION"]), VERSION)
        given = {k: str(v) for k, v in job["variables"].items()} | {"CHECK_INDEX": INDEX}
        return self.run_in(["sh", "-e", "-c", "\n".join(job["script"])], **given)

    def test_grown_models_fail(self):
        self.assert_grows_are_seen(self.job)


class PreCommit(BareFolder):
    CONFIG = "ci/pre-commit/example.pre-commit-config.yaml"

    def hook(self):
        shutil.copy(ROOT / self.CONFIG, self.folder / ".pre-commit-config.yaml")
        self.run_in(["git", "add", "-A"])
        return self.run_in([sys.executable, "-m", "pre_commit", "run", "--all-files"],
                           PIP_INDEX_URL=INDEX, PRE_COMMIT_HOME=f"{self.home}/pre-commit")

    def test_grown_models_fail(self):
        self.assert_grows_are_seen(self.hook)

    def test_its_version_is_this_one(self):
        hook = read_yaml(self.CONFIG)["repos"][0]["hooks"][0]
        self.assertEqual(hook["additional_dependencies"], [f"onnxfit=={VERSION}"])


# --- The release ----------------------------------------------------------------------------


class Release(unittest.TestCase):
    """What can be seen of the workflow without running it."""

    JOBS = read_yaml(".github/workflows/release.yml")["jobs"]

    def test_commands_are_there(self):
        runs = [step["run"] for job in self.JOBS.values() for step in job["steps"] if "run" in step]
        ours = [re.search(r"(?:\./|/onnxfit/)([\w./]+\w)(?: (\w+))?", run) for run in runs]
        found = {match[1]: match[2] for match in ours if match}
        self.assertEqual(set(found), {"project", "tools/try_wheel.sh"})
        for name in found:
            self.assertTrue((ROOT / name).is_file(), name)
        commands = (ROOT / "project").read_text(encoding="utf-8")
        self.assertTrue(f'  "{found["project"]} "' in commands, found["project"])

    def test_docs_name_this_version(self):
        for page in ("docs/ci.md", "docs/install.md"):
            text = (ROOT / page).read_text(encoding="utf-8")
            named = re.findall(r"(?:onnxfit==|onnxfit-|(?i:version): )([0-9][0-9.]*[0-9])", text)
            self.assertEqual(set(named), {VERSION}, page)

    def test_jobs_wait_for_each_other(self):
        self.assertEqual({name: job.get("needs") for name, job in self.JOBS.items()},
                         {"build": None, "try": "build", "publish": "try"})

    def test_only_publishing_may_write(self):
        allowed = {name: job.get("permissions") for name, job in self.JOBS.items()}
        self.assertEqual(allowed, {"build": None, "try": None,
                                   "publish": {"contents": "write", "id-token": "write"}})
        workflow = read_yaml(".github/workflows/release.yml")
        self.assertEqual(workflow["permissions"], {"contents": "read"})
        self.assertEqual(workflow[True], {"push": {"tags": ["v*"]}})  # "on" is a truth in YAML 1.1


def main():
    global WHEEL, INDEX
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--wheel")
    parser.add_argument("--binary")
    arguments, rest = parser.parse_known_args()
    with tempfile.TemporaryDirectory() as folder:
        if arguments.wheel:
            WHEEL = Path(arguments.wheel).resolve()
        else:
            WHEEL = wheel_of(arguments.binary, f"{folder}/wheel")
        INDEX = serve(f"{folder}/index")
        unittest.main(argv=[sys.argv[0], *rest])


if __name__ == "__main__":
    main()
