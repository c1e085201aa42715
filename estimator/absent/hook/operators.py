"""What is known of PyTorch's operators: which read values, which make nothing, which write without
reading.  values.py asks it of each call."""

import torch

Key = torch._C.DispatchKey

# Read by the host, and what the report calls it.
READS = {"aten::_local_scalar_dense": "item()", "aten::is_nonzero": "bool()",
         "aten::equal": "equal()", "aten::allclose": "allclose()",
         "aten::_nested_tensor_from_mask_left_aligned": "nested_tensor_from_mask()"}
# Its result's size is a value, of its first argument or of the one that is named.
SIZED_BY_VALUES = {"aten::nonzero": "nonzero()", "aten::masked_select": "masked_select()",
                   "aten::_unique2": "unique()", "aten::unique_dim": "unique()",
                   "aten::unique_consecutive": "unique_consecutive()",
                   "aten::unique_dim_consecutive": "unique_consecutive()",
                   "aten::repeat_interleave": "repeat_interleave()",
                   "aten::bincount": "bincount()", "torchvision::nms": "nms()",
                   "aten::_nested_tensor_from_mask": "nested_tensor_from_mask()"}
SPARSE_SIZES = {"aten::_coalesce": "coalesce()"}
SIZED_BY_SECOND = {"aten::masked_select", "aten::_nested_tensor_from_mask"}
# A copy between host and card.
COPIES = {"aten::_to_copy", "aten::copy_", "aten::_foreach_copy_", "aten::_copy_from"}
# Makes a tensor without writing to it.
UNWRITTEN = {"aten::empty", "aten::empty_strided", "aten::empty_like", "aten::new_empty",
             "aten::new_empty_strided", "aten::resize_", "aten::set_", "aten::detach",
             "aten::record_stream", "aten::_resize_output_"}
# Takes a tensor for its shape: what is in it, nobody reads.
OF_SHAPE = {"aten::full_like", "aten::new_full", "aten::new_ones", "aten::new_zeros", "aten::ones_like",
            "aten::rand_like", "aten::randint_like", "aten::randn_like", "aten::zeros_like"}
# Gradients are taken to be finite: GradScaler's flag stays what it was, and optimizers step.
FINITE = {"aten::_amp_foreach_non_finite_check_and_unscale_"}
# Of one value throughout, any and all are that value.
SAME_OF_ONE = {"aten::any", "aten::all"}
# How many of a mask are true: cheap, and what chooses by the mask has as many.
COUNTS = {"aten::sum", "aten::count_nonzero"}
# On the CPU some of what they make for their gradients has another shape.
OTHER_ON_CPU = {"aten::log_sigmoid_forward", "aten::_embedding_bag", "aten::_embedding_bag_forward_only"}
# Indices of what is highest, and which argument says along what.
CHOICES = {"aten::topk": 2, "aten::sort": 1, "aten::argsort": 1, "aten::argmax": 1,
           "aten::argmin": 1, "aten::max": 1, "aten::min": 1, "aten::multinomial": 3}
LAST_BY_DEFAULT = {"aten::topk", "aten::sort", "aten::argsort", "aten::multinomial"}
# In-place operators that write without reading what was there.
OVERWRITES = {"aten::copy_", "aten::fill_", "aten::zero_", "aten::normal_", "aten::uniform_",
              "aten::random_", "aten::bernoulli_", "aten::exponential_", "aten::_foreach_copy_",
              "aten::_foreach_zero_"}


class Facts:
    """What is asked of an operator each time."""

    def __init__(self, func):
        schema = func._schema
        self.name = schema.name
        self.collective = schema.name.startswith(("c10d", "_c10d"))
        self.from_host = schema.name == "aten::lift_fresh"  # torch.tensor(…): seen from here on
        self.view = (func.is_view or schema.name == "aten::_unsafe_view") and not self.from_host
        self.unwritten = schema.name in UNWRITTEN
        self.new = "empty" in schema.name
        self.pointwise = torch.Tag.pointwise in func.tags
        self.random = torch.Tag.nondeterministic_seeded in func.tags
        self.sized = SIZED_BY_VALUES.get(schema.name)
        self.sparse_size = SPARSE_SIZES.get(schema.name)
        self.read = READS.get(schema.name)
        self.of_shape = schema.name in OF_SHAPE
        self.on_cpu = True  # until it is seen that there is no kernel
        self.ours = schema.name.startswith("aten::")  # others' kernels for the CPU may be slow
        self.composed = self.ours and not (self.read or self.sized) and is_composed(func)
        self.written = [(i, a.name, a.is_out) for i, a in enumerate(schema.arguments)
                        if a.alias_info is not None and a.alias_info.is_write]
        # linalg's "info": an error of a matrix that is a guess would be none of the program's.
        self.tells_errors = schema.name.endswith("_ex")
        self.has_out = any(is_out for _, _, is_out in self.written)


def is_composed(func):
    """Of other operators, for every device.  REQUIRES: one of aten's; prim::device, to name one, is not
    asked so."""
    return (func.has_kernel_for_dispatch_key(Key.CompositeImplicitAutograd)
            and not func.has_kernel_for_dispatch_key(Key.CUDA))
