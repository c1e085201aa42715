"""Tokens one by one: peaks of prompt and decoding that `onnxfit --mode generate` gives, beside a plain program's.

    generation.py --committed                    # generation.csv, as README.md has it
    generation.py --update --python VENV/bin/python [--under WORDS]

A plain program (generates.py) loads each model and calls generate() by itself, on a card, or under a runtime of
which WORDS start a program; then onnxfit answers of the model's config.  Several minutes."""

import argparse
import csv
import json
import os
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
BATCH, PROMPT, NEW = 8, 512, 16
CACHES = ["", "static", "offloaded", "quantized"]
FIELDS = ["model", "cache", "pytorch_prefill", "onnxfit_prefill", "pytorch_decoding", "onnxfit_decoding", "refused"]

SHARED = {"hidden_size": 1024, "num_attention_heads": 16, "vocab_size": 32000}
CONFIGS = {
    "llama": {**SHARED, "architectures": ["LlamaForCausalLM"], "intermediate_size": 2816, "num_hidden_layers": 4,
              "num_key_value_heads": 4},
    "gpt2": {"architectures": ["GPT2LMHeadModel"], "n_embd": 1024, "n_layer": 4, "n_head": 16},
    "gemma2": {**SHARED, "architectures": ["Gemma2ForCausalLM"], "intermediate_size": 2816, "num_hidden_layers": 4,
               "num_key_value_heads": 4, "head_dim": 64, "sliding_window": 256},
    "phi3": {**SHARED, "architectures": ["Phi3ForCausalLM"], "intermediate_size": 2816, "num_hidden_layers": 4,
             "num_key_value_heads": 4, "sliding_window": 256, "pad_token_id": 0},
    "qwen3_moe": {**SHARED, "architectures": ["Qwen3MoeForCausalLM"], "intermediate_size": 2816, "head_dim": 64,
                  "num_hidden_layers": 4, "num_key_value_heads": 4, "num_experts": 16, "num_experts_per_tok": 4},
    "deepseek_v2": {**SHARED, "architectures": ["DeepseekV2ForCausalLM"], "intermediate_size": 2816,
                    "num_hidden_layers": 3, "num_key_value_heads": 16, "kv_lora_rank": 128, "q_lora_rank": 384,
                    "qk_nope_head_dim": 64, "qk_rope_head_dim": 32, "v_head_dim": 64, "n_routed_experts": 16,
                    "n_group": 1, "topk_group": 1, "num_experts_per_tok": 4, "first_k_dense_replace": 1,
                    "moe_intermediate_size": 512},
    "lfm2": {**SHARED, "architectures": ["Lfm2ForCausalLM"], "intermediate_size": 2816, "num_hidden_layers": 4,
             "num_key_value_heads": 4, "layer_types": ["conv", "full_attention", "conv", "full_attention"]},
    "falcon_h1": {**SHARED, "architectures": ["FalconH1ForCausalLM"], "intermediate_size": 2816, "head_dim": 64,
                  "num_hidden_layers": 3, "num_key_value_heads": 4, "mamba_d_ssm": 1024, "mamba_n_heads": 16,
                  "mamba_d_head": 64},
    "mamba": {"architectures": ["MambaForCausalLM"], "vocab_size": 32000, "hidden_size": 1024, "num_hidden_layers": 3},
    "t5": {"architectures": ["T5ForConditionalGeneration"], "d_model": 768, "d_ff": 2048, "num_layers": 4,
           "num_heads": 12, "decoder_start_token_id": 0},
    "bart": {"architectures": ["BartForConditionalGeneration"], "d_model": 768, "encoder_layers": 4,
             "decoder_layers": 4, "vocab_size": 32000},
}


def write_config(model, folder):
    (folder / "config.json").write_text(json.dumps({"model_type": model, **CONFIGS[model]}))


def last_line(text):
    return next((line for line in reversed(text.splitlines()) if line.strip()), "")


