"""What every function of NVIDIA's libraries writes to the host, read from NVIDIA's own headers:
the table of `onnxfit run` (estimator/absent/functions.inc), made again for each release.

    python3 -m venv clang && clang/bin/pip install libclang
    clang/bin/python tools/cuda_functions.py --torch 2.6.0 --torch 2.9.0 \\
        --installed VENV/lib/python3.11/site-packages --package nvidia-nvml-dev==13.5.37 \\
        --output estimator/absent/functions.inc

Sources are given oldest first; where two disagree about a function, the last one counts, and the
table says so. --torch asks pip which of NVIDIA's packages that PyTorch needs; they are fetched
one at a time (some have 700 MB), and only headers and exported names are kept (--keep FOLDER:
for the next run too). --library FILE.so adds names of a library that no package has, such as
the stub of libcuda. It needs pip, nm and c++ (for the folders of C's headers), 2 GB of disk, and
some minutes: half of them are downloads. What could not be read is told on stderr.

What the texts of its rows mean: tools/cuda_prototypes.py.
"""

import argparse
import collections
import importlib.util
import json
import re
import subprocess
import sys
import tempfile
import textwrap
import zipfile
from pathlib import Path

from cuda_prototypes import BY_COMPILER, Prototype, Type, described

# --- Of which library a name is, and the headers that have it -------------------------------

Library = collections.namedtuple("Library", "files names headers")
LIBRARIES = {
    "cudart": Library(r"libcudart\.so", r"_*cuda[A-Z]",
                      ["cuda_runtime_api.h", "cuda_profiler_api.h", "cuda_gl_interop.h",
                       "cuda_egl_interop.h", "cuda_vdpau_interop.h"]),
    "cuda": Library(r"libcuda\.so", r"cu[A-Z]",
                    ["cuda.h", "cudaProfiler.h", "cudaGL.h", "cudaEGL.h", "cudaVDPAU.h"]),
    "cublas": Library(r"libcublas\.so", r"cublas(?!Lt)[A-Z]",
                      ["cublas_v2.h", "cublas.h", "cublasXt.h"]),
    "cublaslt": Library(r"libcublasLt\.so", r"cublasLt[A-Z]", ["cublasLt.h"]),
    "cudnn": Library(r"libcudnn\w*\.so", r"cudnn[A-Z]", ["cudnn.h", "cudnn_backend.h"]),
    "cufft": Library(r"libcufft\.so", r"cufft[A-Z]", ["cufft.h", "cufftXt.h", "cufft_device.h"]),
    "curand": Library(r"libcurand\.so", r"curand[A-Z]", ["curand.h"]),
    "cusolver": Library(r"libcusolver(Mg)?\.so", r"cusolver[A-Z]",
                        ["cusolverDn.h", "cusolverSp.h", "cusolverRf.h", "cusolverMg.h",
                         "cusolverSp_LOWLEVEL_PREVIEW.h"]),
    "cusparse": Library(r"libcusparse\.so", r"cusparse(?!Lt)[A-Z]", ["cusparse.h"]),
    "cusparselt": Library(r"libcusparseLt\.so", r"cusparseLt[A-Z]", ["cusparseLt.h"]),
    "nvjitlink": Library(r"libnvJitLink\.so", r"_*nvJitLink[A-Z]", ["nvJitLink.h"]),
    "nvrtc": Library(r"libnvrtc\.so", r"nvrtc[A-Z]", ["nvrtc.h"]),
    "nvfatbin": Library(r"libnvfatbin\.so", r"_*nvFatbin[A-Z]", ["nvFatbin.h"]),
    "nccl": Library(r"libnccl\.so", r"p?nccl[A-Z]", ["nccl.h", "nccl_device.h"]),
    "nvml": Library(r"libnvidia-ml\.so", r"nvml[A-Z]", ["nvml.h"]),
    "cufile": Library(r"libcufile\.so", r"cuFile[A-Z]", ["cufile.h"]),
    "cupti": Library(r"libcupti\.so", r"cupti[A-Z]",
                     ["cupti.h", "cupti_profiler_target.h", "cupti_profiler_host.h",
                      "cupti_range_profiler.h", "cupti_pcsampling.h", "cupti_pmsampling.h",
                      "cupti_sass_metrics.h"]),
}
PACKAGES = re.compile(r"nvidia-(cuda-(runtime|cupti|nvrtc|profiler-api)|cublas|cudnn|cufft"
                      r"|cufile|curand|cusolver|cusparse|cusparselt|nccl|nvfatbin|nvjitlink"
                      r"|nvml-dev)(-cu\d+)?")

# --- Headers and exported names, from packages or folders -----------------------------------

# packages: name==version; includes: folders; names: file of a library → its exported functions.
Source = collections.namedtuple("Source", "packages includes names")


