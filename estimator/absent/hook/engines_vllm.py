"""What vLLM says of itself (engines.py), as of 0.33.0 (vllm/v1)."""

import functools
import sys

engines = load("engines")  # noqa: F821, sitecustomize.py has given it
phases = load("phases")  # noqa: F821

say, attempt, member = engines.say, engines.attempt, engines.member
say_name = functools.partial(engines.say_name, "vLLM", "vllm")


# Of vllm.v1.core.kv_cache_utils, in the process of the engine's core.

def around_capacity(module):
    update = module.update_kv_cache_capacity

    def update_kv_cache_capacity(vllm_config, kv_cache_config):
        update(vllm_config, kv_cache_config)
        attempt("engine", lambda: say_capacity(vllm_config, kv_cache_config))

    module.update_kv_cache_capacity = update_kv_cache_capacity


def say_capacity(config, cache):
    say_name()
    own = config.cache_config
    say(kv_tokens=own.kv_cache_size_tokens, kv_requests=float(own.kv_cache_max_concurrency),
        kv_groups=len(cache.kv_cache_groups), kv_bytes=bytes_of(cache.kv_cache_tensors),
        kv_type=engines.type_name(own.cache_dtype, config.model_config.dtype), block_tokens=own.block_size,
        share=own.gpu_memory_utilization, longest=config.model_config.max_model_len,
        longest_of_model=longest_of(config.model_config),
        most_requests=config.scheduler_config.max_num_seqs,
        most_tokens=config.scheduler_config.max_num_batched_tokens)


def bytes_of(tensors):
    """In 0.33 each says how large the allocation is that all of them lie in; before, its own size."""
    sizes = [tensor.size for tensor in tensors if not member(tensor, "host_resident")]
    is_shared = any(hasattr(tensor, "offset") for tensor in tensors)
    return max(sizes, default=0) if is_shared else sum(sizes)


def longest_of(model):
    """That the model's own config has."""
    return member(model, "hf_text_config", "max_position_embeddings")


# Of vllm.v1.core.kv_cache_planning: whether one request of the longest context has room.

def around_check(module):
    check = module._check_enough_kv_cache_memory

    def _check_enough_kv_cache_memory(available_memory, get_needed_memory, max_model_len,
                                      estimate_max_model_len):
        try:
            check(available_memory, get_needed_memory, max_model_len, estimate_max_model_len)
        except ValueError:
            attempt("engine", lambda: say_refused(available_memory, get_needed_memory, max_model_len,
                                                  estimate_max_model_len))
            raise

    module._check_enough_kv_cache_memory = _check_enough_kv_cache_memory


def say_refused(available, needed, longest, longest_in):
    say_name()
    say(available_bytes=available, needed_bytes=needed(), longest=longest,
        longest_that_fits=longest_in(available) if available > 0 else 0)


# Of vllm.v1.worker.gpu_worker, in the process that works on the card.

def around_worker(module):
    kind = module.Worker
    measure, warm_up = kind.determine_available_memory, kind.compile_or_warm_up_model

    def determine_available_memory(self, *args, **kwargs):
        available = measure(self, *args, **kwargs)
        attempt("engine", lambda: say_parts(self))
        return available

    def compile_or_warm_up_model(self, *args, **kwargs):
        attempt("engine", lambda: around_capture(self.model_runner))
        return warm_up(self, *args, **kwargs)

    kind.determine_available_memory = determine_available_memory
    kind.compile_or_warm_up_model = compile_or_warm_up_model
    attempt("phases", lambda: around_phases(kind))


# What it does in turn, where others do so, too (phases.py): what it starts with is none of these.
STARTS = ("load_model", "determine_available_memory", "initialize_from_config",
          "compile_or_warm_up_model")


def around_phases(kind):
    shared = phases.shared
    if shared is None:
        return
    for function in STARTS:
        shared.around(kind, function, ("start",), is_over=False)
    for function in ("execute_model", "sample_tokens"):
        shared.around(kind, function, ("engine", "vLLM"), is_over=False)
    shared.around(kind, "sleep", ("sleep", "vLLM"))
    shared.around(kind, "wake_up", ("wake", "vLLM"))


def say_parts(worker):
    say_name()
    graphs = member(worker, "cudagraph_memory_estimate")
    peak = member(worker, "peak_activation_memory")  # with what it keeps for graphs
    is_kept = sys.modules["vllm.envs"].VLLM_MEMORY_PROFILER_ESTIMATE_CUDAGRAPHS
    budget = member(worker, "requested_memory")
    say(weight_bytes=member(worker, "model_runner", "model_memory_usage"),
        consumed_bytes=member(worker, "total_consumed"),
        activation_bytes=None if peak is None else peak - (graphs or 0) * bool(is_kept),
        graph_estimate_bytes=graphs, available_bytes=member(worker, "available_kv_cache_memory_bytes"),
        budget_bytes=None if budget is None else int(budget),
        total_bytes=member(worker, "init_snapshot", "total_memory"),
        free_bytes=member(worker, "init_snapshot", "free_memory"),
        share=member(worker, "cache_config", "gpu_memory_utilization"))


def around_capture(runner):
    capture = runner.capture_model

    def capture_model(*args, **kwargs):
        graph_bytes = capture(*args, **kwargs)
        attempt("engine", lambda: say(graph_bytes=graph_bytes))
        return graph_bytes

    runner.capture_model = capture_model


WATCHED = {"vllm.v1.core.kv_cache_utils": around_capacity, "vllm.v1.core.kv_cache_planning": around_check,
           "vllm.v1.worker.gpu_worker": around_worker}
