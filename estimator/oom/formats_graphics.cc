// What graphics, video and simulation say, and the interfaces that they call: Vulkan, OpenCL,
// OpenGL, WebGPU, Metal, Direct3D.
#include "estimator/oom/formats.h"

namespace onnxfit {
namespace {

constexpr OomRow kGraphicsRows[] = {
    // Renderers, editors, engines.
    {"cycles", "Blender", "3 and 4", OomRank::kBare,
     "System is out of GPU memory || System is out of GPU and shared host memory",
     "Blender's Cycles found no room on the card", "blender, intern/cycles/device"},
    {"cycles-cuda", "Blender", "2 and 3", OomRank::kBare,
     "Out of memory in cuMemAlloc || Out of memory in cuLaunchKernel || Out of memory in "
     "cuArrayCreate || Out of memory in cuMemHostAlloc || Out of memory in cuTexObjectCreate || "
     "Out of memory in hipMalloc || Out of memory in hipModuleLaunchKernel",
     "Blender's Cycles found no room on the card", "blender, intern/cycles/device/cuda"},
    {"resolve", "DaVinci Resolve", "", OomRank::kBare, "Your GPU memory is full",
     "DaVinci Resolve found no room on the card", "DaVinci Resolve's dialogue"},
    {"unreal-video", "Unreal Engine", "", OomRank::kBare, "Out of video memory trying to allocate",
     "Unreal Engine found no room on the card", "Engine, D3D12RHI"},
    {"unreal-ram", "Unreal Engine", "", OomRank::kFailure,
     "Ran out of memory allocating {tried} bytes with alignment", "",
     "Engine, GenericPlatformMemory.cpp", "that is RAM and the page file, not the card's memory",
     OomResource::kRam},
    {"unity", "Unity", "", OomRank::kFailure,
     "System out of memory! Trying to allocate: {tried} with", "", "Unity's player log",
     "that is RAM and the page file, not the card's memory", OomResource::kRam},
    {"renderers", "a program on the card", "", OomRank::kBare,
     "Out of VRAM || Not enough VRAM || Insufficient VRAM || Out of GPU memory || GPU out of "
     "memory || Out of video memory || Not enough video memory || Insufficient video memory || "
     "Not enough GPU memory || Insufficient GPU memory || GPU is out of memory || GPU ran out of "
     "memory || Ran out of GPU memory || Ran out of VRAM || Out of device memory || Ran out of "
     "device memory || Not enough free VRAM || Not enough graphics memory",
     "a program found no room on the card", "words that many programs use"},

    // Video.
    {"nvenc", "NVENC", "", OomRank::kBare,
     "OpenEncodeSessionEx failed: out of memory (10) || OpenEncodeSessionEx{}failed: 10 "
     "(NV_ENC_ERR_OUT_OF_MEMORY) || OpenEncodeSessionEx failed: NV_ENC_ERR_OUT_OF_MEMORY || "
     "OpenEncodeSessionEx{}NV_ENC_ERR_OUT_OF_MEMORY || "
     "nvEncOpenEncodeSessionEx{}NV_ENC_ERR_OUT_OF_MEMORY || nvEncOpenEncodeSessionEx failed: 10",
     "NVENC opens no more sessions: that limit is told as want of memory",
     "FFmpeg, libavcodec/nvenc.c; OBS, obs-nvenc; NVENC's error 10",
     "GeForce drivers allow few sessions at once, of all programs together: the card's memory "
     "need not be full",
     OomResource::kSessions},
    {"nvenc-memory", "NVENC", "", OomRank::kDisguise,
     "NV_ENC_ERR_OUT_OF_MEMORY || CreateInputBuffer failed: out of memory (10) || "
     "CreateBitstreamBuffer failed: out of memory (10) || InitializeEncoder failed: out of memory "
     "(10)",
     "NVENC found no memory on the card, or opens no more sessions",
     "FFmpeg, libavcodec/nvenc.c; NVENC's error 10",
     "frames and buffers of the encoder are on the card: its limit of sessions says the same"},
    {"ffmpeg", "FFmpeg", "", OomRank::kBare,
     "Error while opening encoder{}Cannot allocate memory || Error initializing {}: Cannot "
     "allocate memory || Error submitting {}: Cannot allocate memory || Error while decoding "
     "stream {}: Cannot allocate memory || Conversion failed! Cannot allocate memory",
     "FFmpeg found no memory", "FFmpeg, AVERROR(ENOMEM)",
     "RAM, or the card's memory where it decodes or encodes there"},
    {"deepstream", "DeepStream", "", OomRank::kDisguise,
     "Failed to create NvBufSurface || NvBufSurfaceCreate failed || gst_nvds_buffer_pool_alloc || "
     "Error(-1) in buffer allocation",
     "DeepStream found no room for its frames", "NVIDIA DeepStream, nvbufsurface"},

    // Simulation, structures of molecules, photogrammetry.
    {"gromacs", "GROMACS", "2020 on", OomRank::kBare, "CUDA error #2 (cudaErrorMemoryAllocation)",
     "GROMACS found no room on the card", "gromacs, src/gromacs/gpu_utils"},
    {"gromacs-ram", "GROMACS", "", OomRank::kBare,
     "Not enough memory. Failed to {told} {n} elements of size", "GROMACS found no RAM",
     "gromacs, src/gromacs/utility/smalloc.cpp", "that is RAM, not the card's memory",
     OomResource::kRam},
    {"lammps", "LAMMPS", "", OomRank::kFailure, "Failed to allocate {tried} bytes for array {node}",
     "", "lammps, src/memory.cpp", "that is RAM, not the card's memory", OomResource::kRam},
    {"amber", "AMBER", "", OomRank::kBare, "GpuBuffer::Allocate failed out of memory",
     "AMBER found no room on the card", "AMBER, pmemd.cuda"},
    {"openmm", "OpenMM", "", OomRank::kBare,
     "CUDA_ERROR_OUT_OF_MEMORY (2) || Error creating array {node}: CL_MEM_OBJECT",
     "OpenMM found no room on the card", "openmm, platforms/cuda/src/CudaArray.cpp"},
    {"relion", "RELION", "", OomRank::kBare, "You ran out of memory on the GPU",
     "RELION found no room on the card", "relion, src/acc/cuda/custom_allocator.cuh"},
    {"colmap", "COLMAP", "", OomRank::kBare,
     "Not enough GPU memory to match {told} features || Not enough GPU memory to match",
     "COLMAP found no room on the card", "colmap, src/colmap/feature/sift.cc"},
    {"hashcat", "hashcat", "", OomRank::kBare, "Not enough allocatable device memory",
     "hashcat found no room on the card", "hashcat, src/backend.c"},
    {"opencv-cuda", "OpenCV", "2.4 on", OomRank::kBare,
     "(-217:Gpu API call) out of memory in function || Gpu API call (out of memory) in || error: "
     "(-217) out of memory in function",
     "OpenCV found no room on the card",
     "opencv/opencv#20087, core/cuda/gpu_mat.cu, dnn/src/cuda4dnn/csl/memory.hpp",
     "that is the card's memory: GpuMats, or weights and blobs of cv::dnn"},
    {"opencv", "OpenCV", "", OomRank::kFailure,
     "Failed to allocate {tried} bytes in function || Insufficient memory) Failed to allocate "
     "{tried} "
     "bytes",
     "", "opencv, modules/core/src/alloc.cpp", "that is RAM, not the card's memory",
     OomResource::kRam},

    // Interfaces.
    {"vulkan", "Vulkan", "", OomRank::kBare,
     "VK_ERROR_OUT_OF_DEVICE_MEMORY || ErrorOutOfDeviceMemory || VK_ERROR_OUT_OF_POOL_MEMORY || "
     "vkAllocateMemory failed || VkResult -2",
     "Vulkan found no room on the card", "Vulkan's specification, VkResult -2"},
    {"vulkan-host", "Vulkan", "", OomRank::kBare,
     "VK_ERROR_OUT_OF_HOST_MEMORY || ErrorOutOfHostMemory", "Vulkan found no RAM",
     "Vulkan's specification, VkResult -1", "that is RAM, not the card's memory",
     OomResource::kRam},
    {"opencl", "OpenCL", "", OomRank::kBare,
     "CL_MEM_OBJECT_ALLOCATION_FAILURE || : MEM_OBJECT_ALLOCATION_FAILURE || Memory Object "
     "Allocation Failure || clCreateBuffer failed || CL_INVALID_BUFFER_SIZE || clCreateBuffer(-61) "
     "|| clCreateBuffer(-4) || clCreateBuffer -61 || clCreateBuffer -4 || "
     "clEnqueueNDRangeKernel(-4) || clEnqueueNDRangeKernel -4",
     "OpenCL found no room on the card, or for one buffer as large as this",
     "OpenCL's specification, CL_MEM_OBJECT_ALLOCATION_FAILURE (-4)"},
    {"opencl-resources", "OpenCL", "", OomRank::kDisguise,
     "CL_OUT_OF_RESOURCES || failed: OUT_OF_RESOURCES",
     "OpenCL ran out of something: most often the card's memory",
     "OpenCL's specification, CL_OUT_OF_RESOURCES (-5)",
     "a kernel that reads beyond its buffer says the same"},
    {"opencl-host", "OpenCL", "", OomRank::kBare, "CL_OUT_OF_HOST_MEMORY || : OUT_OF_HOST_MEMORY",
     "OpenCL found no RAM", "OpenCL's specification, CL_OUT_OF_HOST_MEMORY (-6)", "",
     OomResource::kRam},
    {"opengl", "OpenGL", "", OomRank::kBare, "GL_OUT_OF_MEMORY || GL error 0x505 || glError 1285",
     "OpenGL found no room on the card", "OpenGL's specification, GL_OUT_OF_MEMORY (0x505)"},
    {"webgpu-limit", "WebGPU", "", OomRank::kFailure,
     "Buffer size ({tried}) exceeds the max buffer size limit ({allowed}) || Buffer size {tried} "
     "is greater than the maximum buffer size ({allowed}) || Buffer binding size {tried} exceeds "
     "`max_*_buffer_binding_size` limit {allowed} || buffer size {tried} larger than the device "
     "limit {allowed}",
     "", "dawn, src/dawn/native/Device.cpp; wgpu-core, device/resource.rs",
     "that is the most that one buffer may have: ask for a higher maxBufferSize",
     OomResource::kBuffer},
    {"webgpu", "WebGPU", "", OomRank::kBare,
     "GPUOutOfMemoryError || wgpu error: Out of Memory || Not enough memory left || WebGPU "
     "{}out of memory || CONTEXT_LOST_WEBGL",
     "the browser's GPU process found no room on the card", "WebGPU's specification; wgpu"},
    {"metal", "Metal", "", OomRank::kBare,
     "kIOGPUCommandBufferCallbackErrorOutOfMemory || MTLCommandBufferErrorOutOfMemory || "
     "Insufficient Memory (00000008",
     "the GPU's share of the Mac's memory is full", "Apple's Metal, MTLCommandBufferError 8"},
    {"direct3d", "Direct3D", "", OomRank::kBare,
     "8007000E Not enough memory resources || 0x8007000E || error was 8007000e || E_OUTOFMEMORY || "
     "Not enough memory resources are available to complete",
     "Windows found no memory: on the card for Direct3D, else RAM and page file",
     "Windows, HRESULT E_OUTOFMEMORY"},
    {"direct3d-removed", "Direct3D", "", OomRank::kDisguise,
     "DXGI_ERROR_DEVICE_REMOVED || 887A0005",
     "Direct3D lost the card: a full card is one of the reasons", "Windows, HRESULT 0x887A0005",
     "a driver that stopped says the same"},
};

}  // namespace

std::span<const OomRow> GraphicsRows() { return kGraphicsRows; }

}  // namespace onnxfit
