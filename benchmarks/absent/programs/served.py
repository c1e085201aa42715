"""vLLM's engine, in this process and without compilers: served.py llama|qwen."""
import os
import sys
import tempfile

os.environ.update(VLLM_ENABLE_V1_MULTIPROCESSING="0", VLLM_USE_FLASHINFER_SAMPLER="0")
import tiny_llm  # noqa: E402
import torch  # noqa: E402
import transformers  # noqa: E402
import vllm  # noqa: E402

# Llama 3.1's 8B and Qwen 3's 1.7B: what their config.json say.
HEADS = {"num_key_value_heads": 8, "head_dim": 128, "dtype": "bfloat16", "eos_token_id": 1, "bos_token_id": 0}
MODELS = {
    "llama": transformers.LlamaConfig(
        vocab_size=128256, hidden_size=4096, intermediate_size=14336, num_hidden_layers=32, num_attention_heads=32,
        max_position_embeddings=131072, tie_word_embeddings=False, architectures=["LlamaForCausalLM"], **HEADS),
    "qwen": transformers.Qwen3Config(
        vocab_size=151936, hidden_size=2048, intermediate_size=6144, num_hidden_layers=28, num_attention_heads=16,
        max_position_embeddings=40960, tie_word_embeddings=True, architectures=["Qwen3ForCausalLM"], **HEADS),
}


def main(config):
    with tempfile.TemporaryDirectory() as folder:
        config.save_pretrained(folder)
        tiny_llm.save_tokenizer(folder)
        engine = vllm.LLM(folder, load_format="dummy", enforce_eager=True)
    cache = engine.llm_engine.vllm_config.cache_config
    a_token = 2 * 2 * config.num_hidden_layers * config.num_key_value_heads * config.head_dim  # key and value, bf16
    total = torch.cuda.get_device_properties(0).total_memory
    left = cache.gpu_memory_utilization * total - cache.num_gpu_blocks * cache.block_size * a_token
    weights = torch.cuda.memory_allocated() - cache.num_gpu_blocks * cache.block_size * a_token
    assert weights < left < weights + (2 << 30), (weights, left)  # the rest is a step's
    assert config.max_position_embeddings <= cache.kv_cache_size_tokens, cache.kv_cache_size_tokens
    prompts = ["a" * 500, "b" * 30, "c"]
    answers = engine.generate(prompts, vllm.SamplingParams(max_tokens=8, ignore_eos=True), use_tqdm=False)
    for prompt, answer in zip(prompts, answers):
        assert len(answer.prompt_token_ids) == len(prompt), answer
        assert len(answer.outputs[0].token_ids) == 8 and answer.outputs[0].finish_reason == "length", answer


main(MODELS[sys.argv[1]])
