"""page - writes the report as one HTML file beside its pictures."""

import html

from report_base import CACHES, MISSED, NOISY, NOTHING, REACHED, short

STYLE = """body{font:15px/1.5 system-ui,sans-serif;margin:1em auto;padding:0 1em;color:#222;
max-width:76em}
table{border-collapse:collapse;font-size:13px;margin:.6em 0}
td,th{border:1px solid #ccc;padding:.25em .6em;text-align:left;vertical-align:top}
th{background:#f2f2f2}figure{margin:2em 0}img{max-width:100%;height:auto}h1{margin:.2em 0}
.wide{overflow-x:auto}.see{font-size:15px}td.long,pre{overflow-wrap:anywhere;white-space:pre-wrap}
.reached{color:#2f7d32}.missed{color:#b3261e}.open{color:#666}figcaption{font-size:14px}
#first figure{margin:.5em 0}"""
CLASSES = {REACHED: "reached", MISSED: "missed", NOTHING: "open", NOISY: "open"}

HOW_TO_READ = """<p><b>Serial</b>: threads run the operation one after the other, STEPS off.
<i>Warm</i>: only the same operation has just run.
<i>Cold</i>: the first-level caches are empty before each operation, as if other code had run.
<b>Team</b>: STEPS on. The counts include the wrapper between operations, the switches and the
scheduler's turns. The <b>leader</b> runs each stretch of code first; <b>followers</b> come later.
A database that alternates between operations never executes warm and serially, so the true baseline
is between warm and cold.</p>
<p><b>Fits</b>: a serial run misses at most 2% of the lines of code that it uses. Then teams have
nothing to save. The size of the code does not decide: lines that compete for one set also miss in a
cache that is large enough.</p>
<p><b>Native time</b>: slices with STEPS off and on alternate on one store. A probe of the core
stands beside each slice, and pairs with a disturbed slice are left out. The ratio is the median of
the pairs. A claim needs eight pairs, quartiles within 10% of the median, and a 99% interval that
lies at least 1% off. Otherwise the page says <i>too noisy to tell</i>, draws a hollow mark, and no
goal counts as reached by it.</p>
<p><b>Not shown</b>: misses are not time. The counts are those of a cache with perfect LRU
replacement, no instruction prefetcher and no second hyperthread. Processors hide part of these
misses. Time stands beside the counts and is never derived from them. Branch predictors are
published outlines, not real processors. In contrast to the thesis, the fast switch causes
mispredicted returns that a return-address stack would have predicted. The model k7 shows this;
gshare does not.</p>"""


def _cell(cell):
    text = str(cell)
    return f"<td{' class=long' if len(text) > 40 else ''}>{html.escape(text)}</td>"


def _table(header, rows):
    head = "".join(f"<th>{html.escape(str(h))}</th>" for h in header)
    body = "".join("<tr>" + "".join(_cell(cell) for cell in row) + "</tr>" for row in rows)
    return f"<div class=wide><table><tr>{head}</tr>{body}</table></div>"


def _heading(cache):
    if cache in CACHES:
        return f"{CACHES[cache]} ({short(cache)})"
    if "," in cache:
        return f"small cache {short(cache)}, where single operations do not fit"
    return {"branches": "branches, any cache"}.get(cache, cache)


def _goals(goals):
    """A table for each cache: the thesis's first, then today's, then the others."""
    caches = list(dict.fromkeys([c for c in CACHES if any(g[0] == c for g in goals)]))
    caches += [g[0] for g in goals if g[0] not in caches]
    parts = []
    for cache in dict.fromkeys(caches):
        rows = "".join(
            f"<tr>{_cell(what)}{_cell(wanted)}{_cell(seen)}"
            f"<td class={CLASSES[outcome]}>{outcome}</td></tr>"
            for place, what, wanted, seen, outcome in goals
            if place == cache
        )
        parts.append(
            f"<h3>{html.escape(_heading(cache))}</h3><div class=wide><table>"
            f"<tr><th>figure</th><th>wanted</th><th>seen</th><th></th></tr>{rows}</table></div>"
        )
    return "".join(parts)


