"""What tools/cuda_functions.py makes of a prototype: places by the calling convention, what is
written through pointers, and the table of several releases. Without libclang: prototypes are
written down as it would read them.

    cuda_functions_test.py
"""

import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tools"))
from cuda_functions import Source, bare, disagreements, rows_of  # noqa: E402
from cuda_prototypes import Prototype, Type, described  # noqa: E402

INT, LONG = Type("integer", 4, 4), Type("integer", 8, 8)
FLOAT, DOUBLE = Type("float", 4, 4), Type("float", 8, 8)
CHAR, VOID, INCOMPLETE = Type("char", 1, 1), Type("void"), Type("incomplete")
STATUS = Type("status", 4, 4)
DIM3 = Type("struct", 12, 4, parts={0: "integer", 4: "integer", 8: "integer"})
COMPLEX = Type("struct", 8, 8, parts={0: "float", 4: "float"})
COMPLEX16 = Type("struct", 16, 16, parts={0: "float", 8: "float"})
MIXED = Type("struct", 16, 8, parts={0: "float", 8: "integer"})
BOTH = Type("struct", 8, 4, parts={0: "float", 4: "integer"})
LARGE = Type("struct", 64, 8)
HALF = Type("struct", 2, 2, parts={0: "integer"})
NO_STATUS = Type("integer", 8, 8)


def to(type_):
    return Type("pointer", 8, 8, of=type_)


def const(type_):
    return type_._replace(const=True)


HANDLE = to(INCOMPLETE)
WRAPPED = Type("struct", 8, 8, parts={0: "pointer"})


def row(*types, returns=STATUS, library="cublas", name="cublasF", names=()):
    names = names or ["a"] * len(types)
    return described(library, Prototype(name, returns, list(zip(names, types))))


class WrittenTest(unittest.TestCase):
    def test_kinds(self):
        for type_, text in ((to(HANDLE), "1h"), (to(WRAPPED), "1h"), (to(to(VOID)), "1h"),
                            (to(to(const(CHAR))), "1z8"), (to(INT), "1z4"), (to(LONG), "1z8"),
                            (to(HALF), "1z2"), (to(COMPLEX), "1z8"), (to(COMPLEX16), "1z16"),
                            (to(VOID), ""), (to(CHAR), ""), (HANDLE, ""), (to(LARGE), ""),
                            (to(DIM3), ""), (to(const(INT)), ""), (to(const(HANDLE)), ""),
                            (INT, ""), (LARGE, "")):
            with self.subTest(type_=type_):
                self.assertEqual(row(type_), text)

    def test_sizes(self):
        for library, name, type_, text in (
                ("cudnn", "workSpaceSizeInBytes", LONG, "1s8"), ("cusolver", "lwork", INT, "1s4"),
                ("cusparse", "pBufferSizeInBytes", INT, "1s4"), ("cudnn", "hiddenSize", INT, "1z4"),
                ("cublaslt", "sizeWritten", LONG, "1z8"), ("cudart", "size", LONG, "1z8"),
                ("cusolver", "lwork", FLOAT, "1z4")):
            with self.subTest(name=name, library=library):
                self.assertEqual(row(to(type_), library=library, names=[name]), text)

    def test_size_of_what_a_descriptor_has(self):
        self.assertEqual(row(to(LONG), library="cusparse", name="cusparseDnVecGet", names=["size"]),
                         "1z8")

    def test_what_the_caller_fills(self):
        for name, argument in (("cuLaunchKernel", "kernelParams"), ("cublasSetVector", "a"),
                               ("cuModuleLoadDataEx", "optionValues"), ("nvrtcDestroyProgram", "a"),
                               ("cuMemcpyBatchAsync_v2", "dsts")):
            with self.subTest(name=name):
                self.assertEqual(row(to(HANDLE), name=name, names=[argument]), "")
        self.assertEqual(row(to(LONG), name="cuMemcpyBatchAsync", names=["failIdx"]), "1z8")


