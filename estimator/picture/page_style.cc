#include <string>

#include "estimator/picture/curve_layers.h"
#include "estimator/picture/page_parts.h"

namespace onnxfit {

namespace {

// Of the page and of images: colours, and what each kind is filled with.
constexpr std::string_view kColors = R"css(
:root {
  color-scheme: light dark;
  --page: #ffffff; --ink: #1f2328; --soft: #59636e; --edge: #d1d9e0; --pane: #f6f8fa; --link: #0550ae;
  --ok: #1a7f37; --tight: #9a6700; --bad: #cf222e;
  --parameters: #0969da; --buffers: #54aeff; --optimizer: #bf3989; --gradients: #8250df;
  --inputs: #1a7f37; --activations: #d4630a; --temporaries: #bf8700; --workspaces: #0e7c7b;
  --context: #8c959f; --rounding: #afb8c1;
}
@media (prefers-color-scheme: dark) {
  :root {
    --page: #0d1117; --ink: #e6edf3; --soft: #9198a1; --edge: #3d444d; --pane: #151b23; --link: #79c0ff;
    --ok: #3fb950; --tight: #d29922; --bad: #ff7b72;
    --parameters: #388bfd; --buffers: #79c0ff; --optimizer: #db61a2; --gradients: #a371f7;
    --inputs: #3fb950; --activations: #e8853a; --temporaries: #d4a72c; --workspaces: #2bb3b3;
    --context: #6e7681; --rounding: #57606a;
  }
}
.k-parameters { fill: var(--parameters); background: var(--parameters); }
.k-buffers { fill: var(--buffers); background: var(--buffers); }
.k-optimizer_state { fill: var(--optimizer); background: var(--optimizer); }
.k-gradients { fill: var(--gradients); background: var(--gradients); }
.k-inputs { fill: var(--inputs); background: var(--inputs); }
.k-activations { fill: var(--activations); background: var(--activations); }
.k-temporaries { fill: var(--temporaries); background: var(--temporaries); }
.k-workspaces { fill: var(--workspaces); background: var(--workspaces); }
.k-context { fill: var(--context); background: var(--context); }
.k-line0 { fill: var(--activations); background: var(--activations); }
.k-line1 { fill: var(--parameters); background: var(--parameters); }
.k-line2 { fill: var(--gradients); background: var(--gradients); }
.k-line3 { fill: var(--inputs); background: var(--inputs); }
.k-line4 { fill: var(--optimizer); background: var(--optimizer); }
.k-line5 { fill: var(--temporaries); background: var(--temporaries); }
.k-line6 { fill: var(--workspaces); background: var(--workspaces); }
.k-rounding, .k-cached, .k-others { fill: var(--rounding); background: var(--rounding); }
path.before { fill: none; stroke: var(--bad); stroke-width: 2; stroke-dasharray: 5 3; vector-effect: non-scaling-stroke; }
path.reserved { fill: none; stroke: var(--ink); stroke-width: 1.5; vector-effect: non-scaling-stroke; }
)css";

// Of the page alone.
constexpr std::string_view kLayout = R"css(
* { box-sizing: border-box; }
body { margin: 0 auto; padding: 1rem; max-width: 70rem; background: var(--page); color: var(--ink);
  font: 16px/1.5 system-ui, sans-serif; overflow-wrap: anywhere; }
h1 { margin: 0; font-size: 1.6rem; }
h2 { margin: 2.5rem 0 .75rem; font-size: 1.25rem; border-bottom: 1px solid var(--edge); }
h3 { margin: 1.25rem 0 .25rem; font-size: 1rem; }
p, ul { margin: .25rem 0; }
a { color: var(--link); }
code { font: .9em ui-monospace, monospace; } .flags { white-space: nowrap; }
:focus-visible { outline: 3px solid var(--link); outline-offset: 2px; }
.run { color: var(--soft); }
header .verdict { margin: .75rem 0; padding: .5rem .75rem; border-left: .4rem solid var(--edge);
  background: var(--pane); }
header .fits { border-color: var(--ok); } .fits strong, td.fits { color: var(--ok); }
header .tight { border-color: var(--tight); } .tight strong, td.tight { color: var(--tight); }
header .oom { border-color: var(--bad); } .oom strong, td.oom { color: var(--bad); }
.meter { height: .5rem; background: var(--edge); } .meter i { display: block; height: 100%; }
.fits .meter i { background: var(--ok); } .tight .meter i { background: var(--tight); }
.oom .meter i { background: var(--bad); }
.told { margin: .75rem 0; padding-left: 1.25rem; }
figure { margin: 0 0 1rem; } figcaption { color: var(--soft); margin-bottom: .5rem; }
.box { display: grid; margin-top: 2rem; grid-template-columns: 4.75rem 1fr; height: 22rem; }
.ticks, .legend, .phases, .batches, .map { list-style: none; margin: 0; padding: 0; }
.ticks { position: relative; } .ticks li { position: absolute; right: .5rem; transform: translateY(-50%);
  font-size: .8rem; color: var(--soft); white-space: nowrap; }
.field { position: relative; border-left: 1px solid var(--soft); border-bottom: 1px solid var(--soft); }
.field svg { position: absolute; inset: 0; width: 100%; height: 100%; display: block; }
.line { position: absolute; left: 0; right: 0; border-top: 2px dashed var(--ink); pointer-events: none;
  box-shadow: 0 -1px 0 var(--page), 0 1px 0 var(--page); }
.line span { position: absolute; left: .25rem; top: .1rem; padding: 0 .25rem; font-size: .8rem;
  background: var(--page); }
.low span { top: auto; bottom: .1rem; }
.mark { position: absolute; top: 0; bottom: 0; border-left: 2px solid var(--ink); pointer-events: none; }
.mark span { position: absolute; top: -1.5rem; left: .25rem; padding: 0 .25rem; font-size: .8rem;
  font-weight: 600; white-space: nowrap; background: var(--page); }
.mark.right span { left: auto; right: .25rem; }
.cursor { position: absolute; top: 0; bottom: 0; width: 0; border-left: 1px solid var(--link);
  pointer-events: none; }
.phases { display: flex; margin-left: 4.75rem; font-size: .8rem; color: var(--soft); }
.phases li { border-left: 1px solid var(--soft); overflow: visible; white-space: nowrap; min-width: 0; }
.phases span { padding-left: .25rem; }
.phases .narrow { position: relative; } .phases .narrow span { position: absolute; right: .25rem; }
.batches { position: relative; height: 1.4rem; margin-left: 4.75rem; font-size: .8rem; color: var(--soft); }
.batches li { position: absolute; white-space: nowrap; transform: translateX(-50%); } .batches .end { transform: translateX(-100%); }
.legend { display: flex; flex-wrap: wrap; gap: .1rem 1rem; margin: .5rem 0 0; font-size: .85rem; }
.legend i, .dot { display: inline-block; width: .8rem; height: .8rem; margin-right: .35rem;
  vertical-align: -.08rem; }
.readout { min-height: 3.2rem; margin-top: .5rem; padding: .4rem .6rem; background: var(--pane);
  font-size: .85rem; }
.point { position: absolute; width: .6rem; height: .6rem; margin: -.3rem; border-radius: 50%;
  background: var(--parameters); transform: translateY(-.0rem); }
.point { margin-bottom: -.3rem; } .point.asked { background: var(--ink); width: .8rem; height: .8rem; }
.point.fails { background: var(--bad); }
i.before { height: 0; border-top: 2px dashed var(--bad); vertical-align: .2rem; }
i.reserved { height: 0; border-top: 2px solid var(--ink); vertical-align: .2rem; }
.map { position: relative; aspect-ratio: 3 / 2; max-height: 34rem; width: 100%; }
.cell { position: absolute; border: 1px solid var(--page); overflow: hidden; padding: .1rem .25rem;
  font-size: .75rem; line-height: 1.2; color: #ffffff; }
.wide { overflow-x: auto; margin: .75rem 0; } .tall { max-height: 32rem; overflow-y: auto; }
table { border-collapse: collapse; width: 100%; font-size: .9rem; overflow-wrap: normal; }
caption { text-align: left; font-weight: 600; padding: .25rem 0; }
th, td { padding: .2rem .6rem .2rem 0; text-align: left; vertical-align: top; }
th.number { text-align: right; }
tbody tr { border-top: 1px solid var(--edge); }
tbody th { font-weight: 400; } .total > * { font-weight: 600; }
.more { color: var(--bad); } .less { color: var(--ok); }
.number { text-align: right; white-space: nowrap; font-variant-numeric: tabular-nums; }
.type, .kind { white-space: nowrap; } .bars { width: 30%; min-width: 4rem; } .bar { display: block; height: .9rem; }
.source { min-width: 12rem; } .place { white-space: nowrap; } .tall .bars { width: 60%; } .within td { color: var(--soft); border: 0; }
.within td:nth-child(4) { padding-left: 1rem; }
.said { margin: .5rem 0; padding: .5rem .75rem; background: var(--pane); font: .85em/1.4 ui-monospace, monospace;
  white-space: pre-wrap; }
details { margin: .5rem 0; } summary { cursor: pointer; padding: .25rem 0; }
.tall thead th { position: sticky; top: 0; background: var(--page); }
th button { font: inherit; color: inherit; background: none; border: 0; padding: 0; cursor: pointer;
  text-decoration: underline dotted; }
input { font: inherit; color: inherit; background: var(--page); border: 1px solid var(--soft);
  padding: .2rem .4rem; max-width: 100%; }
footer { margin-top: 2.5rem; color: var(--soft); font-size: .85rem; }
.cell.k-activations { background: #9a4a05; } .cell.k-parameters { background: #0757b3; }
.cell.k-optimizer_state { background: #9b2a70; } .cell.k-temporaries { background: #6e5300; }
.cell.k-workspaces { background: #57606a; }
@media (max-width: 40rem) {
  .source code { white-space: nowrap; } .bars { min-width: 2.5rem; width: 2.5rem; }
}
@media print {
  body { max-width: none; padding: 0; font-size: 11px; }
  .tall { max-height: none; overflow: visible; } .search, .readout { display: none; }
  section { break-inside: auto; } figure, tr { break-inside: avoid; }
  * { -webkit-print-color-adjust: exact; print-color-adjust: exact; }
}
)css";

// Of images alone.
constexpr std::string_view kWords = R"css(
text { font: 13px system-ui, sans-serif; fill: var(--ink); } .title { font-weight: 600; }
.page { fill: var(--page); } .tick { stroke: var(--edge); } .peak { stroke: var(--ink); stroke-width: 2; }
.card { stroke: var(--ink); stroke-width: 2; stroke-dasharray: 6 4; }
)css";

}  // namespace

std::string PageStyle() { return std::string(kColors) + std::string(kLayout); }

std::string SvgStyle() { return std::string(kColors) + std::string(kWords); }

}  // namespace onnxfit
