"""torch.linalg's eigh and qr with what they allocate on a card, which the runtime without one does
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


def use():
    import torch
    torch.linalg.eigh, torch.linalg.qr = eigh, qr
