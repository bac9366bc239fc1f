"""picture.py - draws the transfers of a transaction as stacked bars, one for each run."""

import html

COLOURS = ["#4269d0", "#efb118", "#ff725c", "#6cc5b0", "#3ca951", "#ff8ab7", "#a463f2", "#97bbf5",
           "#9c6b4e", "#9498a0"]
WIDTH, HEIGHT, LEFT, TOP, BOTTOM = 760, 400, 60, 30, 40
LEGEND = 330


def stacked_bars(runs: list[dict]) -> str:
    """An SVG text. The structures that move most lines have a colour each; others share one."""
    ranked = sorted({name for run in runs for name in run["transfers"]},
                    key=lambda name: -sum(run["transfers"].get(name, {"all": 0})["all"]
                                          for run in runs))
    named = ranked[:len(COLOURS) - 1]
    bars = []
    for run in runs:
        parts = [run["transfers"].get(name, {"all": 0})["all"] for name in named]
        whole = sum(sums["all"] for sums in run["transfers"].values())
        bars.append([*parts, whole - sum(parts)])
    most = max(sum(parts) for parts in bars) or 1
    scale = (HEIGHT - TOP - BOTTOM) / most
    step = (WIDTH - LEFT - LEGEND) / len(runs)
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" '
           'font-family="sans-serif" font-size="12">',
           f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>',
           f'<text x="{LEFT}" y="18">Cache lines that move between workers in a transaction</text>']
    for number, (run, parts) in enumerate(zip(runs, bars, strict=True)):
        x, y = LEFT + number * step, HEIGHT - BOTTOM
        for colour, part in zip(COLOURS, parts, strict=False):
            y -= part * scale
            out.append(f'<rect x="{x:.1f}" y="{y:.1f}" width="{step * 0.7:.1f}" '
                       f'height="{part * scale:.1f}" fill="{colour}"/>')
        middle = x + step * 0.35
        out.append(f'<text x="{middle:.1f}" y="{y - 4:.1f}" text-anchor="middle">'
                   f'{sum(parts):.0f}</text>')
        out.append(f'<text x="{middle:.1f}" y="{HEIGHT - 20}" text-anchor="middle">'
                   f'{run["workers"]} workers</text>')
    for number, name in enumerate([*named, "all others"]):
        y = TOP + 20 + number * 20
        out.append(f'<rect x="{WIDTH - LEGEND + 20}" y="{y - 10}" width="12" height="12" '
                   f'fill="{COLOURS[number]}"/>'
                   f'<text x="{WIDTH - LEGEND + 38}" y="{y}">{html.escape(name)}</text>')
    return "\n".join([*out, "</svg>"]) + "\n"
