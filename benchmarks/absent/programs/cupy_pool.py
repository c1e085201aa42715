"""Products, a sort, a solver and a kernel of CuPy's, whose pool holds what it is asked for to 512 bytes."""

import cupy

SIDE = 2048


def main():
    pool = cupy.get_default_memory_pool()
    x = cupy.random.standard_normal((SIDE, SIDE), dtype=cupy.float32)
    before = pool.used_bytes()
    y = cupy.ones((SIDE, SIDE), dtype=cupy.float32)
    assert pool.used_bytes() - before == 4 * SIDE * SIDE
    z = cupy.maximum(x @ y, 0)
    order = cupy.argsort(z.ravel())  # thrust, whose runtime is linked into it
    assert order.dtype == cupy.int64 and order.size == SIDE * SIDE
    cupy.linalg.solve(x, y)
    scaled = cupy.ElementwiseKernel("T x", "T z", "z = x * 2", "scaled")(z)
    assert pool.used_bytes() - before == 4 * SIDE * SIDE * 3 + 8 * SIDE * SIDE
    del scaled
    free, total = cupy.cuda.runtime.memGetInfo()
    assert total - free >= pool.total_bytes() >= pool.used_bytes()
    try:
        cupy.empty(total, dtype=cupy.uint8)
    except cupy.cuda.memory.OutOfMemoryError:
        return x, y, z, order
    raise AssertionError("a card has no room for all of itself")


held = main()  # until it ends, where its figures are read
