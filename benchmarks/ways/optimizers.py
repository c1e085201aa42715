"""Optimizers: how each is made of a model."""

from networks import NotForThis


def trainable(model):
    return [parameter for parameter in model.parameters() if parameter.requires_grad]


def of_bitsandbytes(name, *given):
    arguments = {argument: GIVEN[argument] for argument in given}

    def make(model):
        import bitsandbytes
        return getattr(bitsandbytes.optim, name)(trainable(model), lr=1e-3, **arguments)
    return make


def of_timm(name):
    """Of all parameters at once: no groups."""
    def make(model):
        from timm.optim import create_optimizer_v2
        return create_optimizer_v2(trainable(model), opt=name, lr=1e-3)
    return make


GIVEN = {"momentum": 0.9, "weight_decay": 0.01, "nesterov": True, "amsgrad": True}


def of_torch(name, *given, **kwargs):
    """`given`: what else its constructor is given, by name."""
    arguments = {**{argument: GIVEN[argument] for argument in given}, **kwargs}

    def make(model):
        import torch
        return getattr(torch.optim, name)(trainable(model), lr=1e-3, **arguments)
    return make


def by_matrices(name, *given, **kwargs):
    """nanoGPT's configure_optimizers: tensors of two dimensions and more decay, others do not."""
    arguments = {**{argument: GIVEN[argument] for argument in given}, **kwargs}

    def make(model):
        import torch
        of_two = [[p for p in trainable(model) if (p.dim() >= 2) == is_matrix]
                  for is_matrix in (True, False)]
        groups = [{"params": of_two[0], "weight_decay": 0.1},
                  {"params": of_two[1], "weight_decay": 0.0}]
        return getattr(torch.optim, name)(groups, lr=1e-3, **arguments)
    return make


def in_loop(name, *given):
    return of_torch(name, *given, foreach=False)


def adafactor_of_transformers(model):
    """As its Trainer makes it (optim="adafactor")."""
    from transformers.optimization import Adafactor
    return Adafactor(trainable(model), lr=1e-3, scale_parameter=False, relative_step=False)


def lion(model):
    from lion_pytorch import Lion
    return Lion(trainable(model), lr=1e-4)


def schedule_free(model):
    from schedulefree import AdamWScheduleFree
    optimizer = AdamWScheduleFree(trainable(model), lr=1e-3)
    optimizer.train()
    return optimizer


def schedule_free_sgd(model):
    from schedulefree import SGDScheduleFree
    optimizer = SGDScheduleFree(trainable(model), lr=1e-3, weight_decay=0.01)
    optimizer.train()
    return optimizer


def prodigy(model):
    """With what it reads of values as trained models have them: no parameter is all zeros, nor is
    a sum."""
    import torch
    from prodigyopt import Prodigy
    any_of, item_of = torch.Tensor.any, torch.Tensor.item
    torch.Tensor.any = lambda tensor: any_of(tensor) is not None
    torch.Tensor.item = lambda tensor: item_of(tensor) or 1.0
    return Prodigy(trainable(model))


def musgd(model):
    """In the groups of build_optimizer, which looks for the head of a model of its own, and of those
    that decay: ultralytics 8.4.190, engine/trainer.py."""
    from torch import nn
    from ultralytics.optim import MuSGD
    norms = tuple(kind for name, kind in vars(nn).items() if "Norm" in name)
    groups, seen = [[], [], [], []], set()
    for path, module in model.named_modules():
        for name, parameter in module.named_parameters(recurse=False):
            if id(parameter) in seen:  # no YOLO ties weights
                continue
            seen.add(id(parameter))
            at = 3 if parameter.ndim in {2, 4} else 2 if "bias" in f"{path}.{name}" else \
                1 if isinstance(module, norms) else 0
            groups[at].append(parameter)
    decay = [5e-4, 0.0, 0.0, 5e-4]
    return MuSGD([{"params": group, "lr": 0.01, "momentum": 0.9, "nesterov": True,
                   "weight_decay": decay[at], "use_muon": at == 3}
                  for at, group in enumerate(groups)], muon=0.2, sgd=1.0)


def soap(model):
    """nikhilvyas/SOAP at a1e553530fde97d0e6b307d7c82ac6d38b072340, whose bases are updated in every
    step: with its default each tenth is such one."""
    import linalg_of_card
    from soap import SOAP
    linalg_of_card.use()
    return SOAP(trainable(model), precondition_frequency=1)


