#include "estimator/base/warning_texts.h"

#include <algorithm>
#include <iterator>

#include "estimator/base/warnings.h"

namespace onnxfit {
namespace {

constexpr WarningText kTexts[] = {
    {warning::kFoldedBatchNorm, "batch norms folded into convolutions",
     "An export in eval mode multiplies a batch norm's weights into the convolution before it. "
     "Training has both: the norm's parameters, and what it keeps for backward, are missing from "
     "such a file, so that what is counted as in the file is too little.",
     "Export in training mode (torch.onnx.export(..., training=TrainingMode.TRAINING), or "
     "model.train() before torch.export.export); or --batch-norm restore, which puts a norm behind "
     "every convolution with a bias."},
    {warning::kUnknownOperator, "an operator without a rule",
     "The file has an operator whose memory no rule tells. In training all that it reads and makes "
     "is taken to be kept until its backward, in inference its results are taken as new tensors. "
     "Kernels of it may take more for a moment, or keep less: FITS is said where there is room for "
     "as much again.",
     "Compare with verify on a card. Operators of a library can be taken apart by exporting "
     "without it (torch.export's .pt2 has PyTorch's own calls)."},
    {warning::kUnknownBranch, "an If or a Loop that data decide",
     "Which branch runs, or how often a body does, follows from values that a file does not have. "
     "The larger branch is taken, and a loop as often as it may run at most.",
     "--dim NAME=N with the name that the warning gives; or export for one case."},
    {warning::kCountedOnce, "a loop that is counted once",
     "The body of a loop runs more often than it is counted: too often to be written out, or "
     "nobody "
     "knows how often. What each further run keeps is missing, so that the answer is too little by "
     "it, and never FITS.",
     "A shorter sequence; or export for fewer runs."},
    {warning::kReboundBatch, "the batch was written in the file",
     "The export was made for one batch, and sizes inside follow from it. They were changed to the "
     "batch that was asked for, by what the file's operators say.",
     "Export with a free first dimension (dynamic_shapes, dynamic_axes): then nothing has to be "
     "changed."},
    {warning::kStoredShape, "a shape was believed",
     "Sizes of an operator's result could not be inferred, and those that the file has written "
     "down were taken. They are those of the export, whatever sizes were asked for: FITS is said "
     "where there is room for as much again.",
     "Ask for the sizes of the export, or export with the sizes that you train with."},
    {warning::kNotTrainable, "parameters that no gradient reaches",
     "From the loss backward no path leads to these parameters: they get no gradient and no "
     "optimizer state, as in PyTorch. In a model that trains well this is rare.",
     "--loss-output names the output that your loss takes; --loss-output and --labels are checked "
     "by -v."},
    {warning::kWholeLayers, "layers that stay whole on each rank",
     "Ranks of --tensor-parallel share linear layers whose features reach another such layer "
     "through calls that each rank can run with its own part alone. These layers are named by "
     "plans, and are counted whole: their sizes do not divide, or what is between them needs "
     "features of other ranks, or is not followed here.",
     "Nothing, if your plan leaves them out, too; else a run takes less than is said."},
    {warning::kLostAnswers, "the file leaves open what decides",
     "Whether nn.ReLU writes in place, whether a dropout had p = 0, whether a head is tied: "
     "exports do not say it, nor what torch.compile keeps. Estimates take the likeliest and show "
     "the range; verdicts and max-batch take the worse.",
     "Type the flag that the warning names."},
    {warning::kUpperBound, "layers that are bounded",
     "What these layers keep is decided in a library, by versions and sizes. What is said is an "
     "upper bound: the run takes as much or less.",
     "verify on a card shows how much less."},
    {warning::kNumbersDisagree, "the numbers of a model do not fit each other",
     "A transformer has about 12 x layers x hidden^2 parameters and its vocabulary. --params says "
     "another number by far.",
     "Look for a number that is wrong. Mixtures of experts have more: their closed form is not "
     "known here, use a file."},
    {warning::kIdleFlags, "flags that change nothing",
     "Inference has no optimizer, no gradients and no loss: flags about them were read and do "
     "nothing.",
     "Leave them out, or --mode train."},
    {warning::kOtherMode, "exported in the other mode",
     "torch.export writes down what ran. A model that was exported in eval mode and is asked about "
     "in training has lost what it does in training alone, but for dropouts and batch norms, which "
     "are run as the mode asked for.",
     "model.train() or model.eval() before torch.export.export."},
    {warning::kUnusedProgram, "the calls in the file were not used",
     "An ONNX file may hold PyTorch's own calls (onnxfit.program). These are damaged, or not of "
     "this file, so that its nodes were read instead, which say less.",
     "Write the file again: python -m onnxfit export."},
    {warning::kBareParameters, "inputs that are taken for parameters",
     "torch.onnx.export with export_params=False writes no weights and lists the module's "
     "parameters and buffers among the inputs, behind those of forward. The inputs that are called "
     "as parameters are, and all behind them, are counted as the model's.",
     "Export with export_params=True, if one of them is data."},
    {warning::kMostOfData, "sizes that data decide",
     "How many boxes are left, or how many elements of a mask are true, follows from values that a "
     "file does not have. Each such size is taken as the most that it can be, whatever the data "
     "are: the answer is too much by what they leave out.",
     "--dim NAME=N with the names that the warning gives."},
    {warning::kUnwatched, "modules of a library that were not watched",
     "What modules of timm, torchvision and transformers make and let go of, and which casts they "
     "make, was watched, class by class, at the releases that the warning names. Of a class that "
     "is newer, or that was not run then, source lines and habits say when its local variables "
     "end, as of people's own networks: in inference that may be some percent off.",
     "onnxfit.estimate(model, inputs) in Python, which watches the model that is installed."},
    {warning::kUnsizedTensors, "parameters without sizes",
     "The file names parameters that no node reads, and says no sizes of theirs: torch.export's "
     "ONNX keeps names of what a forward with these inputs does not use. They would be on the "
     "device, and are not counted, so that the answer is too little by them.",
     "Export a .pt2 (torch.export.save), which has their sizes; or export with inputs that all of "
     "the model reads, images beside the words."},
    {warning::kSharedBatch, "other inputs have the batch too",
     "The file leaves the first dimension of several inputs free, under symbols that an exporter "
     "made up: torch.export does not say that two are one where no operator compares them. Nearly "
     "all models are given as many of one input as of the other.",
     "--dim NAME=N with the symbol that the warning names, where there are more or fewer."},
    {warning::kRefusedType, "PyTorch has no kernel for the type",
     "A call reads a type that PyTorch has no kernel for, such as a Fourier transform of bfloat16: "
     "the run would end there with an error. Where the model casts before it, an ONNX file that "
     "was exported in fp32 may have lost the cast.",
     "-p fp32; x.float() before the transform, autocast left out around it; or export a .pt2, "
     "which keeps casts."},
    {warning::kUnsupportedCard, "PyTorch has no kernels for the card",
     "The binaries of this release of PyTorch were not built for the card's compute capability: "
     "the run would fail before it takes memory.",
     "--framework with a release that supports it; another card."},
    {warning::kUnseenTotal, "the card's size was not seen",
     "How much of a card CUDA shows under Linux is known where somebody has published it. For this "
     "card it was computed from its data sheet and from cards like it.",
     "onnxfit gpus --detect on the card; --memory SIZE with what nvidia-smi shows."},
    {warning::kSharedMemory, "the CPU has a share of the memory",
     "Of boards whose GPU has no memory of its own, the operating system and all other programs "
     "take their part first, and nobody is told how much is left.",
     "--reserve SIZE with what they take."},
    {warning::kNoCudnnPlans, "cuDNN knows no such card",
     "--cudnn asks the library which kernels it would take. The one at hand has no plans for the "
     "card: workspaces are not counted.",
     "--cudnn FOLDER with a release of cuDNN that supports the card."},
    {warning::kSlowMemory, "a part of the memory is slow",
     "The last part of this card's memory is reached by a narrow path. Runs that take more than "
     "the "
     "rest fit, and are slow.",
     "Stay below the size that the warning names."},
    {warning::kWithEcc, "ECC may be on",
     "With ECC on, a card with GDDR5 or GDDR6 keeps a sixteenth of its memory for it. Workstation "
     "cards are sold with it off, and many a cloud switches it on: the smaller size counts here.",
     "nvidia-smi -q -d ECC on the card says which it is; --memory SIZE with what CUDA shows, or -g "
     "auto there; nvidia-smi -e 0 switches it off from the next start on."},
    {warning::kOneOfSeveral, "the machine has several cards",
     "A cloud's machine was named that has several cards. The answer is for one process on one of "
     "them.",
     "With data parallel training each card holds the whole model: the answer holds for each, at "
     "the batch of one."},
    {warning::kUnknownTrials, "what trying plans takes is not known",
     "With torch.backends.cudnn.benchmark the first call of each convolution tries all of cuDNN's "
     "plans whose workspaces fit what is free, often in gigabytes. It asks for less where so much "
     "is not free, so that no run fails by it, and PyTorch gives it back to the card behind each. "
     "How much it is was measured on an H200 for the layers of common networks; peaks and steps "
     "lack what it is elsewhere.",
     "Nothing for the run itself. Leave other programs on the card the room that they need: while "
     "the first step runs, all that is free may be taken."},
    {warning::kNewerFramework, "a newer PyTorch wrote the file",
     "The file was written by a release of PyTorch that came after all whose allocator, workspaces "
     "and kernels are known here. The answer is by the rules of the newest that is known. What a "
     "release changes is mostly small, and has been some MiB of workspaces or a kernel that keeps "
     "more or less.",
     "--framework with the release that runs it, if that is another; a newer onnxfit."},
};

constexpr WarningText kVerdictTexts[] = {
    {"FITS", "it runs, with room for what is uncertain",
     "Ten steps run on the card without PyTorch giving cached memory back on the way, on cards 2, "
     "4 "
     "and 8 MiB smaller and larger, too, and the most that a context and workspaces that are not "
     "modelled may take still leaves room. The exit code is 0.",
     "Nothing. --reserve SIZE asks for room for a desktop or other programs on the card."},
    {"TIGHT", "it runs on the card's own size, with something that does not hold",
     "Ten steps run, but on the way PyTorch has to give cached memory back to the card, which is "
     "slow, or a card a few MiB smaller fails, or what is uncertain (the context, workspaces, what "
     "the file leaves open) may take more than is left. The line below the verdict says which. The "
     "exit code is 0, with --strict 1.",
     "max-batch names the largest batch that FITS, and what would raise it with the flags of "
     "each."},
    {"OOM", "it fails: out of memory",
     "One of ten steps asks for memory that the card does not have, after cached memory was given "
     "back. The answer says in which step, at which operator and for how much. A batch that fails "
     "may have larger ones that run, since the allocator's segments differ. The exit code is 1.",
     "max-batch names the largest batch that FITS, and what would raise it: less precision, "
     "checkpoints, another optimizer, a larger card, with what each brings."},
    {"VERDICT", "what is said of a card: FITS, TIGHT or OOM",
     "Ten steps are played by PyTorch's allocator on the card's memory, as CUDA shows it, without "
     "what --reserve leaves to others. FITS and TIGHT run, OOM does not; TIGHT has too little room "
     "for what is uncertain. Where the file leaves something open, it is of the worse reading.",
     "onnxfit explain FITS, TIGHT or OOM has each of them; verify carries it out on a card."},
};

}  // namespace

std::span<const WarningText> WarningTexts() { return kTexts; }

std::span<const WarningText> VerdictTexts() { return kVerdictTexts; }

const WarningText* FindWarningText(std::string_view code) {
  for (const std::span<const WarningText> texts : {WarningTexts(), VerdictTexts()}) {
    const auto found = std::ranges::find(texts, code, &WarningText::code);
    if (found != texts.end()) return &*found;
  }
  return nullptr;
}

}  // namespace onnxfit
