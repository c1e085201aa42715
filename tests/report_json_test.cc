#include <doctest/doctest.h>

#include "estimator/report/estimate.h"
#include "tests/sample_estimate.h"

namespace onnxfit::report_json_test {
namespace {

// Begins with a newline, so that expectations line up.
std::string Report(const Estimate& estimate, size_t rows = 8) {
  return "\n" + ToJson(estimate, {.version = "1.2.3", .rows = rows});
}

}  // namespace

TEST_CASE("JSON has the fields of the contract in its order") {
  CHECK(Report(SampleEstimate(), 2) == R"(
{
  "schema": 1,
  "version": "1.2.3",
  "model": {
    "path": "models/lenet.onnx",
    "opset": 17,
    "nodes": 12,
    "parameters": 61706,
    "parameter_bytes": 246824,
    "buffer_bytes": 0
  },
  "settings": {
    "batch": 32,
    "dims": {},
    "precision": "fp32",
    "optimizer": "adamw",
    "mode": "train",
    "loss": "cross-entropy",
    "framework": "pytorch-2.11"
  },
  "peak": {
    "exact_bytes": 5242880,
    "allocated_bytes": 6291456,
    "reserved_bytes": 25165824,
    "device_bytes": 565182464,
    "step": 2,
    "phase": "backward",
    "node": "/conv1/Conv"
  },
  "optimizer_state_bytes": 493648,
  "breakdown": [
    {
      "kind": "parameters",
      "bytes": 246824,
      "basis": "exact"
    },
    {
      "kind": "buffers",
      "bytes": 0,
      "basis": "exact"
    },
    {
      "kind": "gradients",
      "bytes": 246824,
      "basis": "exact"
    },
    {
      "kind": "optimizer_state",
      "bytes": 493648,
      "basis": "exact"
    },
    {
      "kind": "activations",
      "bytes": 4194304,
      "basis": "modelled"
    },
    {
      "kind": "rounding",
      "bytes": 1109856,
      "basis": "modelled"
    },
    {
      "kind": "cached",
      "bytes": 18874368,
      "basis": "modelled"
    },
    {
      "kind": "context",
      "bytes": 540016640,
      "low": 440401920,
      "high": 650117120,
      "basis": "measured"
    }
  ],
  "steps": [
    {
      "after_forward": 5242880,
      "after_backward": 1048576,
      "after_step": 2097152,
      "peak_exact": 4194304,
      "peak_allocated": 5242880,
      "peak_reserved": 23068672
    },
    {
      "after_forward": 5242880,
      "after_backward": 1048576,
      "after_step": 2097152,
      "peak_exact": 5242880,
      "peak_allocated": 6291456,
      "peak_reserved": 25165824
    }
  ],
  "largest": [
    {
      "name": "/conv1/Conv",
      "shape": [
        32,
        6,
        28,
        28
      ],
      "dtype": "float32",
      "bytes": 602112,
      "born": "/conv1/Conv",
      "dies": "/relu"
    },
    {
      "name": "fc1.weight",
      "shape": [
        120,
        400
      ],
      "dtype": "float32",
      "bytes": 192000
    }
  ],
  "framework": {
    "name": "pytorch-2.11"
  },
  "assumptions": [
    "The loss is cross-entropy over the first output of floats: a file does not say what it was trained with."
  ],
  "warnings": [
    {
      "code": "OF102",
      "text": "2 operators have no row (Frobnicate, Twist): all that they read and make is kept until the backward pass has gone by."
    }
  ]
}
)");
}

TEST_CASE("settings of the loop are there where they are not the default") {
  Estimate estimate = SampleEstimate();
  estimate.settings.loop = {.zero_grad = ZeroGrad::kKeep,
                            .hold_outputs = true,
                            .drop_batch = true,
                            .same_batch = true,
                            .prefetch = 2,
                            .accumulate = 4};
  estimate.settings.freeze = {"layer1.*", "*.bias"};
  estimate.settings.cublas = {.text = ":0:0"};
  CHECK(Report(estimate).find(R"(
    "framework": "pytorch-2.11",
    "zero_grad": "keep",
    "hold_outputs": true,
    "drop_batch": true,
    "same_batch": true,
    "prefetch": 2,
    "accumulate": 4,
    "freeze": [
      "layer1.*",
      "*.bias"
    ],
    "cublas_conf": ":0:0"
  },)") != std::string::npos);
}

TEST_CASE("the framework is always there") {
  Estimate estimate = SampleEstimate();
  estimate.settings.framework = Frameworks().back();
  CHECK(Report(estimate).find(R"("framework": "pytorch-2.15"
  })") != std::string::npos);
}

TEST_CASE("how the file was read is there where it is not the default") {
  Estimate estimate = SampleEstimate();
  estimate.settings.loss_output = "aux";
  estimate.settings.batch_norm = BatchNormUse::kKeep;
  estimate.settings.dropout = 0.1;
  estimate.settings.placed_dropouts = {{"classifier", 0.2}};
  estimate.settings.in_place = InPlaceUse::kNever;
  estimate.settings.out_of_place = {"*/Add"};
  estimate.settings.assumed = {.conv_bias = true, .in_place_dropout = true, .tied_head = false};
  CHECK(Report(estimate).find(R"(
    "loss_output": "aux",
    "batch_norm": "keep",
    "dropout": 0.1,
    "dropout_at": [
      {
        "glob": "classifier",
        "p": 0.2
      }
    ],
    "in_place": "never",
    "out_of_place": [
      "*/Add"
    ],
    "assume": [
      "conv-bias",
      "in-place-dropout",
      "tied-head=no"
    ]
  },)") != std::string::npos);
}

TEST_CASE("settings that few use are there only where they are used") {
  Estimate e;
  CHECK(Report(e).find("optimizer_impl") == std::string::npos);
  e.settings.optimizer_impl = OptimizerImpl::kForLoop;
  e.settings.clip_grad = true;
  e.settings.ema = true;
  e.settings.optimizer_in_backward = true;
  e.settings.ranks = {.strategy = Strategy::kDdp, .world = 4, .gradients_as_views = true};
  CHECK(Report(e).find(R"("framework": "pytorch-2.11",
    "optimizer_impl": "for-loop",
    "clip_grad": true,
    "ema": true,
    "optimizer_in_backward": true,
    "strategy": "ddp",
    "world": 4,
    "ddp_views": true
  })") != std::string::npos);
}

TEST_CASE("eval has peaks alone, and what is not known is absent") {
  Estimate e;
  e.model = {"<stdin>", 18, 2, 40, 160, 8};
  e.settings.mode = Mode::kEval;
  e.dims = {{"past", 3}, {"seq", 512}};
  e.steps = {{}};
  e.steps[0].peak = {1, 512, 2097152};
  CHECK(Report(e) == R"(
{
  "schema": 1,
  "version": "1.2.3",
  "model": {
    "path": "<stdin>",
    "opset": 18,
    "nodes": 2,
    "parameters": 40,
    "parameter_bytes": 160,
    "buffer_bytes": 8
  },
  "settings": {
    "batch": 1,
    "dims": {
      "past": 3,
      "seq": 512
    },
    "precision": "fp32",
    "optimizer": "adamw",
    "mode": "eval",
    "loss": "cross-entropy",
    "framework": "pytorch-2.11"
  },
  "peak": {
    "exact_bytes": 0,
    "allocated_bytes": 0,
    "reserved_bytes": 0,
    "device_bytes": 0,
    "step": 0
  },
  "optimizer_state_bytes": 0,
  "breakdown": [],
  "steps": [
    {
      "peak_exact": 1,
      "peak_allocated": 512,
      "peak_reserved": 2097152
    }
  ],
  "largest": [],
  "framework": {
    "name": "pytorch-2.11"
  },
  "assumptions": [],
  "warnings": []
}
)");
}

TEST_CASE("a range has the flags of both ends") {
  Estimate e = SampleEstimate();
  e.range = {{1000, "--dropout 0"}, {2000, "--dropout 0.1"}};
  const std::string json = ToJson(e, {});
  const std::string expected = R"(
  "range": {
    "low": {
      "device_bytes": 1000,
      "flags": "--dropout 0"
    },
    "high": {
      "device_bytes": 2000,
      "flags": "--dropout 0.1"
    }
  })";
  CHECK(json.find(expected) != std::string::npos);
}

