// What forwards of timm's networks bind to names, those whose stages, branches and lists are passed
// on: more rows of forwards.cc.
#include "estimator/libraries/libraries.h"
#include "estimator/libraries/rows.h"

namespace onnxfit {
namespace {

constexpr SeenIn kLiteMla = {kTimm, "models/efficientvit_mit.py",
                             "multi_scale_qkv = torch.cat(multi_scale_qkv, dim=1)"};
constexpr SeenIn kCoat = {kTimm, "models/coat.py", "x1_nocls = remove_cls(x1)"};
constexpr SeenIn kCoatParallel = {kTimm, "models/coat.py", "cur2 = self.norm12(x2)"};
constexpr SeenIn kCoatPositions = {kTimm, "models/coat.py", "EV_hat = q_img * conv_v_img"};
constexpr SeenIn kRelative = {kTimm, "models/mvitv2.py", "def cal_rel_pos_type("};

constexpr KnownNameRow kRowsOfStages[] = {
    // LiteMLA: "v = F.pad(v, …)"; a method's names until what it returns is cast back.
    {{"qkv", "aggreg.0", "proj"}, "to", "q, k, v", {"type_as"}, false, kLiteMla},
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
    {{"conv_list.0", "conv_list.1"}, "cat", "conv_v_img", {}, false, kCoatPositions},
    // ParallelBlock of CoaT: "cur2 = self.norm12(x2)", "upsample3_2 = self.upsample(…)" of a
    // method.
    {{"norm12", "norm22"}, "norm12", "cur2", {"factoratt_crpe2"}, false, kCoatParallel},
    {{"norm12", "norm22"}, "norm13", "cur3", {"factoratt_crpe3"}, false, kCoatParallel},
    {{"norm12", "norm22"}, "norm22", "cur2", {"mlp2"}, false, kCoatParallel},
    {{"norm12", "norm22"}, "cat", "upsample3_2", {}, false, kCoatParallel},
};

}  // namespace

std::span<const KnownNameRow> NameRowsOfStages() { return kRowsOfStages; }

}  // namespace onnxfit
