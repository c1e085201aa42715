// What ends other programs says, for want of the machine's RAM: kernels, schedulers of clusters,
// containers, clouds, notebooks; and the errors by which a system refuses memory.
#include "estimator/oom/formats.h"

namespace onnxfit {
namespace {

constexpr OomRow kSystemRows[] = {
    // Ray.
    {"ray-node", "Ray", "2.2 on", OomRank::kFailure,
     "Memory on the node (IP: {}memory used={allocated}) was running was {used} / {total} (",
     "Ray ended a task: the RAM of its node is full", "ray, src/ray/raylet/node_manager.cc"},
    {"ray-old", "Ray", "0.8 to 2.1", OomRank::kFailure,
     "of the memory on node {told} is used ({used} / {total})",
     "Ray ended a task: the RAM of its node is full", "ray, python/ray/_private/memory_monitor.py"},
    {"ray-raylet", "Ray", "2.2 on", OomRank::kBare, "killed due to memory pressure (OOM)",
     "Ray ended workers: the RAM of a node is full", "ray, src/ray/raylet/node_manager.cc"},
    {"ray-bare", "Ray", "", OomRank::kBare,
     "Task was killed due to the node running low on memory || ray.exceptions.OutOfMemoryError || "
     "Workers killed due to memory pressure || RayOutOfMemoryError",
     "Ray ended a task: the RAM of its node is full", "ray, python/ray/exceptions.py"},
    {"ray-store", "Ray", "", OomRank::kFailure,
     "in object store because it is full. Object size is {tried} bytes", "",
     "ray, ObjectStoreFullError", "that is Ray's object store in /dev/shm, 30 % of RAM by default"},
    {"ray-pod", "Ray", "1.13 on", OomRank::kSign,
     "The worker may have exceeded K8s pod memory limits",
     "a worker of Ray ended: its pod's limit on RAM is Ray's guess",
     "ray, python/ray/_raylet.pyx, 2.3 to 2.40",
     "in Kubernetes Ray says so of each worker that ends by itself: the pod's state tells"},
    {"ray-sigkill", "Ray", "", OomRank::kSign,
     "The process is killed by SIGKILL by OOM killer due to high memory usage",
     "a worker of Ray ended: most often its node's RAM is full",
     "ray, src/ray/raylet/worker_pool.cc", "Ray lists want of RAM as the first of its guesses"},

    // Schedulers of clusters.
    {"slurm-limit", "slurm", "before 20", OomRank::kBare,
     "exceeded memory limit ({KiB used} > {KiB allowed}), being killed || exceeded memory limit "
     "({KiB used}>{KiB allowed})",
     "slurm ended a job: it took more RAM than it may", "slurm, jobacct_gather"},
    {"sacct", "slurm", "", OomRank::kBare,
     "OUT_OF_MEMORY || OUT_OF_ME+ || srun: error: {}: task {n}: Out Of Memory || Exceeded job "
     "memory "
     "limit || exceeded memory limit, being killed",
     "slurm ended a job: it took more RAM than it may", "slurm, sacct, seff, srun",
     "that is RAM of the machine (--mem), not the card's memory"},
    {"slurm-request", "slurm", "", OomRank::kBare,
     "Memory specification can not be satisfied || Requested node configuration is not available",
     "slurm has no node with as much memory as the job asks for", "slurm, src/common/slurm_errno.c",
     "nothing ran: the request is too high for each node, or for this partition",
     OomResource::kRequest},
    {"slurm-mem", "slurm", "", OomRank::kNumbers, "--mem={MiB allowed}", "", "sbatch --help"},
    {"slurm-seff", "slurm", "", OomRank::kNumbers,
     "Memory Utilized: {used} Memory Efficiency: {n}% of {allowed}", "", "slurm, contribs/seff"},
    {"pbs", "PBS", "", OomRank::kBare,
     "PBS: job killed: mem {used} exceeded limit {allowed} || PBS: job killed: vmem {used} "
     "exceeded "
     "limit {allowed} || PBS: job killed: mem job total {used} exceeded limit {allowed} || PBS: "
     "job killed: pmem {used} exceeded limit {allowed}",
     "PBS ended a job: it took more RAM than it may", "marbl/canu#530, veg/hyphy#500",
     "that is RAM of the machine (-l mem), not the card's memory"},
    {"pbs-bare", "PBS", "", OomRank::kBare,
     "Job exceeded a memory resource limit || Cgroup mem limit exceeded || Cgroup memsw limit "
     "exceeded || exceeding memory limit{}PBS",
     "PBS ended a job: it took more RAM than it may", "nf-core/sarek#541; PBS Professional's hook",
     "that is RAM of the machine (-l mem), not the card's memory"},
    {"lsf", "LSF", "", OomRank::kBare,
     "TERM_MEMLIMIT{?}: job killed after reaching LSF memory usage limit{?}{}Max Memory : "
     "{allocated}{?}{}Total Requested Memory : {allowed}",
     "LSF ended a job: it took more RAM than it may", "wheaton5/souporcell#20",
     "that is RAM of the machine (-M), not the card's memory"},
    {"lsf-swap", "LSF", "", OomRank::kBare, "TERM_SWAP: job killed after reaching LSF swap usage",
     "LSF ended a job: it took more swap than it may", "LSF, bhist's reasons"},
    {"sge", "Grid Engine", "", OomRank::kBare,
     "exceeds job hard limit \"{told}\" of queue {} ({used} > limit:{allowed} || exceeded hard "
     "memory limit || exceeds job soft limit",
     "Grid Engine ended a job: it took more memory than it may", "gridengine, execd",
     "h_vmem counts addresses, of which CUDA reserves far more than it uses"},
    {"htcondor", "HTCondor", "", OomRank::kBare,
     "Job has gone over memory limit of {MB allowed} megabytes. Peak usage: {MB used} || Job has "
     "gone over cgroup memory limit of {MB allowed} megabytes. Last measured usage: {MB used} || "
     "Job has gone over memory limit of {MB allowed} megabytes",
     "HTCondor held a job: it took more RAM than it may", "htcondor, HoldReasonCode 34"},
    {"htcondor-bare", "HTCondor", "", OomRank::kBare,
     "memory usage exceeded request_memory || HoldReasonCode = 34 || MemoryUsage > RequestMemory",
     "HTCondor held a job: it took more RAM than it may", "htcondor, HoldReasonCode 34"},

    // Containers and clouds.
    {"evicted", "Kubernetes", "", OomRank::kBare,
     "The node was low on resource: memory. Threshold quantity: {n}{}, available: {free}. || The "
     "node was low on resource: memory{?}. Container {told} was using {used}, which exceeds its "
     "request",
     "Kubernetes evicted a pod: the RAM of its node is full", "kubernetes, pkg/kubelet/eviction"},
    {"evicted-disk", "Kubernetes", "", OomRank::kBare,
     "The node was low on resource: ephemeral-storage || Usage of EmptyDir volume {told} exceeds "
     "the limit || exceeds the total limit of containers || Container {told} exceeded its local "
     "ephemeral storage limit",
     "Kubernetes evicted a pod: a disk, or an emptyDir, is full",
     "kubernetes, pkg/kubelet/eviction",
     "that is ephemeral-storage, not memory, unless the emptyDir's medium is Memory",
     OomResource::kDisk},
    {"scheduling", "Kubernetes", "", OomRank::kBare, "nodes are available: {}Insufficient memory",
     "no node has as much RAM left as the pod requests",
     "kubernetes, pkg/scheduler/framework/plugins/noderesources",
     "nothing ran: requests of pods count, not what they use", OomResource::kRequest},
    {"evicted-shm", "Kubernetes", "", OomRank::kBare, "The node had condition: [MemoryPressure]",
     "Kubernetes evicted a pod: memory is full", "kubernetes, pkg/kubelet/eviction"},
    {"system-oom", "Kubernetes", "", OomRank::kBare,
     "System OOM encountered, victim process: {told},",
     "the kernel of a node ended a process, for want of RAM", "kubernetes, pkg/kubelet/oom"},
    {"docker-killed", "a container", "", OomRank::kSign,
     "\"OOMKilled\":false{}\"ExitCode\":137 || \"ExitCode\":137{}\"OOMKilled\":false || "
     "OOMKilled:false{}ExitCode:137 || ExitCode:137{}OOMKilled:false",
     "a container was killed (signal 9), and not for its own memory limit",
     "moby, container/state.go; coderaiser/cloudcmd#440",
     "OOMKilled is false: the machine's kernel ended it for want of RAM, or docker stop (which "
     "waits 10 seconds), docker kill or a health check did"},
    {"kubernetes-killed", "Kubernetes", "", OomRank::kSign, "Reason: Error Exit Code: 137",
     "a container was killed (signal 9), and Kubernetes does not say for want of memory",
     "kubernetes/kubernetes#122256, kubectl describe pod",
     "at the container's own limit it says OOMKilled: here a probe, an eviction or a slow end did "
     "it, or a child of its main process was ended for want of RAM"},
    {"kubernetes-limit", "Kubernetes", "", OomRank::kNumbers,
     "Limits: memory: {allowed} || Limits: cpu: {n} memory: {allowed} || Limits: cpu: {n}m memory: "
     "{allowed} || Limits: cpu: {n} ephemeral-storage: {n}{} memory: {allowed} || Limits: cpu: "
     "{n}m ephemeral-storage: {n}{} memory: {allowed} || limits: nvidia.com/gpu: {n} memory: "
     "{allowed} || limits: nvidia.com/gpu: {n} cpu: {n} memory: {allowed}",
     "", "kubectl describe pod, a pod's YAML"},
    {"oomkilled", "Kubernetes", "", OomRank::kBare, "OOMKilled{!\":false}{!:false}",
     "the container took more RAM than it may, and was ended", "kubectl get pods, docker, Argo",
     "that is RAM of the machine, not the card's memory"},
    {"spaces", "Hugging Face Spaces", "", OomRank::kBare, "Memory limit exceeded ({allowed})",
     "the Space took more RAM than it may", "Hugging Face Spaces, \"Workload evicted\""},
    {"cloud-run", "Cloud Run", "", OomRank::kBare,
     "Memory limit of {allowed} exceeded with {used} used", "the service took more RAM than it may",
     "Google Cloud Run's log"},
    {"lambda", "AWS Lambda", "", OomRank::kBare,
     "Memory Size: {allowed} Max Memory Used: {used} Error Type: Runtime.OutOfMemory || "
     "Runtime.OutOfMemory || OutOfMemoryError: Container killed due to memory usage",
     "the function or container took more RAM than it may", "AWS Lambda's and ECS' reports"},
    {"render", "Render", "", OomRank::kBare, "Ran out of memory (used over {allowed})",
     "the service took more RAM than it may", "Render's dashboard", "", OomResource::kLimit},
    {"vertex", "Vertex AI", "", OomRank::kBare, "ran out-of-memory and exited",
     "a replica took more RAM than its machine has", "Google Cloud's Vertex AI, custom training"},
    {"sagemaker", "SageMaker", "", OomRank::kBare, "Please use an instance type with more memory",
     "the training job took more RAM than its instance has", "AWS SageMaker's ClientError"},
    {"databricks", "Databricks", "", OomRank::kSign,
     "The spark driver has stopped unexpectedly and is restarting || The Python kernel is "
     "unresponsive",
     "the driver ended: most often its RAM is full", "Databricks' notebooks",
     "collect(), toPandas() and broadcasts bring all to the driver"},
    {"streamlit", "Streamlit", "", OomRank::kSign, "has gone over its resource limits",
     "the app took more than it may: most often RAM", "Streamlit Community Cloud"},
    {"heroku", "Heroku", "", OomRank::kBare,
     "Error R14 (Memory quota exceeded) || Error R15 (Memory quota vastly exceeded)",
     "the dyno took more RAM than it may", "Heroku's error codes"},
    {"colab-killed", "Colab", "", OomRank::kSign, "tcmalloc: large alloc {n} bytes{}^C",
     "a command ended in Colab with ^C that nobody typed: most often its RAM is full",
     "Google Colab; tcmalloc's report of an allocation of 1 GiB and more",
     "Colab shows ^C where the kernel ended a command"},
    {"kaggle", "Kaggle", "", OomRank::kBare,
     "Your notebook tried to allocate more memory than is available", "Kaggle's RAM is full",
     "Kaggle's dialogue", "that is RAM of the machine, not the card's memory"},
    {"gunicorn", "gunicorn", "20 on", OomRank::kSign, "was sent SIGKILL! Perhaps out of memory",
     "a worker of gunicorn was killed: most often the machine's RAM is full",
     "gunicorn, arbiter.py"},
    {"nnunet", "nnU-Net", "", OomRank::kSign, "background workers are no longer alive",
     "workers that load data ended: most often the machine's RAM is full",
     "MIC-DKFZ/nnUNet, MIC-DKFZ/batchgenerators"},
    {"jupyter", "Jupyter", "", OomRank::kSign,
     "The kernel appears to have died. It will restart || Kernel died, restarting || The Kernel "
     "crashed while executing code || Kernel Restarting The kernel for",
     "a notebook's kernel ended: most often the machine's RAM is full", "Jupyter; VS Code",
     "a library that crashes looks the same: the system's log tells"},
    {"runner", "a CI service", "", OomRank::kSign,
     "lost communication with the server || The runner has received a shutdown signal",
     "a runner was lost: want of RAM is one of the reasons", "GitHub Actions"},

    // Kernels and what watches memory for them.
    {"oom-killer", "the kernel", "", OomRank::kBare,
     "invoked oom-killer: gfp_mask || invoked oom-killer || oom-kill:constraint= || oom_reaper: "
     "reaped "
     "process {n} ({told})",
     "the kernel ended a process, for want of RAM", "Linux, mm/oom_kill.c",
     "the RAM of the machine, or of its container or job, is full: not the card's memory"},
    {"systemd-oomd", "systemd-oomd", "", OomRank::kBare,
     "due to memory pressure for {} being {told} for > || systemd-oomd killed {n} "
     "process",
     "systemd-oomd ended programs that wait for memory",
     "systemd/systemd#23606, src/oom/oomd-manager.c",
     "that is pressure: the share of time that they wait for memory, not its size"},
    {"systemd-oomd-swap", "systemd-oomd", "", OomRank::kBare,
     "due to memory used ({used}) / total ({total})",
     "systemd-oomd ended programs: RAM and swap are nearly full",
     "systemd, src/oom/oomd-manager.c"},
    {"systemd-unit", "systemd-oomd", "", OomRank::kBare,
     "Failed with result 'oom-kill' || A process of this unit has been killed by the OOM killer",
     "the kernel ended a service, for want of RAM", "systemd, src/core/unit.c"},
    {"earlyoom", "earlyoom", "", OomRank::kBare,
     "low memory! at or below SIGTERM limits{?}{}VmRSS {allocated} || low memory! at or below "
     "SIGKILL limits{?}{}VmRSS {allocated} || sending SIGTERM to process {n} uid {n} \"{told}\"",
     "earlyoom ended a program: the machine's RAM is nearly full", "rfjakob/earlyoom#121, #205"},
    {"jetsam", "macOS", "", OomRank::kBare,
     "memorystatus: killing_ || memorystatus: killing || RESOURCE_TYPE_MEMORY || JetsamEvent || "
     "per-process-limit || vm-compressor-space-shortage",
     "macOS or iOS ended a program for want of memory", "xnu, bsd/kern/kern_memorystatus.c",
     "programs and GPU share this memory, and each program has a limit"},
    {"wsl", "WSL", "", OomRank::kSign, "dxgkio_make_resident: Ioctl failed: -12",
     "WSL found no memory for the card", "microsoft/WSL, drivers/hv/dxgkrnl",
     "the virtual machine's RAM or the card is full: .wslconfig has its limit"},

    // Disks, files and threads, whose words people take for those of memory.
    {"disk", "the system", "", OomRank::kBare,
     "[Errno 28] || (os error 28) || errno = 28 || code: 28, kind: StorageFull || No space left on "
     "device || Disk quota exceeded || There is not enough space on the disk",
     "a disk, or a folder in memory, is full", "POSIX, ENOSPC and EDQUOT; Windows, error 112",
     "that is a disk, not memory, unless the path is in /dev/shm or another tmpfs: df -h shows it",
     OomResource::kDisk},
    {"files", "the system", "", OomRank::kBare,
     "[Errno 24] Too many open files || (os error 24) || socket: too many open files || "
     "Too many open files",
     "a process has as many files open as it may", "POSIX, EMFILE", "", OomResource::kFiles},
    {"inotify", "the system", "", OomRank::kBare,
     "[Errno 28] inotify watch limit reached || [Errno 24] inotify instance limit reached || "
     "inotify watch limit reached || inotify instance limit reached || System limit for number of "
     "file watchers reached",
     "the system watches no more files (inotify)",
     "watchdog, observers/inotify_c.py, 2 to 6; Node.js' ENOSPC of fs.watch",
     "the error is that of a full disk (ENOSPC), but it is the number of watches that is used up",
     OomResource::kFiles},
    {"threads", "the system", "", OomRank::kBare,
     "pthread_create failed || can't start new thread || fork: retry: Resource temporarily "
     "unavailable || fork: Resource temporarily unavailable || unable to create native thread",
     "no more threads or processes can be started", "POSIX, EAGAIN; CPython; OpenBLAS; OpenJDK",
     "that is a limit on their number (ulimit -u, pids.max), or no RAM for their stacks",
     OomResource::kFiles},

    // Errors of systems, by their numbers: words are translated.
    {"windows-commit", "Windows", "", OomRank::kBare,
     "WinError 1455 || os error 1455) || The paging file is too small || error 1455 || "
     "ERROR_COMMITMENT_LIMIT || STATUS_COMMITMENT_LIMIT || 0xC000012D || low virtual memory "
     "condition",
     "Windows has no more memory to promise: RAM and page file are full",
     "Windows, ERROR_COMMITMENT_LIMIT",
     "each process that loads CUDA's libraries promises gigabytes: DataLoader workers, above all"},
    {"windows-memory", "Windows", "", OomRank::kBare,
     "[WinError 8] || WinError 14] || ERROR_NOT_ENOUGH_MEMORY || ERROR_OUTOFMEMORY || (os error "
     "14) || STATUS_NO_MEMORY || 0xC0000017",
     "Windows found no memory", "Windows, ERROR_NOT_ENOUGH_MEMORY"},
    {"errno-12", "the system", "", OomRank::kBare,
     "[Errno 12] || os error 12) || (errno 12 || ENOMEM", "the system refused memory (errno 12)",
     "POSIX, ENOMEM",
     "RAM and swap are full, or a limit of the process: fork promises as much again as it holds"},
    {"cannot-allocate", "the system", "", OomRank::kBare, "Cannot allocate memory",
     "the system refused memory (errno 12)", "POSIX, ENOMEM",
     "RAM and swap are full, or a limit of the process: fork promises as much again as it holds"},
    {"bus-error", "the system", "", OomRank::kSign,
     "Bus error (core dumped) || Bus error: 10 || terminated with signal SIGBUS || Fatal Python "
     "error: Bus error",
     "a program died of a bus error: most often shared memory or a disk is full", "shells",
     "a file in /dev/shm that no memory is left for ends who reads it", OomResource::kSharedMemory},
    {"sigkill", "the system", "", OomRank::kSign,
     "exits with return code = -9 || returncode=-9 || return code: -9 || exited "
     "on signal 9 || terminated by signal 9 || terminated with signal SIGKILL || signal: killed || "
     "Exit status: 137 || exitcode=-9 || failed (exitcode: -9)",
     "a process was killed (signal 9): most often the machine's RAM is full",
     "DeepSpeed's launcher, mpirun, Go, torch.multiprocessing",
     "the system ends a process that way for want of RAM, not for the card's memory"},
};

}  // namespace

std::span<const OomRow> SystemRows() { return kSystemRows; }

}  // namespace onnxfit