def _figure(shown):
    name = shown["name"]
    links = " ".join(f'<a href="{name}.{kind}">{kind}</a>' for kind in ("svg", "csv", "json"))
    thesis = f"<br>Thesis: {html.escape(shown['thesis'])}." if shown["thesis"] else ""
    note = f"<br>{html.escape(shown['note'])}" if shown["note"] else ""
    return (
        f'<figure><img src="{name}.png" alt="{html.escape(shown["title"])}"><figcaption>'
        f"<b>{shown['caption']} {shown['number']}.</b> {html.escape(shown['title'])}."
        f'<br><span class=see>{html.escape(shown["see"])}</span>{thesis}{note}'
        f" ({links})</figcaption></figure>"
    )


def _provenance(report):
    """One block for what is common, then one row for each run."""
    first = next(p for _, _, p in report.m.runs if p)
    machine, build = first["machine"], first["build"]
    rows = [
        ("report", report.options.command),
        ("date", first["date"]),
        ("seed", first["seed"]),
        ("processor", f"{machine['processor']}, {machine['processors']} processors"),
        ("caches", ", ".join(machine["caches"])),
        ("kernel", machine["kernel"]),
        ("compiler", f"{build['compiler']}, {build['kind']}"),
        ("commit", build["commit"]),
    ]
    runs, differs = [], []
    for name, command, p in report.m.runs:
        if p is None:
            runs.append([name, "", "", "", "", command])
            continue
        order = p["order"]
        runs.append(
            [
                name,
                f"{p['points']['set']}: {' '.join(p['points']['names'])}",
                f"locks {order['lock_policy']}; teams of at most {order['team_max']};"
                f" tuner {order['tuner']}; float {'on' if order['float_state'] else 'off'}",
                ", ".join(dict.fromkeys(part.split(":")[0] for part in p["plan"]))
                + f" (off against {p['plan'][1].split(':')[1]})",
                "; ".join(f"{key} {value}" for key, value in p["scale"].items()),
                command,
            ]
        )
        differs += p["differs"]
    listed = "".join(f"<li>{html.escape(d)}</li>" for d in dict.fromkeys(differs))
    header = ["run", "points", "order", "work", "scale", "command"]
    return (
        "<h2>What was run</h2>"
        + _table(["", ""], rows)
        + "<h3>How it differs from the driver's <code>lockstep-tpcc --steps on</code></h3>"
        + f"<ul>{listed}</ul><details><summary>All {len(runs)} runs</summary>"
        + _table(header, runs)
        + "</details>"
    )


def _worse(report):
    header, rows = report.worse
    return (
        "<h2>Where STEPS makes it worse</h2><p>Each event that grows by 5% or more with"
        f" {report.sizes[0]} warehouses, and by at least one event a transaction.</p>" + _table(header, rows)
    )


def _counters(report):
    found = report.counter_rows()
    text = "<h2>Hardware counters</h2>"
    if isinstance(found, str):
        return text + f"<p>No counters here: {html.escape(found)}. All counts are simulated.</p>"
    return text + _table(*found)


def write(path, report):
    """One page. Without --figure it has every section."""
    parts = [
        f'<!doctype html><html lang="en"><head><meta charset=utf-8><title>Lockstep: instruction'
        f" cache</title><style>{STYLE}</style></head><body><article>",
        "<h1>STEPS and the instruction cache</h1>",
    ]
    if report.overview:
        parts.append(f"<div id=first>{_figure(report.overview)}</div>")
    if report.options.brief:
        parts.append("<p><b>Brief run: a look at the page, no results.</b></p>")
    parts.append(
        "<p>Source of counts: simulation of the instruction stream recorded under valgrind,"
        f" seed {report.options.seed}; repeats exactly. Time: native.</p>"
    )
    if any(p for _, _, p in report.m.runs):
        parts.append(_provenance(report))
    if report.goals:
        parts.append("<h2>Figures to reach, by cache</h2>" + _goals(report.goals))
    if report.worse:
        parts.append(_worse(report))
    if report.overview:
        parts.append(_counters(report))
    parts.append("<h2>How to read this</h2>" + HOW_TO_READ)
    if report.findings:
        listed = "".join(f"<li>{html.escape(f)}</li>" for f in report.findings)
        parts.append(f"<h2>Findings</h2><ul>{listed}</ul>")
    parts.append("<h2>Figures</h2>" + "".join(_figure(s) for s in report.gallery.shown))
    for title, see, header, rows in report.tables:
        parts.append(f"<h2>{html.escape(title)}</h2><p>{html.escape(see)}</p>")
        parts.append(_table(header, rows))
    path.write_text("\n".join(parts) + "\n</article></body></html>\n")