def galore(*told):
    """galore_torch's AdamW.  Bases are found in every step: with its default each 200th is such
    one."""
    def make(model):
        from galore_torch import GaLoreAdamW
        return GaLoreAdamW(galore_groups(model, *told), lr=1e-3, no_deprecation_warning=True)
    return make


def galore_groups(model, rank, *names):
    """As transformers' Trainer has them (_setup_low_rank_optimizer), but with its Conv1D, which are
    linear layers, too."""
    import linalg_of_card
    linalg_of_card.use()
    targets = {f"{path}.weight" for path, module in model.named_modules() if is_linear(module)
               and (names == ("all-linear",) or any(name in path for name in names))}
    others, projected = [[p for name, p in model.named_parameters() if (name in targets) == is_one]
                         for is_one in (False, True)]
    if not projected:
        raise NotForThis("no linear layers of such names")
    return [{"params": others},
            {"params": projected, "rank": int(rank), "update_proj_gap": 1, "scale": 0.25,
             "proj_type": "std"}]


def galore_in_backward(*told):
    """One for each parameter, as the Trainer has its layerwise ones."""
    def make(model):
        from galore_torch import GaLoreAdamW
        return step_in_backward({
            p: GaLoreAdamW([{**group, "params": [p]}], lr=1e-3, no_deprecation_warning=True)
            for group in galore_groups(model, *told) for p in group["params"]})
    return make


def is_linear(module):
    import torch
    from transformers.pytorch_utils import Conv1D
    return isinstance(module, (torch.nn.Linear, Conv1D))


class Both:
    """Two optimizers, which are asked one after the other."""

    def __init__(self, *optimizers):
        self.optimizers = optimizers

    def zero_grad(self):
        for optimizer in self.optimizers:
            optimizer.zero_grad()

    def step(self):
        for optimizer in self.optimizers:
            optimizer.step()


def muon(model):
    """Muon for matrices of hidden layers, AdamW for embeddings, the head and what is no matrix."""
    import torch
    embeddings = [module.weight for module in model.modules()
                  if isinstance(module, torch.nn.Embedding)]
    weights = [module.weight for module in model.modules() if hasattr(module, "weight")]
    head = [weight for weight in weights if weight.dim() == 2][-1]
    apart = {id(parameter) for parameter in [*embeddings, head]}
    hidden = [p for p in trainable(model) if p.dim() == 2 and id(p) not in apart]
    others = [p for p in trainable(model) if p.dim() != 2 or id(p) in apart]
    return Both(torch.optim.Muon(hidden, lr=1e-3), torch.optim.AdamW(others, lr=1e-3))


class Nothing:
    """What is left of the loop where hooks step."""

    def zero_grad(self):
        pass

    def step(self):
        pass


def in_backward(model):
    """docs.pytorch.org/tutorials/intermediate/optimizer_step_in_backward_tutorial.html"""
    import torch
    return step_in_backward({p: torch.optim.AdamW([p], lr=1e-3, foreach=False)
                             for p in trainable(model)})


def step_in_backward(of):
    """`of` each parameter its optimizer."""
    def step(parameter):
        of[parameter].step()
        of[parameter].zero_grad()
    for parameter in of:
        parameter.register_post_accumulate_grad_hook(step)
    return Nothing()


def zero(model):
    import torch
    from torch.distributed.optim import ZeroRedundancyOptimizer
    return ZeroRedundancyOptimizer(trainable(model), torch.optim.AdamW, lr=1e-3)


class Clipping:
    """AdamW, before whose steps gradients are clipped."""

    def __init__(self, model):
        self.model, self.optimizer = model, of_torch("AdamW")(model)

    def zero_grad(self):
        self.optimizer.zero_grad()

    def step(self):
        import torch
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        self.optimizer.step()


def among_shards(name="AdamW", *given):
    """Of parameters that are shared with other ranks beside whole ones, in one list."""
    def make(model):
        from torch.distributed.tensor.experimental import implicit_replication
        optimizer = of_torch(name, *given)(model)
        step = optimizer.step

        def in_context():
            with implicit_replication():
                return step()
        optimizer.step = in_context
        return optimizer
    return make
