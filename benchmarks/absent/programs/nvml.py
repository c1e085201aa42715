"""What programs ask of a card: NVML's and PyTorch's figures agree with the card that was named."""
import pynvml
import torch

kept = torch.empty(1 << 30, dtype=torch.uint8, device="cuda")
pynvml.nvmlInit()
handle = pynvml.nvmlDeviceGetHandleByIndex(0)
memory = pynvml.nvmlDeviceGetMemoryInfo(handle)
free, total = torch.cuda.mem_get_info()
assert abs(memory.used - (memory.total - free)) < 1 << 30, (memory.used, free, total)
assert torch.cuda.get_device_name() == pynvml.nvmlDeviceGetName(handle)
assert torch.cuda.get_device_capability() == (8, 0)
assert torch.cuda.get_device_properties(0).multi_processor_count == 108
assert [process.pid for process in pynvml.nvmlDeviceGetComputeRunningProcesses(handle)]
torch.cuda.utilization()
torch.cuda.memory_summary()
