#include <algorithm>
#include <string_view>

#include "estimator/libraries/libraries.h"
#include "estimator/libraries/rows.h"

namespace onnxfit {
namespace {

using Of = CastRow::Of;
using To = CastRow::To;

constexpr std::string_view kMamba = "models/mamba/modeling_mamba.py";
constexpr std::string_view kFalconH1 = "models/falcon_h1/modeling_falcon_h1.py";
constexpr std::string_view kAttentionProcessor = "models/attention_processor.py";
constexpr std::string_view kSana = "return self.processor(self, hidden_states)";

// What classes of the other libraries cast was watched (estimator/observed/); of these, whose model
// asks for more inputs than tools/libraries.py knows to give, not yet.
constexpr CastRow kCasts[] = {
    // A residual stream in fp32, of a class that was not watched yet.
    {"models/zaya/",
     "self.input_hidden_states_scale).to(",
     "mul",
     Of::kResult,
     To::kFloat,
     -1,
     {kTransformers, "models/zaya/modeling_zaya.py",
      "# Keep the residual stream in fp32 to match"}},
    {kAttentionProcessor,
     kSana,
     "permute",
     Of::kParameters,
     To::kFloat,
     0,
     {kDiffusers, kAttentionProcessor, "original_dtype = hidden_states.dtype"}},
    {kAttentionProcessor, kSana, "movedim", Of::kParameters, To::kFloat, 0, {}},
    {kAttentionProcessor,
     kSana,
     "view",
     Of::kFirst,
     To::kFloat,
     0,
     {kDiffusers, kAttentionProcessor, "for linear attention upcast hidden_states to float32"}},
    {kAttentionProcessor,
     kSana,
     "slice",
     Of::kFirst,
     To::kFloat,
     -1,
     {kDiffusers, kAttentionProcessor, "hidden_states = hidden_states.to(dtype=torch.float32)"}},
    {kAttentionProcessor,
     kSana,
     "div",
     Of::kResult,
     To::kRead,
     -1,
     {kDiffusers, kAttentionProcessor, "hidden_states = hidden_states.to(dtype=original_dtype)"}},
};

// Mamba's scan, and Mamba 2's, whose operands are all in fp32.
constexpr ScanCast kScanCasts[] = {
    {"x_proj", "Exp", -1, 0, 0, {kTransformers, kMamba, "torch.exp(self.A_log.float())"}},
    {"x_proj", "Mul", 4, 1, 1, {kTransformers, kMamba, "* B[:, None, :, :].float()"}},
    {"x_proj",
     "Mul",
     4,
     2,
     1,
     {kTransformers, kMamba, "discrete_B * hidden_states[:, :, :, None].float()"}},
    {"x_proj",
     "MatMul",
     3,
     -1,
     0,
     {kTransformers, kMamba, "torch.matmul(ssm_state.to(input_dtype), C[:, index, :]"},
     true},
    {"x_proj", "Unsqueeze", 2, 1, 0, {kTransformers, kMamba, "D=self.D.float()"}},
    {"norm", "Exp", -1, 0, 0, {kTransformers, kMamba, "torch.exp(self.A_log.float())"}},
    {"norm", "Pad", -1, -1, 0, {kTransformers, kFalconH1, "hidden_states = hidden_states.float()"}},
    {"norm",
     "Mul",
     -1,
     -1,
     -1,
     {kTransformers, kFalconH1, "hidden_states * dt[..., None].float()"}},
};

// A local of a forward in the file of `seen`.
struct TypeOfParameters {
  std::string_view name;
  SeenIn seen;
};
constexpr TypeOfParameters kTypesOfParameters[] = {
    {"upscale_dtype",
     {kDiffusers, "models/autoencoders/vae.py",
      "upscale_dtype = next(iter(self.up_blocks.parameters())).dtype"}},
    {"upscale_dtype",
     {kDiffusers, "models/autoencoders/autoencoder_kl_allegro.py",
      "upscale_dtype = next(iter(self.up_blocks.parameters())).dtype"}},
    {"upscale_dtype",
     {kDiffusers, "models/autoencoders/autoencoder_kl_temporal_decoder.py",
      "next(itertools.chain(self.up_blocks.parameters(), self.up_blocks.buffers())).dtype"}},
};

}  // namespace

std::span<const ScanCast> ScanCasts() { return kScanCasts; }

bool HoldsTypeOfParameters(std::string_view file, std::string_view name) {
  return std::ranges::any_of(kTypesOfParameters, [&](const TypeOfParameters& row) {
    return file.find(row.seen.file) != file.npos && name == row.name;
  });
}

std::span<const CastRow> CastRows() { return kCasts; }

}  // namespace onnxfit