def exported(library):
    """The functions that the file `library` exports, without versions of symbols."""
    done = subprocess.run(["nm", "-D", "--defined-only", "--format=posix", library], check=True,
                          encoding="utf-8", capture_output=True)
    rows = [line.split() for line in done.stdout.splitlines()]
    return {row[0].split("@")[0] for row in rows if row[1] in "TWi"}


def needed(torch):
    """NVIDIA's packages that PyTorch `torch` asks for, as name==version."""
    done = subprocess.run(
        [sys.executable, "-m", "pip", "install", "--dry-run", "--ignore-installed", "--quiet",
         "--report", "-", f"torch=={torch}"], check=True, encoding="utf-8", stdout=subprocess.PIPE)
    packages = [package["metadata"] for package in json.loads(done.stdout)["install"]]
    return [f"{package['name']}=={package['version']}" for package in packages
            if PACKAGES.fullmatch(package["name"])]


def keep_wheel(wheel, folder):
    """Writes the headers of `wheel` to `folder`/include and its libraries' exported names."""
    with zipfile.ZipFile(wheel) as archive, tempfile.TemporaryDirectory() as scratch:
        for name in archive.namelist():
            header = re.search(r"/include/(.*\.h(pp)?)$", name)
            if header:
                path = folder / "include" / header[1]
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(archive.read(name))
            elif re.search(r"/lib\w[^/]*\.so[.\d]*$", name):
                library = Path(archive.extract(name, scratch))
                names = folder / f"{library.name}.names"
                names.write_text("\n".join(sorted(exported(library))), encoding="utf-8")
                library.unlink()
    (folder / "complete").touch()


def fetch(package, kept):
    """The folder with headers and names of `package`, in the folder `kept`."""
    folder = kept / package
    if (folder / "complete").exists():
        return folder
    folder.mkdir(parents=True, exist_ok=True)
    print(f"fetching {package}", file=sys.stderr)
    with tempfile.TemporaryDirectory(dir=kept) as wheels:
        subprocess.run([sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest",
                        wheels, package], check=True)
        keep_wheel(next(Path(wheels).glob("*.whl")), folder)
    return folder


def merged(folders):
    """What fetch() kept in `folders`, as one source."""
    names = {path.stem: set(path.read_text(encoding="utf-8").split())
             for folder in folders for path in folder.glob("*.names")}
    return Source([folder.name for folder in folders],
                  [folder / "include" for folder in folders], names)


def installed(site):
    """NVIDIA's packages in `site`, a folder site-packages."""
    if not (site / "nvidia").is_dir():
        sys.exit(f"error: --installed {site}: expected a folder nvidia in it, found none "
                 "(try: a folder like lib/python3.11/site-packages)")
    told = [path.name.removesuffix(".dist-info").split("-", 1)
            for path in sorted(site.glob("nvidia_*.dist-info"))]
    packages = [f"{name.replace('_', '-')}=={version}" for name, version in told]
    return Source([package for package in packages if PACKAGES.fullmatch(package.split("==")[0])],
                  sorted(site.glob("nvidia/*/include")),
                  {path.name: exported(path) for path in site.glob("nvidia/*/lib/lib*.so*")})


def source(option, kept):
    """The source that an option (its kind, its value) of the command line asks for."""
    kind, value = option
    if kind == "installed":
        return installed(Path(value))
    if kind == "library":
        return Source([Path(value).name], [], {Path(value).name: exported(value)})
    packages = needed(value) if kind == "torch" else [value]
    return merged([fetch(package, kept) for package in packages])


# --- What a header says, by libclang --------------------------------------------------------

# Old versions of functions, and those of a default stream for each thread, are declared on demand;
# those of halves in C++ alone.
FLAGS = ["-nostdinc", "-D_GNU_SOURCE", "-DCUFFT_ENABLE_EXPERIMENTAL_API"]
C = ["-xc", "-std=gnu17"]
MODES = [C, C + ["-D__CUDA_API_VERSION_INTERNAL", "-DNVML_NO_UNVERSIONED_FUNC_DEFS"],
         C + ["-DCUDA_API_PER_THREAD_DEFAULT_STREAM"], ["-xc++", "-std=gnu++17"]]
# What headers include that no package has, as little of it as their declarations need.
EMPTY = """__host__ __device__ __global__ __shared__ __constant__ __managed__ __grid_constant__
    __forceinline__ __noinline__ __no_return__ __device_builtin__ __cudart_builtin__ CUDARTAPI
    __device_builtin_surface_type__ __device_builtin_texture_type__ CUDARTAPI_CDECL"""
