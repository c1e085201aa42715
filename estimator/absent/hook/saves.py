"""Nothing real is written over.

Nothing is computed, so a checkpoint of the run is zeros: over the user's own it would be a loss, and
beside it a trap for the next --resume.  A log or a table of results is no better.  So there is one
rule, for files of every kind:

    What the program writes, renames or removes, outside of temporary folders and caches, happens in
    `<run's folder>/saved/<path>` alone; what it has written there, it finds when it reads that path.

A rule by kinds (checkpoints yes, logs no) would need to know each library's names, and would be
wrong once.  Temporary folders and caches are as they are: what is there nobody misses, and
libraries write there from C++ (compiled kernels, data sets).

Python's own functions are wrapped (TABLE), and the functions of libraries that write files from
C++ or Rust (LIBRARIES).  Folders are made where the program wants them, since such libraries need
them, and those that stay empty go at the end.  Other libraries that open files by themselves
(sqlite, OpenCV) and other programs (git, cp) are not held back."""

import atexit
import builtins
import errno
import functools
import io
import os
import shutil
import sys
import tempfile

notes = load("notes")  # noqa: F821, sitecustomize.py has given it

real = {name: getattr(os, name) for name in (
    "open", "stat", "lstat", "access", "listdir", "scandir", "mkdir", "rmdir", "unlink", "remove",
    "rename", "replace", "link", "symlink", "truncate", "utime", "chmod", "chown", "readlink",
    "listxattr", "getxattr", "setxattr", "removexattr", "statvfs") if hasattr(os, name)}
real_open = builtins.open

hidden = set()  # paths of the user's files that the program has removed
made_folders = []  # where the program wanted them
written = {}  # real path: saved path, in the order of writing

# Folders that are the user's in name only.
SCRATCH_VARIABLES = ("XDG_CACHE_HOME", "HF_HOME", "HF_HUB_CACHE", "HF_DATASETS_CACHE", "TORCH_HOME",
                     "TRITON_CACHE_DIR", "TORCHINDUCTOR_CACHE_DIR", "CUDA_CACHE_PATH",
                     "TORCH_EXTENSIONS_DIR", "MPLCONFIGDIR", "NUMBA_CACHE_DIR", "ONNXFIT_RUN",
                     "TMPDIR")
SCRATCH = ("/tmp", "/var/tmp", "/dev", "/proc", "/sys", "/run", "~/.cache", "~/.triton",
           "~/.config", "~/.nv")
SCRATCH_NAMES = (os.sep + "__pycache__" + os.sep, os.sep + ".git" + os.sep)

# Trackers and uploads: nobody wants the losses of a run that computes nothing.  HF_HUB_OFFLINE is
# the user's: a program may have to fetch what it trains.
OFF = {
    "WANDB_MODE": "disabled",
    "COMET_MODE": "disabled",
    "NEPTUNE_MODE": "debug",
    "CLEARML_OFFLINE_MODE": "1",
    "DVC_STUDIO_OFFLINE": "true",
    "SWANLAB_MODE": "disabled",
    "HF_HUB_DISABLE_TELEMETRY": "1",
    "MLFLOW_TRACKING_URI": "file:{run}/saved/mlruns",
    # Which kernel is fastest, torch.compile keeps for later runs: here all take no time.
    "TORCHINDUCTOR_CACHE_DIR": "{scratch}/onnxfit_torchinductor_{user}",
}


def absolute(path):
    """As text, or None for what is not a path (a descriptor)."""
    if isinstance(path, int):
        return None
    try:
        return os.path.abspath(os.fsdecode(path))
    except TypeError:
        return None


def scratch_folders():
    folders = [tempfile.gettempdir()] + [os.path.expanduser(folder) for folder in SCRATCH]
    folders += [os.environ[name] for name in SCRATCH_VARIABLES if os.environ.get(name)]
    return tuple(os.path.join(os.path.abspath(folder), "") for folder in folders)


