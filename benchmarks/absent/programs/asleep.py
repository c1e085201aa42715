"""vLLM that sleeps: what it gives back to the card, and takes again."""
import os
import tempfile

os.environ.update(VLLM_ENABLE_V1_MULTIPROCESSING="0", VLLM_USE_FLASHINFER_SAMPLER="0")
import readings  # noqa: E402
import tiny_llm  # noqa: E402
import torch  # noqa: E402
import vllm  # noqa: E402


def main():
    with tempfile.TemporaryDirectory() as folder:
        tiny_llm.save(folder)
        engine = vllm.LLM(folder, load_format="dummy", enforce_eager=True, enable_sleep_mode=True,
                          gpu_memory_utilization=0.5)
    total = torch.cuda.get_device_properties(0).total_memory
    for level in (1, 2):
        readings.begin()
        engine.generate(["a" * 100], vllm.SamplingParams(max_tokens=4, ignore_eos=True), use_tqdm=False)
        readings.end("engine")
        readings.left("engine")
        engine.sleep(level)
        readings.left("sleep")
        engine.wake_up()
        readings.left("wake")
    readings.tell()
    assert readings.on_card["sleep"] < 1 << 30 < 0.4 * total < readings.on_card["wake"], readings.on_card


if __name__ == "__main__":
    main()
