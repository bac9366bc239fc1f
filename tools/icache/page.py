"""page - writes the report as one HTML file beside its pictures."""

import html
import platform

STYLE = """body{font:15px/1.5 system-ui,sans-serif;max-width:62em;margin:2em auto;
padding:0 1em;color:#222}
table{border-collapse:collapse;font-size:13px;margin:1em 0}
td,th{border:1px solid #ccc;padding:.25em .6em;text-align:left}
th{background:#f2f2f2}figure{margin:2em 0}img{max-width:100%}
.yes{color:#2f7d32}.no{color:#b3261e}figcaption{font-size:14px}"""

HOW_TO_READ = """<p><b>Serial</b>: threads run the operation one after the other, STEPS off.
<i>Warm</i>: only the same operation has just run.
<i>Cold</i>: the first-level caches are empty before each operation, as if other code had run.
<b>Team</b>: STEPS on. The counts include the wrapper between operations, the switches and the
scheduler's turns. The <b>leader</b> runs each stretch of code first; <b>followers</b> come later.
A database that alternates between operations never executes warm and serially, so the true baseline
is between warm and cold.</p>
<p><b>Not shown</b>: misses are not time. The counts are those of a cache with perfect LRU
replacement, no instruction prefetcher and no second hyperthread. Processors hide part of these
misses. Time was measured natively, in pairs, on a shared machine. It stands beside the counts and
is never derived from them. Branch predictors are published outlines, not real processors. In
contrast to the thesis, the fast switch causes mispredicted returns that a return-address stack
would have predicted. The model k7 shows this; gshare does not.</p>"""


def _table(header, rows):
    head = "".join(f"<th>{html.escape(str(h))}</th>" for h in header)
    body = "".join(
        "<tr>" + "".join(f"<td>{html.escape(str(cell))}</td>" for cell in row) + "</tr>"
        for row in rows
    )
    return f"<table><tr>{head}</tr>{body}</table>"


def _goals(goals):
    rows = "".join(
        f"<tr><td>{html.escape(what)}</td><td>{html.escape(wanted)}</td>"
        f"<td>{html.escape(seen)}</td><td"
        f" class={'yes' if met else 'no'}>{'reached' if met else 'not reached'}</td></tr>"
        for what, wanted, seen, met in goals
    )
    return f"<table><tr><th>figure</th><th>wanted</th><th>seen</th><th></th></tr>{rows}</table>"


def _figure(shown):
    name = shown["name"]
    links = " ".join(f'<a href="{name}.{kind}">{kind}</a>' for kind in ("svg", "csv", "json"))
    return (
        f'<figure><img src="{name}.png" alt="{html.escape(shown["title"])}"><figcaption><b>Figure'
        f' {shown["number"]}.</b> {html.escape(shown["title"])}. <br>Thesis:'
        f' {html.escape(shown["thesis"])}.<br>{html.escape(shown["note"])}'
        f" ({links})</figcaption></figure>"
    )


def write(path, report):
    parts = [
        (
            "<!doctype html><meta charset=utf-8><title>Lockstep: instruction"
            f" cache</title><style>{STYLE}</style>"
        ),
        "<h1>STEPS and the instruction cache</h1>",
        (
            "<p>Source of counts: simulation of the instruction stream recorded under valgrind,"
            f" seed {report.options.seed}; repeats exactly. Time: native, on"
            f" {html.escape(platform.processor() or platform.machine())}.</p>"
        ),
        HOW_TO_READ,
    ]
    if report.findings:
        parts.append(
            "<h2>Findings</h2><ul>"
            + "".join(f"<li>{html.escape(f)}</li>" for f in report.findings)
            + "</ul>"
        )
    if report.goals:
        parts.append("<h2>Figures to reach</h2>" + _goals(report.goals))
    for title, header, rows in report.tables:
        parts.append(f"<h2>{html.escape(title)}</h2>" + _table(header, rows))
    parts.append("<h2>Figures</h2>" + "".join(_figure(s) for s in report.gallery.shown))
    path.write_text("\n".join(parts) + "\n")