TEST_CASE("a tensor that was asked for is beside the rest") {
  Estimate e = SampleEstimate();
  TensorStory story = {.name = "a",
                       .type = {DType::kFloat32, {16, 8}},
                       .kind = Kind::kActivation,
                       .bytes = 512,
                       .block_bytes = 1024,
                       .shares = Shares::kInPlace,
                       .storage = "h",
                       .op = "relu",
                       .node = "Relu #1",
                       .born = {1, Phase::kForward, "MatMul #0"}};
  story.dies = Instant{1, Phase::kBackward, ""};
  story.held_by = {{.by = HeldBy::By::kSaved,
                    .op = "mm",
                    .node = "MatMul #2",
                    .as = "input 0",
                    .until = story.dies},
                   {.by = HeldBy::By::kLoop}};
  story.operators_from_peak = -3;
  e.why = WhyAnswer{.asked = "end of a", .tensors = {story, story}, .allocated_at_peak = 4096};
  const std::string report = Report(e, 1);
  CHECK(report.substr(report.find("  \"why\"")) == R"(  "why": {
    "name": "end of a",
    "allocated_at_peak": 4096,
    "tensors": [
      {
        "name": "a",
        "shape": [
          16,
          8
        ],
        "dtype": "float32",
        "bytes": 512,
        "block_bytes": 1024,
        "kind": "activations",
        "storage": {
          "how": "in_place",
          "name": "h",
          "op": "relu",
          "node": "Relu #1"
        },
        "born": {
          "step": 1,
          "phase": "forward",
          "node": "MatMul #0"
        },
        "dies": {
          "step": 1,
          "phase": "backward"
        },
        "held_by": [
          {
            "by": "saved",
            "op": "mm",
            "node": "MatMul #2",
            "as": "input 0",
            "until": {
              "step": 1,
              "phase": "backward"
            }
          },
          {
            "by": "loop"
          }
        ],
        "at_peak": false,
        "operators_from_peak": -3
      }
    ]
  }
}
)");
  e.why = WhyAnswer{.asked = "a", .absent = "folded"};
  CHECK(Report(e).ends_with(R"(  "why": {
    "name": "a",
    "allocated_at_peak": 0,
    "absent": "folded",
    "tensors": []
  }
}
)"));
}

