"""python -m onnxfit export TARGET [FILE] and measure [FILE]; anything else is the command's:
python -m onnxfit model.pt2 -b 32."""

from __future__ import annotations

import os
import sys
from typing import List

from onnxfit import _command
from onnxfit.errors import OnnxfitError


def main(words: List[str]) -> int:
    try:
        if words[:1] == ["export"]:
            from onnxfit import _export
            _export.main(words[1:])
            return 0
        if words[:1] == ["measure"]:
            from onnxfit import _measure
            _measure.main(words[1:])
            return 0
        command = _command.binary()
        os.execv(command, [command, *words])
    except OnnxfitError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
