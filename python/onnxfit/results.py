"""The answers: the command's JSON as values.  Bytes are whole numbers, what is not known is None
(or empty), fields are added and never renamed.  Printed, an answer is the command's report; a
notebook shows it as HTML.  `raw` has the JSON with all that is not listed here."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Mapping, Optional, Tuple

from onnxfit import _html


@dataclass(frozen=True)
class Model:
    path: str
    opset: Optional[int] = None
    nodes: Optional[int] = None
    parameters: Optional[int] = None
    parameter_bytes: Optional[int] = None
    buffer_bytes: Optional[int] = None
    digest: str = ""


@dataclass(frozen=True)
class Lora:
    """Adapters beside frozen layers: those of such names, or peft's for the type of model."""

    rank: int
    targets: Tuple[str, ...] = ()
    dropout: float = 0.0
    dora: bool = False


@dataclass(frozen=True)
class Quantize:
    """Frozen layers whose weights are packed: those of such names, or all but the last."""

    kind: str  # nf4 or int8
    targets: Tuple[str, ...] = ()


@dataclass(frozen=True)
class GaLore:
    """Layers whose gradients are projected: those with such parts in their names, or attn and mlp."""

    rank: int
    targets: Tuple[str, ...] = ()


@dataclass(frozen=True)
class Settings:
    """The run that the answer is about; the rest is the default."""

    batch: Optional[int] = None
    dims: Mapping[str, int] = field(default_factory=dict)
    precision: str = "fp32"
    optimizer: str = "adamw"
    optimizer_impl: Optional[str] = None  # PyTorch's choice
    optimizer_args: Optional[str] = None  # "weight_decay,nesterov"
    param_groups: Optional[str] = None
    mode: str = "train"
    loss: str = "cross-entropy"
    label_smoothing: bool = False
    mixup: bool = False
    channels_last: bool = False
    framework: str = ""
    gpu: Optional[str] = None
    alloc_conf: str = ""
    cublas_conf: str = ""
    loop: str = "plain"
    accumulate: int = 1
    eval_batch: int = 0
    eval_keep: int = 0
    prefetch: int = 0
    freeze: Tuple[str, ...] = ()
    checkpoint: Tuple[str, ...] = ()
    checkpoint_reentrant: bool = False
    compile: str = "none"
    cuda_graphs: bool = False
    lora: Optional[Lora] = None
    quantize: Optional[Quantize] = None
    galore: Optional[GaLore] = None


@dataclass(frozen=True)
class Framework:
    """The PyTorch that an answer is by."""

    name: str
    basis: str = ""  # given, file (it exported the model), nearest (to what did) or unknown
    written_by: str = ""  # "2.15.0+cu130", which exported the model


@dataclass(frozen=True)
class Peak:
    exact_bytes: int  # what tensors ask for
    allocated_bytes: int  # torch.cuda.max_memory_allocated()
    reserved_bytes: int  # torch.cuda.max_memory_reserved()
    device_bytes: int  # what nvidia-smi shows
    step: Optional[int] = None
    phase: str = ""
    node: str = ""


@dataclass(frozen=True)
class Kind:
    """Bytes at the peak; the kinds add up to `Peak.device_bytes`."""

    kind: str
    bytes: int
    basis: str  # exact, measured or modelled
    low: Optional[int] = None
    high: Optional[int] = None


@dataclass(frozen=True)
class Step:
    """`after_*` are allocated bytes, None in eval."""

    peak_exact: int
    peak_allocated: int
    peak_reserved: int
    after_forward: Optional[int] = None
    after_backward: Optional[int] = None
    after_step: Optional[int] = None


@dataclass(frozen=True)
class LargeTensor:
    name: str
    shape: Tuple[int, ...]
    dtype: str
    bytes: int
    born: str = ""
    dies: str = ""


@dataclass(frozen=True)
class Place:
    """What `count` modules, nodes or parameters hold at the peak together."""

    name: str
    op: str
    bytes: int
    count: int = 1


@dataclass(frozen=True)
class Doubt:
    """A warning of the command's: `code` is stable ("OF102")."""

    code: str
    text: str


@dataclass(frozen=True)
class Failure:
    """The allocation for which there is no room."""

    step: int
    asked_bytes: int
    phase: str = ""
    node: str = ""
    tried_bytes: Optional[int] = None
    short_bytes: Optional[int] = None