def is_held(path):
    """Whether the rule is about this path.  The folder that the program is started in is the user's
    even below a temporary one."""
    if path is None or any(name in path + os.sep for name in SCRATCH_NAMES):
        return False
    nearest = max((folder for folder in (*scratch, protected)
                   if (path + os.sep).startswith(folder)), key=len, default=protected)
    return nearest == protected


def saved(path):
    return os.path.join(root, path.lstrip(os.sep))


def exists(path):
    try:
        real["lstat"](path)
        return True
    except OSError:
        return False


def is_folder(path):
    try:
        return (real["stat"](path).st_mode & 0o170000) == 0o040000
    except OSError:
        return False


seen_saved = []


def is_anything_saved():
    """Whether this process, or another of the run, has written or removed anything yet.  Before that,
    which is all of the imports, paths are what they are."""
    if not seen_saved and (hidden or exists(root)):
        seen_saved.append(True)
    return bool(seen_saved)


def to_read(path):
    """Where what the program calls `path` is."""
    if not is_anything_saved():
        return path
    full = absolute(path)
    if not is_held(full):
        return path
    if exists(saved(full)) and not is_folder(saved(full)):
        return saved(full)
    if full in hidden:
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), os.fspath(path))
    return path


def to_write(path, keep=False):
    """Where to write it; with what the user's file holds, if it is changed in part."""
    full = absolute(path)
    if not is_held(full):
        return path
    parent = os.path.dirname(full)
    if not is_folder(parent):
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), os.fspath(path))
    target = saved(full)
    make_folders(os.path.dirname(target))
    if keep and not exists(target) and full not in hidden and exists(full):
        copy(full, target)
    hidden.discard(full)
    written.setdefault(full, target)
    return target


def make_folders(path):
    if not is_folder(path):
        make_folders(os.path.dirname(path))
        try:
            real["mkdir"](path)
        except FileExistsError:
            pass


def copy(source, target):
    with real_open(source, "rb") as read, real_open(target, "wb") as write:
        shutil.copyfileobj(read, write, 1 << 20)


# Python's own functions.

def open_(file, mode="r", *args, **kwargs):
    if isinstance(mode, str) and any(letter in mode for letter in "wax+"):
        if "x" in mode and is_held(absolute(file)) and there(file):
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), file)
        return real_open(to_write(file, keep="w" not in mode), mode, *args, **kwargs)
    return real_open(to_read(file), mode, *args, **kwargs)


def there(path):
    try:
        return exists(to_read(path))
    except FileNotFoundError:
        return False


WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND


def os_open(path, flags, mode=0o777, *, dir_fd=None):
    if dir_fd is None and is_held(absolute(path)) and not is_folder(path):
        if flags & WRITING:
            if there(path) and not flags & os.O_EXCL:
                flags |= os.O_CREAT  # it is there for the program, though not yet in `saved/`
            path = to_write(path, not flags & os.O_TRUNC)
        else:
            path = to_read(path)
    return real["open"](path, flags, mode, dir_fd=dir_fd)


def reading(name):
    """Of a function whose first argument is a path that it reads."""
    def call(path, *args, **kwargs):
        return real[name](path if kwargs.get("dir_fd") else to_read(path), *args, **kwargs)
    return call


def access(path, *args, **kwargs):
    try:
        return real["access"](to_read(path), *args, **kwargs)
    except FileNotFoundError:
        return False


def changing(name):
    """Of a function that changes a file that is there."""
    def call(path, *args, **kwargs):
        full = absolute(path)
        if kwargs.get("dir_fd") or not is_held(full):
            return real[name](path, *args, **kwargs)
        if is_folder(full):
            return None  # a folder's times and modes stay the user's
        to_read(path)
        return real[name](to_write(path, keep=True), *args, **kwargs)
    return call


