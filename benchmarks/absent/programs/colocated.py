"""trl's GRPO with vLLM in its own process, asleep while it trains."""
import os
import tempfile

os.environ.update(VLLM_ENABLE_V1_MULTIPROCESSING="0", VLLM_USE_FLASHINFER_SAMPLER="0", RANK="0", LOCAL_RANK="0",
                  WORLD_SIZE="1", MASTER_ADDR="localhost", MASTER_PORT="29513")
import datasets  # noqa: E402
import readings  # noqa: E402
import tiny_llm  # noqa: E402
import torch  # noqa: E402
import transformers  # noqa: E402
import trl  # noqa: E402
import vllm  # noqa: E402

go_to_sleep = vllm.LLM.sleep


def sleep(self, *args, **kwargs):
    go_to_sleep(self, *args, **kwargs)
    readings.left("sleep")


vllm.LLM.sleep = sleep


def rewards(completions, **_):
    readings.begin()
    return [float(len(text)) for text in completions]


class Reads(transformers.TrainerCallback):
    def on_step_end(self, *_, **__):
        readings.end("training")


def main():
    with tempfile.TemporaryDirectory() as folder:
        transformers.Qwen3ForCausalLM(tiny_llm.CONFIG).to(torch.bfloat16).save_pretrained(folder)
        tiny_llm.save_tokenizer(folder)
        trainer = trl.GRPOTrainer(folder, rewards, args=trl.GRPOConfig(
            tempfile.mkdtemp(), per_device_train_batch_size=8, num_generations=4, max_completion_length=32, max_steps=3,
            bf16=True, beta=0.0, report_to=[], disable_tqdm=True, save_strategy="no", logging_steps=1, use_vllm=True,
            vllm_mode="colocate", vllm_enable_sleep_mode=True, vllm_gpu_memory_utilization=0.3),
            train_dataset=datasets.Dataset.from_dict({"prompt": ["abc def"] * 64}), callbacks=[Reads()])
        trainer.train()
    readings.tell()


if __name__ == "__main__":
    main()
