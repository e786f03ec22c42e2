"""A timeline as HTML for notebooks: one element with its own style, without scripts and without anything remote.

Everything that a model, a tool or a provider wrote is escaped text. URLs are text, too: a browser may look up the name
of a link's host before anybody clicks it, so that a link could carry data away. Colours are mixed from the colour of
the surrounding text, so that the view fits any theme.
"""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

from penstock._client.timeline import (
    NAME_CHARACTERS,
    Excerpt,
    Timeline,
    TimelineRow,
    TimelineStep,
    count_of,
    describe_fault,
    describe_state,
    format_cost,
    format_seconds,
    format_usage,
    join_facts,
    shorten,
    timeline_facts,
)
from penstock._printable_text import reveal_controls

if TYPE_CHECKING:
    from collections.abc import Callable

_STYLE = """
.penstock{--ps-line:rgba(128,128,128,.35);--ps-fill:rgba(128,128,128,.1);--ps-soft:inherit;--ps-good:#2e8b57;
--ps-bad:#d9463c;--ps-call:#3a7bd5;color:inherit;font:13px/1.5 system-ui,-apple-system,"Segoe UI",sans-serif;
border:1px solid var(--ps-line);border-radius:8px;max-width:62em;margin:4px 0;overflow:hidden;text-align:left}
@supports (color:color-mix(in srgb,red,blue)){.penstock{--ps-line:color-mix(in srgb,currentColor 22%,transparent);
--ps-fill:color-mix(in srgb,currentColor 7%,transparent);--ps-soft:color-mix(in srgb,currentColor 68%,transparent);
--ps-good:color-mix(in srgb,currentColor 35%,#1a9c55);--ps-bad:color-mix(in srgb,currentColor 30%,#e5342b);
--ps-call:color-mix(in srgb,currentColor 35%,#2f7de1)}}
.penstock *{box-sizing:border-box}
.ps-head{display:flex;flex-wrap:wrap;gap:2px 10px;align-items:baseline;padding:8px 14px;background:var(--ps-fill);
border-bottom:1px solid var(--ps-line)}
.ps-head:last-child{border-bottom:0}
.ps-model{font-weight:600}.ps-soft{color:var(--ps-soft)}.ps-small{font-size:12px}
.ps-facts{flex-basis:100%}
.ps-state{margin-left:auto;font-size:12px;font-weight:600;color:var(--ps-soft)}
.ps-state.ps-good{color:var(--ps-good)}.ps-state.ps-bad{color:var(--ps-bad)}
.ps-body{padding:8px 14px 12px}
.ps-step{position:relative;padding:0 0 4px 20px;border-left:2px solid var(--ps-line);margin-left:5px}
.ps-step+.ps-step{padding-top:8px}
.ps-step-head{display:flex;flex-wrap:wrap;gap:0 10px;align-items:center;font-size:12px}
.ps-dot{position:absolute;left:-6px;width:10px;height:10px;border-radius:50%;background:var(--ps-call)}
.ps-bar{flex:0 1 140px;height:5px;border-radius:3px;background:var(--ps-fill);overflow:hidden;margin-left:auto}
.ps-bar>div{height:100%;background:var(--ps-call)}
.ps-row{margin:6px 0}
.ps-text{white-space:pre-wrap;overflow-wrap:anywhere;unicode-bidi:plaintext}
.ps-code{white-space:pre-wrap;overflow-wrap:anywhere;
font:12px/1.45 ui-monospace,SFMono-Regular,Menlo,Consolas,monospace;max-height:16em;overflow:auto;
unicode-bidi:plaintext}
.ps-call{border:1px solid var(--ps-line);border-left:3px solid var(--ps-call);border-radius:5px;padding:5px 9px}
.ps-call.ps-failed{border-left-color:var(--ps-bad)}
.ps-call-head{display:flex;flex-wrap:wrap;gap:0 10px;align-items:baseline}
.ps-name{font:600 12px/1.5 ui-monospace,SFMono-Regular,Menlo,Consolas,monospace;color:var(--ps-call)}
.ps-failed .ps-name,.ps-bad{color:var(--ps-bad)}
.ps-result{display:flex;gap:7px;margin-top:4px;padding-top:4px;border-top:1px dashed var(--ps-line)}
.ps-result>.ps-code{flex:1}
.ps-fold>summary{cursor:pointer;color:var(--ps-soft);font-size:12px}
.ps-fold>.ps-text{color:var(--ps-soft);border-left:2px solid var(--ps-line);padding-left:10px;margin:4px 0 4px 3px;
max-height:24em;overflow:auto}
.ps-error{margin:8px 14px 12px;padding:7px 10px;border:1px solid var(--ps-bad);border-left-width:4px;border-radius:5px}
.ps-picture{max-width:min(100%,420px);max-height:420px;border-radius:5px;display:block;margin-top:4px}
""".replace("\n", "")


def render_html(timeline: Timeline) -> str:
    """Returns the timeline as one HTML element."""
    pieces = [f"<style>{_STYLE}</style>", _render_head(timeline)]
    steps = [_render_step(step, timeline) for step in timeline.steps if step.rows or len(timeline.steps) > 1]
    if timeline.omitted_steps:
        steps.insert(-1, _soft(f"… {count_of(timeline.omitted_steps, 'step')} not shown"))
    if steps:
        pieces.append(f'<div class="ps-body">{"".join(steps)}</div>')
    if timeline.fault is not None:
        message = escape(describe_fault(timeline.fault))
        pieces.append(f'<div class="ps-error ps-text" role="alert"><b class="ps-bad">Error</b> {message}</div>')
    return f'<div class="penstock">{"".join(pieces)}</div>'


