"""What shells complete, asked of the shells that are here; and the manual's page, by groff.

    completion_test.py --binary build/release/onnxfit
"""

import argparse
import re
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

BINARY = ""

# Asks bash as readline would: the words so far, the last of them half typed.
ASK_BASH = """
source /dev/stdin <<'SCRIPT'
{script}
SCRIPT
COMP_WORDS=({words}) COMP_CWORD=$(({count} - 1))
_onnxfit
printf '%s\\n' "${{COMPREPLY[@]}}"
"""


def completion_for(shell):
    return subprocess.run([BINARY, "completion", shell], capture_output=True, text=True,
                          check=True).stdout


def bash_completes(*words):
    quoted = " ".join(f"'{word}'" for word in words)
    script = ASK_BASH.format(script=completion_for("bash"), words=quoted, count=len(words))
    run = subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=True)
    return [line for line in run.stdout.splitlines() if line]


class Completion(unittest.TestCase):
    def test_commands_come_first(self):
        self.assertEqual(bash_completes("onnxfit", "max"), ["max-batch"])
        self.assertEqual(bash_completes("onnxfit", "expl"), ["explain-oom", "explain"])

    def test_words_of_commands(self):
        self.assertEqual(bash_completes("onnxfit", "explain", "OF101"), ["OF101"])
        self.assertEqual(bash_completes("onnxfit", "completion", "ba"), ["bash"])
        self.assertIn("rtx4090", bash_completes("onnxfit", "gpus", "rtx40"))

    def test_names_of_files_keep_their_spaces(self):
        with tempfile.TemporaryDirectory() as folder:
            for name in ("a model.onnx", "a model.pt2"):
                (Path(folder) / name).touch()
            self.assertEqual(sorted(bash_completes("onnxfit", "-b", "1", f"{folder}/a m")),
                             [f"{folder}/a model.onnx", f"{folder}/a model.pt2"])

    def test_values_of_flags_that_have_a_list(self):
        self.assertEqual(bash_completes("onnxfit", "m.onnx", "-p", "amp"),
                         ["amp-bf16", "amp-fp16"])
        self.assertEqual(bash_completes("onnxfit", "m.onnx", "--in-place", "a"),
                         ["always", "auto"])
        self.assertEqual(bash_completes("onnxfit", "m.onnx", "--batch-norm", "k"), ["keep"])
        self.assertIn("memory-snapshot", bash_completes("onnxfit", "m.onnx", "--format", "mem"))
        self.assertIn("rtx4090", bash_completes("onnxfit", "m.onnx", "--gpu", "rtx409"))

    def test_flags_are_those_of_the_command(self):
        self.assertEqual(bash_completes("onnxfit", "max-batch", "m.onnx", "--mult"),
                         ["--multiple-of"])
        self.assertEqual(bash_completes("onnxfit", "m.onnx", "--mult"), [])
        self.assertIn("--timeline", bash_completes("onnxfit", "m.onnx", "--tim"))

    def test_scripts_can_be_read(self):
        for shell, check in (("bash", ["bash", "-n"]), ("zsh", ["zsh", "-n"]),
                             ("fish", ["fish", "--no-execute"])):
            with self.subTest(shell=shell):
                if shutil.which(shell) is None:
                    self.skipTest(f"no {shell} here")
                subprocess.run([*check, "/dev/stdin"], input=completion_for(shell), text=True,
                               check=True, capture_output=True)

    def test_every_flag_is_in_every_script(self):
        bash, fish, man = (completion_for(shell) for shell in ("bash", "fish", "man"))
        text = subprocess.run([BINARY, "--help", "all"], capture_output=True, text=True,
                              check=True).stdout
        flags = {word.rstrip(",") for line in text.splitlines() if line.startswith("  ")
                 for word in line.split()[:2] if word.startswith("--")}
        self.assertGreater(len(flags), 40)
        for flag in flags:
            with self.subTest(flag=flag):
                self.assertRegex(bash, rf'[ "]{flag}[ "]')
                self.assertIn(f"-l {flag[2:]} ", fish)
                self.assertRegex(man, re.escape(flag.replace("-", "\\-")) + r"[ ,\n]")

    @unittest.skipIf(shutil.which("groff") is None, "no groff here")
    def test_the_page_of_the_manual_has_no_warnings(self):
        run = subprocess.run(["groff", "-man", "-ww", "-z"], input=completion_for("man"), text=True,
                             capture_output=True, check=True)
        self.assertEqual(run.stderr, "")

    def test_another_shell_is_refused(self):
        run = subprocess.run([BINARY, "completion", "tcsh"], capture_output=True, text=True,
                             check=False)
        self.assertEqual(run.returncode, 2)
        self.assertIn("expected bash, zsh, fish or man, found 'tcsh'", run.stderr)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--binary", required=True)
    arguments, rest = parser.parse_known_args()
    BINARY = arguments.binary
    unittest.main(argv=[sys.argv[0], *rest])
