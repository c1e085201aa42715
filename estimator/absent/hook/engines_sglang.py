"""What SGLang says of itself (engines.py), as of 0.5.23 (sglang/srt)."""

import functools
import os
import sys

engines = load("engines")  # noqa: F821, sitecustomize.py has given it
notes = load("notes")  # noqa: F821

say, attempt, member = engines.say, engines.attempt, engines.member
say_name = functools.partial(engines.say_name, "SGLang", "sglang")

MAY_WRITE = 20  # seconds that a process has to write what it knows, before SGLang kills it


def bytes_of(gib):
    """Its figures are bytes by 2^30, in floats that have them exactly."""
    return None if gib is None else round(gib * 2**30)


# Of sglang.kernels.ops.memory.small_copy.

def around_small_copy(module):
    """It copies small tensors, such as how long each request is, by a kernel of Triton's, whose values nobody
    follows.  Where it says no, SGLang has torch copy the same into the same memory."""
    module.try_small_copy = lambda destinations, sources: False


# Of sglang.srt.mem_cache.kv_cache_configurator: what is left for keys and values.

def around_budget(module):
    kind = module.KVCacheConfigurator
    profile = kind._profile_available_bytes

    def _profile_available_bytes(self, pre_model_load_memory):
        share = module.get_schedule().mem_fraction_static
        attempt("engine", lambda: say_budget(share, bytes_of(pre_model_load_memory), self.gpu_id))
        try:
            available = profile(self, pre_model_load_memory)
        except ValueError:
            attempt("engine", lambda: say_refused(bytes_of(pre_model_load_memory), self.gpu_id))
            raise
        attempt("engine", lambda: say(available_bytes=available,
                                      consumed_bytes=engines.said["budget_bytes"] - available))
        return available

    kind._profile_available_bytes = _profile_available_bytes


def say_budget(share, free, device):
    """Its share is of what was free as it began."""
    say_name()
    say(share=share, free_bytes=free, budget_bytes=int(share * free), total_bytes=memory_of(device)[1])


def say_refused(free, device):
    """Weights, and what lives beside them, are more than its share."""
    consumed = free - memory_of(device)[0]
    say(consumed_bytes=consumed, least_share=consumed / free)


def memory_of(device):
    return sys.modules["torch"].cuda.mem_get_info(device)


# Of sglang.srt.model_executor.model_runner and sglang.srt.managers.scheduler.

def around_load(module):
    kind = module.ModelRunner
    load_model = kind.load_model

    def load_and_say(self, *args, **kwargs):
        load_model(self, *args, **kwargs)
        if not self.is_draft_worker:
            attempt("engine", lambda: say(weight_bytes=bytes_of(self.weight_load_mem_usage)))

    kind.load_model = load_and_say


def around_scheduler(module):
    kind = module.Scheduler
    start = kind.init_model_worker

    def init_model_worker(self, *args, **kwargs):
        start(self, *args, **kwargs)
        attempt("engine", lambda: say_capacity(self, module.get_schedule()))

    kind.init_model_worker = init_model_worker


def say_capacity(scheduler, asked):
    """Where one request of the longest context has no room, it starts all the same and takes shorter ones."""
    say_name()
    runner = scheduler.tp_worker.model_runner
    tokens, of_model = scheduler.max_total_num_tokens, scheduler.model_config.context_len
    has_windows = bool(member(runner, "is_hybrid_swa"))
    longest = min(tokens, of_model)
    say(kv_tokens=tokens, kv_requests=None if has_windows else tokens / longest, kv_groups=2 if has_windows else 1,
        kv_bytes=cache_bytes(runner.token_to_kv_pool),
        kv_type=engines.type_name("auto", runner.token_to_kv_pool.dtype), block_tokens=scheduler.page_size,
        longest=longest, longest_of_model=longest_of(scheduler.model_config),
        most_requests=scheduler.max_running_requests,
        most_tokens=most_tokens(asked.chunked_prefill_size, scheduler.max_prefill_tokens),
        graph_bytes=bytes_of(sum(runner.graph_memory_usage.values())))


def cache_bytes(pool):
    """Where it is sized behind CUDA graphs, its tensors are addresses, some of which have memory."""
    if member(pool, "post_capture_active"):
        return pool.post_capture_backed_bytes
    sizes = pool.get_kv_size_bytes()  # of keys and of values, or of both
    return int(sum(sizes) if isinstance(sizes, tuple) else sizes)


def longest_of(model):
    return member(model, "hf_text_config", "max_position_embeddings")


def most_tokens(chunk, prefill):
    """Without chunks the first is -1 or None."""
    return min(chunk, prefill) if chunk and chunk > 0 else prefill


# Of sglang.srt.utils.common: it ends its own processes by SIGKILL, behind which nobody writes anything.

def around_kill(module):
    kill = module.kill_process_tree

    @functools.wraps(kill)
    def kill_process_tree(parent_pid, *args, **kwargs):
        attempt("kill", lambda: let_write(module.psutil, parent_pid or os.getpid()))
        return kill(parent_pid, *args, **kwargs)

    module.kill_process_tree = kill_process_tree


def let_write(psutil, parent):
    """SIGTERM has record.py write, in those that used the card."""
    children = [child for child in psutil.Process(parent).children(recursive=True) if used_card(child.pid)]
    for child in children:
        child.terminate()
    psutil.wait_procs(children, timeout=MAY_WRITE)


def used_card(pid):
    return os.path.exists(os.path.join(os.environ["ONNXFIT_RUN"], "%d.events" % pid))


WATCHED = {"sglang.kernels.ops.memory.small_copy": around_small_copy,
           "sglang.srt.mem_cache.kv_cache_configurator": around_budget,
           "sglang.srt.model_executor.model_runner": around_load,
           "sglang.srt.managers.scheduler": around_scheduler,
           "sglang.srt.utils.common": around_kill}
