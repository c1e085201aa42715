#include "estimator/oom/programs.h"

#include <algorithm>
#include <string>
#include <vector>

#include "estimator/oom/log_lines.h"

namespace onnxfit {
namespace {

constexpr auto kCard = OomFamily::kCard;
constexpr auto kRam = OomFamily::kRam;
constexpr auto kTrains = OomProgram::Kind::kTrains;
constexpr auto kServes = OomProgram::Kind::kServes;
constexpr auto kComputes = OomProgram::Kind::kComputes;
constexpr auto kEnds = OomProgram::Kind::kEnds;

constexpr OomProgram kPrograms[] = {
    // Servers and programs that draw, on top of frameworks.
    {"ComfyUI", kCard, kServes, "comfyui|comfy/|comfy_extras|comfy.|custom_nodes"},
    {"Stable Diffusion web UI", kCard, kServes,
     "stable-diffusion-webui|sd-webui|modules/processing.py|modules/txt2img|sd_hijack|webui-user"},
    {"stable-diffusion.cpp", kCard, kServes, "stable-diffusion.cpp|ggml_extend"},
    {"InvokeAI", kCard, kServes, "invokeai"},
    {"Fooocus", kCard, kServes, "fooocus"},
    {"vLLM", OomFamily::kVllm, kServes, "vllm/|vllm.|[vllm"},
    {"SGLang", kCard, kServes, "sglang/|sglang.|--mem-fraction-static"},
    {"TGI", kCard, kServes,
     "text_generation_server|text-generation-launcher|text_generation_launcher"},
    {"LMDeploy", kCard, kServes, "lmdeploy|turbomind|[tm]["},
    {"TensorRT-LLM", kCard, kServes, "tensorrt_llm|tensorrt-llm|trtllm"},
    {"Triton Inference Server", kCard, kServes,
     "tritonserver|triton-inference-server|onnxruntimeerror1:|onnxruntimeerror6:"},
    {"ExLlama", kCard, kServes, "exllama|tabbyapi"},
    {"text-generation-webui", kCard, kServes, "text-generation-webui|textgen"},
    {"KoboldCpp", kCard, kServes, "koboldcpp"},
    {"Ollama", kCard, kServes, "ollama|llamarunner"},
    {"LM Studio", kCard, kServes, "/lmstudio|\\lmstudio|.lmstudio|lmstudio.|lmstudio-|lm-studio"},
    {"whisper.cpp", kCard, kServes, "whisper.cpp|whisper_init|whisper_full|whisper_model_load"},
    {"IPEX-LLM", kCard, kServes, "ipex_llm|ipex-llm|bigdl/llm"},
    {"llama.cpp", OomFamily::kLlamaCpp, kServes, "ggml|llama_|llama.cpp|llama-server|.gguf"},
    {"CTranslate2", kCard, kServes, "ctranslate2|faster_whisper|faster-whisper|whisperx"},
    {"MLC-LLM", kCard, kServes, "mlc_llm|mlc-llm"},
    {"Whisper", kCard, kServes, "whisper/transcribe.py"},
    {"nerfstudio", kCard, kTrains, "nerfstudio|ns-train"},
    {"gaussian-splatting", kCard, kTrains, "gaussian-splatting|gaussian_renderer|gsplat"},
    {"DeepSpeed", kCard, kTrains, "deepspeed/|deepspeed.|--deepspeed|sigkill_handler]"},
    {"Megatron", kCard, kTrains, "megatron/|megatron."},
    {"accelerate", kCard, kTrains, "find_executable_batch_size"},
    {"transformers", kCard, kTrains, "loadingcheckpointshards"},
    {"Real-ESRGAN", kCard, kServes, "realesrgan|real-esrgan|--tilewithasmallernumber"},
    {"detectron2", kCard, kTrains, "detectron2"},
    {"fairseq", kCard, kTrains, "fairseq"},
    {"pip", kRam, kComputes, "pip/_internal|pip/_vendor"},
    {"bitsandbytes", kCard, kTrains, "csrc/ops.cu|csrc/pythoninterface|bitsandbytes/src"},

    // Libraries of arrays and trees.
    {"XGBoost", kCard, kTrains, "xgboost"},
    {"LightGBM", kCard, kTrains, "lightgbm"},
    {"CatBoost", kCard, kTrains, "catboost"},
    {"RAPIDS for Spark", kCard, kComputes, "spark.rapids|rapids-4-spark"},
    {"RAPIDS", kCard, kComputes, "rmm/|rmm::|cudf|cuml|cugraph"},
    {"Kokkos", kCard, kComputes, "kokkos"},
    {"NVIDIA HPC compilers", kCard, kComputes, {}},
    {"Faiss", kCard, kComputes, "faiss"},
    {"DALI", kCard, kComputes, "nvidia/dali|nvidia.dali|/dali/"},
    {"CuPy", kCard, kTrains, "cupy|chainer"},
    {"Numba", kCard, kComputes, "numba"},
    {"PyCUDA", kCard, kComputes, "pycuda"},
    {"CUDA.jl", kCard, kComputes, "cuda.jl|/cuda/src/pool.jl"},
    {"NVIDIA Warp", kCard, kComputes, "warperror|warp/context.py"},
    {"Taichi", kCard, kComputes, "taichi"},
    {"tiny-cuda-nn", kCard, kTrains, "tiny-cuda-nn|tinycudann|tiny_cuda_nn|instant-ngp"},

    // Frameworks.
    {"Triton", kCard, kComputes, {}},
    {"MXNet", kCard, kTrains, "mxnet"},
    {"TVM", kCard, kComputes, "tvm/|tvm::|tvmerror"},
    {"MindSpore", kCard, kTrains, "mindspore"},
    {"OneFlow", kCard, kTrains, "oneflow"},
    {"PaddlePaddle", OomFamily::kPaddle, kTrains, "paddle/|paddle.|paddlepaddle"},
    {"Caffe", kCard, kTrains, "syncedmem.cpp|caffe/|caffe::|caffe.|caffetrain"},
    {"Darknet", kCard, kTrains, "darknet"},
    {"dlib", kCard, kComputes, "dlib/|dlib::|face_recognition"},
    {"Marian", kCard, kTrains, "marian"},
    {"Kaldi", kCard, kTrains, "kaldi|cu-allocator"},
    {"ArrayFire", kCard, kComputes, "arrayfire"},
    {"Torch7", kCard, kTrains, "luarocks|luajit|.lua:"},
    {"CNTK", kCard, kTrains, "cntk"},
    {"PyTorch/XLA", OomFamily::kXla, kTrains, "torch_xla|xla_client/xla_util|xla_multiprocessing"},
    {"XLA on TPU", OomFamily::kXla, kTrains, {}},
    {"JAX/XLA", OomFamily::kXla, kTrains, "jaxlib|jax/|jax._src|xlaruntimeerror"},
    {"TensorFlow", OomFamily::kTensorFlow, kTrains, "tensorflow|keras"},
    {"Theano", OomFamily::kTheano, kTrains, "theano"},
    {"OpenVINO", kCard, kServes, "openvino"},
    {"TensorRT", OomFamily::kTensorRt, kServes, "[trt]|trtexec|nvinfer|tensorrt"},
    {"ONNX Runtime", OomFamily::kOnnxRuntime, kServes, "onnxruntime"},
    {"DirectML", kCard, kTrains, "directml|torch_directml"},
    {"MLX", kCard, kTrains, "mlx/|mlx.|mlx_lm"},
    {"tinygrad", kCard, kTrains, "tinygrad"},
    {"candle", kCard, kServes, "candle_|candle-"},
    {"burn", kCard, kTrains, "burn_|burn-|cubecl"},
    {"Ascend", kCard, kTrains, "torch_npu"},
    {"Gaudi", kCard, kTrains, "habana_frameworks|optimum/habana|optimum.habana|habana_model"},
    {"AWS Neuron", kCard, kTrains, "torch_neuronx|neuronx_distributed|optimum/neuron|to_neuron("},
    {"PhysX and Isaac", kCard, kComputes, "isaacgym|isaaclab|physx"},

    // Beneath them.
    {"NCCL", kCard, kTrains, {}},
    {"ROCm", kCard, kComputes, {}},
    {"Intel's GPU", kCard, kComputes, {}},

    // Graphics, video, simulation.
    {"Blender", kCard, kComputes, "blender"},
    {"Octane", kCard, kComputes, "octane"},
    {"DaVinci Resolve", kCard, kComputes, "davinci"},
    {"Unreal Engine", kCard, kComputes, "unreal"},
    {"Unity", kCard, kComputes, "unityplayer|unityengine"},
    {"a program on the card", kCard, kComputes, {}},
    {"NVENC", kCard, kComputes, {}},
    {"FFmpeg", kCard, kComputes, "ffmpeg|libavcodec|_cuvid@"},
    {"DeepStream", kCard, kComputes, "nvds|deepstream"},
    {"GROMACS", kCard, kComputes, "gromacs|gmxmdrun"},
    {"LAMMPS", kCard, kComputes, "lammps"},
    {"AMBER", kCard, kComputes, "pmemd"},
    {"NAMD", kCard, kComputes, "namd"},
    {"OpenMM", kCard, kComputes, "openmm"},
    {"RELION", kCard, kComputes, "relion"},
    {"cryoSPARC", kCard, kComputes, "cryosparc"},
    {"COLMAP", kCard, kComputes, "colmap"},
    {"Meshroom", kCard, kComputes, "alicevision|meshroom"},
    {"hashcat", kCard, kComputes, "hashcat"},
    {"OpenCV", kCard, kComputes, "opencv|cv2|cv::"},
    {"Vulkan", kCard, kComputes, {}},
    {"OpenCL", kCard, kComputes, {}},
    {"OpenGL", kCard, kComputes, {}},
    {"WebGPU", kCard, kComputes, {}},
    {"Metal", kCard, kComputes, {}},
    {"Direct3D", kCard, kComputes, {}},

    // Languages, tables, data bases.
    {"Spark", kRam, kComputes, "org.apache.spark|pyspark"},
    {"Java", kRam, kComputes, {}},
    {"Android", kRam, kComputes, {}},
    {"NumPy", kRam, kComputes, {}},
    {"OpenBLAS", kRam, kComputes, {}},
    {"Node.js", kRam, kComputes, {}},
    {"WebAssembly", kRam, kComputes, {}},
    {"Polars", kRam, kComputes, "polars"},
    {"Arrow", kRam, kComputes, "pyarrow"},
    {"pandas", kRam, kComputes, "pandas/"},
    {"Dask", kRam, kComputes, "distributed.worker|distributed.nanny"},
    {"R", kRam, kComputes, {}},
    {"Julia", kRam, kComputes, {}},
    {"MATLAB", kRam, kComputes, {}},
    {"Octave", kRam, kComputes, {}},
    {"Mathematica", kRam, kComputes, {}},
    {"PHP", kRam, kComputes, {}},
    {"Rust", kRam, kComputes, {}},
    {"Go", kRam, kComputes, {}},
    {".NET", kRam, kComputes, {}},
    {"Ruby", kRam, kComputes, {}},
    {"Python", kRam, kComputes, {}},
    {"a program in C++", kRam, kComputes, {}},
    {"a compiler", kRam, kComputes, "nvcc|cicc|cc1plus|ninja:buildstopped|flash_attn"},
    {"git", kRam, kComputes, {}},
    {"DuckDB", kRam, kComputes, "duckdb"},
    {"ClickHouse", kRam, kComputes, "clickhouse"},
    {"PostgreSQL", kRam, kComputes, {}},
    {"Trino", kRam, kComputes, {}},
    {"MySQL", kRam, kComputes, {}},
    {"MongoDB", kRam, kComputes, {}},
    {"BigQuery", kRam, kComputes, {}},
    {"Fortran", kRam, kComputes, {}},
    {"Redis", kRam, kComputes, {}},
    {"Elasticsearch", kRam, kComputes, {}},
    {"a program", kRam, kComputes, {}},

    // What ends others.
    {"Ray", kRam, kEnds, {}},
    {"slurm", kRam, kEnds, {}},
    {"PBS", kRam, kEnds, {}},
    {"LSF", kRam, kEnds, {}},
    {"Grid Engine", kRam, kEnds, {}},
    {"HTCondor", kRam, kEnds, {}},
    {"Kubernetes", kRam, kEnds, {}},
    {"Docker", kRam, kEnds, {}},
    {"a container", kRam, kEnds, {}},
    {"Colab", kRam, kEnds, {}},
    {"Render", kRam, kEnds, {}},
    {"Vertex AI", kRam, kEnds, {}},
    {"SageMaker", kRam, kEnds, {}},
    {"Databricks", kRam, kEnds, {}},
    {"Streamlit", kRam, kEnds, {}},
    {"joblib", kRam, kEnds, {}},
    {"gunicorn", kRam, kEnds, {}},
    {"Hugging Face Spaces", kRam, kEnds, {}},
    {"Cloud Run", kRam, kEnds, {}},
    {"AWS Lambda", kRam, kEnds, {}},
    {"Heroku", kRam, kEnds, {}},
    {"Kaggle", kRam, kEnds, {}},
    {"nnU-Net", kRam, kEnds, "nnunet"},
    {"Jupyter", kRam, kEnds, {}},
    {"a CI service", kRam, kEnds, {}},
    {"the kernel", kRam, kEnds, {}},
    {"systemd-oomd", kRam, kEnds, {}},
    {"earlyoom", kRam, kEnds, {}},
    {"macOS", kRam, kEnds, {}},
    {"WSL", kRam, kEnds, {}},
    {"Windows", kRam, kEnds, {}},
    {"the system", kRam, kEnds, {}},
    {"another program", kCard, kComputes, {}},

    // PyTorch stands in many logs of others: its words are looked for at last.
    {"PyTorch", OomFamily::kPyTorch, kTrains,
     "torch/|torch.|pytorch|aten/src|c10/|runtimeerror:cudaerror:"},
    {"PyTorch on the CPU", OomFamily::kHost, kTrains, {}},
    {"PyTorch on Apple's MPS", OomFamily::kMps, kTrains, {}},
    {"CUDA", OomFamily::kCuda, kTrains, {}},
};

std::vector<std::string_view> SplitSigns(std::string_view signs) {
  std::vector<std::string_view> parts;
  while (!signs.empty()) {
    const size_t bar = std::min(signs.find('|'), signs.size());
    parts.push_back(signs.substr(0, bar));
    signs.remove_prefix(std::min(bar + 1, signs.size()));
  }
  return parts;
}

}  // namespace

std::span<const OomProgram> OomPrograms() { return kPrograms; }

const OomProgram* FindProgram(std::string_view name) {
  const auto* found = std::ranges::find(kPrograms, name, &OomProgram::name);
  return found == std::end(kPrograms) ? nullptr : found;
}

const OomProgram* ProgramIn(std::string_view letters) {
  for (const OomProgram& program : kPrograms) {
    for (const std::string_view sign : SplitSigns(program.signs)) {
      if (letters.find(sign) != std::string_view::npos) return &program;
    }
  }
  return nullptr;
}

}  // namespace onnxfit