@dataclass(frozen=True)
class Advice:
    """A change that lets more fit, and what it costs."""

    change: str
    flags: str = ""
    effect: str = ""
    max_batch: Optional[int] = None
    accumulate: int = 1
    verdict: Optional[str] = None
    used_bytes: Optional[int] = None
    saved_bytes: Optional[int] = None
    cost: str = ""
    cost_class: str = ""
    slower_percent: int = 0  # of a step's time
    source: str = ""  # of that
    why: str = ""


@dataclass(frozen=True)
class Target:
    """A card, and whether the run fits it."""

    gpu: str
    capacity_bytes: int
    used_bytes: int
    verdict: str  # fits, tight or oom
    share: float = 0.0
    low: Optional[int] = None
    high: Optional[int] = None
    retries: int = 0
    reasons: Tuple[str, ...] = ()
    fails_at: Optional[Failure] = None
    processes: Optional[int] = None  # how many fit side by side, in eval
    advice: Tuple[Advice, ...] = ()

    @property
    def fits(self) -> bool:
        """Whether it runs; a tight one does."""
        return self.verdict != "oom"


@dataclass(frozen=True)
class End:
    device_bytes: int
    flags: str = ""


@dataclass(frozen=True)
class Range:
    """What `device_bytes` may be where the file leaves something open."""

    low: End
    high: End


@dataclass(frozen=True)
class World:
    """So many ranks, and what each of them has on the card."""

    world: int
    verdict: str
    used_bytes: int


@dataclass(frozen=True)
class Report:
    """What all answers share: the command's report, and its JSON."""

    text: str = field(default="", repr=False, compare=False)
    raw: Mapping[str, Any] = field(default_factory=dict, repr=False, compare=False)
    holds: bool = True  # every card given is enough, every budget is kept

    @property
    def headline(self) -> str:
        """The answer in one line."""
        return self.text.split("\n", 1)[0]

    def __str__(self) -> str:
        return self.text.rstrip("\n")

    def _repr_html_(self) -> str:
        return _html.report(self.text)


@dataclass(frozen=True)
class _Estimated:
    model: Model
    settings: Settings
    peak: Peak
    optimizer_state_bytes: int = 0
    breakdown: Tuple[Kind, ...] = ()
    steps: Tuple[Step, ...] = ()
    largest: Tuple[LargeTensor, ...] = ()
    places: Tuple[Place, ...] = ()
    assumptions: Tuple[str, ...] = ()
    warnings: Tuple[Doubt, ...] = ()
    range: Optional[Range] = None
    targets: Tuple[Target, ...] = ()
    worlds: Tuple[World, ...] = ()  # where `world` was "auto": those tried
    framework: Optional[Framework] = None
    schema: int = 1
    version: str = ""


@dataclass(frozen=True)
class Estimate(Report, _Estimated):
    """How much memory one training step takes, and where it goes."""

    @property
    def device_bytes(self) -> int:
        """What nvidia-smi will show."""
        return self.peak.device_bytes

    def bytes_of(self, kind: str) -> int:
        """Bytes of a kind at the peak, such as "activations"."""
        return sum(row.bytes for row in self.breakdown if row.kind == kind)

    def _repr_html_(self) -> str:
        rows = [(row.kind.replace("_", " "), row.bytes, row.basis) for row in self.breakdown]
        return _html.estimate(self.text, rows, self.device_bytes)


@dataclass(frozen=True)
class Refusal:
    """A row of a sweep without an answer."""

    model: Model
    settings: Settings
    error: str


@dataclass(frozen=True)
class _Swept:
    rows: Tuple[Any, ...] = ()  # Estimate or Refusal, in the order asked


@dataclass(frozen=True)
class Sweep(Report, _Swept):
    """A table: an estimate, or a refusal, for each combination."""

    @property
    def estimates(self) -> Tuple[Estimate, ...]:
        return tuple(row for row in self.rows if isinstance(row, Estimate))


@dataclass(frozen=True)
class Fitting:
    """The largest batch that fits with room to spare; 0 where none does."""

    batch: int
    used_bytes: Optional[int] = None


@dataclass(frozen=True)
class Next:
    """The first batch that does not run, and what is missing."""

    batch: int
    verdict: str = "oom"
    short_bytes: Optional[int] = None
    fails_at: Optional[Failure] = None