def _render_head(timeline: Timeline) -> str:
    name = shorten(timeline.model, NAME_CHARACTERS) or timeline.kind
    state, color = describe_state(timeline), ""
    if timeline.fault is not None:
        color = " ps-bad"
    elif timeline.finish:
        color = " ps-good" if timeline.finish in ("stop", "calls") else " ps-bad"
    pieces = [f'<span class="ps-model">{escape(name)}</span>']
    if timeline.provider:
        pieces.append(_soft(shorten(timeline.provider, NAME_CHARACTERS)))
    if state:
        pieces.append(f'<span class="ps-state{color}">{escape(reveal_controls(state))}</span>')
    if facts := timeline_facts(timeline):
        pieces.append(f'<span class="ps-facts ps-soft ps-small">{escape(facts)}</span>')
    return f'<div class="ps-head">{"".join(pieces)}</div>'


def _soft(text: str) -> str:
    return f'<span class="ps-soft ps-small">{escape(text)}</span>'


def _render_step(step: TimelineStep, timeline: Timeline) -> str:
    rows = [_RENDERERS[row.kind](row) for row in step.rows]
    if step.omitted:
        rows.append(_soft(f"… {count_of(step.omitted, 'part')} not shown"))
    if len(timeline.steps) == 1:
        return "".join(rows)
    facts = join_facts(format_usage(step.usage), format_cost(step.cost), format_seconds(step.seconds))
    head = f"<b>Step {step.number}</b>{_soft(facts) if facts else ''}{_render_bar(step, timeline)}"
    return (
        f'<div class="ps-step"><div class="ps-step-head"><span class="ps-dot"></span>{head}</div>{"".join(rows)}</div>'
    )


def _render_bar(step: TimelineStep, timeline: Timeline) -> str:
    """Returns a bar for the step's share of the time; if that is not known, of the tokens."""
    if all(one.seconds is not None for one in timeline.steps):
        what, values, value = "time", [one.seconds or 0.0 for one in timeline.steps], step.seconds or 0.0
    else:
        what, values, value = "tokens", [_count_tokens(one) for one in timeline.steps], _count_tokens(step)
    total = sum(values)
    if not total:
        return ""
    share = round(100 * value / total)
    title = f"{share}% of the {what}"
    return (
        f'<div class="ps-bar" role="img" aria-label="{title}" title="{title}"><div style="width:{share}%"></div></div>'
    )


def _count_tokens(step: TimelineStep) -> float:
    usage = step.usage
    return float((usage.input or 0) + (usage.output or 0)) if usage is not None else 0.0


def _excerpt(excerpt: Excerpt, kind: str) -> str:
    more = f" {_soft(f'… {excerpt.omitted:,} more characters')}" if excerpt.omitted else ""
    return f'<div class="{kind}">{escape(excerpt.text)}{more}</div>'


def _title(row: TimelineRow) -> str:
    return escape(shorten(row.title, NAME_CHARACTERS))


def _notes(row: TimelineRow) -> str:
    facts = join_facts(*map(reveal_controls, row.notes), format_seconds(row.seconds))
    return _soft(facts) if facts else ""


def _render_text(row: TimelineRow) -> str:
    label = join_facts(row.title, "refusal" if row.kind == "refusal" else "", *row.notes)
    return f'<div class="ps-row">{_soft(label) if label else ""}{_excerpt(row.body, "ps-text")}</div>'


def _render_reasoning(row: TimelineRow) -> str:
    label = join_facts("Reasoning", *row.notes, count_of(row.body.length, "character") if row.body.length else "hidden")
    body = _excerpt(row.body, "ps-text")
    return f'<details class="ps-row ps-fold"><summary>{escape(label)}</summary>{body}</details>'


def _render_call(row: TimelineRow) -> str:
    head = f'<div class="ps-call-head"><span class="ps-name">{_title(row) or "call"}</span>{_notes(row)}</div>'
    body = _excerpt(row.body, "ps-code") if row.body.length else ""
    result = ""
    if row.result is not None:
        arrow = '<span class="ps-bad">✗</span>' if row.failed else '<span class="ps-soft">→</span>'
        result = f'<div class="ps-result">{arrow}{_excerpt(row.result, "ps-code")}</div>'
    failed = " ps-failed" if row.failed else ""
    return f'<div class="ps-row ps-call{failed}">{head}{body}{result}</div>'


def _render_file(row: TimelineRow) -> str:
    label = f'<span class="ps-name">{_title(row)}</span> {_notes(row)}'
    picture = f'<img class="ps-picture" alt="picture" src="{escape(row.picture)}">' if row.picture else ""
    address = _excerpt(row.body, "ps-code") if row.body.length else ""
    return f'<div class="ps-row">{label}{address}{picture}</div>'


def _render_source(row: TimelineRow) -> str:
    title = f"{_title(row)} " if row.title else ""
    return f'<div class="ps-row ps-small">↗ {title}<span class="ps-soft ps-text">{escape(row.body.text)}</span></div>'


_RENDERERS: dict[str, Callable[[TimelineRow], str]] = {
    "text": _render_text,
    "refusal": _render_text,
    "reasoning": _render_reasoning,
    "call": _render_call,
    "file": _render_file,
    "source": _render_source,
}
