"""That a run leaves the user's files as they are: what programs of all kinds write, rename and remove
below the library that `onnxfit run` preloads (estimator/absent/kept_rule.h), what they find
afterwards, and that nothing of the user's has changed."""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import textwrap
import unittest
from pathlib import Path

LIBRARY = "build/release/estimator/absent/libonnxfit_absent.so"
CLIENT = "build/release/tests/absent_files"  # of tests/absent_files.cc

# The user's folder before each row.  It lies below a temporary one here, as what the program is
# started in may.
FILES = {"model.pt": "real", "log.txt": "first\n", "old/kept": "kept", "old/deep/er": "deep"}


# What a program does by chance, and says of each: the same below the library as really.
BY_CHANCE = """
import errno, os, random, sys
chance = random.Random(int(sys.argv[1]))
names = ["model.pt", "log.txt", "old", "old/kept", "old/deep", "old/deep/er", "a", "a/b", "a/b/c",
         "old/a", "link", "link/kept", "link/b", "old/deep/a", "none/a"]
def write(name, mode):
    with open(name, mode) as file:
        file.write("%d." % step)
def read(name):
    with open(name) as file:
        return file.read()
def listed(name):
    return sorted((e.name, e.is_dir(), e.is_symlink()) for e in os.scandir(name))
def here(name):
    os.chdir(name)
    found = os.getcwd()[len(home):], sorted(os.listdir("."))
    os.chdir(home)
    return found
def status(name):
    s = os.lstat(name)
    return s.st_mode, s.st_size if os.path.isfile(name) else 0
def second(name):
    return chance.choice(names)
home = os.getcwd()
calls = [
    lambda n: write(n, chance.choice(["w", "a", "r+", "x"])), read, os.remove, os.mkdir, os.rmdir,
    lambda n: os.rename(n, second(n)), lambda n: os.replace(n, second(n)), listed, here, status,
    lambda n: os.symlink(chance.choice(["old", "a", "model.pt"]), n),
    os.readlink, lambda n: os.truncate(n, 2), lambda n: os.access(n, os.R_OK),
    lambda n: os.path.realpath(n)[len(home):],
    lambda n: sorted(os.path.join(d, x) for d, s, f in os.walk(n) for x in s + f),
    lambda n: os.makedirs(n, exist_ok=True), lambda n: os.chmod(n, 0o640 if os.path.isfile(n) else 0o755),
]
for step in range(150):
    call, name = chance.randrange(len(calls)), chance.choice(names)
    try:
        print(step, call, name, calls[call](name))
    except OSError as error:
        print(step, call, name, errno.errorcode[error.errno])
print(sorted(os.path.join(d, x) for d, s, f in os.walk(".") for x in s + f))
"""


