"""Shows pages of `onnxfit report` and `onnxfit run --html` in a real browser, and asks them what page_in_browser.js says.

    page_in_browser.py --binary build/release/onnxfit [--keep FOLDER]
    page_in_browser.py --binary … --self-test     # shows that it can fail

Each page in a light and a dark theme and at 360 pixels, without errors on the console; and without
its script.  Takes Chromium (Debian: chromium).  --keep
leaves pages and screenshots there, to be looked at.
"""

import argparse
import html
import json
import platform
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).parent
ROOT = HERE.parent
BROWSERS = ("chromium", "chromium-browser", "google-chrome")

# What is shown: a network that fits, one that does not and so has advice, one that names no module
# and no card, one beside another, inference; long names, large numbers, a file beside itself.
PAGES = {
    "fits": ["resnet50.train.onnx", "-b", "32", "--gpu", "rtx3060"],
    "oom": ["gpt2.dynamo.onnx", "-b", "64", "-p", "amp-bf16", "--gpu", "t4", "--gpu", "l4"],
    "plain": ["lenet.onnxtxt", "-b", "4"],
    "grew": ["resnet18.train.onnx", "resnet50.train.onnx", "-b", "16", "--gpu", "rtx3060"],
    "eval": ["unet.train.onnx", "-b", "2", "--mode", "eval", "--memory", "8GiB"],
    "names": ["t5_small.script.onnx", "-b", "2"],
    "large": ["mlp_2000.onnxtxt", "-b", "1000000", "--gpu", "h200"],
    "same": ["lenet.onnxtxt", "lenet.onnxtxt", "-b", "4"],
}
# Runs of tests/recorded_program.py: one that fits, one that does not, one that fails, without a card,
# several cards, ranks, the largest batch, and a history of many events.
RUNS = {
    "run": (["-g", "t4"], []),
    "run_oom": (["-g", "t4"], ["--batch", "300"]),
    "run_failed": ([], ["--fail"]),
    "run_cards": (["--cards", "t4,gtx1650,a100-40gb"], ["--batch", "60"]),
    "run_ranks": (["--devices", "2xt4"], ["--ranks", "2", "--batch", "20"]),
    "run_search": (["-g", "t4", "--max-batch", "8:512"], ["--batch", "{}"]),
    "run_long": (["-g", "t4"], ["--steps", "300"]),
}
HAS_RUN = sys.platform == "linux" and platform.machine() == "x86_64"
LIGHT, DARK = "1", "0"
VIEWS = {"light": (1100, LIGHT), "dark": (1100, DARK), "narrow": (360, LIGHT)}
# Chromium's window is never narrower than this, so a narrow page is shown in a frame.
LEAST_WINDOW = 500


def browser(binary, arguments, folder):
    command = [binary, "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars",
               "--disable-dev-shm-usage", f"--user-data-dir={folder}/profile",
               "--enable-logging=stderr", "--allow-file-access-from-files", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=120)


def complaints(log):
    """What the page wrote on the console."""
    return re.findall(r":CONSOLE[:(]\d+\)?\] (.*)", log)


def asked(page, script):
    """The page with the questions behind its own script."""
    return page.replace("</body>", f"<script>{script}</script>\n</body>")


def in_frame(page, width):
    """A page that shows `page` as on a window of that width."""
    return ("<!doctype html><meta charset=utf-8><iframe style='border:0' id=f width="
            f"{width} height=800 srcdoc=\"{html.escape(page)}\"></iframe><script>"
            "document.getElementById('f').onload = (event) => { const pre = event.target."
            "contentDocument.getElementById('checked'); document.body.append(pre ? "
            "pre.cloneNode(true) : 'no answer'); };</script>")


def look(binary, page, view, folder):
    """What is wrong with `page` in that view."""
    width, theme = VIEWS[view]
    file = Path(folder) / f"{view}.html"
    script = (HERE / "page_in_browser.js").read_text(encoding="utf-8")
    text = asked(page, script)
    file.write_text(in_frame(text, width) if width < LEAST_WINDOW else text, encoding="utf-8")
    run = browser(binary, [f"--window-size={max(width, LEAST_WINDOW)},900",
                           f"--blink-settings=preferredColorScheme={theme}", "--dump-dom",
                           "--virtual-time-budget=5000", file.as_uri()], folder)
    wrong = [f"console: {line}" for line in complaints(run.stderr)]
    found = re.findall(r'<pre id="checked">(.*?)</pre>', run.stdout, re.S)
    if not found:
        return wrong + ["no answer from the page"]
    answer = json.loads(html.unescape(found[-1]))
    if answer["width"] != width:
        wrong.append(f"shown at {answer['width']} pixels, not {width}")
    return wrong + answer["wrong"]


NO_SCRIPT = "<meta http-equiv=\"Content-Security-Policy\" content=\"script-src 'none'\">"


