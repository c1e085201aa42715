"""SGLang's engine, without CUDA graphs or with them as it has them: served_sglang.py eager|graphs."""
import sys
import tempfile

import sglang
import tiny_llm

A_TOKEN = 2 * 2 * tiny_llm.CONFIG.num_hidden_layers * tiny_llm.CONFIG.num_key_value_heads * tiny_llm.CONFIG.head_dim
TOTAL = 22563  # MiB that an L4 shows
KEPT = 512 + 4096 * 1.5 + 1024 / 8  # MiB for steps of 4,096 tokens, on one card (sglang/srt/arg_groups/memory_hook.py)


def main(way):
    with tempfile.TemporaryDirectory() as folder:
        tiny_llm.save(folder)
        engine = sglang.Engine(model_path=folder, load_format="dummy", disable_cuda_graph=way == "eager",
                               log_level="warning")
        check_memory(engine, way)
        for prompt in ("a" * 500, "b" * 30, "c"):  # one by one: which of several make a step, their times decide
            said = engine.generate(prompt, {"max_new_tokens": 8, "ignore_eos": True})["meta_info"]
            assert said["prompt_tokens"] == len(prompt) and said["completion_tokens"] == 8, said
        engine.shutdown()


def check_memory(engine, way):
    """That weights, keys and values are its share of what was free, nearly all of the card."""
    info = engine.get_server_info()
    share, memory = info["mem_fraction_static"], info["internal_states"][0]["memory_usage"]  # in GiB
    assert way == "graphs" or share == round((TOTAL - KEPT) / TOTAL, 3), share
    cache = info["max_total_num_tokens"] * A_TOKEN / 2**30
    assert abs(cache - memory["kvcache"]) < 0.001, (cache, memory)
    total = TOTAL / 1024
    assert share * 0.96 * total < cache + memory["weight"] < share * total, (cache, memory)
    assert (sum(memory["graph"].values()) > 0) == (way == "graphs"), memory


if __name__ == "__main__":  # its processes import this file again
    main(sys.argv[1])
