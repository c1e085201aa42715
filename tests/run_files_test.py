"""What estimate writes for other tools is what it says itself: snapshots, traces, stacks, images.

    run_files_test.py --binary build/release/onnxfit
"""

import argparse
import io
import json
import pickle
import subprocess
import sys
import unittest
import xml.etree.ElementTree as ElementTree
from collections import defaultdict
from pathlib import Path

MODELS = Path(__file__).parent.parent / "models"
RUNS = [
    ["resnet18.train.onnx", "-b", "4"],
    ["gpt2.dynamo.onnx", "-b", "2", "-p", "amp-bf16"],
    ["t5_small.script.onnx", "-b", "2", "--mode", "eval"],
    ["lenet.onnxtxt", "-b", "4", "-o", "sgdm"],
    ["resnet18.train.onnx", "-b", "4", "--alloc-conf", "expandable_segments:True"],
]
GROWS = ("segment_alloc", "segment_map")
BINARY = ""


class PlainUnpickler(pickle.Unpickler):
    """Plain values alone: a snapshot needs no class."""

    def find_class(self, module, name):
        raise pickle.UnpicklingError(f"{module}.{name}")


def file_of(run, form):
    command = [BINARY, str(MODELS / run[0]), *run[1:], "--format", form]
    return subprocess.run(command, capture_output=True, check=True).stdout


def peak_of(run):
    return json.loads(file_of(run, "json"))["peak"]


class Snapshot(unittest.TestCase):
    def snapshot_of(self, run):
        return PlainUnpickler(io.BytesIO(file_of(run, "memory-snapshot"))).load()

    def test_events_add_up_to_the_peaks(self):
        for run in RUNS:
            with self.subTest(run=run):
                now = peak = reserved = 0
                for event in self.snapshot_of(run)["device_traces"][0]:
                    now += {"alloc": event["size"], "free_completed": -event["size"]}.get(
                        event["action"], 0)
                    peak = max(peak, now)
                    reserved += event["size"] if event["action"] in GROWS else 0
                told = peak_of(run)
                self.assertEqual(peak, told["exact_bytes"])
                self.assertEqual(reserved, told["reserved_bytes"])

    def test_expandable_segments_are_one_each_pool(self):
        snapshot = self.snapshot_of(RUNS[-1])
        self.assertEqual([s["is_expandable"] for s in snapshot["segments"]], [True, True])
        self.assertEqual({e["action"] for e in snapshot["device_traces"][0]
                          if e["action"].startswith("segment")}, {"segment_map"})

    def test_segments_are_full_of_blocks_that_lie_apart(self):
        for run in RUNS:
            with self.subTest(run=run):
                for segment in self.snapshot_of(run)["segments"]:
                    at = segment["address"]
                    for block in segment["blocks"]:
                        self.assertEqual(block["address"], at)
                        at += block["size"]
                    self.assertEqual(at, segment["address"] + segment["total_size"])
                    live = [b for b in segment["blocks"] if b["state"] == "active_allocated"]
                    self.assertEqual(sum(b["size"] for b in live), segment["allocated_size"])
                    self.assertEqual(sum(b["requested_size"] for b in live),
                                     segment["requested_size"])

    def test_no_address_is_given_out_twice(self):
        for run in RUNS:
            with self.subTest(run=run):
                live = {}
                for event in self.snapshot_of(run)["device_traces"][0]:
                    if event["action"] == "alloc":
                        self.assertNotIn(event["addr"], live)
                        live[event["addr"]] = event["size"]
                    elif event["action"] == "free_completed":
                        self.assertEqual(live.pop(event["addr"]), event["size"])

    def test_frames_name_the_operator_and_its_module(self):
        frames = [frame for event in self.snapshot_of(RUNS[0])["device_traces"][0]
                  if event["action"] == "alloc" for frame in event["frames"]]
        self.assertIn({"name": "convolution", "filename": "model.conv1", "line": 0}, frames)
        self.assertIn({"name": "model.fc.weight", "filename": "tensor", "line": 0}, frames)


class Perfetto(unittest.TestCase):
    def test_counters_have_the_peaks(self):
        for run in RUNS:
            with self.subTest(run=run):
                events = json.loads(file_of(run, "perfetto"))["traceEvents"]
                for name in ("allocated", "reserved"):
                    most = max(e["args"]["bytes"] for e in events
                               if e["ph"] == "C" and e["name"] == name)
                    self.assertEqual(most, peak_of(run)[f"{name}_bytes"])

    def test_slices_of_a_lane_follow_each_other(self):
        events = json.loads(file_of(RUNS[0], "perfetto"))["traceEvents"]
        lanes = defaultdict(list)
        for event in events:
            if event["ph"] == "X":
                lanes[event["pid"], event["tid"]].append((event["ts"], event["ts"] + event["dur"]))
        for slices in lanes.values():
            slices.sort()
            for (_, end), (begin, _) in zip(slices, slices[1:]):
                self.assertLessEqual(end, begin)


class Stacks(unittest.TestCase):
    def test_they_add_up_to_what_is_exact(self):
        for run in RUNS:
            with self.subTest(run=run):
                lines = file_of(run, "treemap").decode().splitlines()
                self.assertEqual(sum(int(line.rsplit(" ", 1)[1]) for line in lines),
                                 sum(row["bytes"] for row in json.loads(
                                     file_of(run, "json"))["breakdown"]
                                     if row["kind"] not in ("rounding", "cached", "context")))
                self.assertTrue(all(line.startswith("model;") for line in lines))


class Svg(unittest.TestCase):
    def test_it_is_xml_with_words(self):
        for run in RUNS:
            with self.subTest(run=run):
                image = ElementTree.fromstring(file_of(run, "svg").decode())
                self.assertEqual(image.tag, "{http://www.w3.org/2000/svg}svg")
                words = " ".join("".join(text.itertext())
                                 for text in image.iter("{http://www.w3.org/2000/svg}text"))
                self.assertIn(run[0], words)
                self.assertIn("peak ", words)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--binary", required=True)
    arguments, rest = parser.parse_known_args()
    BINARY = arguments.binary
    unittest.main(argv=[sys.argv[0], *rest])
