// What the tables of facts about libraries share.  Internal to the room libraries/.
#pragma once

#include <span>
#include <string_view>

#include "estimator/libraries/libraries.h"

namespace onnxfit {

// The releases that facts were seen in.
inline constexpr std::string_view kTorch = "torch 2.11.0";
inline constexpr std::string_view kTorchvision = "torchvision 0.26.0";
inline constexpr std::string_view kTransformers = "transformers 5.17.0";
inline constexpr std::string_view kTimm = "timm 1.0.31";
// Its wheel has no train.py.
inline constexpr std::string_view kTimmScript =
    "huggingface/pytorch-image-models a6da4da1740cd57eaf864803f9dd65683cbcf6d7";
inline constexpr std::string_view kDiffusers = "diffusers 0.42.1";
inline constexpr std::string_view kAccelerate = "accelerate 1.15.0";
inline constexpr std::string_view kPeft = "peft 0.21.2";
inline constexpr std::string_view kAnnotated =
    "harvardnlp/annotated-transformer 0a91a254735c07532e23733dce8a693e504f3a08";
inline constexpr std::string_view kVitPytorch =
    "lucidrains/vit-pytorch 0ebd4edab94c211eff78406248896588d155a10c";
inline constexpr std::string_view kRelativePosition =
    "evelinehong/Transformer_Relative_Position_PyTorch 9befc894caea65e0ecc272743ad28718e74f581b";
inline constexpr std::string_view kPerceiverPytorch =
    "lucidrains/perceiver-pytorch 111523c7ba03b66749132bf956f26ec1c5c42855";
inline constexpr std::string_view kCornerNet =
    "princeton-vl/CornerNet 0017821eb0e127918dfd29a1a5976558babb582d";
inline constexpr std::string_view kEdsr =
    "sanghyun-son/EDSR-PyTorch 1abac010a9080ed3af0a621e5c4b1a822ec2a8a4";
inline constexpr std::string_view kLightning = "lightning 2.6.6";
inline constexpr std::string_view kUltralytics = "ultralytics 8.4.190";

struct NameFact {
  std::string_view name;
  SeenIn seen;
  std::string_view other = {};  // where the fact is of two
};

// More of KnownNameRows (forwards_timm.cc).
std::span<const KnownNameRow> NameRowsOfStages();
// The same (forwards_layers.cc).
std::span<const KnownNameRow> NameRowsOfLayers();
// The same (forwards_models.cc).
std::span<const KnownNameRow> NameRowsOfModels();

// Whether `path` is `tail`, or ends with it as a module's name.
inline bool EndsWithName(std::string_view path, std::string_view tail) {
  return path.ends_with(tail) &&
         (path.size() == tail.size() || path[path.size() - tail.size() - 1] == '.');
}

}  // namespace onnxfit
