"""Pipeline parallelism: one process that believes to be a stage among several.

torch.distributed.pipelining over PyTorch's fake process group; stages as torchtitan makes them: the
model without the blocks, embedding or head of others.
"""

import copy

from networks import NotForThis, inner
from optimizers import of_torch
from trainers import STEPS, note

from family import LOSSES

MICRO_BATCHES = 4
AUTOCAST = "amp-bf16"


def join(stage, stages):
    import torch.distributed as dist
    from torch.testing._internal.distributed.fake_pg import FakeStore
    dist.init_process_group("fake", rank=stage, world_size=stages, store=FakeStore())


def share(blocks, stage, stages):
    """[first, last) of the blocks; what is before them counts as one, what is behind them, too
    (generate_llm_fqn_per_model_part, torchtitan 0.2.0, distributed/pipeline_parallel.py)."""
    each, more = divmod(blocks + 2, stages)
    begins = [0]
    for i in range(stages):
        begins.append(begins[-1] + each + (i < more))
    return max(begins[stage] - 1, 0), min(begins[stage + 1] - 1, blocks)


def of_decoder(model, stage, stages):
    """Of transformers, whose model goes on from embeddings that it is given."""
    from torch import nn
    head = inner(model)
    decoder = getattr(head, "model", None)
    if not hasattr(decoder, "layers") or not hasattr(head, "lm_head"):
        raise NotForThis("no decoder of transformers")
    first, last = share(len(decoder.layers), stage, stages)
    is_last = stage == stages - 1
    decoder.layers = nn.ModuleList(decoder.layers[first:last])
    if stage > 0:
        decoder.embed_tokens = None
    if not is_last:
        decoder.norm, head.lm_head = nn.Identity(), None

    class Stage(nn.Module):
        def __init__(self):
            super().__init__()
            self.model = head if is_last else decoder

        def forward(self, x):
            given = {"inputs_embeds" if stage > 0 else "input_ids": x}
            if is_last:
                return self.model(**given).logits
            return self.model(**given).last_hidden_state
    return Stage()


def of_gpt2(model, stage, stages):
    import torch
    from torch import nn
    head = inner(model)
    decoder = head.transformer
    first, last = share(len(decoder.h), stage, stages)
    is_last = stage == stages - 1

    class Stage(nn.Module):
        def __init__(self):
            super().__init__()
            if stage == 0:
                self.wte, self.wpe, self.drop = decoder.wte, decoder.wpe, decoder.drop
            self.h = nn.ModuleList(decoder.h[first:last])
            if is_last:
                self.ln_f, self.lm_head = decoder.ln_f, head.lm_head

        def embed(self, ids):
            positions = torch.arange(ids.size(1), device=ids.device).unsqueeze(0)
            inputs_embeds = self.wte(ids)
            position_embeds = self.wpe(positions)
            hidden_states = inputs_embeds + position_embeds
            return self.drop(hidden_states)

        def forward(self, hidden_states):
            if stage == 0:
                hidden_states = self.embed(hidden_states)
            for block in self.h:
                hidden_states = block(hidden_states)
            if not is_last:
                return hidden_states
            hidden_states = self.ln_f(hidden_states)
            return self.lm_head(hidden_states)
    return Stage()


def of_bert(model, stage, stages):
    from torch import nn
    whole = inner(model)
    encoder = whole.bert.encoder
    first, last = share(len(encoder.layer), stage, stages)
    is_last = stage == stages - 1

    class Stage(nn.Module):
        def __init__(self):
            super().__init__()
            if stage == 0:
                self.embeddings = whole.bert.embeddings
            self.layer = nn.ModuleList(encoder.layer[first:last])
            if is_last:
                self.pooler, self.dropout = whole.bert.pooler, whole.dropout
                self.classifier = whole.classifier

        def forward(self, hidden_states):
            if stage == 0:
                hidden_states = self.embeddings(input_ids=hidden_states)
            for layer in self.layer:
                hidden_states = layer(hidden_states)
            if not is_last:
                return hidden_states
            return self.classifier(self.dropout(self.pooler(hidden_states)))
    return Stage()


