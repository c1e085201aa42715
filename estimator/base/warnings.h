// The codes of our warnings: one row each, never renumbered (scripts match them).
// OF107 was "no output that a loss could take", an error now.
#pragma once

namespace onnxfit::warning {

// 1xx: what the file says or lost.
inline constexpr char kFoldedBatchNorm[] = "OF101";  // batch norms folded into convolutions
inline constexpr char kUnknownOperator[] = "OF102";  // no row: inputs and outputs are kept
inline constexpr char kUnknownBranch[] = "OF103";    // If or Loop: the larger one is taken
inline constexpr char kReboundBatch[] = "OF104";     // a batch written in the file was changed
inline constexpr char kStoredShape[] = "OF105";      // a shape was believed, not inferred
inline constexpr char kLostAnswers[] = "OF109";      // what the file leaves open changes the answer
inline constexpr char kUpperBound[] = "OF110";       // layers that are bounded, not modelled
inline constexpr char kNumbersDisagree[] = "OF111";  // of a model that is given by numbers
inline constexpr char kIdleFlags[] = "OF112";        // flags that change nothing in this run
inline constexpr char kOtherMode[] = "OF113";        // exported in eval, asked for training
inline constexpr char kUnusedProgram[] = "OF114";    // onnxfit.program is damaged, or not of this
inline constexpr char kUnsizedTensors[] = "OF115";   // parameters of which the file has names alone
inline constexpr char kSharedBatch[] = "OF116";      // first dimensions that are taken as the batch
inline constexpr char kCountedOnce[] = "OF117";      // loops whose bodies are counted once
inline constexpr char kRefusedType[] = "OF118";      // a call that PyTorch has no kernel for
inline constexpr char kWholeLayers[] = "OF119";      // of tensor parallelism's, on each rank
inline constexpr char kBareParameters[] = "OF120";   // inputs that are taken for parameters
inline constexpr char kMostOfData[] = "OF121";       // sizes that data decide, at their most
inline constexpr char kUnwatched[] = "OF122";        // classes of libraries that nobody watched
inline constexpr char kNotTrainable[] = "OF108";     // parameters that no gradient reaches

// 2xx: what runs it.
inline constexpr char kUnsupportedCard[] = "OF201";  // the framework has no kernels for it
inline constexpr char kUnseenTotal[] = "OF202";      // the card's size was not seen on Linux
inline constexpr char kSharedMemory[] = "OF203";     // the CPU has a share of the card's memory
inline constexpr char kNoCudnnPlans[] = "OF204";     // cuDNN was asked and knows no such card
inline constexpr char kSlowMemory[] = "OF205";       // a part of the card's memory is slow
inline constexpr char kOneOfSeveral[] = "OF206";     // the machine that was named has more cards
inline constexpr char kUnknownTrials[] = "OF207";    // what cudnn.benchmark takes for a moment
inline constexpr char kNewerFramework[] = "OF208";   // PyTorch that no row is of wrote the file
inline constexpr char kWithEcc[] = "OF209";          // the card's size is that with ECC on

}  // namespace onnxfit::warning
