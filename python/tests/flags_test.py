"""Keywords and the flags that they are."""

import re
import subprocess
import unittest
from pathlib import Path

import onnxfit
from onnxfit import _command, _config, flags

LENET = Path(__file__).resolve().parent.parent.parent / "models/lenet.onnxtxt"

# Of --help, what is about printing, which values do not need.
PRINTING = {"format", "output", "force", "color", "exit_zero", "version", "help", "timeline",
            "tree"}
RENAMED = {"dim": "dims", "shape": "shapes"}


def flags_of(*command):
    run = subprocess.run([_command.binary(), *command, "--help", "all"], stdout=subprocess.PIPE,
                         check=True, encoding="utf-8")
    names = re.findall(r"^ +(?:-\w, )?--([a-z0-9-]+) ", run.stdout, re.MULTILINE)
    return {name.replace("-", "_") for name in names}


class Flags(unittest.TestCase):
    def test_every_flag_is_a_keyword(self):
        for command in ([], ["max-batch"], ["check"]):
            names = {RENAMED.get(name, name) for name in flags_of(*command)}
            self.assertGreater(len(names), 5)
            self.assertEqual(names - PRINTING - flags.KEYWORDS, set())

    def test_every_keyword_is_a_flag(self):
        names = flags_of() | flags_of("max-batch") | flags_of("check") | flags_of("run")
        names = {RENAMED.get(name, name) for name in names} | {"n", "verbose"}
        self.assertEqual(flags.KEYWORDS - names, set())

    def test_words(self):
        rows = [
            ({"batch": 32}, ["--batch", "32"]),
            ({"batch": None}, []),
            ({"batch": [8, 16]}, ["--batch", "8,16"]),
            ({"batch": "8:64:8"}, ["--batch", "8:64:8"]),
            ({"precision": ("fp32", "bf16")}, ["--precision", "fp32,bf16"]),
            ({"gpu": ["t4", "l4"]}, ["--gpu", "t4", "--gpu", "l4"]),
            ({"memory": 8 << 30}, ["--memory", "8589934592"]),
            ({"dims": {"seq": 512, "N": [1, 2]}}, ["--dim", "seq=512", "--dim", "N=1,2"]),
            ({"shapes": {"x": (2, 512)}}, ["--shape", "x=2x512"]),
            ({"clip_grad": True, "ema": False}, ["--clip-grad"]),
            ({"freeze": "layer1.*"}, ["--freeze", "layer1.*"]),
            ({"checkpoint": "auto"}, ["--checkpoint", "auto"]),
            ({"strategy": "zero2", "reduce_bucket": 1000, "world": "auto"},
             ["--strategy", "zero2", "--reduce-bucket", "1000", "--world", "auto"]),
            ({"strategy": "fsdp-hybrid", "shard_world": 4, "fsdp_reshard": 2, "fsdp_offload": True,
              "accumulate": 2, "no_sync": True},
             ["--strategy", "fsdp-hybrid", "--shard-world", "4", "--fsdp-reshard", "2",
              "--fsdp-offload", "--accumulate", "2", "--no-sync"]),
            ({"strategy": "pipeline", "world": 4, "schedule": "gpipe", "stage": 0,
              "split_at": ["h.3", "h.6"], "drop_outputs": True},
             ["--strategy", "pipeline", "--world", "4", "--schedule", "gpipe", "--stage", "0",
              "--split-at", "h.3", "--split-at", "h.6", "--drop-outputs"]),
            ({"tensor_parallel": "4:head"}, ["--tensor-parallel", "4:head"]),
            ({"tensor_parallel": 2, "sequence_parallel": True},
             ["--tensor-parallel", "2", "--sequence-parallel"]),
            ({"strategy": "ddp", "devices": ["4xt4", "a100-40gb"]},
             ["--strategy", "ddp", "--devices", "4xt4,a100-40gb"]),
            ({"strategy": "zero3", "prefetch_bucket": 0, "persistence_threshold": 1000},
             ["--strategy", "zero3", "--prefetch-bucket", "0", "--persistence-threshold",
              "1000"]),
            ({"strategy": "zero2", "overlap_comm": True, "ddp_static_graph": False},
             ["--strategy", "zero2", "--overlap-comm"]),
            ({"strategy": "zero3", "zero_offload": True},
             ["--strategy", "zero3", "--zero-offload"]),
            ({"strategy": "fsdp", "fsdp_modules": ["h.*"], "fsdp_keep": True},
             ["--strategy", "fsdp", "--fsdp-modules", "h.*", "--fsdp-keep"]),
            ({"lora": 8, "lora_dropout": 0.05}, ["--lora", "8", "--lora-dropout", "0.05"]),
            ({"optimizer": "galore", "galore": "64:attn,mlp"},
             ["--optimizer", "galore", "--galore", "64:attn,mlp"]),
            ({"lora": 8, "dora": True}, ["--lora", "8", "--dora"]),
            ({"checkpoint": "every=2", "checkpoint_reentrant": True},
             ["--checkpoint", "every=2", "--checkpoint-reentrant"]),
            ({"compile": "inductor"}, ["--compile", "inductor"]),
            ({"fp32_weights": True}, ["--fp32-weights"]),
            ({"cudnn_benchmark": True}, ["--cudnn-benchmark"]),
            ({"note": ["a guess", "-1 is padding"]}, ["--note=a guess", "--note=-1 is padding"]),
            ({"quantize": "nf4"}, ["--quantize", "nf4"]),
            ({"quantize": "int8:fc"}, ["--quantize", "int8:fc"]),
            ({"lora": "8:q_proj,v_proj"}, ["--lora", "8:q_proj,v_proj"]),
            ({"dropout": 0.1}, ["--dropout", "0.1"]),
            ({"dropout": {"head": 0}}, ["--dropout", "head=0"]),
            ({"assume": {"tied-head": False}}, ["--assume", "tied-head=no"]),
            ({"n": 3, "verbose": True}, ["-n", "3", "-v"]),
            ({"max": 64, "multiple_of": 8}, ["--max", "64", "--multiple-of", "8"]),
        ]
        for keywords, words in rows:
            with self.subTest(keywords):
                self.assertEqual(flags.arguments(keywords), words)

    def test_the_command_takes_what_is_written(self):
        answer = onnxfit.estimate(
            LENET, batch=4, precision="amp-bf16", optimizer="sgdm", optimizer_impl="for-loop",
            loss="mse", gpu=["t4"], dims={}, shapes={"x": (4, 1, 28, 28)}, clip_grad=True,
            ema=True, mode="train", dropout=0.5, assume={"conv-bias": False},
            attention="eager", in_place="never", out_of_place=["*"], zero_grad="keep",
            hold_outputs=True, drop_batch=True, prefetch=1, accumulate=2, eval_batch=2, eval_keep=1, loop="accelerate", framework="pytorch-2.8",
            alloc_conf="expandable_segments:True", cublas_conf=":16:8", overhead=0, calibration="none", memory=["8GiB"],
            reserve="100MiB", strict=True, note=["- a guess"], n=1, verbose=True, ascii=True, batch_norm="keep")
        self.assertEqual((answer.settings.optimizer, answer.settings.accumulate), ("sgdm", 2))
        self.assertIn("- a guess", answer.assumptions)
        self.assertNotIn("█", str(answer))

    def test_a_check_in_a_config(self):
        self.assertEqual(
            _config.check({"model": 'a "b".onnx', "dims": {"seq": [1, 2]}, "ema": True,
                           "max_increase": "2%", "dropout": 0.5, "loss": None}),
            '[[check]]\nmodel = "a \\"b\\".onnx"\ndims = {"seq" = [1, 2]}\nema = true\n'
            'max-increase = "2%"\ndropout = 0.5\n')

    def test_what_is_wrong_is_said(self):
        rows = [({"ema": 1}, "ema: expected True or False, found 1"),
                ({"dims": 3}, "dims: expected a dictionary of sizes such as {'seq': 512}, found 3"),
                ({"mode": ["train"]}, "mode: expected one value, found ['train']")]
        for keywords, text in rows:
            with self.subTest(keywords), self.assertRaises(onnxfit.OnnxfitError) as caught:
                flags.arguments(keywords)
            self.assertEqual(str(caught.exception), text)
        with self.assertRaises(TypeError):
            flags.arguments({"bacth": 3})


if __name__ == "__main__":
    unittest.main()
