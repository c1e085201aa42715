// What languages, data bases and what works on tables say of the machine's RAM.
#include "estimator/oom/formats.h"

namespace onnxfit {
namespace {

constexpr OomRow kRuntimeRows[] = {
    // Java and what runs on it.
    {"jvm-heap", "Java", "", OomRank::kBare,
     "java.lang.OutOfMemoryError: Java heap space || OutOfMemoryError: Java heap space || "
     "OutOfMemoryError: GC overhead limit exceeded || OutOfMemoryError: Requested array size "
     "exceeds VM limit || OutOfMemoryError: Metaspace || OutOfMemoryError: PermGen space",
     "Java's heap is full", "OpenJDK, java.lang.OutOfMemoryError",
     "that is the limit which Java was started with (-Xmx), not the machine's RAM"},
    {"jvm-direct", "Java", "", OomRank::kFailure,
     "Cannot reserve {tried} bytes of direct buffer memory (allocated: {allocated}, limit: "
     "{allowed}",
     "", "OpenJDK 17 on, java.nio.Bits"},
    {"jvm-native", "Java", "", OomRank::kBare,
     "OutOfMemoryError: Direct buffer memory || OutOfMemoryError: unable to create",
     "Java found no memory beside its heap", "OpenJDK"},
    {"jvm-start", "Java", "", OomRank::kFailure,
     "Native memory allocation (mmap) failed to map {tried} bytes || Native memory allocation "
     "(malloc) failed to allocate {tried} bytes",
     "", "OpenJDK, src/hotspot/share/utilities/vmError.cpp",
     "that is RAM which the system refused: heaps of all Javas, or the limit of a container"},
    {"jvm-bare", "Java", "", OomRank::kBare,
     "There is insufficient memory for the Java Runtime Environment || java.lang.OutOfMemoryError",
     "Java found no memory", "OpenJDK"},
    {"spark-yarn", "Spark", "1 to 3", OomRank::kBare,
     "Container killed by YARN for exceeding memory limits. {used} of {allowed} physical memory "
     "used || Container killed by YARN for exceeding physical memory limits. {used} of {allowed} "
     "physical memory used || is running beyond physical memory limits. Current usage: {used} of "
     "{allowed} physical memory used",
     "YARN ended an executor: it took more than it may", "spark, YarnAllocator.scala"},
    {"spark-yarn-virtual", "Spark", "1 on", OomRank::kBare,
     "Container killed by YARN for exceeding memory limits. {used} of {allowed} virtual memory "
     "used || Container killed by YARN for exceeding virtual memory limits. {used} of {allowed} "
     "virtual memory used || is running beyond virtual memory limits. Current usage: {n}{} of "
     "{n}{} physical memory used; {used} of {allowed} virtual memory used || is running "
     "{}B beyond the 'VIRTUAL' memory limit. Current usage: {n}{} of {n}{} physical memory used; "
     "{used} of {allowed} virtual memory used",
     "YARN ended a container: it has more addresses (virtual memory) than YARN allows",
     "spark, YarnAllocator.scala; hadoop, ContainersMonitorImpl.java",
     "that counts addresses, not RAM in use: it is 2.1 times the container's memory unless told",
     OomResource::kLimit},
    {"spark-results", "Spark", "1.2 on", OomRank::kBare,
     "is bigger than spark.driver.maxResultSize ({allowed}) || is bigger than maxResultSize "
     "({allowed})",
     "Spark ended a job: its results are more than the driver takes", "spark, TaskSetManager.scala",
     "that is the driver's own limit, not RAM that was full", OomResource::kLimit},
    {"spark-threshold", "Spark", "", OomRank::kBare,
     "is above the max threshold ({allowed}) of this cluster",
     "YARN gives no container as large as the executor asks for", "spark, yarn/Client.scala",
     "yarn.scheduler.maximum-allocation-mb and yarn.nodemanager.resource.memory-mb are its limits",
     OomResource::kRequest},
    {"spark", "Spark", "2 on", OomRank::kFailure,
     "Unable to acquire {tried} bytes of memory, got {free}", "", "spark, SparkOutOfMemoryError"},
    {"spark-broadcast", "Spark", "", OomRank::kBare,
     "Not enough memory to build and broadcast the table",
     "Spark's driver has no memory for a table that goes to all executors",
     "spark, BroadcastExchangeExec"},

    {"spark-rapids-store", "RAPIDS for Spark", "21.12 on", OomRank::kFailure,
     "Device store exhausted, unable to allocate {tried} bytes. Total RMM allocated is {allocated} "
     "bytes",
     "", "NVIDIA/spark-rapids, DeviceMemoryEventHandler.scala, 21.12, 24.02"},
    {"spark-rapids", "RAPIDS for Spark", "23.04 on", OomRank::kBare,
     "GPU OutOfMemory: could not split inputs and retry || GpuSplitAndRetryOOM || GpuRetryOOM || "
     "rapids.jni.SplitAndRetryOOM || rapids.jni.RetryOOM || GPU OutOfMemory",
     "a task of Spark found no room on the card",
     "NVIDIA/spark-rapids, RmmRapidsRetryIterator.scala, 24.12; #11584, #8090"},
    {"spark-rapids-cpu", "RAPIDS for Spark", "23.10 on", OomRank::kBare,
     "CPU OutOfMemory: could not split inputs and retry || CpuSplitAndRetryOOM || CpuRetryOOM",
     "a task of Spark found no room in the RAM that the plugin may take",
     "NVIDIA/spark-rapids, RmmRapidsRetryIterator.scala, 24.12",
     "that is a limit of the plugin (spark.rapids.memory.host.offHeapLimit.size), not the card",
     OomResource::kLimit},

    {"android", "Android", "", OomRank::kFailure,
     "Failed to allocate a {tried} byte allocation with {free} free bytes || Failed to allocate a "
     "{tried} allocation with {free} free bytes",
     "", "AOSP, art/runtime/gc/heap.cc", "that is the heap which an app may have, not all RAM"},

    // Other languages.
    {"node", "Node.js", "", OomRank::kBare,
     "JavaScript heap out of memory || Reached heap limit Allocation failed || Ineffective "
     "mark-compacts near heap limit",
     "JavaScript's heap is full", "V8, FatalProcessOutOfMemory",
     "that is V8's own limit, not the machine's RAM"},
    {"node-array", "Node.js", "", OomRank::kBare,
     "RangeError: Array buffer allocation failed || RangeError: Invalid typed array length",
     "JavaScript found no memory for an array", "V8"},
    {"wasm", "WebAssembly", "", OomRank::kBare,
     "Aborted(OOM) || Cannot enlarge memory arrays || WebAssembly.Memory(): could not allocate "
     "memory || WebAssembly.instantiate(): Out of memory || Out of memory: Cannot allocate Wasm "
     "memory || RangeError: Out of memory",
     "WebAssembly's memory is full", "Emscripten; V8"},
    {"r-vector", "R", "", OomRank::kFailure,
     "cannot allocate vector of size {tried} || vector memory limit of {tried} reached", "",
     "R, src/main/memory.c", "R asks for a vector in one piece, and copies what it changes"},
    {"r-limit", "R", "", OomRank::kBare,
     "vector memory exhausted (limit reached?) || memory exhausted (limit reached?)",
     "R's memory is full", "R for macOS, src/main/memory.c"},
    {"julia", "Julia", "", OomRank::kBare,
     "ERROR: OutOfMemoryError() || LoadError: OutOfMemoryError() || TaskFailedException: "
     "OutOfMemoryError()",
     "Julia found no RAM", "julia, src/gc.c"},
    {"matlab-array", "MATLAB", "", OomRank::kFailure,
     "{tried}) array exceeds maximum array size preference{?} ({allowed})", "",
     "MATLAB, MATLAB:array:SizeLimitExceeded"},
    {"matlab-gpu", "MATLAB", "", OomRank::kBare,
     "Out of memory on device. To view more detail about available memory on the GPU",
     "MATLAB found no room on the card", "MATLAB, parallel:gpu:array:OOM"},
    {"matlab", "MATLAB", "", OomRank::kBare,
     "Out of memory. Type \"help memory\" for your options || Out of memory. Type HELP MEMORY || "
     "Out of memory. The likely cause is an infinite recursion",
     "MATLAB found no RAM", "MATLAB, MATLAB:nomem"},
    {"octave", "Octave", "", OomRank::kBare, "out of memory or dimension too large for Octave",
     "Octave found no RAM", "Octave, liboctave"},
    {"mathematica", "Mathematica", "", OomRank::kBare,
     "No more memory available. Mathematica kernel has shut down || General::nomem",
     "Mathematica found no RAM", "Wolfram Language, General::nomem"},
    {"php", "PHP", "", OomRank::kFailure,
     "Allowed memory size of {allowed} bytes exhausted (tried to allocate {tried} bytes) || "
     "Allowed memory size of {allowed} bytes exhausted at {} (tried to allocate {tried} bytes)",
     "", "php-src, Zend/zend_alloc.c", "that is PHP's memory_limit, not the machine's RAM"},
    {"rust", "Rust", "", OomRank::kFailure, "memory allocation of {tried} bytes failed", "",
     "rust, library/std/src/alloc.rs", "polars and other tools in Rust say this"},
    {"go", "Go", "", OomRank::kBare,
     "fatal error: runtime: out of memory || runtime: cannot allocate memory || cannot allocate "
     "heap metadata",
     "a program in Go found no RAM", "go, src/runtime/malloc.go"},
    {"dotnet", ".NET", "", OomRank::kBare,
     "System.OutOfMemoryException || System.InsufficientMemoryException",
     "a program of .NET found no RAM", "dotnet/runtime"},
    {"ruby", "Ruby", "", OomRank::kBare, "failed to allocate memory (NoMemoryError)",
     "Ruby found no RAM", "ruby, gc.c"},
    {"arrow", "Arrow", "", OomRank::kFailure,
     "ArrowMemoryError: malloc of size {tried} failed || ArrowMemoryError: realloc of size {tried} "
     "failed || Out of memory: malloc of size {tried} failed || Out of memory: realloc of size "
     "{tried} failed",
     "", "arrow, cpp/src/arrow/memory_pool.cc"},
    {"python-array", "Python", "", OomRank::kBare,
     "numpy.core._exceptions.MemoryError || _ArrayMemoryError || MemoryError: Unable to allocate "
     "output || MemoryError: could not allocate",
     "Python found no RAM for an array", "numpy/core/_exceptions.py"},
    {"cpp", "a program in C++", "", OomRank::kBare,
     "std::bad_alloc || MemoryError: bad allocation || error: bad allocation || bad_alloc",
     "a program in C++ found no memory", "C++, operator new",
     "that is RAM as a rule; libraries of CUDA throw it for the card's memory, too"},
    {"python", "Python", "", OomRank::kBare,
     "MemoryError: || {|}MemoryError{|} || {|}MemoryError()", "Python found no RAM",
     "CPython, Objects/obmalloc.c"},

    // Compilers, build tools.
    {"gcc", "a compiler", "", OomRank::kFailure,
     "out of memory allocating {tried} bytes after a total of {allocated} bytes || out of memory "
     "allocating {tried} bytes after",
     "", "gcc, libiberty/xmalloc.c"},
    {"compiler-killed", "a compiler", "", OomRank::kBare,
     "Killed ninja: build stopped || Killed make || Killed signal terminated program || died due "
     "to signal 9 (Kill signal) || error: unable to "
     "execute command: Killed || internal compiler error: Killed || virtual memory exhausted || "
     "LLVM ERROR: out of memory || fatal error C1060: compiler is out of heap space || fatal "
     "error C1002 || nvcc fatal : Memory allocation failure || ptxas fatal : Memory allocation "
     "failure || signal: 9, SIGKILL: kill || terminated with signal 9 [Killed]",
     "the system ended a compiler for want of RAM", "gcc, nvcc, clang, MSVC",
     "as many compilers run at once as the build starts, and each takes gigabytes for kernels"},
    {"git", "git", "", OomRank::kFailure,
     "fatal: Out of memory, malloc failed (tried to allocate {tried} bytes)", "", "git, wrapper.c"},

    // Data bases and engines of queries.
    {"duckdb", "DuckDB", "", OomRank::kFailure,
     "could not allocate block of size {tried} ({used}/{total} used) || failed to allocate data of "
     "size {tried} ({used}/{total} used) || failed to pin block of size {tried} ({used}/{total} "
     "used) || failed to offload data block of size {tried} ({used}/{total} used)",
     "", "duckdb, src/storage/buffer_manager",
     "that is DuckDB's memory_limit, 80 % of RAM by default"},
    {"clickhouse", "ClickHouse", "", OomRank::kFailure,
     "would use {plan} (attempt to allocate chunk of {n} bytes), {}maximum: {allowed} || would use "
     "{plan} (attempt to allocate chunk of {n} B), {}maximum: {allowed}",
     "", "ClickHouse, src/Common/MemoryTracker.cpp"},
    {"trino", "Trino", "", OomRank::kBare,
     "Query exceeded per-node memory limit of {allowed} [Allocated: {allocated}, || Query exceeded "
     "distributed user memory limit of {allowed} || Query exceeded per-node user memory limit of "
     "{allowed} [Allocated: {allocated},",
     "Trino ended a query: it took more memory than it may", "trino, ExceededMemoryLimitException"},
    {"mysql", "MySQL", "", OomRank::kFailure, "Out of memory (Needed {tried} bytes", "",
     "mysql, messages_to_clients.txt, ER_OUTOFMEMORY"},
    {"mongodb", "MongoDB", "", OomRank::kBare,
     "Exceeded memory limit for $ || Sort exceeded memory limit of {allowed} bytes",
     "MongoDB ended a stage of a pipeline: it took more than 100 MB",
     "mongodb, QueryExceededMemoryLimit"},
    {"bigquery", "BigQuery", "", OomRank::kBare, "could not be executed in the allotted memory",
     "BigQuery ended a query: it took too much memory", "BigQuery, resourcesExceeded"},
    {"fortran", "Fortran", "", OomRank::kFailure,
     "Error allocating {tried} bytes Error termination || Allocation would exceed memory limit || "
     "insufficient virtual memory || ALLOCATE: {tried} bytes requested; not enough memory",
     "", "libgfortran, ifort (severe 41), nvfortran", "that is RAM, not the card's memory"},
    {"postgres", "PostgreSQL", "", OomRank::kFailure, "Failed on request of size {tried}", "",
     "postgres, src/backend/utils/mmgr/aset.c"},
    {"redis", "Redis", "", OomRank::kBare, "OOM command not allowed when used memory",
     "Redis' memory is full", "redis, src/server.c, maxmemory"},
    {"redis-fork", "Redis", "", OomRank::kBare,
     "Can't save in background: fork: Cannot allocate memory || overcommit_memory is set to 0! "
     "Background save may fail",
     "Redis cannot fork to save: the system does not promise the memory twice",
     "redis, src/rdb.c, src/syscheck.c", "", OomResource::kPromised},
    {"postgres-shm", "PostgreSQL", "", OomRank::kFailure,
     "could not resize shared memory segment \"{node}\" to {tried} bytes: No space left on device",
     "", "postgres, src/backend/storage/ipc/dsm_impl.c",
     "that is /dev/shm, of which a container has 64 MiB unless told", OomResource::kSharedMemory},
    {"elasticsearch-maps", "Elasticsearch", "", OomRank::kBare,
     "max virtual memory areas vm.max_map_count [{count}] is too low",
     "Elasticsearch does not start: a process may have too few mappings of memory",
     "elasticsearch, BootstrapChecks", "", OomResource::kMappings},
    {"elasticsearch", "Elasticsearch", "", OomRank::kFailure,
     "Data too large, data for [{}] would be [{plan}/{}], which is larger than the limit of "
     "[{allowed}/",
     "", "elasticsearch, CircuitBreakingException"},
    {"dask-paused", "Dask", "", OomRank::kWarning,
     "memory usage. Pausing worker. Process memory: {allocated} -- Worker memory limit: {allowed}",
     "Dask paused a worker: its memory is nearly full", "distributed, worker_memory.py",
     "it takes no tasks until others have taken over what it keeps"},
    {"dask", "Dask", "", OomRank::kBare,
     "% memory budget. Restarting || exceeded 95% memory budget || "
     "distributed.scheduler.KilledWorker "
     "|| KilledWorker:",
     "Dask ended a worker: it took more than its share of RAM", "distributed, worker_memory.py"},
    {"dask-high", "Dask", "", OomRank::kWarning,
     "Unmanaged memory use is high.{}Unmanaged memory: {used} -- Worker memory limit: {allowed} || "
     "Memory use is high but worker has no data to store to disk.{}Process memory: {allocated} -- "
     "Worker memory limit: {allowed}",
     "memory of a Dask worker that Dask does not manage is much", "distributed, worker_memory.py",
     "what Python or libraries have freed but not given back counts, too"},
    {"joblib", "joblib", "", OomRank::kSign,
     "by an excessive memory usage causing the Operating System to kill the worker",
     "a worker of joblib ended: most often the machine's RAM is full",
     "joblib, externals/loky/process_executor.py"},
    {"process-pool", "Python", "", OomRank::kSign,
     "A process in the process pool was terminated abruptly",
     "a process of a pool ended: most often the machine's RAM is full",
     "CPython, Lib/concurrent/futures/process.py"},
    {"openblas", "OpenBLAS", "", OomRank::kBare,
     "OpenBLAS error: Memory allocation still failed || BLAS : Program is Terminated. Because you "
     "tried to allocate too many memory regions",
     "OpenBLAS found no memory for its threads' buffers", "OpenBLAS, driver/others/memory.c"},
    {"office", "a program", "", OomRank::kBare,
     "Your system has run out of application memory || There is not enough memory to run || "
     "stopped processing this step because of insufficient memory",
     "the machine's RAM is full", "macOS', Windows' and SAS' own words"},
};

}  // namespace

std::span<const OomRow> RuntimeRows() { return kRuntimeRows; }

}  // namespace onnxfit
