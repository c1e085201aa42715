#include <algorithm>

#include "estimator/libraries/libraries.h"
#include "estimator/libraries/rows.h"

namespace onnxfit {
namespace {

constexpr auto kOutOfPlace = ActivationUse::kOutOfPlace;
constexpr auto kNotKnown = ActivationUse::kUnknown;
constexpr auto kInPlace = ActivationUse::kInPlace;

// Of torchvision's, some have both, and some make GELU alone, or are told by their children.
constexpr ActivationRow kActivationRows[] = {
    // Norms with an activation, which is told so; gates, which have a default of their own.
    {"timm.layers.norm_act.", kInPlace, {kTimm, "layers/norm_act.py", "inplace: bool = True,"}},
    {"timm.layers.squeeze_excite.",
     kInPlace,
     {kTimm, "layers/squeeze_excite.py", "self.act = create_act_layer(act_layer, inplace=True)"}},
    {"timm.layers.activations.Sigmoid",
     kOutOfPlace,
     {kTimm, "layers/squeeze_excite.py", "self.gate = create_act_layer(gate_layer)"}},
    {"timm.layers.activations.HardSigmoid",
     kOutOfPlace,
     {kTimm, "layers/squeeze_excite.py", "self.gate = create_act_layer(gate_layer)"}},
    {"timm.models.nextvit.",
     kInPlace,
     {kTimm, "models/nextvit.py", "act_layer = partial(nn.ReLU, inplace=True)"}},
    {"timm.models.cspnet.",
     kOutOfPlace,
     {kTimm, "models/cspnet.py", "self.act3 = create_act_layer(act_layer)"}},
    {"diffusers.", kOutOfPlace, {kDiffusers, "models/activations.py", "\"relu\": nn.ReLU"}},
    {"transformers.", kOutOfPlace, {kTransformers, "activations.py", "\"relu\": nn.ReLU,"}},
    {"torchvision.models.segmentation.",
     kNotKnown,
     {kTorchvision, "models/segmentation/fcn.py", "nn.ReLU(),"}},
    {"torchvision.models.detection.",
     kNotKnown,
     {kTorchvision, "models/detection/fcos.py", "conv.append(nn.ReLU())"}},
    {"torchvision.models.optical_flow.",
     kNotKnown,
     {kTorchvision, "models/optical_flow/raft.py", "self.relu = nn.ReLU(inplace=True)"}},
    {"torchvision.models.maxvit.", kNotKnown, {kTorchvision, "models/maxvit.py", "inplace=None"}},
    {"torchvision.models.quantization.",
     kNotKnown,
     {kTorchvision, "models/quantization/resnet.py", "class QuantizableBasicBlock("}},
    {"torchvision.ops.misc.SqueezeExcitation",
     kNotKnown,
     {kTorchvision, "ops/misc.py", "activation: Callable[..., torch.nn.Module] = torch.nn.ReLU,"}},
    {"torchvision.ops.feature_pyramid_network.",
     kNotKnown,
     {kTorchvision, "ops/feature_pyramid_network.py", "class FeaturePyramidNetwork("}},
    {"torchvision.", kInPlace, {kTorchvision, "ops/misc.py", "inplace: Optional[bool] = True,"}},
};

constexpr auto kActivations = InPlaceChildren::Of::kActivations;
constexpr auto kSums = InPlaceChildren::Of::kSums;
constexpr SeenIn kResNet = {kTorchvision, "models/resnet.py", "out += identity"};
constexpr SeenIn kVgg = {kTorchvision, "models/vgg.py", "nn.ReLU(inplace=True)"};
constexpr SeenIn kEfficientNet = {kTorchvision, "models/efficientnet.py", "result += input"};
constexpr SeenIn kMobileNetV2 = {kTorchvision, "models/mobilenetv2.py", "return x + self.conv(x)"};

constexpr SeenIn kTimmStages = {kTimm, "models/cspnet.py", "+ shortcut"};

constexpr SeenIn kNormFreeBlocks = {kTimm, "models/nfnet.py", "self.act1 = act_layer()"};
constexpr SeenIn kLraspp = {kTorchvision, "models/segmentation/lraspp.py", "nn.ReLU(inplace=True)"};
constexpr SeenIn kDeepLab = {kTorchvision, "models/segmentation/deeplabv3.py", "nn.ReLU(),"};

// "*" is a child of any name.
constexpr InPlaceChildren kInPlaceModules[] = {
    // ResNet; BasicBlock and Bottleneck, with "out += identity".
    {{"conv1", "relu", "maxpool", "layer1"}, "relu", false, kActivations, true, kResNet},
    {{"conv1", "relu", "maxpool", "layer1"}, "layer*.relu*", false, kActivations, true, kResNet},
    {{"conv1", "relu", "maxpool", "layer1"}, "layer*", true, kSums, true, kResNet},
    // AlexNet, VGG; Conv2dNormActivation of ops/misc.py and MBConv's "result += input".
    {{"features", "avgpool", "classifier"}, "features.*", true, kActivations, true, kVgg},
    {{"features", "avgpool", "classifier"}, "classifier.*", true, kActivations, true, kVgg},
    {{"features.*.*.block", "avgpool"}, "features.*", true, kActivations, true, kEfficientNet},
    {{"features.*.*.block", "avgpool"}, "features.*", true, kSums, true, kEfficientNet},
    // DenseNet's own forward.
    {{"features.denseblock1", "classifier"},
     "",
     false,
     kActivations,
     true,
     {kTorchvision, "models/densenet.py", "out = F.relu(features, inplace=True)"}},
    // LRASPPHead's cbr; DeepLabHead, ASPP and FCNHead.
    {{"backbone", "classifier"}, "classifier.cbr.*", true, kActivations, true, kLraspp},
    {{"backbone", "classifier"}, "classifier.*", true, kActivations, false, kDeepLab},
    // NextViT, which partial() tells so; BitGroupNormActivation.
    {{"stages.*.blocks.*.mhca"},
     "*",
     false,
     kActivations,
     true,
     {kTimm, "models/nextvit.py", "act_layer = partial(nn.ReLU, inplace=True)"}},
    {{"norm1", "norm3", "conv3"},
     "norm*.activation",
     false,
     kActivations,
     false,
     {kTransformers, "models/bit/modeling_bit.py", "self.activation = ACT2FN[config.hidden_act]"}},
    // NormFreeBlock, whose second activation alone is told so, and NormFreeNet's last one.
    {{"stages.*.*.act1", "stages.*.*.act3", "final_conv"},
     "stages.*.act1",
     false,
     kActivations,
     false,
     kNormFreeBlocks},
    {{"stages.*.*.act1", "stages.*.*.act3", "final_conv"},
     "stages.*.act3",
     false,
     kActivations,
     false,
     kNormFreeBlocks},
    {{"stages.*.*.act1", "stages.*.*.act3", "final_conv"},
     "final_act",
     false,
     kActivations,
     false,
     kNormFreeBlocks},
    // MViT's PositionalEncoding, "torch.cat((class_token, x), dim=1).add_(pos_embedding)".
    {{"conv_proj", "pos_encoding", "blocks.*.attn"},
     "pos_encoding",
     false,
     kSums,
     true,
     {kTorchvision, "models/video/mvit.py", ".add_(pos_embedding)"}},
    // ConvPosEnc, and what else CoaT adds.
    {{"patch_embed1", "patch_embed4"},
     "*",
     false,
     kSums,
     false,
     {kTimm, "models/coat.py", "x = self.proj(feat) + feat"}},
    // Distilled classifiers.
    {{"head", "head_dist"},
     "",
     false,
     kSums,
     false,
     {kTimm, "models/levit.py", "return (x + x_dist) / 2"}},
    // HighResolutionModule.
    {{"branches.*.*", "fuse_act"},
     "fuse_act*",
     false,
     kActivations,
     false,
     {kTimm, "models/hrnet.py", "self.fuse_act = nn.ReLU(False)"}},
    {{"branches.*.*", "fuse_act"},
     "fuse_layers.*",
     false,
     kActivations,
     false,
     {kTimm, "models/hrnet.py", "nn.ReLU(False)"}},
    {{"branches.*.*", "fuse_act"},
     "",
     false,
     kSums,
     false,
     {kTimm, "models/hrnet.py", "y = y + f(x[j])"}},
    {{"branches.*.*", "fuse_act"},
     "branches.*",
     false,
     kSums,
     true,
     {kTimm, "models/resnet.py", "x += shortcut"}},
    // PosConv of Twins; StarNet's "x = self.act(x1) * x2".
    {{"pos_block.*.proj.0"},
     "pos_block.*",
     false,
     kSums,
     true,
     {kTimm, "models/twins.py", "x += cnn_feat_token"}},
    {{"f1", "f2", "dwconv2"},
     "act",
     false,
     kActivations,
     false,
     {kTimm, "models/starnet.py", "x = self.act(x1) * x2"}},
    // RepGhostModule.
    {{"primary_conv", "cheap_operation", "fusion_bn.0"},
     "",
     false,
     kSums,
     false,
     {kTimm, "models/repghost.py", "x2 = x2 + bn(conv(x1))"}},
    // ResBottleneck of timm's CspNet, whose act3 is made without arguments.
    {{"stages.*.blocks.*.act3", "head.global_pool"},
     "stages.*.act3",
     false,
     kActivations,
     false,
     {kTimm, "models/cspnet.py", "self.act3 = create_act_layer(act_layer)"}},
    // timm's stages of blocks.
    {{"stages.*.*", "head.global_pool"}, "stages.*", false, kSums, false, kTimmStages},
    {{"stages.*.*", "head.global_pool"}, "stages.*", true, kSums, false, kTimmStages},
    // Conv2dNormActivation; InvertedResidual's "x + self.conv(x)".
    {{"features.*.0", "features.*.conv.0"}, "features.*", true, kActivations, true, kMobileNetV2},
    {{"features.*.0", "features.*.conv.0"}, "features.*", true, kSums, false, kMobileNetV2},
};

// Copies of what a forward or its method permutes, by the module's children and its own name.
struct PermutedCopy {
  PermutedBy by;
  std::string_view names[2];  // "" beside one that is enough; "backbone/embeddings" a grandchild
  SeenIn seen;
};
constexpr PermutedCopy kPermutedCopies[] = {
    {PermutedBy::kPermute,
     {"patch_embed1", "serial_blocks1"},
     {kTimm, "models/coat.py", "x1_nocls = remove_cls(x1)"}},
    // DPT's and ZoeDepth's, too.
    {PermutedBy::kPermute,
     {"reassemble_stage", "layers"},
     {kTransformers, "models/depth_anything/modeling_depth_anything.py",
      "hidden_state = hidden_state.permute(0, 3, 1, 2).contiguous()"}},
    {PermutedBy::kReshape,
     {"backbone/embeddings", "head"},
     {kTransformers, "models/vitpose/modeling_vitpose.py",
      "sequence_output.reshape(batch_size, -1, patch_height, patch_width).contiguous()"}},
    {PermutedBy::kWindows,
     {"patching"},
     {kTransformers, "models/patchtsmixer/modeling_patchtsmixer.py",
      "output = output.transpose(-2, -3).contiguous()"}},
    {PermutedBy::kPermute,
     {"patch_embeds", "pos_block"},
     {kTimm, "models/twins.py", "x = x.reshape(B, *size, -1).permute(0, 3, 1, 2).contiguous()"}},
    {PermutedBy::kRows,
     {"fc_q", "fc_o"},
     {kRelativePosition, "relative_position.py",
      "weight2 = attn.permute(2, 0, 1, 3).contiguous()"}},
};

// "_shape(self.k_proj(x))" of an attention that scales queries before it takes them apart by heads,
// and has no bias of keys: those of Whisper and its copies.
constexpr NameFact kKeysOfCopies[] = {
    {"k_proj",
     {kTransformers, "models/whisper/modeling_whisper.py",
      "query_states = (self.q_proj(hidden_states) * self.scaling).view(hidden_shape)"
      ".transpose(1, 2).contiguous()"}},
};

// "x = torch.cat((cls_tokens, x), dim=1); x += self.pos_embedding".
constexpr NameFact kAddedPositions[] = {
    {"pos_embedding",
     {kVitPytorch, "vit_pytorch/vit.py", "x += self.pos_embedding[:, :(n + 1)]"},
     "cls_token"},
};

// BatchNormAct2d's.
constexpr NameFact kActivationsOfNorms[] = {
    {"act", {kTimm, "layers/norm_act.py", "inplace: bool = True"}},
};

}  // namespace

ActivationUse ActivationsOf(std::string_view holder) {
  const auto* const row = std::ranges::find_if(
      kActivationRows,
      [&](const ActivationRow& candidate) { return holder.starts_with(candidate.classes); });
  return row == std::end(kActivationRows) ? kNotKnown : row->use;
}

bool CopiesPermuted(PermutedBy by, const HasName& has) {
  return std::ranges::any_of(kPermutedCopies, [&](const PermutedCopy& row) {
    return row.by == by && std::ranges::all_of(row.names, [&](std::string_view name) {
             return name.empty() || has(name);
           });
  });
}

bool CopiesHeads(std::string_view keys) { return keys == kKeysOfCopies[0].name; }

std::span<const InPlaceChildren> InPlaceModules() { return kInPlaceModules; }

bool AddsPositionsInPlace(std::string_view positions, std::string_view token) {
  const NameFact& row = kAddedPositions[0];
  return EndsWithName(positions, row.name) && EndsWithName(token, row.other) &&
         positions.size() - row.name.size() == token.size() - row.other.size();
}

bool IsActivationOfNorm(std::string_view child) { return child == kActivationsOfNorms[0].name; }

}  // namespace onnxfit
