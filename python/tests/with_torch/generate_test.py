"""generate() of transformers on a card that is not there.  Skipped where the command has no `run`
and where there is no transformers."""

import importlib.util
import json
import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path
from unittest import mock

import onnxfit
from onnxfit import _command

LLAMA = {"model_type": "llama", "architectures": ["LlamaForCausalLM"], "hidden_size": 128,
         "intermediate_size": 256, "num_hidden_layers": 3, "num_attention_heads": 4,
         "num_key_value_heads": 2, "vocab_size": 1000}


def has_run():
    return subprocess.run([_command.binary(), "run", "--help"], stdout=subprocess.DEVNULL,
                          stderr=subprocess.DEVNULL, check=False).returncode == 0


@unittest.skipUnless(importlib.util.find_spec("transformers") and has_run(), "nothing to ask with")
class Generate(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        python = mock.patch.dict(os.environ, ONNXFIT_PYTHON=sys.executable)
        python.start()
        self.addCleanup(python.stop)

    def model(self, **more):
        (self.folder / "config.json").write_text(json.dumps({**LLAMA, **more}), encoding="utf-8")
        return str(self.folder)

    def test_the_cache_is_what_keys_and_values_take(self):
        answer = onnxfit.generate(self.model(), prompt=64, new=9, batch=4, precision="bf16",
                                  gpu="t4")
        run, = answer.runs
        tokens = 64 + 9 - 1  # the last one's are not kept
        self.assertEqual(run.cache_bytes, 2 * 3 * 4 * 2 * 32 * tokens * 2)
        self.assertEqual((run.calls, run.dtype, run.cache[0].layers), (9, "bfloat16", 3))
        self.assertEqual(run.cache[0].first_bytes, 2 * 3 * 4 * 2 * 32 * 64 * 2)
        self.assertGreater(run.prefill_bytes, run.model_bytes)
        self.assertTrue(answer.holds and answer.headline.startswith("FITS on t4"))

    def test_beams_multiply_it(self):
        plain, beams = (onnxfit.generate(self.model(), prompt=64, new=4, batch=4, beams=n).runs[0]
                        for n in (1, 3))
        self.assertEqual(beams.cache_bytes, 3 * plain.cache_bytes)

    def test_a_static_cache_does_not_grow(self):
        run = onnxfit.generate(self.model(), prompt=64, new=8, cache="static").runs[0]
        self.assertEqual(run.cache[0].first_bytes, run.cache_bytes)
        self.assertEqual(run.cache[0].kind, "StaticLayer")

    def test_a_window_ends_its_growth(self):
        rows = onnxfit.generate(
            self.model(model_type="phi3", architectures=["Phi3ForCausalLM"], sliding_window=16,
                       pad_token_id=0), prompt=[8, 64, 128], new=4).runs
        self.assertLess(rows[0].cache_bytes, rows[1].cache_bytes)
        self.assertEqual(rows[1].cache_bytes, rows[2].cache_bytes)

    def test_a_card_that_is_too_small(self):
        answer = onnxfit.generate(self.model(num_hidden_layers=1), prompt=4096, new=2, batch=512,
                                  memory="4GiB")
        self.assertFalse(answer.holds)
        self.assertEqual(answer.targets[0].verdict, "oom")

    def test_the_longest_prompt(self):
        answer = onnxfit.generate_max_batch(self.model(num_hidden_layers=1), solve="prompt", new=2,
                                            batch=64, multiple_of=64, max=512, memory="16GiB")
        self.assertEqual((answer.size, answer.targets[0].limited), (512, True))

    def test_what_is_no_model_is_told(self):
        for model, error in [(str(self.folder / "none"), "expected a folder with a config.json"),
                             (str(self.folder), "expected a config.json in the folder"),
                             (f"{self.folder}/no.py:load", "expected a function that returns a model")]:
            with self.subTest(model), self.assertRaisesRegex(onnxfit.OnnxfitError, error):
                onnxfit.generate(model, prompt=8)
        with self.assertRaisesRegex(onnxfit.OnnxfitError, "at the top of a file"):
            onnxfit.generate(lambda: None, prompt=8)

    def test_a_table_of_positions_ends_it(self):
        gpt2 = {"model_type": "gpt2", "architectures": ["GPT2LMHeadModel"], "n_embd": 64, "n_layer": 1,
                "n_head": 2, "n_positions": 128, "vocab_size": 500}
        (self.folder / "config.json").write_text(json.dumps(gpt2), encoding="utf-8")
        with self.assertRaisesRegex(onnxfit.OnnxfitError, "--prompt 125 or less"):
            onnxfit.generate(str(self.folder), prompt=126, new=4)
        found = onnxfit.generate_max_batch(str(self.folder), solve="prompt", new=4, batch=1, gpu="l4")
        self.assertEqual(found.size, 125)
        self.assertIn("its table of positions ends there", found.text)

    def test_what_its_own_config_says_is_told(self):
        model = self.model(max_position_embeddings=64)
        (self.folder / "generation_config.json").write_text(json.dumps({
            "num_beams": 3, "max_time": 0.001, "cache_implementation": "static"}), encoding="utf-8")
        run = onnxfit.generate(model, prompt=64, new=4).runs[0]
        self.assertEqual((run.beams, run.calls, run.cache_implementation), (3, 4, "static"))
        self.assertTrue(any("more than the 64 positions" in sentence for sentence in run.open))
        self.assertTrue(any("not compiled" in sentence for sentence in run.open))
        self.assertEqual(onnxfit.generate(model, prompt=8, new=2, beams=1).runs[0].beams, 1)

    def test_a_function_loads_it(self):
        config = self.model()
        (self.folder / "own.py").write_text(
            "import transformers\n\n\ndef load():\n"
            f"    config = transformers.AutoConfig.from_pretrained({config!r})\n"
            "    return transformers.AutoModelForCausalLM.from_config(config)\n", encoding="utf-8")
        run = onnxfit.generate(f"{self.folder}/own.py:load", prompt=8, new=3).runs[0]
        self.assertEqual((run.calls, run.dtype), (3, "float32"))


if __name__ == "__main__":
    unittest.main()