def in_row(before, blocks, behind, stage, stages):
    """Modules that run one after the other."""
    from torch import nn
    first, last = share(len(blocks), stage, stages)
    return nn.Sequential(*(before if stage == 0 else []), *blocks[first:last],
                         *(behind if stage == stages - 1 else []))


def of_resnet(model, stage, stages):
    from torch import nn
    lists = [model.layer1, model.layer2, model.layer3, model.layer4]
    return in_row([model.conv1, model.bn1, model.relu, model.maxpool],
                  [block for blocks in lists for block in blocks],
                  [model.avgpool, nn.Flatten(1), model.fc], stage, stages)


def of_mixer(model, stage, stages):
    from torch import nn

    class Head(nn.Module):
        def __init__(self):
            super().__init__()
            self.norm, self.head = model.norm, model.head

        def forward(self, x):
            x = self.norm(x)
            return self.head(x.mean(dim=1))
    return in_row([model.stem], list(model.blocks), [Head()], stage, stages)


def stage_of(model, stage, stages):
    kinds = {"GPT2LMHeadModel": of_gpt2, "ResNet": of_resnet, "MlpMixer": of_mixer,
             "BertForSequenceClassification": of_bert}
    make = kinds.get(type(inner(model)).__name__, of_decoder)
    return make(model, stage, stages)


def given_to(family, stage, stages, batch, precision):
    """What the stage before sends, as its shape and type are told: found on the host."""
    import torch
    with torch.no_grad(), torch.autocast("cpu", torch.bfloat16, enabled=precision == AUTOCAST):
        x = next(iter(family.inputs(1, "cpu", torch.float32).values()))
        for i in range(stage):
            x = stage_of(copy.deepcopy(family.build()).train(), i, stages)(x)
    return torch.empty(batch, *x.shape[1:], dtype=x.dtype, device="meta")


def tell(given):
    """A fake group receives nothing: what the stage before would tell."""
    import torch.distributed as dist

    def receive(objects, *_, **__):
        objects[0] = (given,)
    dist.recv_object_list = receive


SCHEDULES = {"1f1b": "Schedule1F1B", "gpipe": "ScheduleGPipe"}


def pipeline(stages, stage, schedule="1f1b", keeps=False):
    """The loop of PyTorch's tutorial; micro-batches of `batch`; outputs are kept where asked."""
    stages, stage = int(stages), int(stage)

    def run(family, model, target, batch, precision):
        import torch
        from torch.distributed import pipelining
        given = given_to(family, stage, stages, batch, precision) if stage else None
        join(stage, stages)
        tell(given)
        module = stage_of(model, stage, stages).to("cuda").train()
        optimizer = of_torch("AdamW")(module)
        made = pipelining.PipelineStage(module, stage, stages, torch.device("cuda", 0))
        loop = getattr(pipelining, SCHEDULES[schedule])(made, MICRO_BATCHES, LOSSES[family.loss])
        (_, *shape), is_whole, _ = target
        size, dtype = MICRO_BATCHES * batch, torch.long if is_whole else torch.float32
        steps, losses = [], []

        def next_batch():
            x = family.inputs(size, "cuda", torch.float32).values() if stage == 0 else ()
            y = torch.zeros(size, *shape, device="cuda", dtype=dtype) if stage == stages - 1 \
                else None
            return list(x), y
        for _ in range(STEPS):
            torch.cuda.reset_peak_memory_stats()
            x, y = next_batch()
            optimizer.zero_grad()
            with torch.autocast("cuda", torch.bfloat16, enabled=precision == AUTOCAST):
                out = loop.step(*x, target=y, losses=losses, return_outputs=bool(keeps))
            optimizer.step()
            note(steps)
        return steps
    return run
