"""What asking cuDNN changes of a training step, by card: a table for README.md here.

    cudnn.py [--binary build/release/onnxfit] [--cudnn auto] [--update]

Estimates without and with --cudnn, of networks in ../models; no GPU is needed, but libcudnn is
(PyTorch's wheels have it, or pip install nvidia-cudnn-cu13 nvidia-cublas nvidia-cuda-nvrtc).
"""

import argparse
import json
import re
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
MARK, END = "<!-- cudnn -->\n", "\n## What cuDNN's attention"
CARDS = ["t4", "rtx3060", "a100-40gb", "rtx4090", "h100", "b200"]
RUNS = [("resnet50.train", "fp32"), ("resnet50.train", "amp-fp16"), ("unet.train", "fp32"),
        ("vgg16.script", "fp32"), ("mobilenet_v2.script", "fp32")]
BATCH = 32


def estimate(args, model, precision, card, flags):
    command = [args.binary, str(HERE.parent / f"models/{model}.onnx"), "-b", str(BATCH),
               "-p", precision, "--gpu", card, "--format", "json", "-n", "0", *flags]
    result = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True)
    if result.returncode not in (0, 1):  # 1: it does not fit, which is an answer
        sys.exit(result.stderr)
    return json.loads(result.stdout)


def cell(without, with_workspaces):
    before, after = (report["peak"]["reserved_bytes"] for report in (without, with_workspaces))
    return f"{after / 2**30:.2f} ({100 * (after - before) / before:+.1f} %)"


def version_of(report):
    """"9.19.0", of the library that was asked."""
    return report["settings"]["calibration"]["cudnn"]


def table(args):
    lines = [f"| batch {BATCH} | " + " | ".join(CARDS) + " |", "|---" * (len(CARDS) + 1) + "|"]
    version = ""
    for model, precision in RUNS:
        cells = []
        for card in CARDS:
            asked = estimate(args, model, precision, card, ["--cudnn", args.cudnn])
            version = version_of(asked)
            cells.append(cell(estimate(args, model, precision, card, []), asked))
        lines.append(f"| {model.split('.')[0]}, {precision} | " + " | ".join(cells) + " |")
    return f"Asked of cuDNN {version}:\n\n" + "\n".join(lines) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--binary", default=str(HERE.parent / "build/release/onnxfit"))
    parser.add_argument("--cudnn", default="auto", help="a folder with libcudnn.so.9")
    parser.add_argument("--update", action="store_true", help="write the table into README.md here")
    args = parser.parse_args()
    text = table(args)
    print(text, end="")
    if args.update:
        readme = HERE / "README.md"
        old = readme.read_text()
        new = re.sub(re.escape(MARK) + ".*?" + re.escape(END), MARK + "\n" + text + END, old,
                     flags=re.DOTALL)
        readme.write_text(new)


if __name__ == "__main__":
    main()