@dataclass(frozen=True)
class LargestBatch:
    """The largest batch that trains on one card; 0 where not even one sample does."""

    gpu: str
    memory_bytes: int
    max_batch: int
    settings: Settings = field(default_factory=Settings)
    target: Optional[Target] = None
    fitting: Optional[Fitting] = None
    luckier: Tuple[int, ...] = ()  # larger ones that run, above one that does not
    limited: bool = False  # `max` ended the search
    fixed_bytes: Optional[int] = None
    per_sample_bytes: Optional[int] = None
    estimate: Optional[Estimate] = None  # at that batch
    next: Optional[Next] = None
    advice: Tuple[Advice, ...] = ()
    recipe: str = ""  # a command that runs where nothing else does


@dataclass(frozen=True)
class _Batches:
    model: Model
    targets: Tuple[LargestBatch, ...] = ()
    warnings: Tuple[Doubt, ...] = ()
    framework: Optional[Framework] = None
    schema: int = 1
    version: str = ""


@dataclass(frozen=True)
class MaxBatch(Report, _Batches):
    """The largest batch for each card."""

    @property
    def max_batch(self) -> int:
        """Of the first card."""
        return self.targets[0].max_batch


@dataclass(frozen=True)
class Budget:
    budget: str
    holds: bool
    used_bytes: int
    limit_bytes: int
    verdict: Optional[str] = None
    reasons: Tuple[str, ...] = ()
    fails_at: Optional[Failure] = None


@dataclass(frozen=True)
class CheckRow:
    """One check, or trouble with the lock: its status is pass, warn, fail, new, gone, off or
    error."""

    name: str
    status: str
    text: str
    model: str = ""
    line: Optional[int] = None
    message: str = ""
    error: str = ""
    not_compared: str = ""  # why, where it was to be compared
    device_bytes: Optional[int] = None
    budgets: Tuple[Budget, ...] = ()
    warnings: Tuple[Doubt, ...] = ()
    allowed_bytes: Optional[int] = None
    grew_too_much: bool = False
    comparison: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class _Checked:
    status: str  # the worst of all
    checks: Tuple[CheckRow, ...] = ()
    counts: Mapping[str, int] = field(default_factory=dict)
    config: str = ""
    against: str = ""
    updated: bool = False
    notes: Tuple[str, ...] = ()
    schema: int = 1
    version: str = ""


@dataclass(frozen=True)
class Check(Report, _Checked):
    """Budgets and a lock, check by check."""


@dataclass(frozen=True)
class _Formed:
    total_bytes: int
    settings: Settings
    numbers: Mapping[str, int] = field(default_factory=dict)
    breakdown: Tuple[Kind, ...] = ()
    targets: Tuple[Target, ...] = ()
    framework: Optional[Framework] = None
    schema: int = 1
    version: str = ""


@dataclass(frozen=True)
class ClosedForm(Report, _Formed):
    """The memory of a transformer given by its numbers."""


@dataclass(frozen=True)
class DevicePeaks:
    """PyTorch's own statistics of one card in one process, at the most of the run."""

    device: int
    requested_bytes: int
    allocated_bytes: int
    reserved_bytes: int
    retries: int = 0
    ooms: int = 0


@dataclass(frozen=True)
class StepPeaks:
    allocated_bytes: int
    reserved_bytes: int


@dataclass(frozen=True)
class PhaseLeft:
    """What was there when a phase ended last."""

    allocated_bytes: int
    reserved_bytes: int
    device_bytes: int


@dataclass(frozen=True)
class PhaseDevice:
    """A phase at its most on one card: PyTorch's figures, and what the process held of the card."""

    device: int
    allocated_bytes: int
    reserved_bytes: int
    device_bytes: int
    left: PhaseLeft


@dataclass(frozen=True)
class Phase:
    """What a program does in turn: "training", "evaluation", "prefill", "decoding", a "module" of a
    pipeline, an "engine" and its "sleep" and "wake"; "start" before all, "between" some."""

    kind: str
    times: int
    devices: Tuple[PhaseDevice, ...] = ()
    name: str = ""  # of the module's class or of the engine
    calls: int = 0  # of the model, in decoding
    growth_bytes: int = 0  # that each of them added


@dataclass(frozen=True)
class HeldBytes:
    """What lives at the peak because of one line."""

    bytes: int
    count: int
    place: str = ""  # "train.py:41"; "" where no line of Python asked, as in backward
    source: str = ""  # the line


@dataclass(frozen=True)
class Refused:
    """A request that PyTorch could not fulfil, whether the program went on or not."""

    bytes: int
    step: int  # so many steps of optimizers came before
    place: str = ""
    source: str = ""