def removing(name):
    def call(path, *args, **kwargs):
        full = absolute(path)
        if kwargs.get("dir_fd") or not is_held(full):
            return real[name](path, *args, **kwargs)
        found = to_read(path)
        if found != path:
            real[name](found)
        elif not exists(full):
            return real[name](path)  # its own error
        if exists(full):
            hidden.add(full)
        written.pop(full, None)
        return None
    return call


def mkdir(path, *args, **kwargs):
    full = absolute(path)
    if kwargs.get("dir_fd") or not is_held(full):
        return real["mkdir"](path, *args, **kwargs)
    if full in hidden:
        hidden.discard(full)
        return None
    result = real["mkdir"](path, *args, **kwargs)
    made_folders.append(full)
    return result


def rmdir(path, *args, **kwargs):
    full = absolute(path)
    if kwargs.get("dir_fd") or not is_held(full):
        return real["rmdir"](path, *args, **kwargs)
    if listdir(path):
        raise OSError(errno.ENOTEMPTY, os.strerror(errno.ENOTEMPTY), path)
    if full in made_folders and not real["listdir"](full):
        made_folders.remove(full)
        return real["rmdir"](path)
    hidden.add(full)
    return None


def moving(name):
    """Of rename and replace: a folder by its files, since parts of it may be the user's."""
    def call(source, target, **kwargs):
        if not is_held(absolute(source)) and not is_held(absolute(target)):
            return real[name](source, target, **kwargs)
        if is_folder(source):
            return move_folder(name, source, target)
        found, wanted = to_read(source), to_write(target)
        if is_held(absolute(source)) and found == source:
            copy(source, wanted)  # the user's file stays
            hidden.add(absolute(source))
        elif real["stat"](found).st_dev != real["stat"](os.path.dirname(wanted)).st_dev:
            copy(found, wanted)
            real["unlink"](found)
        else:
            real[name](found, wanted)
        written.pop(absolute(source), None)
        return None
    return call


def move_folder(name, source, target):
    if not is_folder(target) or absolute(target) in hidden:
        mkdir(target)
    for child in listdir(source):
        moving(name)(os.path.join(source, child), os.path.join(target, child))
    rmdir(source)


def linking(name):
    def call(source, target, *args, **kwargs):
        if is_held(absolute(target)):
            target = to_write(target)
            source = to_read(source) if name == "link" else source
        return real[name](source, target, *args, **kwargs)
    return call


def names_in(path):
    """What the program finds in a folder: its own files, and the user's that it has not removed."""
    full = absolute(path)
    to_read(path)
    own = real["listdir"](saved(full)) if is_folder(saved(full)) else []
    users = real["listdir"](path)
    own = [name for name in own if not is_folder(os.path.join(saved(full), name))]
    return own, [name for name in users
                 if name not in own and os.path.join(full, name) not in hidden]


def listdir(path="."):
    if not is_anything_saved():
        return real["listdir"](path)
    full = absolute(path)
    if not is_held(full):
        return real["listdir"](path)
    own, users = names_in(path)
    return [os.fsencode(n) for n in own + users] if isinstance(path, bytes) else own + users


class Entries:
    """What scandir gives: an iterator, and a context."""

    def __init__(self, entries):
        self.entries = iter(entries)

    def __iter__(self):
        return self

    def __next__(self):
        return next(self.entries)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        self.entries = iter(())


class Entry:
    """An entry of `saved/` under the path that the program knows."""

    def __init__(self, entry, folder):
        self.entry, self.name = entry, entry.name
        self.path = os.path.join(folder, entry.name)

    def __getattr__(self, name):
        return getattr(self.entry, name)

    def __fspath__(self):
        return self.path