def truth(args, folder, cache):
    """What the plain program allocated, or why it did not run."""
    out = folder / "truth.json"
    out.unlink(missing_ok=True)
    under = shlex.split(args.under)
    environment = {**os.environ, **({"WITHOUT_VALUES": "1"} if under else {}), "HF_DEACTIVATE_ASYNC_LOAD": "1"}
    run = subprocess.run([*under, args.python, "-B", str(HERE / "generates.py"), str(folder), cache, str(BATCH),
                          str(PROMPT), str(NEW), str(out)], env=environment, capture_output=True, text=True, check=False)
    return json.loads(out.read_text()) if out.exists() else {"refused": last_line(run.stderr)}


def answer(args, folder, cache):
    words = ["--cache", cache] if cache else []
    run = subprocess.run([args.binary, str(folder), "--mode", "generate", "-b", str(BATCH), "--prompt", str(PROMPT),
                          "--new", str(NEW), "-p", "bf16", "-g", "a100-80gb", "-f", "json", *words],
                         env={**os.environ, "ONNXFIT_PYTHON": args.python}, capture_output=True, text=True, check=False)
    if run.returncode > 1:
        return {"refused": last_line(run.stderr)}
    found = json.loads(run.stdout)["runs"][0]
    return {"model": found["model_bytes"], "prefill": found["prefill_bytes"], "decoding": found["decoding_bytes"]}


def row_of(model, cache, truth, ours):
    refused = "both" if "refused" in truth and "refused" in ours else \
        "PyTorch" if "refused" in truth else "onnxfit" if "refused" in ours else ""
    figures = [row.get(phase, "") for phase in ("prefill", "decoding") for row in (truth, ours)]
    return [model, cache or "its own", *figures, refused]


def measured(args):
    for model in args.only or CONFIGS:
        for cache in CACHES:
            with tempfile.TemporaryDirectory() as name:
                write_config(model, Path(name))
                pair = truth(args, Path(name), cache), answer(args, Path(name), cache)
            row = row_of(model, cache, *pair)
            print(*row, *(each.get("refused", each.get("model")) for each in pair), sep=" | ", flush=True)
            yield row


def committed():
    with open(HERE / "generation.csv", newline="") as file:
        return list(csv.reader(file))[1:]


def write(rows):
    """The others stay as they are committed."""
    path = HERE / "generation.csv"
    made = {(row[0], row[1]): row for row in [*(committed() if path.exists() else []), *rows]}
    order = list(CONFIGS)
    with open(path, "w", newline="") as file:
        kept = sorted((row for row in made.values() if row[0] in order), key=lambda row: order.index(row[0]))
        csv.writer(file, lineterminator="\n").writerows([FIELDS, *kept])


def off(row):
    """By how much an answer is off, of the phase that is worse."""
    truths, ours = [int(row[2]), int(row[4])], [int(row[3]), int(row[5])]
    return max(abs(mine - its) / its for mine, its in zip(ours, truths, strict=True))


def cell(row):
    if row[6]:
        return {"both": "-"}.get(row[6], f"{row[6]} alone refuses")
    return "to the byte" if off(row) == 0 else f"{100 * off(row):.2f} %"


def print_table(rows):
    by_name = {(row[0], row[1]): row for row in rows}
    caches = [cache or "its own" for cache in CACHES]
    print("| model | " + " | ".join(f"cache: {cache}" for cache in caches) + " |")
    print("|---" * (len(caches) + 1) + "|")
    for model in dict.fromkeys(row[0] for row in rows):
        print(f"| {model} | " + " | ".join(cell(by_name[model, cache]) for cache in caches) + " |")
    ran = [row for row in rows if not row[6]]
    print(f"\n{sum(off(row) == 0 for row in ran)} of {len(ran)} runs are right to the byte in both phases, the worst "
          f"is {100 * max(map(off, ran)):.2f} % off.")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--binary", default=str(ROOT / "build/release/onnxfit"))
    parser.add_argument("--python", default=sys.executable)
    parser.add_argument("--under", default="", help="words before the plain program's")
    parser.add_argument("--only", action="append", choices=list(CONFIGS))
    parser.add_argument("--committed", action="store_true")
    parser.add_argument("--update", action="store_true")
    args = parser.parse_args()
    rows = committed() if args.committed else list(measured(args))
    if args.update:
        write(rows)
    print_table(rows)


if __name__ == "__main__":
    main()
