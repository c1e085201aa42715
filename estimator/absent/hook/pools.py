"""What frameworks other than PyTorch count of a process's memory, as they say it themselves when the
process ends: `<pid>.<NAME>.pool.json` in the run's folder.

"used_bytes" is what the framework's own allocator handed out, "pool_bytes" what it had of the card
for that, "limit_bytes" what it may have; null where it does not say.  A framework that takes a part
of the card in advance, whatever it needs, says how to stop it ("in_advance"), and how it takes more
of a card ("more").  What "open" says may be otherwise on a card."""

import atexit
import os
import sys

ends = load("ends")  # noqa: F821, sitecustomize.py has given it
notes = load("notes")  # noqa: F821

# Their kernels do nothing, and nothing here follows what they would have computed (as values.py does
# for PyTorch).
ZEROS = ("values that it reads from the card are zeros: loops, sizes and branches that depend on them "
         "may differ on a card")
CHOSEN = ("it chooses kernels by their time, and here all take the same: those that a card chooses may "
          "need other scratch memory")

# What XLA and TensorFlow call it; a host's memory may run out in other words.
RAN_OUT = ("RESOURCE_EXHAUSTED", "ResourceExhaustedError", "OutOfMemoryError")


class Pool:
    """Of one framework in this process."""

    def __init__(self, name, version, devices, in_advance=lambda: "", more="", failed=lambda: "",
                 is_open=(ZEROS,)):
        self.name, self.version, self.devices, self.is_open = name, version, devices, is_open
        self.in_advance, self.more, self.failed = in_advance, more, failed
        self.pid, self.written = os.getpid(), False

    def watch(self):
        """Asked before the framework's own clean-up, since what was registered last is called first."""
        atexit.register(self.finish)
        leave = os._exit

        def _exit(status):
            self.finish()
            leave(status)

        os._exit = _exit

    def finish(self):
        if self.written or os.getpid() != self.pid:  # a forked child has no card of its parent's
            return
        self.written = True
        try:
            self.write()
        except Exception:
            notes.failure(self.name)

    def write(self):
        failed = self.failed()
        devices = self.devices()
        if not devices:
            return
        error = ends.last_exception()
        text = "" if error is None else "%s: %s" % (ends.name_of(type(error)), error)
        notes.write_json(self.name + ".pool.json", {
            "framework": self.name, "version": self.version, "pid": self.pid,
            "devices": devices, "in_advance": self.in_advance(), "more": self.more,
            "exception": text[:2000], "out_of_memory": ran_out(text), "failed": failed, "open": self.is_open})


def ran_out(text):
    return any(word in text for word in RAN_OUT)


def row(index, used, pool=None, limit=None, is_peak=True):
    return {"index": index, "used_bytes": used, "pool_bytes": pool, "limit_bytes": limit,
            "is_peak": is_peak}


# --- JAX ------------------------------------------------------------------------------------------


def watch_jax(jax):
    Pool("JAX", jax.__version__, lambda: jax_devices(jax), jax_in_advance,
         "XLA_CLIENT_MEM_FRACTION=0.95", lambda: jax_failed(jax), (ZEROS, CHOSEN)).watch()


def is_jax_up():
    """To ask for devices would make them."""
    bridge = sys.modules.get("jax._src.xla_bridge")
    return bridge is not None and bridge.backends_are_initialized()


def jax_devices(jax):
    if not is_jax_up():
        return []
    rows = []
    for device in jax.local_devices():
        stats = device.memory_stats() if device.platform == "gpu" else None
        if stats:
            rows.append(row(device.local_hardware_id, stats["peak_bytes_in_use"],
                            stats.get("peak_pool_bytes"), stats.get("bytes_limit")))
    return rows


def jax_in_advance():
    """As jaxlib reads it (xla_client.py, 0.10.2)."""
    if os.environ.get("XLA_PYTHON_CLIENT_ALLOCATOR", "").lower() == "platform":
        return ""
    if os.environ.get("XLA_PYTHON_CLIENT_PREALLOCATE", "") in ("0", "false", "False"):
        return ""
    return "XLA_PYTHON_CLIENT_PREALLOCATE=false"


def jax_failed(jax):
    """An array that could not be computed is an error only to who reads it: why one was not that is
    still there, for want of memory."""
    for array in jax.live_arrays() if is_jax_up() else []:
        try:
            array.block_until_ready()
        except Exception as error:
            if ran_out(str(error)):
                return str(error)[:2000]
    return ""


# --- CuPy -----------------------------------------------------------------------------------------


def watch_cupy(cupy):
    Pool("CuPy", cupy.__version__, lambda: cupy_devices(cupy)).watch()


def cupy_devices(cupy):
    """CuPy keeps no peak: what is there at the end."""
    pool, rows = cupy.get_default_memory_pool(), []
    for index in range(cupy.cuda.runtime.getDeviceCount()):
        with cupy.cuda.Device(index):
            total, limit = pool.total_bytes(), pool.get_limit()
            if total > 0:
                rows.append(row(index, pool.used_bytes(), total, limit or None, is_peak=False))
    return rows


# --- TensorFlow -----------------------------------------------------------------------------------


def watch_tensorflow(tensorflow):
    Pool("TensorFlow", tensorflow.__version__, lambda: tensorflow_devices(tensorflow),
         lambda: tensorflow_in_advance(tensorflow), is_open=(ZEROS, CHOSEN)).watch()


def tensorflow_devices(tensorflow):
    context = sys.modules.get("tensorflow.python.eager.context")
    if context is None or not context.executing_eagerly() or context._context is None:
        return []
    if not context._context._initialized:
        return []
    rows = []
    for index in range(len(tensorflow.config.list_logical_devices("GPU"))):
        peak = tensorflow.config.experimental.get_memory_info("GPU:%d" % index)["peak"]
        rows.append(row(index, peak))
    return rows


def tensorflow_in_advance(tensorflow):
    """All of the card, unless somebody asked it to grow."""
    if os.environ.get("TF_FORCE_GPU_ALLOW_GROWTH") == "true":
        return ""
    config = tensorflow.config
    if any(config.experimental.get_memory_growth(gpu) for gpu in config.list_physical_devices("GPU")):
        return ""
    return "TF_FORCE_GPU_ALLOW_GROWTH=true"
