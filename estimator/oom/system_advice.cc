// What helps where the machine's RAM was the matter: in the words of schedulers, containers,
// systems, languages and data bases.
#include "estimator/oom/programs.h"

namespace onnxfit {
namespace {

constexpr OomAdvice kSystemAdvice[] = {
    // Schedulers, containers, clouds.
    {"Ray", Help::kYes, "fewer tasks or actors at once on a node",
     "num_cpus=2 or memory=8 * 1024**3 in @ray.remote: Ray then starts fewer of them"},
    {"Ray", Help::kMaybe, "a smaller object store, del of references",
     "ray.init(object_store_memory=…); ray memory shows who holds what; it is 30 % of RAM"},
    {"Ray", Help::kMaybe, "RAY_memory_usage_threshold, RAY_memory_monitor_refresh_ms=0",
     "the limit is 0.95 of RAM; without it the kernel ends processes, and not always the right "
     "one"},
    {"slurm", Help::kYes, "a higher --mem, or --mem-per-cpu",
     "sbatch --mem=64G; --mem=0 takes all of the node; sacct's MaxRSS says how much it took"},
    {"PBS", Help::kYes, "a higher mem in the request",
     "qsub -l select=1:ncpus=8:mem=64gb (PBS Pro), -l mem=64gb,vmem=64gb (Torque)"},
    {"LSF", Help::kYes, "a higher -M and rusage[mem]",
     "bsub -M 64000 -R \"rusage[mem=64000]\": in MB or KB, as LSF_UNIT_FOR_LIMITS has it"},
    {"Grid Engine", Help::kYes, "a higher h_vmem",
     "qsub -l h_vmem=16G, for each slot; with CUDA h_rss or m_mem_free limits in its place"},
    {"HTCondor", Help::kYes, "a higher request_memory",
     "request_memory = 64GB in the submit file; condor_qedit JOB RequestMemory 65536 and "
     "condor_release for one that is held"},
    {"Kubernetes", Help::kYes, "a higher resources.limits.memory, and requests as high",
     "pods that take more than they requested are evicted first"},
    {"Kubernetes", Help::kMaybe, "an emptyDir of medium Memory with a sizeLimit at /dev/shm",
     "what lies in it counts as the container's memory"},
    {"Hugging Face Spaces", Help::kYes, "hardware with more RAM", "in the Space's settings"},
    {"Cloud Run", Help::kYes, "a higher --memory, or a lower --concurrency",
     "gcloud run services update SERVICE --memory 4Gi"},
    {"AWS Lambda", Help::kYes, "a higher memory size", "up to 10240 MB; of ECS the task's memory"},
    {"Heroku", Help::kYes, "a larger dyno, or fewer web workers", "WEB_CONCURRENCY"},
    {"Kaggle", Help::kYes, "loading in parts, smaller types",
     "its machines have 30 GB; float32 and category instead of float64 and object"},
    {"Jupyter", Help::kYes, "del of what is not needed, a new kernel",
     "all notebooks that are open keep what their cells made"},
    {"a CI service", Help::kYes, "a larger runner, fewer jobs at once",
     "GitHub's have 16 GB (7 GB in private repositories of old)"},

    // Systems.
    {"the kernel", Help::kMaybe, "swap, or a limit for the job alone",
     "systemd-run --scope -p MemoryMax=60G ends this job in place of others"},
    {"systemd-oomd", Help::kMaybe, "ManagedOOMMemoryPressure=auto for the slice, or more swap",
     "systemctl stop systemd-oomd leaves it to the kernel; oomctl shows the limits"},
    {"earlyoom", Help::kMaybe, "other limits (-m 4 -s 10), or --avoid for a program",
     "EARLYOOM_ARGS in /etc/default/earlyoom"},
    {"macOS", Help::kYes, "closing other programs, a smaller model",
     "an iPhone's app has about half of its RAM: the increased-memory-limit entitlement gives "
     "more"},
    {"WSL", Help::kYes, "a higher limit in %UserProfile%\\.wslconfig",
     "[wsl2] memory=48GB: half of the RAM unless told; then wsl --shutdown"},
    {"Windows", Help::kYes, "a larger page file",
     "System, Advanced, Performance, Virtual memory: as much as RAM, on a fast disk"},
    {"Windows", Help::kYes, "fewer DataLoader workers (num_workers)",
     "each loads CUDA's libraries anew, and Windows sets gigabytes aside for each"},
    {"the system", Help::kMaybe, "vm.overcommit_memory=1, more swap",
     "fork promises as much again as the process holds; sysctl shows the setting, ulimit -v a "
     "limit"},

    // Languages.
    {"Java", Help::kYes, "a larger heap (-Xmx)",
     "java -Xmx16g, or JAVA_TOOL_OPTIONS=-Xmx16g; by default a quarter of RAM"},
    {"Java", Help::kMaybe, "-XX:MaxDirectMemorySize, -XX:MaxMetaspaceSize, smaller -Xss",
     "where it is not the heap that is full"},
    {"Spark", Help::kYes, "a higher spark.executor.memoryOverhead, or spark.executor.memory",
     "Python's workers and native memory are in the overhead: a tenth of the heap unless told"},
    {"Spark", Help::kYes, "more partitions, fewer cores for each executor",
     "spark.sql.shuffle.partitions, repartition(): each task then has less at once"},
    {"Spark", Help::kMaybe, "spark.sql.autoBroadcastJoinThreshold=-1, a higher spark.driver.memory",
     "where the driver fails: collect() and broadcasts bring all to it"},
    {"Node.js", Help::kYes, "a larger heap", "NODE_OPTIONS=--max-old-space-size=8192, in MB"},
    {"WebAssembly", Help::kYes, "a smaller model, or several modules",
     "a 32-bit module has 4 GiB at most; -sALLOW_MEMORY_GROWTH and MAXIMUM_MEMORY are its limits"},
    {"R", Help::kYes, "fewer copies, data.table or arrow",
     "rm() and gc(); mem.maxVSize() or R_MAX_VSIZE lifts a limit of R's own"},
    {"Julia", Help::kYes, "views and in-place functions, --heap-size-hint=16G",
     "slices are copies unless @views"},
    {"MATLAB", Help::kYes, "single instead of double, tall or sparse arrays",
     "the limit of array size is in Preferences, Workspace; gpuDevice(1) empties the card"},
    {"Octave", Help::kYes, "single precision, sparse arrays", "an array lies in one piece"},
    {"Mathematica", Help::kYes, "packed arrays, $HistoryLength = 0", "each Out[n] is kept"},
    {"PHP", Help::kYes, "a higher memory_limit", "in php.ini, or php -d memory_limit=1G"},
    {"Rust", Help::kYes, "working in parts",
     "of polars scan_parquet and collect(engine=\"streaming\") in the place of read_parquet"},
    {"Polars", Help::kYes, "scan_parquet and collect(engine=\"streaming\")",
     "the table then passes in parts"},
    {"Go", Help::kYes, "GOMEMLIMIT, a lower GOGC", "collects sooner"},
    {".NET", Help::kYes, "a 64-bit process, smaller arrays",
     "one object has 2 GB at most unless told"},
    {"Arrow", Help::kYes, "iter_batches(), or a dataset's scanner",
     "ParquetFile.iter_batches and dataset.to_batches hold no whole table"},
    {"pandas", Help::kYes, "chunksize, usecols, dtype=", "float32 and category take half, or less"},
    {"Dask", Help::kYes, "smaller partitions, a higher memory_limit for each worker",
     "LocalCluster(n_workers=…, memory_limit=\"16GB\"): the machine's RAM shared by all"},
    {"Python", Help::kYes, "smaller types, or in parts",
     "float32 instead of float64; np.memmap; generators in the place of lists"},
    {"a program in C++", Help::kMaybe, "a smaller input or batch",
     "who asked is told by a debugger (catch throw), or the lines above"},
    {"a compiler", Help::kYes, "fewer compilers at once",
     "MAX_JOBS=2 pip install …, make -j2, ninja -j2; NVCC_THREADS=1; for one architecture "
     "(TORCH_CUDA_ARCH_LIST)"},
    {"a compiler", Help::kMaybe, "a wheel that is built already",
     "of flash-attn and its like the releases have them"},
    {"git", Help::kYes, "git config pack.windowMemory 256m, pack.threads 1",
     "a shallow clone, too"},

    // Data bases.
    {"DuckDB", Help::kYes, "SET memory_limit, SET temp_directory, fewer threads",
     "with a folder it spills to disk; preserve_insertion_order=false keeps less"},
    {"ClickHouse", Help::kYes, "max_bytes_before_external_group_by, a higher max_memory_usage",
     "it then groups and sorts on disk"},
    {"PostgreSQL", Help::kYes, "a lower work_mem, fewer connections",
     "each sort of each connection takes as much"},
    {"Redis", Help::kYes, "a higher maxmemory, or maxmemory-policy allkeys-lru", "in redis.conf"},
    {"Elasticsearch", Help::kYes, "smaller requests, a larger heap", "ES_JAVA_OPTS=-Xmx16g"},
};

}  // namespace

std::span<const OomAdvice> SystemAdvice() { return kSystemAdvice; }

}  // namespace onnxfit
