// What forwards of timm's networks bind to names, those whose stages, branches and lists are passed
// on: more rows of forwards.cc.
#include "estimator/libraries/libraries.h"
#include "estimator/libraries/rows.h"

namespace onnxfit {
namespace {

constexpr SeenIn kLiteMla = {kTimm, "models/efficientvit_mit.py",
                             "multi_scale_qkv = torch.cat(multi_scale_qkv, dim=1)"};
constexpr SeenIn kInception = {kTimm, "models/inception_v4.py", "x2_1 = self.branch2_1(x2_0)"};
constexpr SeenIn kAdditive = {kTimm, "models/swiftformer.py",
                              "out = self.proj(attn * key) + query"};
constexpr SeenIn kHrnet = {kTimm, "models/hrnet.py", "x[i] = branch(x[i])"};
constexpr SeenIn kHrnetHead = {kTimm, "models/hrnet.py", "y = incre(yl[i]) + down.forward(y)"};
constexpr SeenIn kCoat = {kTimm, "models/coat.py", "x1_nocls = remove_cls(x1)"};
constexpr SeenIn kCoatParallel = {kTimm, "models/coat.py", "cur2 = self.norm12(x2)"};
constexpr SeenIn kCoatPositions = {kTimm, "models/coat.py", "EV_hat = q_img * conv_v_img"};
constexpr SeenIn kPooledStages = {kTimm, "models/efficientvim.py",
                                  "logits = [weights[i] * head(x[i])"};
constexpr SeenIn kRelative = {kTimm, "models/mvitv2.py", "def cal_rel_pos_type("};

constexpr KnownNameRow kRowsOfStages[] = {
    // "x = torch.cat(…)" of a method that is given x.
    {{"patch_embed", "norm", "cls_attn_blocks.0"},
     "blocks.*",
     "x",
     {"blocks.*", "cls_attn_blocks.1"},
     false,
     {kTimm, "models/xcit.py", "x = self.forward_cls(x)"}},
    // Pooling of PiT: "x, cls_tokens = self.pool(x, cls_tokens)".
    {{"conv", "fc", "!bn"},
     "fc",
     "cls_tokens",
     {},
     true,
     {kTimm, "models/pit.py", "x, cls_tokens = self.pool(x, cls_tokens)"}},
    // LiteMLA: "v = F.pad(v, …)"; a method's names until what it returns is cast back.
    {{"qkv", "aggreg.0", "proj"}, "kernel_func", "q", {}, false, kLiteMla},
    {{"qkv", "aggreg.0", "proj"}, "kernel_func_1", "k", {}, false, kLiteMla},
    {{"qkv", "aggreg.0", "proj"}, "pad", "v", {}, false, kLiteMla},
    {{"qkv", "aggreg.0", "proj"}, "to", "q, k, v", {"type_as"}, false, kLiteMla},
    {{"qkv", "aggreg.0", "proj"}, "pad>matmul", "kv", {"type_as"}, false, kLiteMla},
    {{"qkv", "aggreg.0", "proj"}, "cat", "multi_scale_qkv", {}, false, kLiteMla},
    // EfficientAdditiveAttention.
    {{"to_query", "to_key", "final"}, "div", "query", {}, false, kAdditive},
    {{"to_query", "to_key", "final"}, "sum", "attn", {}, false, kAdditive},
    // InceptionC.
    {{"branch2_0", "branch2_3a"}, "branch2_0", "x2_0", {}, false, kInception},
    {{"branch2_0", "branch2_3a"}, "branch1_1a", "x1_1a", {}, false, kInception},
    {{"branch2_0", "branch2_3a"}, "branch1_1b", "x1_1b", {}, false, kInception},
    {{"branch2_0", "branch2_3a"}, "branch2_3a", "x2_3a", {}, false, kInception},
    {{"branch2_0", "branch2_3a"}, "branch2_3b", "x2_3b", {}, false, kInception},
    {{"branch2_0", "branch2_3a"}, "branch2_1", "x2_1", {}, false, kInception},
    // Stage of EfficientViM: "return x_out, x, h".
    {{"blocks.0", "blocks.1", "downsample"},
     "blocks.*",
     "x_out",
     {"blocks.*"},
     true,
     {kTimm, "models/efficientvim.py", "x_out = x"}},
    // EfficientViM, whose forward holds the features that forward_head pools and weighs.
    {{"patch_embed", "norm.0", "heads.0"},
     "stages.*",
     "x, h",
     {"stages.*", "<mean"},
     false,
     kPooledStages},
    {{"patch_embed", "norm.0", "heads.0"}, "norm.*", "features", {}, true, kPooledStages},
    {{"patch_embed", "norm.0", "heads.0"}, "mean", "x", {}, true, kPooledStages},
    {{"patch_embed", "norm.0", "heads.0"}, "softmax", "weights", {}, true, kPooledStages},
    {{"patch_embed", "norm.0", "heads.0"}, "mul", "logits", {}, true, kPooledStages},
    // MultiScaleAttention, whose function cal_rel_pos_type adds in place.
    {{"pool_q", "norm_q", "norm_k"}, "sub>add", "dist_h, dist_w", {"<softmax"}, false, kRelative},
    {{"pool_q", "norm_q", "norm_k"}, "bmm", "rel_h, rel_w", {"<softmax"}, false, kRelative},
    // SwinTransformerV2CrBlock, whose method attends.
    {{"attn", "norm1", "mlp"},
     "pad",
     "x",
     {"norm1", "roll"},
     false,
     {kTimm, "models/swin_transformer_v2_cr.py", "x = torch.nn.functional.pad("}},
    // HighResolutionNet, whose method runs the stages; it replaces the items of the list "x".
    {{"layer1", "stage4"},
     "act2",
     "x",
     {"final_layer"},
     false,
     {kTimm, "models/hrnet.py", "yl = self.stages(x)"}},
    {{"layer1", "stage4"}, "layer1", "x", {"stage4"}, false, kHrnet},
    {{"layer1", "stage4"}, "stage2", "yl", {"stage3"}, false, kHrnet},
    {{"layer1", "stage4"}, "stage3", "yl", {"stage4"}, false, kHrnet},
    {{"layer1", "stage4"}, "stage4", "yl", {"final_layer"}, false, kHrnetHead},
    {{"layer1", "stage4"}, "incre_modules.0", "y", {"add"}, false, kHrnetHead},
    {{"layer1", "stage4"}, "add", "y", {"add", "final_layer"}, false, kHrnetHead},
    // CoaT, with blocks in parallel, which pass x1 on, and without.
    {{"patch_embed1", "patch_embed4"},
     "serial_blocks1.*",
     "x1",
     {"serial_blocks1.*", "norm4"},
     false,
     kCoat},
    {{"patch_embed1", "patch_embed4", "!parallel_blocks.0"},
     "serial_blocks2.*",
     "x2",
     {"serial_blocks2.*", "norm4"},
     false,
     kCoat},
    {{"patch_embed1", "patch_embed4", "!parallel_blocks.0"},
     "serial_blocks3.*",
     "x3",
     {"serial_blocks3.*", "norm4"},
     false,
     kCoat},
    {{"patch_embed1", "cpe4"}, "parallel_blocks.*", "x2, x3, x4", {"cpe4"}, false, kCoat},
    {{"patch_embed1", "patch_embed4"}, "contiguous", "x1_nocls", {"norm4"}, false, kCoat},
    // ConvRelPosEnc: "v_img = ….reshape(…)".
    {{"conv_list.0", "conv_list.1"}, "conv_list.*", "conv_v_img_list", {}, false, kCoatPositions},
    {{"conv_list.0", "conv_list.1"}, "cat", "conv_v_img", {}, false, kCoatPositions},
    {{"conv_list.0", "conv_list.1"}, "mul", "EV_hat", {"pad"}, false, kCoatPositions},
    // ParallelBlock of CoaT: "cur2 = self.norm12(x2)", "upsample3_2 = self.upsample(…)" of a
    // method.
    {{"norm12", "norm22"}, "norm12", "cur2", {"factoratt_crpe2"}, false, kCoatParallel},
    {{"norm12", "norm22"}, "norm13", "cur3", {"factoratt_crpe3"}, false, kCoatParallel},
    {{"norm12", "norm22"}, "norm14", "cur4", {"factoratt_crpe4"}, false, kCoatParallel},
    {{"norm12", "norm22"}, "norm22", "cur2", {"mlp2"}, false, kCoatParallel},
    {{"norm12", "norm22"}, "norm23", "cur3", {"mlp3"}, false, kCoatParallel},
    {{"norm12", "norm22"}, "norm24", "cur4", {"mlp4"}, false, kCoatParallel},
    {{"norm12", "norm22"}, "cat", "upsample3_2", {}, false, kCoatParallel},
};

}  // namespace

std::span<const KnownNameRow> NameRowsOfStages() { return kRowsOfStages; }

}  // namespace onnxfit
