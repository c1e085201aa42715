"""torch.linalg's eigh, qr and svd with what they allocate on a card, which the runtime without one does
not know: allocations of torch 2.11.0+cu130 on an H200, in their order."""


def workspace_of_eigh(n):
    tiles = -(-n // 32)
    if 32 <= n <= 512:
        return 4 * n * n + 4 * n + 16 * tiles * tiles + 4100 * tiles + 4096
    small = 12 * n * n + 3072 * n + 262540
    return small if n < 32 else max(small, 16 * n * n + 508 * n + 131980)


def scalar(dtype):
    import torch
    return torch.empty((), device="cuda", dtype=dtype)


def bytes_of(count):
    import torch
    return torch.empty(count, device="cuda", dtype=torch.uint8)


def eigh(matrix):
    import torch
    n = len(matrix)
    vectors = torch.empty(n, n, device="cuda")
    values = torch.empty(n, device="cuda")
    info = scalar(torch.int32)
    bytes_of(workspace_of_eigh(n))
    del info
    return values, vectors


def qr(matrix):
    import torch
    n = len(matrix)
    q, r, tau = torch.empty(n, n, device="cuda"), torch.empty(n, n, device="cuda"), \
        torch.empty(n, device="cuda")
    info = scalar(torch.int32)
    bytes_of(4096 * max(n + 512, 768) + 128)
    del info, tau
    return q, r


def aligned(count):
    return -(-count // 128) * 128


def workspace_of_square_svd(n):
    tiles = -(-n // 32)
    if tiles == 1:
        return 3968
    return aligned(8 * n * n) + aligned(4 * n + 4 * tiles + 16 * tiles * tiles) \
        + 8192 * tiles + 4096


def workspace_of_svd(m, n):
    if m == n:
        return workspace_of_square_svd(n)
    if m < n:
        return workspace_of_svd(n, m) + aligned(4 * m * n)
    factors = aligned(4 * m * n) + aligned(4 * n * n) + 2 * aligned(4 * n)
    return max(4096 * max(n + 512, 768) + aligned(4 * n) + 128,
               workspace_of_square_svd(n) + aligned(4 * n * n),
               factors + 1024 * m + 2048 * n + 263168)


def svd(matrix, full_matrices=False):
    """With (info != 0).any(), which asks whether it has converged."""
    import torch
    (m, n), k = matrix.shape, min(matrix.shape)
    u, vh = torch.empty(k, m, device="cuda").t(), torch.empty(k, n, device="cuda")
    s = torch.empty(k, device="cuda")
    info = scalar(torch.int32)
    copy = torch.empty(m, n, device="cuda")
    bytes_of(workspace_of_svd(m, n))
    del copy
    differs, is_any = scalar(torch.bool), scalar(torch.bool)
    del is_any, differs, info
    return u, s, vh


def use():
    import torch
    torch.linalg.eigh, torch.linalg.qr, torch.linalg.svd = eigh, qr, svd