@dataclass(frozen=True)
class UnknownRead:
    """Where the program read a value that no kernel computed: one that "decides", a size that is
    the "most" it can be, or one that is only "shown"."""

    place: str
    count: int
    source: str = ""
    kind: str = "decides"


@dataclass(frozen=True)
class ProcessRun:
    """One process that used PyTorch on a card."""

    pid: int
    torch: str
    steps: int
    rank: str = ""
    devices: Tuple[DevicePeaks, ...] = ()
    step_peaks: Tuple[StepPeaks, ...] = ()
    phases: Tuple[Phase, ...] = ()  # none where it does one thing
    held: Tuple[HeldBytes, ...] = ()
    unknown_reads: Tuple[UnknownRead, ...] = ()
    exception: str = ""
    message: str = ""
    refused: Tuple[Refused, ...] = ()
    held_device: int = 0  # on which card of the process `held` is
    ended_by: str = ""  # "steps", "seconds" or "until-same"


@dataclass(frozen=True)
class HostRam:
    """What a run's processes had at once of the machine's own memory."""

    bytes: int = 0
    processes: int = 0
    pinned_bytes: int = 0  # as asked for, touched or not
    managed_bytes: int = 0  # cudaMallocManaged's, on a card where it has room
    limit_bytes: int = 0  # `ram`
    verdict: str = "fits"  # of that


@dataclass(frozen=True)
class Ran:
    """One run of a program on cards that are not there."""

    targets: Tuple[Target, ...] = ()  # the cards that it saw
    exit_code: int = 0
    asked: Tuple[HeldBytes, ...] = ()  # without PyTorch: by who asked the card for it
    processes: Tuple[ProcessRun, ...] = ()
    not_written: Tuple[str, ...] = ()  # files that it wrote apart from the user's
    host: HostRam = HostRam()

    @property
    def device_bytes(self) -> int:
        """What nvidia-smi would show, of the card with the most."""
        return max((target.used_bytes for target in self.targets), default=0)

    def _most(self, figure: str) -> int:
        return max((getattr(device, figure) for process in self.processes
                    for device in process.devices), default=0)

    @property
    def allocated_bytes(self) -> int:
        """The most of torch.cuda.max_memory_allocated(), whatever process and card."""
        return self._most("allocated_bytes")

    @property
    def reserved_bytes(self) -> int:
        return self._most("reserved_bytes")

    @property
    def verdict(self) -> str:
        """The worst of all cards: "fits", "tight" or "oom"."""
        order = ("fits", "tight", "oom")
        return max((target.verdict for target in self.targets), key=order.index, default="fits")


@dataclass(frozen=True)
class _RanCommand(Ran):
    command: Tuple[str, ...] = ()
    runs: Tuple[Ran, ...] = ()  # of several cards asked one by one, which `targets` has all of
    schema: int = 1
    version: str = ""


@dataclass(frozen=True)
class ProgramRun(Report, _RanCommand):
    """What a program took on cards that are not there."""

    def _most(self, figure: str) -> int:
        return max((run._most(figure) for run in self.runs), default=super()._most(figure))


@dataclass(frozen=True)
class TriedBatch:
    batch: int
    verdict: str  # "fits", "tight" or "oom"
    used_bytes: int = 0  # of the card, a context included


@dataclass(frozen=True)
class LargestRun:
    """The largest batch that a program runs on one card, or on several that it sees at once; 0
    where not even the least does."""

    gpu: str
    max_batch: int
    max_batch_fits: int = 0  # the largest that was seen to fit, where that one is TIGHT
    steps: int = 0  # of each run, at most
    limited: bool = False  # all ran: a larger one may, too
    fails: Optional[int] = None  # the least that was seen not to run
    fixed_bytes: Optional[int] = None  # the device has about so much,
    per_sample_bytes: Optional[int] = None  # and so much a sample
    tried: Tuple[TriedBatch, ...] = ()  # in the order in which they were run
    run: Ran = field(default_factory=Ran)  # of that batch; of the least where none runs


@dataclass(frozen=True)
class _RanBatches:
    command: Tuple[str, ...] = ()
    targets: Tuple[LargestRun, ...] = ()
    schema: int = 1
    version: str = ""


@dataclass(frozen=True)
class ProgramMaxBatch(Report, _RanBatches):
    """The largest batch that a program runs, for each card."""

    @property
    def max_batch(self) -> int:
        """Of the first card."""
        return self.targets[0].max_batch