class Saves(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name).resolve()
        self.user, self.scratch = self.folder / "user", self.folder / "scratch"
        self.begin()

    def begin(self):
        """A run that has not begun, of files that nobody has touched."""
        for path in (self.user, self.scratch, self.folder / "run"):
            shutil.rmtree(path, ignore_errors=True)
            path.mkdir()
        for name, text in FILES.items():
            path = self.user / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)

    def state(self):
        rows = {}
        for path in sorted(self.user.rglob("*")):
            status = path.lstat()
            text = path.read_bytes() if path.is_file() else b""
            rows[str(path.relative_to(self.user))] = (
                status.st_mode, status.st_ino, status.st_mtime_ns, text)
        return rows

    def words(self, *words, code=0, **variables):
        environment = dict(os.environ, LD_PRELOAD=LIBRARY, ONNXFIT_RUN=str(self.folder / "run"),
                           TMPDIR=str(self.scratch), HOME=str(self.folder / "home"), LC_ALL="C",
                           **variables)
        before = self.state()
        run = subprocess.run(words, cwd=self.user, env=environment, stdout=subprocess.PIPE,
                             stderr=subprocess.STDOUT, encoding="utf-8", timeout=60, check=False)
        self.assertEqual(run.returncode, code, run.stdout)
        self.assertEqual(self.state(), before)
        return run.stdout.strip()

    def python(self, text, *flags):
        return self.words(sys.executable, "-B", *flags, "-c", textwrap.dedent(text))

    def saved(self):
        root = Path(str(self.folder / "run/saved") + str(self.user))
        return {str(path.relative_to(root)): path.read_text()
                for path in root.rglob("*") if path.is_file() and not path.is_symlink()}

    def check(self, rows, run):
        """Rows of what a program does, what it prints, and what is saved instead."""
        for text, printed, saved in rows:
            with self.subTest(text):
                self.begin()
                self.assertEqual(run(text), printed)
                self.assertEqual(self.saved(), saved)

    def test_python(self):
        self.check([
            ("open('model.pt', 'w').write('0'); print(open('model.pt').read())", "0",
             {"model.pt": "0"}),
            ("open('log.txt', 'a').write('more'); print(open('log.txt').read())", "first\nmore",
             {"log.txt": "first\nmore"}),
            ("f = open('log.txt', 'r+'); f.seek(2); f.write('_'); f.close(); "
             "print(open('log.txt').read())", "fi_st", {"log.txt": "fi_st\n"}),
            ("import pathlib; pathlib.Path('model.pt').write_text('0')", "", {"model.pt": "0"}),
            ("import os; os.remove('model.pt'); print(os.path.exists('model.pt'))", "False", {}),
            ("import os; os.remove('model.pt'); print(sorted(os.listdir()))", "['log.txt', 'old']",
             {}),
            ("import os; os.remove('model.pt'); open('model.pt', 'x').write('0'); "
             "print(sorted(os.listdir()))", "['log.txt', 'model.pt', 'old']", {"model.pt": "0"}),
            ("import shutil, os; shutil.rmtree('old'); print(os.path.exists('old/kept'), "
             "os.path.isdir('old'))", "False False", {}),
            ("import shutil, os; shutil.rmtree('old'); os.mkdir('old'); "
             "open('old/new', 'w').write('0'); print(os.listdir('old'), os.path.exists('old/kept'))",
             "['new'] False", {"old/new": "0"}),
            ("import os; os.replace('model.pt', 'best.pt'); print(open('best.pt').read(), "
             "os.path.exists('model.pt'))", "real False", {"best.pt": "real"}),
            ("import os; open('part', 'w').write('0'); os.replace('part', 'model.pt'); "
             "print(open('model.pt').read())", "0", {"model.pt": "0"}),
            ("import os; os.rename('old', 'new'); print(open('new/kept').read(), "
             "open('new/deep/er').read(), os.path.exists('old'))", "kept deep False",
             {"new/kept": "kept", "new/deep/er": "deep"}),
            ("import os; os.makedirs('tmp/a'); open('tmp/a/f', 'w').write('0'); "
             "os.rename('tmp', 'out'); print(os.listdir('out/a'), os.path.exists('tmp'))",
             "['f'] False", {"out/a/f": "0"}),
            ("import os; os.makedirs('out/a'); open('out/a/f', 'w').write('0'); "
             "print(os.listdir('out/a'), [e.path for e in os.scandir('out/a')])",
             "['f'] ['out/a/f']", {"out/a/f": "0"}),
            ("import shutil; shutil.copytree('old', 'copied'); print(open('copied/kept').read())",
             "kept", {"copied/kept": "kept", "copied/deep/er": "deep"}),
            ("import os; os.close(os.open('model.pt', os.O_WRONLY | os.O_TRUNC)); "
             "print(os.path.getsize('model.pt'))", "0", {"model.pt": ""}),
            ("import os; os.chmod('model.pt', 0o600); os.utime('model.pt', (1, 1)); "
             "print(int(os.path.getmtime('model.pt')))", "1", {"model.pt": "real"}),
            ("import os; os.truncate('model.pt', 2); print(open('model.pt').read())", "re",
             {"model.pt": "re"}),
            ("import os; os.link('model.pt', 'hard'); open('hard', 'a').write('!'); "
             "print(open('hard').read(), open('model.pt').read())", "real! real",
             {"hard": "real!"}),
            ("import os; os.symlink('old', 'latest'); open('latest/f', 'w').write('0'); "
             "print(open('old/f').read(), os.path.realpath('latest/kept')[-8:], "
             "sorted(os.listdir('latest')))", "0 old/kept ['deep', 'f', 'kept']", {"old/f": "0"}),
            ("import os; d = os.open('old', os.O_RDONLY); os.unlink('kept', dir_fd=d); "
             "os.mkdir('m', dir_fd=d); print(sorted(os.listdir(d)), "
             "sorted(e.name for e in os.scandir('old')))", "['deep', 'm'] ['deep', 'm']", {}),
            ("import os; os.makedirs('a/b'); os.chdir('a/b'); open('f', 'w').write('0'); "
             "print(os.getcwd()[-4:], open('../../model.pt').read(), os.listdir('..'))",
             "/a/b real ['b']", {"a/b/f": "0"}),
            ("import tempfile; f = tempfile.NamedTemporaryFile(dir='.', delete=False); "
             "f.write(b'0'); f.close(); import os; os.rename(f.name, 'model.pt'); "
             "print(open('model.pt').read())", "0", {"model.pt": "0"}),
            ("import mmap; f = open('model.pt', 'r+b'); m = mmap.mmap(f.fileno(), 0); m[:2] = b'00'; "
             "m.flush(); print(open('model.pt').read())", "00al", {"model.pt": "00al"}),
            ("import ctypes, os, shutil; os.mkdir('l'); os.symlink('l', 'm'); "
             "shutil.copy(next(l.split()[-1] for l in open('/proc/self/maps') if 'libm.so' in l), "
             "'l/a.so'); print(ctypes.CDLL('m/a.so').abs is not None); os.remove('l/a.so')",
             "True", {}),
        ], self.python)

    def test_every_list_is_the_same(self):
        out = self.python("""
            import glob, os, pathlib, subprocess
            open("new", "w").close(); os.remove("log.txt"); os.remove("old/kept")
            os.makedirs("out/a"); open("out/a/f", "w").close()
            lists = [
                [os.path.join(d, n) for d, s, f in os.walk(".") for n in s + f],
                ["./" + str(p) for p in pathlib.Path(".").rglob("*")],
                ["./" + p for p in glob.glob("**/*", recursive=True)],
                subprocess.run(["find", ".", "-mindepth", "1"], capture_output=True,
                               text=True).stdout.split(),
            ]
            print(sorted(lists[0]))
            print([sorted(list) == sorted(lists[0]) for list in lists])
            """)
        self.assertEqual(out, "['./model.pt', './new', './old', './old/deep', './old/deep/er', "
                              "'./out', './out/a', './out/a/f']\n[True, True, True, True]")

    def test_shells(self):
        self.check([
            ("echo 0 > model.pt; cat model.pt", "0", {"model.pt": "0\n"}),
            ("echo more >> log.txt; cat log.txt", "first\nmore", {"log.txt": "first\nmore\n"}),
            ("cp model.pt new.pt; mv new.pt log.txt; ls; cat log.txt", "log.txt\nmodel.pt\nold\nreal",
             {"log.txt": "real"}),
            ("rm -rf old; ls; ls old 2>&1 | wc -l; echo *", "log.txt\nmodel.pt\n1\nlog.txt model.pt",
             {}),
            ("mv old new; cat new/deep/er; cd new; ls", "deepdeep\nkept",
             {"new/kept": "kept", "new/deep/er": "deep"}),
            ("mkdir -p a/b && cd a/b && echo 0 > f && pwd | tail -c 5 && ls -R ..",
             "/a/b\n..:\nb\n\n../b:\nf", {"a/b/f": "0\n"}),
            ("sed -i s/first/last/ log.txt; cat log.txt; ls", "last\nlog.txt\nmodel.pt\nold",
             {"log.txt": "last\n"}),
            ("printf '#!/bin/sh\\necho ran\\n' > run.sh; chmod +x run.sh; ./run.sh; sh run.sh",
             "ran\nran", {"run.sh": "#!/bin/sh\necho ran\n"}),
            ("ln -s old latest; cat latest/kept; readlink latest; ln -sfn old/deep latest; ls latest",
             "keptold\ner", {}),
            ("dd if=log.txt of=model.pt 2>/dev/null; tee log.txt < model.pt", "first",
             {"model.pt": "first\n", "log.txt": "first\n"}),
            ("touch new; stat -c %s new; test -w model.pt && echo writable", "0\nwritable",
             {"new": ""}),
            ("tar cf a.tar old && mkdir x && tar xf a.tar -C x && rm a.tar && cat x/old/kept", "kept",
             {"x/old/kept": "kept", "x/old/deep/er": "deep"}),
            ("mkfifo p; echo 0 > p & read line < p; echo $line; rm p", "0", {}),
        ], lambda text: self.words("sh", "-c", text))

    def test_one_process_finds_what_another_did(self):
        out = self.python("""
            import multiprocessing, os, sqlite3, subprocess, sys
            def child(queue):
                open("theirs", "w").write("0")
                os.remove("log.txt")
                queue.put(open("ours").read())
            open("ours", "w").write("1")
            queue = multiprocessing.Queue()
            process = multiprocessing.Process(target=child, args=(queue,))
            process.start()
            print(queue.get(), process.join(), open("theirs").read(), os.path.exists("log.txt"))
            print(subprocess.run(["cat", "ours"], capture_output=True, text=True).stdout)
            os.system("echo 2 > ours")
            print(open("ours").read().strip())
            base = sqlite3.connect("base.db")
            base.execute("create table t (a)")
            base.execute("insert into t values (7)")
            base.commit()
            code = "import sqlite3; print(sqlite3.connect('base.db').execute('select a from t').fetchall())"
            print(subprocess.run([sys.executable, "-I", "-c", code], capture_output=True,
                                 text=True).stdout.strip())
            """)
        self.assertEqual(out, "1 None 0 False\n1\n2\n[(7,)]")

    def test_python_without_what_we_put_into_it(self):
        for flags in (["-I"], ["-E"], ["-S"], ["-I", "-S"]):
            with self.subTest(flags):
                self.begin()
                self.assertEqual(self.python("open('model.pt', 'w').write('0')", *flags), "")
                self.assertEqual(self.saved(), {"model.pt": "0"})

    def test_programs_by_chance(self):
        copy = self.folder / "copy"
        for seed in range(20):
            with self.subTest(seed):
                self.begin()
                shutil.rmtree(copy, ignore_errors=True)
                shutil.copytree(self.user, copy)
                really = subprocess.run([sys.executable, "-c", BY_CHANCE, str(seed)], cwd=copy,
                                        stdout=subprocess.PIPE, encoding="utf-8", check=True)
                found = self.words(sys.executable, "-c", BY_CHANCE, str(seed))
                for one, other in zip(found.splitlines(), really.stdout.splitlines()):
                    self.assertEqual(one, other)

    def test_libc(self):
        if not CLIENT.exists():
            self.skipTest("tests/absent_files.cc is not built")
        self.assertEqual(self.words(str(CLIENT)), "")

    def test_git(self):
        git = ["git", "-c", "user.name=me", "-c", "user.email=me@example.org"]
        for words in (["init", "-q"], ["add", "-A"], ["commit", "-qm", "one"]):
            subprocess.run(git + words, cwd=self.user, check=True)
        out = self.words("sh", "-c", """
            export GIT_AUTHOR_NAME=me GIT_AUTHOR_EMAIL=me@example.org
            export GIT_COMMITTER_NAME=me GIT_COMMITTER_EMAIL=me@example.org
            echo 0 > model.pt; git status --short; git add -A; git commit -qm two
            git log --format=%s; git checkout -q HEAD~1; cat model.pt
            """)
        self.assertEqual(out, "M model.pt\ntwo\none\nreal")
        self.assertEqual(subprocess.run(["git", "log", "--format=%s"], cwd=self.user, check=True,
                                        stdout=subprocess.PIPE).stdout, b"one\n")

    def test_errors_are_the_systems_own(self):
        rows = [("open('none')", "ENOENT"), ("open('none/f', 'w')", "ENOENT"),
                ("open('model.pt/f', 'w')", "ENOTDIR"), ("open('old', 'w')", "EISDIR"),
                ("os.remove('none')", "ENOENT"), ("os.remove('old')", "EISDIR"),
                ("os.mkdir('old')", "EEXIST"), ("os.mkdir('none/a')", "ENOENT"),
                ("os.rmdir('old')", "ENOTEMPTY"), ("os.rmdir('model.pt')", "ENOTDIR"),
                ("os.rename('none', 'a')", "ENOENT"), ("os.rename('old', 'old/a')", "EINVAL"),
                ("os.rename('model.pt', 'old')", "EISDIR"), ("open('model.pt', 'x')", "EEXIST"),
                ("os.remove('log.txt'); open('log.txt')", "ENOENT"),
                ("os.remove('model.pt'); os.stat('model.pt')", "ENOENT"),
                ("os.symlink('a', 'old')", "EEXIST"), ("os.chmod('none', 0)", "ENOENT"),
                ("os.listdir('none')", "ENOENT"), ("os.chdir('model.pt')", "ENOTDIR")]
        for text, error in rows:
            with self.subTest(text):
                self.begin()
                self.assertEqual(self.python(
                    "import errno, os\ntry:\n  %s\nexcept OSError as e:\n"
                    "  print(errno.errorcode[e.errno])" % text), error)

    def test_temporary_folders_and_caches_are_as_they_are(self):
        self.words("sh", "-c", "echo 0 > $TMPDIR/a; mkdir -p $HOME/.cache/b; echo 0 > /dev/null; "
                               "mv $TMPDIR/a $HOME/.cache/b/a; mkdir $HOME/c")
        self.assertEqual((self.folder / "home/.cache/b/a").read_text(), "0\n")
        self.assertEqual(self.saved(), {})

    def test_what_moves_between_a_cache_and_the_users_folder(self):
        out = self.words("sh", "-c", "echo 0 > $TMPDIR/a; mv $TMPDIR/a model.pt; cat model.pt; "
                                     "mv old $TMPDIR/old; ls; ls $TMPDIR; cat $TMPDIR/old/deep/er")
        self.assertEqual(out, "0\nlog.txt\nmodel.pt\nold\ndeep")
        self.assertEqual(self.saved(), {"model.pt": "0\n"})

    def test_users_links(self):
        """What the user's own links lead to, the program changes nowhere but in saved/."""
        (self.user / "last.pt").symlink_to("model.pt")
        (self.user / "last").symlink_to("old")
        (self.folder / "cache").symlink_to(self.scratch)
        out = self.python("""
            import os
            open("last.pt", "w").write("0")
            print(os.path.islink("last.pt"), open("model.pt").read())
            os.remove("last.pt")
            print(os.path.lexists("last.pt"), open("model.pt").read())
            open("../cache/c", "w").write("1")
            os.remove("last")
            os.mkdir("last")
            open("last/f", "w").write("2")
            print(os.listdir("last"), os.path.exists("old/f"))
            """)
        self.assertEqual(out, "True 0\nFalse 0\n['f'] False")
        self.assertEqual((self.scratch / "c").read_text(), "1")

    def test_holes_stay_holes(self):
        with open(self.user / "large", "wb") as file:
            file.seek(64 << 20)
            file.write(b"end")
        out = self.python("""
            import os
            with open("large", "r+b") as file:
                file.write(b"begin")
                file.seek(64 << 20)
                print(file.read(), os.fstat(file.fileno()).st_blocks < 1 << 10)
            """)
        self.assertEqual(out, "b'end' True")


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--library", default=LIBRARY)
    parser.add_argument("--client", default=CLIENT)
    known, rest = parser.parse_known_args()
    LIBRARY = str(Path(known.library).resolve())
    CLIENT = Path(known.client).resolve()
    unittest.main(argv=sys.argv[:1] + rest)