STAND_INS = {
    "GL/gl.h": "typedef unsigned int GLuint, GLenum;",
    "EGL/egl.h": "typedef int EGLint;",
    "EGL/eglext.h": "typedef void *EGLImageKHR, *EGLStreamKHR, *EGLSyncKHR;",
    "vdpau/vdpau.h": "typedef unsigned VdpDevice, VdpVideoSurface, VdpOutputSurface, VdpStatus;"
                     "typedef VdpStatus VdpGetProcAddress(VdpDevice, unsigned, void **);",
    "cstddef": "#include <stddef.h>",
    "cstdint": "#include <stdint.h>",
    "crt/host_config.h": "",
    "crt/host_defines.h": "".join(f"#define {name}\n" for name in EMPTY.split()) +
                          "#define __align__(n) __attribute__((aligned(n)))\n"
                          "#define __builtin_align__(n) __align__(n)\n"
                          "#define __location__(a)\n",
    "first.h": "#include <stdalign.h>\n#include <stdbool.h>\n#include <stddef.h>\n"
               "#include <stdint.h>\n#include <vdpau/vdpau.h>\n"
               "#if __has_include(<cuda.h>)\n#include <cuda.h>\n#endif\n",
}


def write_stand_ins(folder):
    for name, text in STAND_INS.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")


def system_includes():
    """The folders of C++, the compiler and libc; others may hold another CUDA."""
    done = subprocess.run(["c++", "-xc++", "-E", "-v", "/dev/null"], check=True, encoding="utf-8",
                          capture_output=True)
    return [path for path in re.findall(r"^ (/\S+)$", done.stderr, re.MULTILINE)
            if "/local/" not in path]


def parts_of(record):
    """Offset → kind of the numbers and pointers in `record`, a type of libclang."""
    found = {}
    for field in record.get_fields():
        offset, type_ = field.get_field_offsetof() // 8, field.type.get_canonical()
        count = 1
        while type_.kind.name == "CONSTANTARRAY":
            count, type_ = count * type_.element_count, type_.element_type.get_canonical()
        inner = read_type(type_)
        for i in range(count):
            for start, kind in (inner.parts or {0: inner.kind}).items():
                found[offset + i * inner.size + start] = kind
    return found


def read_type(clang_type, deep=2):
    """The `Type` of a type of libclang; pointers are followed `deep` times."""
    type_ = clang_type.get_canonical()
    name, size, align = type_.kind.name, max(type_.get_size(), 0), max(type_.get_align(), 0)
    const = type_.is_const_qualified()
    if name in ("POINTER", "INCOMPLETEARRAY", "CONSTANTARRAY"):
        inner = type_.get_pointee() if name == "POINTER" else type_.element_type
        of = read_type(inner, deep - 1) if deep else None
        if of and name != "POINTER":  # an array of const is a const array
            return Type("pointer", 8, 8, False, of._replace(const=of.const or const))
        return Type("pointer", 8, 8, const, of)
    if name == "RECORD" and size:
        return Type("struct", size, align, const, None, parts_of(type_) if size <= 16 else None)
    kind = {"VOID": "void", "RECORD": "incomplete", "FUNCTIONPROTO": "function", "CHAR_S": "char",
            "FUNCTIONNOPROTO": "function", "FLOAT": "float", "DOUBLE": "float"}.get(name, "integer")
    return Type(kind, size, align, const)


def status_named(clang_type):
    """Whether an enum is a status by its name, in whichever of its spellings."""
    names = clang_type.spelling + " " + clang_type.get_canonical().spelling
    return re.search(r"status|result|error|return", names, re.IGNORECASE)


def read_prototype(cursor):
    returns = read_type(cursor.result_type)
    if returns.kind == "integer" and status_named(cursor.result_type):
        returns = returns._replace(kind="status")
    return Prototype(cursor.spelling, returns,
                     [(argument.spelling, read_type(argument.type))
                      for argument in cursor.get_arguments()])


def functions_below(cursor):
    """The declarations of C functions in `cursor`, those in extern "C" { … } too."""
    for child in cursor.get_children():
        if child.kind.name in ("LINKAGE_SPEC", "UNEXPOSED_DECL"):
            yield from functions_below(child)
        elif child.kind.name == "FUNCTION_DECL" and child.mangled_name == child.spelling:
            yield child


def parse(header, includes, mode):
    """name → prototype of the functions that `header` declares, and errors that were met."""
    from clang import cindex
    flags = mode + FLAGS + [f"-I{path}" for path in includes]
    text = f"#include <first.h>\n#include <{header}>\n"
    unit = cindex.Index.create().parse("all.c", flags, [("all.c", text)])
    found = {}
    for cursor in functions_below(unit.cursor):
        found.setdefault(cursor.spelling, read_prototype(cursor))
    return found, [f"{error.location.file}:{error.location.line}: {error.spelling}"
                   for error in unit.diagnostics if error.severity >= cindex.Diagnostic.Error]


# --- The table ------------------------------------------------------------------------------

DRIVER = {"cuda", "nvml"}  # the driver's libraries are in no package: what headers declare counts