class PlacesTest(unittest.TestCase):
    OUT = to(INT)

    def test_integers_then_the_stack(self):
        self.assertEqual(row(*[self.OUT] * 8), "1z4 2z4 3z4 4z4 5z4 6z4 7z4 8z4")

    def test_floating_point_has_no_place(self):
        self.assertEqual(row(DOUBLE, self.OUT, FLOAT, COMPLEX, COMPLEX16, self.OUT), "1z4 2z4")

    def test_the_ninth_floating_point_is_on_the_stack(self):
        self.assertEqual(row(*[FLOAT] * 9, *[INT] * 6, self.OUT), "8z4")
        self.assertEqual(row(*[FLOAT] * 8, *[INT] * 6, self.OUT), "7z4")

    def test_structs_in_registers(self):
        self.assertEqual(row(DIM3, self.OUT), "3z4")
        self.assertEqual(row(MIXED, self.OUT), "2z4")
        self.assertEqual(row(BOTH, self.OUT), "2z4")

    def test_a_struct_that_does_not_fit_leaves_the_register_to_the_next(self):
        self.assertEqual(row(*[INT] * 5, DIM3, self.OUT, self.OUT), "6z4 9z4")

    def test_large_structs_lie_on_the_stack(self):
        self.assertEqual(row(LARGE, self.OUT, *[INT] * 5, self.OUT), "1z4 15z4")

    def test_sixteen_bytes_are_aligned_on_the_stack(self):
        self.assertEqual(row(*[DOUBLE] * 7, *[INT] * 7, COMPLEX16, self.OUT), "11z4")

    def test_a_struct_in_memory_takes_the_first(self):
        self.assertEqual(row(self.OUT, returns=LARGE), "rm 1z64 2z4")


class ReturnedTest(unittest.TestCase):
    def test_kinds(self):
        for type_, text in ((STATUS, ""), (to(const(CHAR)), "rt"), (to(VOID), "rp"), (VOID, "rv"),
                            (NO_STATUS, "rn"), (FLOAT, "rf"), (COMPLEX, "rf"), (MIXED, "rf"),
                            (LARGE, "rm 1z64"), (DIM3, "")):
            with self.subTest(type_=type_):
                self.assertEqual(row(returns=type_), text)


class TableTest(unittest.TestCase):
    SOURCES = [Source(["nvidia-nccl==1"], [], {"libnccl.so.2": {"ncclA", "ncclB", "internal"}}),
               Source(["nvidia-nccl==2"], [], {"libnccl.so.2": {"ncclA", "ncclC_ptsz"}})]
    TEXTS = [{"ncclA": "1h", "ncclHeader": ""}, {"ncclA": "2h", "ncclC": "1z4"}]

    def test_the_last_source_counts(self):
        self.assertEqual(rows_of("nccl", self.SOURCES, self.TEXTS),
                         {"ncclA": "2h", "ncclB": "?", "ncclC_ptsz": "1z4"})

    def test_its_own_text_before_that_of_a_sibling(self):
        sources = [Source([], [], {"libnccl.so.2": {"ncclD", "ncclD_ptsz"}})]
        texts = {"ncclD": "1h", "ncclD_ptsz": "2h"}
        self.assertEqual(rows_of("nccl", sources, [texts]), texts)

    def test_what_the_compiler_calls(self):
        sources = [Source([], [], {"libcudart.so.13": {"__cudaRegisterFunction"}})]
        self.assertEqual(rows_of("cudart", sources, []), {"__cudaRegisterFunction": "rv"})

    def test_of_the_driver_headers_count(self):
        texts = [{"cuInit": "", "cuMemAlloc": "1z8"}]
        self.assertEqual(list(rows_of("cuda", self.SOURCES[:1], texts)), ["cuInit", "cuMemAlloc"])

    def test_disagreements_are_said(self):
        self.assertEqual(list(disagreements(self.SOURCES, self.TEXTS)),
                         ['ncclA: "1h" from 1, "2h" from 2'])

    def test_bare_names(self):
        for name, expected in (("cudaMemcpy_ptds", "cudaMemcpy"),
                               ("cuMemAlloc_v2", "cuMemAlloc_v2"),
                               ("__nvJitLinkCreate_12_4", "__nvJitLinkCreate")):
            self.assertEqual(bare(name), expected)


if __name__ == "__main__":
    unittest.main()