def without_script(binary, page, folder):
    """What is wrong where no script runs."""
    file, picture = Path(folder) / "plain.html", Path(folder) / "plain.png"
    file.write_text(page.replace("<head>", "<head>" + NO_SCRIPT), encoding="utf-8")
    run = browser(binary, ["--window-size=1100,3000", f"--screenshot={picture}", file.as_uri()],
                  folder)
    static = re.sub(r"<script.*?</script>", "", page, flags=re.S)
    wrong = [f"not there without script: {needed}"
             for needed in ("<svg", "<table", "Memory over", "aria-label")
             if needed not in static]
    if "Content Security Policy" not in run.stderr:
        wrong.append("a script ran though none may")
    if picture.stat().st_size < 20_000:
        wrong.append("without script the page is empty")
    return wrong


def page_of(onnxfit, words):
    named = [str(ROOT / "models" / word) if ".onnx" in word else word for word in words]
    command = [onnxfit, "report", *named, "--exit-zero"]
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    if run.returncode != 0:
        sys.exit(f"{' '.join(command)}: {run.stderr}")
    return run.stdout


def page_of_run(onnxfit, flags, words):
    with tempfile.TemporaryDirectory() as folder:
        page = Path(folder) / "run.html"
        program = [sys.executable, str(HERE / "recorded_program.py"), *words]
        command = [onnxfit, "run", *flags, "--html", str(page), "--", *program]
        run = subprocess.run(command, capture_output=True, text=True, check=False)
        if not page.exists():
            sys.exit(f"{' '.join(command)}: {run.stderr}")
        return page.read_text(encoding="utf-8")


def pages_of(onnxfit):
    """Name and text of each page."""
    for name, words in PAGES.items():
        yield name, page_of(onnxfit, words)
    for name, (flags, words) in RUNS.items() if HAS_RUN else ():
        yield name, page_of_run(onnxfit, flags, words)


def keep(binary, name, page, folder):
    file = Path(folder).resolve() / f"{name}.html"
    file.write_text(page, encoding="utf-8")
    for view, (width, theme) in VIEWS.items():
        browser(binary, [f"--window-size={max(width, LEAST_WINDOW)},3000",
                         f"--blink-settings=preferredColorScheme={theme}",
                         f"--screenshot={file.with_name(f'{name}.{view}.png')}", file.as_uri()],
                folder)


SPOILT_RUN = {
    "lines that do not add up": ('"requested":[', '"requested":[1,'),
    "rows that do not add up": ('<td class="number" data-bytes="', '<td class="number" data-bytes="9'),
}
SPOILT = {
    "an error on the console": ("</script>\n<script>", "</script>\n<script>nothing.there();</script><script>"),
    "numbers that differ": ('data-bytes="', 'data-bytes="1'),
    "a picture without words": ('class="cell k-', 'style="" tabindex="1" class="cell k-'),
    "letters that cannot be read": (".run { color: var(--soft); }", ".run { color: var(--edge); }"),
    "a page that is too wide": ("<main>", "<main><div style='width:3000px'>.</div>"),
}


def self_test(binary, onnxfit):
    spoilt = [(page_of(onnxfit, PAGES["fits"]), *change) for change in SPOILT.items()]
    if HAS_RUN:
        page = page_of_run(onnxfit, *RUNS["run"])
        spoilt += [(page, *change) for change in SPOILT_RUN.items()]
    for page, what, (old, new) in spoilt:
        assert old in page, f"{what}: the page has no {old!r}"
        with tempfile.TemporaryDirectory() as folder:
            assert look(binary, page.replace(old, new), "light", folder), f"{what}: not seen"
    print(f"page_in_browser self-test: {len(spoilt)} spoilt pages seen")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n", maxsplit=1)[0])
    parser.add_argument("--binary", required=True)
    parser.add_argument("--keep")
    parser.add_argument("--self-test", action="store_true")
    arguments = parser.parse_args()
    binary = next((path for path in map(shutil.which, BROWSERS) if path), None)
    if binary is None:
        sys.exit("no Chromium here (try: apt-get install chromium)")
    if arguments.self_test:
        return self_test(binary, arguments.binary)
    is_wrong, count = False, 0
    for name, page in pages_of(arguments.binary):
        if arguments.keep:
            keep(binary, name, page, arguments.keep)
        with tempfile.TemporaryDirectory() as folder:
            found = [(view, line) for view in VIEWS for line in look(binary, page, view, folder)]
            found += [("no script", line) for line in without_script(binary, page, folder)]
        for view, line in found:
            print(f"{name}, {view}: {line}")
        is_wrong |= bool(found)
        count += 1
    print(f"{count} pages in {len(VIEWS)} views, and without script")
    return is_wrong


if __name__ == "__main__":
    sys.exit(main())
