"""Whether the command in a wheel needs no more than the glibc in the wheel's name, and that alone.

    check_wheel.py onnxfit-0.2.0-py3-none-manylinux_2_28_x86_64.whl
"""

import re
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

# Of glibc 2.28; later ones have them in libc.so.6.
LIBRARIES = {"libc.so.6", "libm.so.6", "libdl.so.2", "libpthread.so.0", "librt.so.1",
             "ld-linux-x86-64.so.2", "ld-linux-aarch64.so.1"}


def read_elf(flag, path):
    done = subprocess.run(["readelf", "--wide", flag, path], check=True, encoding="utf-8",
                          capture_output=True)
    return done.stdout


def number(version):
    return tuple(int(part) for part in version.split("."))


def errors(wheel, path):
    tag = re.search(r"-manylinux_(\d+)_(\d+)_\w+\.whl$", wheel.name)
    if not tag:
        yield "expected manylinux_2_NN in the name of a wheel"
        return
    promised = f"{tag[1]}.{tag[2]}"
    for symbol in sorted(set(re.findall(r"GLIBC_([0-9.]+)", read_elf("--version-info", path)))):
        if number(symbol) > number(promised):
            yield f"expected glibc {promised} or older, found a symbol of GLIBC_{symbol}"
    for library in re.findall(r"\(NEEDED\).*\[(.*)\]", read_elf("--dynamic", path)):
        if library not in LIBRARIES:
            yield f"expected glibc's libraries alone, found {library}"


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    wheel = Path(sys.argv[1])
    with zipfile.ZipFile(wheel) as archive, tempfile.TemporaryDirectory() as folder:
        commands = [name for name in archive.namelist() if name.endswith(".data/scripts/onnxfit")]
        if len(commands) != 1:
            sys.exit(f"error: {wheel}: expected one command onnxfit, found {len(commands)}")
        found = list(errors(wheel, archive.extract(commands[0], folder)))
    for error in found:
        print(f"error: {wheel}: {error} (try: tools/wheel.sh, which builds with zig)",
              file=sys.stderr)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
