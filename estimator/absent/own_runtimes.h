// NVIDIA's runtime linked into a program or a library of its own (cudart_static), as nvcc does it
// unless it is told otherwise, and CuPy 14: the loader does not ask us for its functions.
#pragma once

namespace onnxfit::absent {

// Has the functions of such runtimes lead to the card's of the same names, in what has been loaded
// since the last call: a jump at the beginning of each, in this process's memory alone.  They are
// found by the file's table of symbols, or by what it shows as _cudaMalloc (CUTLASS DSL); another
// file without such a table (strip) keeps its runtime, which asks for NVIDIA's private tables and
// is told of (cuGetExportTable).  NVIDIA's own libraries keep theirs, too.  Reads the tables of
// what was loaded: some milliseconds for a large one.
void ReplaceOwnRuntimes();

// A function of the first such runtime that needs no card and was left as it is: versions, texts.
// Null where there is none.
void* OwnRuntimeFunction(const char* name);

}  // namespace onnxfit::absent