TEST_CASE("names are escaped, and bad UTF-8 in them replaced") {
  struct Row {
    std::string name;
    const char* json;
  };
  const Row rows[] = {{"a\"b\\c", R"("node": "a\"b\\c")"},
                      {"a\nb\x1b", R"("node": "a\nb\u001b")"},
                      {"卷积", R"("node": "卷积")"},
                      {"a\xff", "\"node\": \"a\xEF\xBF\xBD\""}};
  for (const Row& row : rows) {
    CAPTURE(row.name);
    Estimate e = SampleEstimate();
    e.dims = {{row.name, 1}};
    e.peak_node = row.name;
    CHECK(Report(e).find(row.json) != std::string::npos);
  }
}

TEST_CASE("the options of the allocator are told where some were given") {
  Estimate e = SampleEstimate();
  CHECK(Report(e).find("alloc_conf") == std::string::npos);
  e.alloc_conf = "max_split_size_mb:64";
  CHECK(Report(e).find(R"("framework": "pytorch-2.11",
    "alloc_conf": "max_split_size_mb:64"
  },)") != std::string::npos);
}

TEST_CASE("the same estimate gives the same bytes") {
  CHECK(Report(SampleEstimate()) == Report(SampleEstimate()));
}

}  // namespace onnxfit::report_json_test
