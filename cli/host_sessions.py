"""Sessions of ONNX Runtime's CPU provider and the RAM that they take, for `onnxfit estimate --runtime
onnxruntime --provider cpu` (host_trial.cc).

    host_sessions.py ASKED.json ANSWER.json

Each session has a process of its own, on this machine, which reads its memory from /proc behind each
phase: before the session, behind its making, behind each run.  A session's own memory is in malloc's
hands, so that two of them differ by some MiB; then the settings that change most run, one a session,
where a session is a matter of seconds.

Needs Linux, Python's standard library, numpy and onnxruntime (seen with 1.31.1).
"""

import json
import os
import signal
import subprocess
import sys
import time

from onnx_sessions import ONLY_AS_BYTES, TYPES, session_options, zeros


def read(path):
    with open(path, encoding="utf-8", errors="replace") as file:
        return file.read()


def status(names):
    """Fields of /proc/self/status in bytes."""
    found = dict.fromkeys(names, 0)
    for line in read("/proc/self/status").splitlines():
        name, _, rest = line.partition(":")
        if name in found:
            found[name] = int(rest.split()[0]) * 1024
    return found


def write_own(path, text):
    """To a file of /proc/self; a kernel that has none of it, or forbids it, only tells less."""
    try:
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
    except OSError:
        pass


def begin_peak():
    write_own("/proc/self/clear_refs", "5")  # proc(5): VmHWM begins anew


def phase():
    """What the process had at most since the last phase, has now, and has of pages of files."""
    now = status(("VmHWM", "VmRSS", "RssFile"))
    begin_peak()
    return [max(now["VmHWM"], now["VmRSS"]), now["VmRSS"], now["RssFile"]]


def unread(weights):
    """Bytes of these files that are mapped and were not touched: a table of which few rows were read has
    many of them."""
    size, here, bytes_left = 0, False, 0
    for line in read("/proc/self/smaps").splitlines():
        words = line.split(None, 5)
        if not words[0].endswith(":"):
            here = len(words) == 6 and words[5] in weights
        elif here and words[0] == "Size:":
            size = int(words[1]) * 1024
        elif here and words[0] == "Rss:":
            bytes_left += size - int(words[1]) * 1024
    return bytes_left


def run_of(ort, session, inputs, of_runs):
    """A function that runs the session once."""
    import numpy
    if any(one["type"] in ONLY_AS_BYTES for one in inputs):
        values = zeros(ort, inputs, is_bound=False)
        return lambda: session.run_with_ort_values(None, values, of_runs)
    values = {one["name"]: numpy.full(one["dims"], 0, TYPES[one["type"]])  # written, so that it is there
              for one in inputs}
    return lambda: session.run(None, values, of_runs)


def session_of(asked):
    """One session in this process."""
    try:
        import onnxruntime as ort
        import numpy  # noqa: F401  the caller has it
    except ImportError as error:
        return {"missing": f"{type(error).__name__}: {error}", "phases": []}
    ort.set_default_logger_severity(4)  # what ends it is raised, too
    begin_peak()
    found = {"version": ort.__version__, "phases": [phase()], "unread": 0}
    try:
        options, of_runs = session_options(ort, asked["session"])
        session = ort.InferenceSession(asked["model"], options, providers=["CPUExecutionProvider"])
        found["phases"].append(phase())
        for inputs in asked["shapes"]:
            run = run_of(ort, session, inputs, of_runs)
            for _ in range(asked["runs"]):
                outputs = run()  # the last ones are there until then
                found["phases"].append(phase())
            del run, outputs
        found["unread"] = unread(asked["weights"])
    except Exception as error:  # the library's own have no common class
        found["error"] = " ".join(str(error).split())
    return found


def be_ended_first():
    """Of all processes here, should this machine have too little RAM (proc(5))."""
    write_own("/proc/self/oom_score_adj", "1000")


def machine_bytes():
    """RAM of this machine, or what its container may have of that."""
    physical = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    try:
        return min(physical, int(read("/sys/fs/cgroup/memory.max")))
    except (OSError, ValueError):  # none, or "max"
        return physical


def ran(asked):
    """A session in a process of its own.  With "machine", what this machine has, where it was killed."""
    run = subprocess.run([sys.executable, "-B", __file__], input=json.dumps(asked), text=True,
                         capture_output=True, check=False)
    said = run.stdout.splitlines()
    if said:  # whatever ended it behind its answer
        return json.loads(said[-1])
    if run.returncode == -signal.SIGKILL:
        return {"error": "the system ended it", "machine": machine_bytes(), "phases": []}
    errors = run.stderr.strip().splitlines()
    return {"error": errors[-1] if errors else f"it ended with {run.returncode}", "phases": []}


def answer_of(asked):
    begin = time.monotonic()
    sessions = [ran(asked)]
    took = time.monotonic() - begin
    if "error" in sessions[0] or "missing" in sessions[0]:
        return {"sessions": sessions, "settings": []}
    while len(sessions) < asked["sessions"] and time.monotonic() - begin < asked["seconds"]:
        sessions.append(ran(asked))
    tried = asked["settings"] if took < asked["seconds"] else {}
    settings = [{"flag": flag, **ran({**asked, "session": changed})} for flag, changed in tried.items()]
    return {"sessions": sessions, "settings": settings}


def main():
    if len(sys.argv) == 1:
        be_ended_first()
        found = session_of(json.load(sys.stdin))
        print(json.dumps(found), flush=True)
        return
    asked = json.loads(read(sys.argv[1]))
    with open(sys.argv[2], "w", encoding="utf-8") as file:
        json.dump(answer_of(asked), file)


if __name__ == "__main__":
    main()