def read_all_modes(header, includes):
    """name → prototype of what `header` declares in any mode; says what none could read."""
    found, errors = {}, []
    for mode in MODES:
        more, told = parse(header, includes, mode)
        found = {**more, **found}
        errors.append(told)
    if all(errors):
        print(f"{header}: read in part, {len(errors[0])} errors, first {errors[0][0]}",
              file=sys.stderr)
    return found


def declared(library, source_, includes):
    """name → text of what the headers of `library` in `source_` declare."""
    found = {}
    for header in LIBRARIES[library].headers:
        if any((folder / header).exists() for folder in source_.includes):
            for name, prototype in read_all_modes(header, includes).items():
                if re.match(LIBRARIES[library].names, name):
                    found.setdefault(name, described(library, prototype))
    return found


def exported_by(library, sources):
    """The names that the files of `library` export in any of the sources."""
    row = LIBRARIES[library]
    return {name for source_ in sources for file, names in source_.names.items()
            if re.match(row.files, file) for name in names if re.match(row.names, name)}


def bare(name):
    """`name` without the release and the stream of each thread, which change no argument."""
    return re.sub(r"(_\d+_\d+|_pt[sd][sz])$", "", name)


def rows_of(library, sources, texts):
    """name → text for all functions of `library`; texts: a name → text for each source."""
    newest = {bare(name): text for known in texts for name, text in known.items()}
    for known in [BY_COMPILER] + texts:
        newest.update(known)
    names = exported_by(library, sources)
    if library in DRIVER:
        names |= {name for known in texts for name in known}
    return {name: newest.get(name, newest.get(bare(name), "?")) for name in sorted(names)}


def label(source_):
    """How the table calls a source: by its CUDA runtime, or its first package."""
    runtime = [package for package in source_.packages if "cuda-runtime" in package]
    return (runtime + source_.packages)[0].split("==")[-1]


def disagreements(sources, texts):
    """Sentences about names of which two sources have two texts."""
    for name in sorted({name for known in texts for name in known}):
        said = {}
        for source_, known in zip(sources, texts):
            if name in known:
                said.setdefault(known[name], label(source_))
        if len(said) > 1:
            yield f"{name}: " + ", ".join(f'"{text}" from {since}' for text, since in said.items())


def head(sources, doubts):
    lines = ["// Made by tools/cuda_functions.py; what the texts mean: tools/cuda_prototypes.py.",
             "// Read from NVIDIA's packages, oldest first:"]
    for source_ in sources:
        text = ", ".join(package.removeprefix("nvidia-") for package in source_.packages)
        lines += textwrap.wrap(text, 96, initial_indent="// - ", subsequent_indent="//   ",
                               break_on_hyphens=False)
    if doubts:
        lines.append("// Releases disagree about these; the last one counts:")
        lines += [f"// {doubt}" for doubt in doubts]
    return lines


def table(sources):
    """The lines of functions.inc."""
    lines, doubts = [], []
    with tempfile.TemporaryDirectory() as folder:
        write_stand_ins(Path(folder))
        newest_first = [path for source_ in reversed(sources) for path in source_.includes]
        for library in LIBRARIES:
            texts = [declared(library, source_, source_.includes + newest_first + [folder] +
                              system_includes()) for source_ in sources]
            doubts += disagreements(sources, texts)
            rows = rows_of(library, sources, texts)
            lines += [f'ABSENT_FUNCTION({library}, {name}, "{text}")'
                      for name, text in rows.items()]
            unknown = sum(text == "?" for text in rows.values())
            print(f"{library}: {len(rows)} functions, {unknown} in no header", file=sys.stderr)
    for doubt in doubts:
        print(f"releases disagree: {doubt}", file=sys.stderr)
    return head(sources, doubts) + lines


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0],
                                     epilog="Sources are given oldest first.")
    for name, what in (("torch", "VERSION"), ("package", "NAME==VERSION"),
                       ("installed", "FOLDER"), ("library", "FILE")):
        parser.add_argument(f"--{name}", metavar=what, action="append", dest="sources", default=[],
                            type=lambda value, name=name: (name, value))
    parser.add_argument("--keep", metavar="FOLDER", type=Path,
                        help="where fetched headers are kept for the next run")
    parser.add_argument("--output", metavar="FILE", type=Path, required=True)
    return parser.parse_args()


def main():
    given = arguments()
    if not given.sources or not importlib.util.find_spec("clang"):
        sys.exit("error: expected sources (try: --torch 2.9.0) and libclang "
                 "(try: pip install libclang)")
    with tempfile.TemporaryDirectory() as scratch:
        kept = given.keep or Path(scratch)
        kept.mkdir(parents=True, exist_ok=True)
        sources = [source(option, kept) for option in given.sources]
        given.output.write_text("\n".join(table(sources)) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