def scandir(path="."):
    if not is_anything_saved():
        return real["scandir"](path)
    full = absolute(path)
    if not is_held(full) or not isinstance(os.fspath(path), str):
        return real["scandir"](path)
    own, users = names_in(path)
    entries = []
    if own:
        with real["scandir"](saved(full)) as found:
            entries += [Entry(e, os.fspath(path)) for e in found if e.name in own]
    with real["scandir"](path) as found:
        entries += [e for e in found if e.name in users]
    return Entries(entries)


TABLE = {
    "open": os_open, "stat": reading("stat"), "lstat": reading("lstat"), "access": access,
    "listdir": listdir, "scandir": scandir, "mkdir": mkdir, "rmdir": rmdir,
    "unlink": removing("unlink"), "remove": removing("remove"), "rename": moving("rename"),
    "replace": moving("replace"), "link": linking("link"), "symlink": linking("symlink"),
}
TABLE.update({name: reading(name) for name in ("readlink", "listxattr", "getxattr", "statvfs")})
TABLE.update({name: changing(name) for name in (
    "truncate", "utime", "chmod", "chown", "setxattr", "removexattr")})

# Functions that open files outside of Python: module, name, the path's position and keyword.
LIBRARIES = {
    "torch": (("torch", "save", 1, "f", to_write), ("torch", "load", 0, "f", to_read),
              ("torch.serialization", "save", 1, "f", to_write),
              ("torch.serialization", "load", 0, "f", to_read),
              ("torch.jit", "save", 1, "f", to_write), ("torch.jit", "load", 0, "f", to_read)),
    "safetensors": (("safetensors", "serialize_file", 1, "filename", to_write),
                    ("safetensors", "safe_open", 0, "filename", to_read)),
}

# Functions by which weights would leave the machine.
UPLOADS = {"huggingface_hub.hf_api": ("create_commit", "create_repo")}


def wrap_module(module):
    for name, function, position, keyword, where in LIBRARIES.get(module.__name__, ()):
        home = sys.modules.get(name)
        if home is not None and hasattr(home, function):
            setattr(home, function,
                    with_path(getattr(home, function), position, keyword, where))
    for function in UPLOADS.get(module.__name__, ()):
        setattr(module.HfApi, function, refuse(function))


def with_path(call, position, keyword, where):
    @functools.wraps(call, updated=())
    def wrapped(*args, **kwargs):
        if keyword in kwargs:
            kwargs[keyword] = path_or_same(where, kwargs[keyword])
        elif position < len(args):
            args = list(args)
            args[position] = path_or_same(where, args[position])
        return call(*args, **kwargs)
    return wrapped


def path_or_same(where, value):
    return where(value) if isinstance(value, (str, bytes, os.PathLike)) else value


def refuse(function):
    def refused(*args, **kwargs):
        raise RuntimeError("onnxfit run: %s() would upload what was not computed; nothing was sent"
                           % function)
    return refused


def remove_empty_folders():
    for folder in reversed(made_folders):
        try:
            real["rmdir"](folder)
        except OSError:
            pass


def shown(path):
    """As the user would say it: from where the program was started, if it is below."""
    return path[len(home) + 1:] if path.startswith(home + os.sep) else path


def listed():
    return [{"path": shown(path), "saved": target} for path, target in written.items()][:1000]


def start():
    global home, protected, root, scratch
    home = os.getcwd()
    run = os.path.abspath(os.environ["ONNXFIT_RUN"])
    root = os.path.join(run, "saved")
    for name, value in OFF.items():
        os.environ[name] = value.format(run=run, scratch=tempfile.gettempdir(), user=os.getuid())
    scratch = scratch_folders()
    protected = os.path.join(home, "")
    if protected in scratch or home in (os.sep, os.path.expanduser("~")):
        protected = ""
    for name, function in TABLE.items():
        if name in real:  # on this system
            setattr(os, name, functools.wraps(real[name])(function))
    builtins.open = io.open = functools.wraps(real_open)(open_)
    shutil._use_fd_functions = False  # rmtree by paths, of which the rule is
    atexit.register(remove_empty_folders)
