#include <algorithm>

#include "estimator/libraries/libraries.h"
#include "estimator/libraries/rows.h"

namespace onnxfit {
namespace {

struct LoopRow {
  LoopLibrary library;
  LoopFact fact;
  SeenIn seen;
};

constexpr LoopRow kLoopRows[] = {
    {LoopLibrary::kAccelerate,
     LoopFact::kCastsOutputs,
     {kAccelerate, "accelerator.py", "convert_outputs_to_fp32(model.forward.__func__)"}},
    {LoopLibrary::kAccelerate,
     LoopFact::kDividesLoss,
     {kAccelerate, "accelerator.py", "loss = loss / self.gradient_accumulation_steps"}},
    {LoopLibrary::kAccelerate,
     LoopFact::kReducesLast,
     {kAccelerate, "accelerator.py", "if allow_gradient_sync else self.no_sync(m)"}},

    {LoopLibrary::kTrainer,
     LoopFact::kReducesLast,
     {kTransformers, "trainer.py", "functools.partial(self.accelerator.no_sync, model=model)"}},
    {LoopLibrary::kTrainer,
     LoopFact::kCastsOutputs,
     {kAccelerate, "accelerator.py", "convert_outputs_to_fp32(model.forward.__func__)"}},
    {LoopLibrary::kTrainer,
     LoopFact::kDividesLoss,
     {kAccelerate, "accelerator.py", "loss = loss / self.gradient_accumulation_steps"}},
    {LoopLibrary::kTrainer,
     LoopFact::kModelTakesLabels,
     {kTransformers, "trainer.py", "outputs = model(**inputs)"}},
    {LoopLibrary::kTrainer,
     LoopFact::kTakesBatchesAtOnce,
     {kTransformers, "trainer.py", "batch_samples.append(next(epoch_iterator))"}},
    {LoopLibrary::kTrainer,
     LoopFact::kSumsLosses,
     {kTransformers, "trainer.py", "self._tr_loss = torch.tensor(0.0, device=args.device)"}},
    {LoopLibrary::kTrainer,
     LoopFact::kDetachesLoss,
     {kTransformers, "trainer.py", "return loss.detach()"}},
    {LoopLibrary::kTrainer,
     LoopFact::kTestsLoss,
     {kTransformers, "trainer.py", "torch.isnan(tr_loss_step) or torch.isinf(tr_loss_step)"}},
    {LoopLibrary::kTrainer,
     LoopFact::kRepeatsLosses,
     {kTransformers, "trainer.py", "self.gather_function(losses.repeat(batch_size))"}},
    {LoopLibrary::kTrainer,
     LoopFact::kHoldsNorm,
     {kTransformers, "trainer.py", "grad_norm = self._clip_grad_norm(model)"}},
    {LoopLibrary::kTrainer,
     LoopFact::kDropsGradients,
     {kTransformers, "trainer.py", "model.zero_grad()"}},
    {LoopLibrary::kTrainer,
     LoopFact::kDecaysSome,
     {kTransformers, "trainer.py", "decay_parameters = self.get_decay_parameter_names"}},
    {LoopLibrary::kTrainer,
     LoopFact::kClips,
     {kTransformers, "training_args.py", "max_grad_norm: float = field("}},
    {LoopLibrary::kTrainer,
     LoopFact::kFusesAdamW,
     {kTransformers, "training_args.py", "default_optim = \"adamw_torch_fused\""}},
    {LoopLibrary::kTrainer,
     LoopFact::kKeeps32Bits,
     {kTransformers, "trainer.py",
      "manager.register_module_override(module, \"weight\", {\"optim_bits\": 32})"}},

    {LoopLibrary::kLightning,
     LoopFact::kCastsEachTime,
     {kLightning, "pytorch/plugins/precision/amp.py",
      "return torch.autocast(self.device, dtype=dtype, cache_enabled=False)"}},
    {LoopLibrary::kLightning,
     LoopFact::kNamesMean,
     {kLightning, "pytorch/loops/optimization/automatic.py",
      "closure_loss = closure_loss / normalize"}},
    {LoopLibrary::kLightning,
     LoopFact::kCopiesLoss,
     {kLightning, "pytorch/loops/optimization/automatic.py",
      "self.loss = self.closure_loss.detach().clone()"}},
    {LoopLibrary::kLightning,
     LoopFact::kDropsLoss,
     {kLightning, "pytorch/loops/optimization/automatic.py", "return result.asdict()"}},
    {LoopLibrary::kLightning,
     LoopFact::kDropsBatch,
     {kLightning, "pytorch/loops/training_epoch_loop.py",
      "batch = call._call_strategy_hook(trainer, \"batch_to_device\", batch"}},
    {LoopLibrary::kLightning,
     LoopFact::kReducesLastInDdp,
     {kLightning, "pytorch/strategies/parallel.py",
      "if isinstance(self.model, pl.utilities.types.DistributedDataParallel)"}},
    {LoopLibrary::kLightning,
     LoopFact::kZeroesInClosure,
     {kLightning, "pytorch/loops/optimization/automatic.py", "self._zero_grad_fn()"}},

    {LoopLibrary::kTimm,
     LoopFact::kReducesLast,
     {kTimmScript, "train.py", "if has_no_sync and not need_update:"}},
    {LoopLibrary::kTimm,
     LoopFact::kLoadsImages,
     {kTimm, "data/loader.py", "next_input.to(self.img_dtype).sub_(self.mean).div_(self.std)"}},
    {LoopLibrary::kTimm,
     LoopFact::kHoldsResult,
     {kTimmScript, "train.py", "loss, result = _forward()"}},
    {LoopLibrary::kTimm,
     LoopFact::kDividesInPlace,
     {kTimmScript, "train.py", "_loss /= accum_steps"}},
    {LoopLibrary::kTimm,
     LoopFact::kDropsGradients,
     {kTimmScript, "train.py", "optimizer.zero_grad()"}},
    {LoopLibrary::kTimm,
     LoopFact::kDecaysMatrices,
     {kTimm, "optim/_param_groups.py", "param.ndim <= 1 or name.endswith(\".bias\")"}},
    {LoopLibrary::kTimm,
     LoopFact::kSmoothsLabels,
     {kTimmScript, "train.py", "LabelSmoothingCrossEntropy(smoothing=args.smoothing)"}},

    {LoopLibrary::kUltralytics,
     LoopFact::kClips,
     {kUltralytics, "engine/trainer.py",
      "clip_grad_norm_(self.model.parameters(), max_norm=10.0)"}},
    {LoopLibrary::kUltralytics,
     LoopFact::kDropsGradients,
     {kUltralytics, "engine/trainer.py", "self.optimizer.zero_grad()"}},
    {LoopLibrary::kUltralytics,
     LoopFact::kDropsBatch,
     {kUltralytics, "engine/trainer.py", "batch = self.preprocess_batch(batch)"}},
    {LoopLibrary::kUltralytics,
     LoopFact::kFusesAdamW,
     {kUltralytics, "engine/trainer.py",
      "fused = {\"fused\": True} if name in {\"Adam\", \"AdamW\"}"}},
    {LoopLibrary::kUltralytics,
     LoopFact::kFusesAdam,
     {kUltralytics, "engine/trainer.py",
      "fused = {\"fused\": True} if name in {\"Adam\", \"AdamW\"}"}},
    {LoopLibrary::kUltralytics,
     LoopFact::kDecaysWeights,
     {kUltralytics, "engine/trainer.py",
      "elif isinstance(module, bn) or \"logit_scale\" in fullname"}},
    {LoopLibrary::kUltralytics,
     LoopFact::kAveragesModel,
     {kUltralytics, "engine/trainer.py", "self.ema = ModelEMA(self.model)"}},
    {LoopLibrary::kUltralytics,
     LoopFact::kLaysChannelsLast,
     {kUltralytics, "engine/trainer.py",
      "self.model = self.model.to(memory_format=torch.channels_last)"}},
    {LoopLibrary::kUltralytics,
     LoopFact::kFillsStep,
     {kUltralytics, "engine/trainer.py",
      "self.accumulate = max(round(self.args.nbs / self.batch_size), 1)"}},
    {LoopLibrary::kUltralytics,
     LoopFact::kAddsLosses,
     {kUltralytics, "engine/trainer.py", "self.scaler.scale(self.loss).backward()"}},
    {LoopLibrary::kUltralytics,
     LoopFact::kAveragesLoss,
     {kUltralytics, "engine/trainer.py", "(self.tloss[k] * i + v) / (i + 1)"}},
    // A generator holds the tuple that enumerate would use again, each other time.
    {LoopLibrary::kUltralytics,
     LoopFact::kHoldsEvenBatches,
     {kUltralytics, "engine/trainer.py", "pbar = TQDM(enumerate(self.train_loader), total=nb)"}},
    {LoopLibrary::kUltralytics,
     LoopFact::kAsksForWorkspaces,
     {kUltralytics, "utils/torch_utils.py",
      "os.environ[\"CUBLAS_WORKSPACE_CONFIG\"] = \":4096:8\""}},
    {LoopLibrary::kUltralytics,
     LoopFact::kTellsClasses,
     {kUltralytics, "utils/loss.py", "F.cross_entropy(preds, batch[\"cls\"], reduction=\"mean\")"}},
};

// The names that no_weight_decay() of timm's models has.
constexpr NameFact kUndecayedByTimm[] = {
    {"pos_embed", {kTimm, "models/vision_transformer.py", "def no_weight_decay"}},
    {"cls_token", {kTimm, "models/vision_transformer.py", "def no_weight_decay"}},
    {"reg_token", {kTimm, "models/vision_transformer.py", "def no_weight_decay"}},
    {"dist_token", {kTimm, "models/vision_transformer.py", "def no_weight_decay"}},
    {"relative_position_bias_table", {kTimm, "models/swin_transformer.py", "def no_weight_decay"}},
};

// What a class name's end tells of a parameter that weight decay leaves out, in small letters;
// "." at an end of a word.
constexpr NameFact kUndecayed[] = {
    {"bias", {kTransformers, "trainer.py", "forbidden_name_patterns = [r\"bias\""}},
    {"layernorm", {kTransformers, "trainer.py", "r\"layernorm\""}},
    {"rmsnorm", {kTransformers, "trainer.py", "r\"rmsnorm\""}},
    {".norm.", {kTransformers, "trainer.py", "(?:^|"}},
    {"_norm.", {kTransformers, "trainer.py", "_norm(?:$|"}},
};

// --- Losses that models compute -------------------------------------------------------------

constexpr std::string_view kMapping = "loss/loss_utils.py";
constexpr uint8_t kShifted = ModelLoss::kShiftsLabels | ModelLoss::kDivides;
constexpr uint8_t kCausal = kShifted | ModelLoss::kIsCausalLm;
constexpr uint8_t kUncounted = ModelLoss::kTakesNoCount;
constexpr uint8_t kShiftedUncounted = ModelLoss::kShiftsLabels | kUncounted;

// Earlier rows win.
constexpr ModelLoss kModelLosses[] = {
    {"T5ForConditionalGeneration",
     ModelLoss::kShiftsInputs,
     {kTransformers, "models/t5/modeling_t5.py", "CrossEntropyLoss(ignore_index=-100)"}},
    {"BartForConditionalGeneration",
     ModelLoss::kShiftsInputs,
     {kTransformers, "models/bart/modeling_bart.py",
      "masked_lm_loss = loss_fct(lm_logits.view(-1"}},
    {"LEDForConditionalGeneration",
     ModelLoss::kShiftsInputs,
     {kTransformers, "models/led/modeling_led.py", "masked_lm_loss = loss_fct(lm_logits.view(-1"}},
    {"M2M100ForConditionalGeneration",
     ModelLoss::kShiftsInputs,
     {kTransformers, "models/m2m_100/modeling_m2m_100.py",
      "masked_lm_loss = loss_fct(lm_logits.view(-1"}},
    {"Gemma4ForConditionalGeneration",
     kShiftedUncounted,
     {kTransformers, "models/gemma4/modeling_gemma4.py", "accepts_loss_kwargs = False"}},
    {"ForConditionalGeneration",
     kShifted,
     {kTransformers, kMapping, "\"ForConditionalGeneration\": ForCausalLMLoss"}},
    {"ForCausalLM", kCausal, {kTransformers, kMapping, "\"ForCausalLM\": ForCausalLMLoss"}},
    {"LMHeadModel",
     kCausal,
     {kTransformers, "models/gpt2/modeling_gpt2.py", "loss = self.loss_function("}},
    {".ViTForImageClassification",
     ModelLoss::kDivides,
     {kTransformers, "models/vit/modeling_vit.py",
      "self.loss_function(labels, logits, self.config, **kwargs)"}},
    {".ViTMSNForImageClassification",
     ModelLoss::kDivides,
     {kTransformers, "models/vit_msn/modeling_vit_msn.py",
      "self.loss_function(labels, logits, self.config, **kwargs)"}},
    {".DeiTForImageClassification",
     ModelLoss::kDivides,
     {kTransformers, "models/deit/modeling_deit.py",
      "self.loss_function(labels, logits, self.config, **kwargs)"}},
    {".Dinov2ForImageClassification",
     ModelLoss::kDivides,
     {kTransformers, "models/dinov2/modeling_dinov2.py",
      "self.loss_function(labels, logits, self.config, **kwargs)"}},
    {".Dinov2WithRegistersForImageClassification",
     ModelLoss::kDivides,
     {kTransformers, "models/dinov2_with_registers/modeling_dinov2_with_registers.py",
      "self.loss_function(labels, logits, self.config, **kwargs)"}},
    {".IJepaForImageClassification",
     ModelLoss::kDivides,
     {kTransformers, "models/ijepa/modeling_ijepa.py",
      "self.loss_function(labels, logits, self.config, **kwargs)"}},
    {".SegformerForImageClassification",
     ModelLoss::kDivides,
     {kTransformers, "models/segformer/modeling_segformer.py",
      "self.loss_function(labels, logits, self.config, **kwargs)"}},
    {".ASTForAudioClassification",
     ModelLoss::kDivides,
     {kTransformers,
      "models/audio_spectrogram_transformer/modeling_audio_spectrogram_transformer.py",
      "self.loss_function(labels, logits, self.config, **kwargs)"}},
    {".VideoMAEForVideoClassification",
     ModelLoss::kDivides,
     {kTransformers, "models/videomae/modeling_videomae.py",
      "self.loss_function(labels, logits, self.config, **kwargs)"}},
    {"ConvNextForImageClassification",
     kUncounted,
     {kTransformers, "models/convnext/modeling_convnext.py", "accepts_loss_kwargs = False"}},
    {"ConvNextV2ForImageClassification",
     kUncounted,
     {kTransformers, "models/convnextv2/modeling_convnextv2.py", "accepts_loss_kwargs = False"}},
    {"UperNetForSemanticSegmentation",
     ModelLoss::kAddsAuxiliary,
     {kTransformers, "models/upernet/modeling_upernet.py",
      "loss += self.config.auxiliary_loss_weight * auxiliary_loss"}},
    // Of others: their own mean, which kwargs do not reach.
    {"",
     0,
     {kTransformers, "models/distilbert/modeling_distilbert.py",
      "loss = loss_fct(logits.view(-1, self.num_labels), labels.view(-1))"}},
};

}  // namespace

bool DoesLoop(LoopLibrary library, LoopFact fact) {
  return std::ranges::any_of(
      kLoopRows, [&](const LoopRow& row) { return row.library == library && row.fact == fact; });
}

bool IsUndecayed(std::string_view parameter) {
  std::string name = ".";
  for (const char c : parameter)
    name += static_cast<char>(c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c);
  name += '.';
  return std::ranges::any_of(
      kUndecayed, [&](const NameFact& row) { return name.find(row.name) != std::string::npos; });
}

bool IsUndecayedByTimm(std::string_view parameter) {
  return std::ranges::any_of(
      kUndecayedByTimm, [&](const NameFact& row) { return EndsWithName(parameter, row.name); });
}

const ModelLoss& LossOfModel(std::string_view class_name) {
  return *std::ranges::find_if(
      kModelLosses, [&](const ModelLoss& row) { return class_name.ends_with(row.classes); });
}

}  // namespace onnxfit
