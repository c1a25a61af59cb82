"""Plots as SVG by matplotlib. Its colours become names of a style sheet, which follows the reader's light or dark theme."""

from __future__ import annotations

import html
import io
import re
import statistics

import matplotlib

matplotlib.use("svg")
import matplotlib.pyplot as pyplot  # noqa: E402
from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator  # noqa: E402

# The colours that matplotlib draws with, and those that a reader sees: light, dark. Arms have the colours of Okabe and Ito,
# which colour-blind people can distinguish; markers differ as well.
INK, MUTED, GRID, PAPER = "#010101", "#020202", "#030303", "#050505"
COLOURS = {
    INK: ("ink", "#1b1f24", "#e8eaed"),
    MUTED: ("muted", "#68707a", "#9aa3ad"),
    GRID: ("grid", "#dfe3e8", "#343a42"),
    PAPER: ("paper", "#ffffff", "#1b1f25"),
    "#040401": ("todana", "#0072b2", "#4db2f0"),
    "#040402": ("arm1", "#d55e00", "#ff8a3d"),
    "#040403": ("arm2", "#009e73", "#2fd1a5"),
    "#040404": ("arm3", "#b8860b", "#f0c040"),
    "#040405": ("arm4", "#a64d86", "#e29bc5"),
    "#040406": ("arm5", "#4a5568", "#a9b4c2"),
    "#040407": ("arm6", "#2b8cbe", "#9ad4f5"),
}
TODANA = "#040401"
ARMS = ["#040402", "#040403", "#040404", "#040405", "#040406", "#040407"]
MARKERS = ["s", "^", "D", "v", "P", "X"]
# Inches. A panel stays readable at the width of a phone.
WIDTH, HEIGHT, LEGEND_ROW = 5.6, 3.9, 0.23
# Legends with longer labels have one column.
LABEL_OF_TWO_COLUMNS_MAX = 30
FONT = "system-ui, -apple-system, 'Segoe UI', 'DejaVu Sans', sans-serif"


def svgs(name, panels) -> dict:
    """Each panel of an experiment as one SVG element with a style sheet of its own, by the panel's name."""
    settings = {
        "svg.fonttype": "none", "svg.hashsalt": name, "font.family": "sans-serif", "font.size": 10.5,
        "text.color": INK, "axes.labelcolor": MUTED, "axes.edgecolor": MUTED, "xtick.color": MUTED, "ytick.color": MUTED,
        "axes.spines.top": False, "axes.spines.right": False, "axes.grid": True, "grid.color": GRID,
        "grid.linewidth": 0.8, "axes.axisbelow": True, "legend.frameon": False,
    }  # fmt: skip
    styles = _styles(panels)
    with matplotlib.rc_context(settings):
        return {panel.name: _named(f"{name}-{panel.name}", panel.title, _drawn(panel, styles)) for panel in panels}


def _drawn(panel, styles):
    count = len(panel.series)
    height = 1.4 + 0.32 * count if panel.bars else HEIGHT
    figure, axes = pyplot.subplots(figsize=(WIDTH, max(height, 3.0)))
    (_bars if panel.bars else _lines)(axes, panel, styles)
    axes.set_title(panel.title, loc="left", fontweight="bold", fontsize=11.5, pad=12)
    if not panel.bars:
        handles, labels = axes.get_legend_handles_labels()
        columns = 2 if max(map(len, labels), default=0) <= LABEL_OF_TWO_COLUMNS_MAX else 1
        if labels:
            rows = -(-len(labels) // columns)
            figure.set_figheight(HEIGHT + LEGEND_ROW * rows)
            figure.legend(handles, labels, loc="lower left", ncols=columns, fontsize=10, labelcolor=INK, handlelength=2.6)
            figure.tight_layout(rect=(0, (LEGEND_ROW * rows + 0.1) / figure.get_figheight(), 1, 1))
    else:
        figure.tight_layout()
    text = io.StringIO()
    figure.savefig(text, format="svg", transparent=True, metadata={"Date": None, "Creator": None})
    pyplot.close(figure)
    return text.getvalue()


def _styles(panels):
    """A colour and a marker for each label, the same in all panels, and no two alike in one."""
    styles, published = {}, 0
    for panel in panels:
        taken = {styles[series.label]["color"] for series in panel.series if series.label in styles}
        free = [pair for pair in zip(ARMS, MARKERS) if pair[0] not in taken]
        for series in panel.series:
            if series.label in styles:
                continue
            if series.kind == "todana":
                styles[series.label] = {"color": TODANA, "marker": "o", "linewidth": 2.6, "markersize": 6, "zorder": 4}
            elif series.kind == "published":
                dashes = ["--", ":", "-.", (0, (1, 3))][published % 4]
                styles[series.label] = {"color": MUTED, "linestyle": dashes, "linewidth": 1.4, "zorder": 2}
                published += 1
            else:
                colour, marker = free.pop(0) if free else (INK, "*")
                styles[series.label] = {"color": colour, "marker": marker, "linewidth": 1.6, "markersize": 5, "zorder": 3}
    # Further arms of Todana differ by their lines.
    lines = {series.label for panel in panels if not panel.bars for series in panel.series}
    own = [style for label, style in styles.items() if style["color"] == TODANA and label in lines]
    for style, (dashes, marker) in zip(own[1:], [("--", "s"), (":", "^"), ("-.", "D")]):
        style.update(linestyle=dashes, marker=marker, linewidth=1.8)
    return styles


def _lines(axes, panel, styles):
    places = list(dict.fromkeys(place for series in panel.series for place in series.points))
    if all(isinstance(place, int) for place in places):
        places.sort()
    # Places are categories of their own: counts such as 0, 1, 4, 16 have no common scale.
    at = {place: index for index, place in enumerate(places)}
    for series in panel.series:
        points = sorted((at[place], values) for place, values in series.points.items() if values)
        if not points:
            continue
        xs = [x for x, _ in points]
        style = styles[series.label]
        axes.plot(xs, [statistics.median(values) for _, values in points], label=series.label, **style)
        if series.kind != "published":
            low, high = [min(values) for _, values in points], [max(values) for _, values in points]
            axes.fill_between(xs, low, high, color=style["color"], alpha=0.16, linewidth=0)
    axes.set_xticks(range(len(places)), [_short(place) if isinstance(place, int) else place for place in places])
    axes.set_xlabel(panel.x)
    axes.grid(axis="x", visible=False)
    _scale(axes.yaxis, axes.set_yscale, panel)
    axes.set_ylabel(panel.y)


def _bars(axes, panel, styles):
    found = [series for series in panel.series if any(series.points.values())]
    for place, series in enumerate(reversed(found)):
        values = next(iter(series.points.values()))
        middle = statistics.median(values)
        style = styles[series.label]
        if panel.log_y:
            # A bar has no beginning on a logarithmic scale.
            axes.plot([middle], [place], marker="o", markersize=8, color=style["color"])
        else:
            axes.barh(place, middle, color=style["color"], alpha=0.45 if series.kind == "published" else 0.9, height=0.68)
        if len(values) > 1:
            axes.plot([min(values), max(values)], [place, place], color=INK, linewidth=1.4, solid_capstyle="butt")
        words = f"{middle:,.0f}" if middle >= 100 else f"{middle:.3g}"
        axes.annotate(words, (max(values), place), xytext=(8, 0), textcoords="offset points", va="center", fontsize=9.5)
    axes.set_yticks(range(len(found)), [series.label for series in reversed(found)])
    axes.tick_params(axis="y", length=0, labelcolor=INK)
    axes.grid(axis="y", visible=False)
    axes.margins(x=0.18)
    if panel.log_y:
        _scale(axes.xaxis, axes.set_xscale, panel)
    axes.set_xlabel(panel.y)


def _scale(axis, set_scale, panel):
    if panel.log_y:
        set_scale("log")
        axis.set_major_locator(LogLocator(base=10, subs=(1, 2, 5), numticks=9))
        axis.set_minor_locator(NullLocator())
    axis.set_major_formatter(FuncFormatter(_short))


def _short(value, _position=None):
    for size, sign in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= size:
            return f"{value / size:g}{sign}"
    return f"{value:g}"


def on_paper(plot) -> str:
    """A plot with a background of its own, for pages that may be light or dark."""
    paper = '<rect width="100%" height="100%" style="fill: var(--plot-paper)"/>'
    return plot.replace("</style>", "</style>" + paper, 1)


def _named(name, title, text) -> str:
    """Replaces colours by names of the style sheet, and makes ids unique, so that several plots fit on one page."""
    text = text[text.index("<svg") :]
    for colour, (word, _, _) in COLOURS.items():
        text = text.replace(colour, f"var(--plot-{word})")
    # Only a style can name colours of the style sheet, attributes cannot.
    text = re.sub(r' (fill|stroke)="(var\([^"]*\))"', r' style="\1: \2"', text)
    text = re.sub(r'\bid="', f'id="{name}-', text)
    text = re.sub(r'(href="|url\()#', rf"\1#{name}-", text)
    text = re.sub(r"<metadata>.*?</metadata>\s*", "", text, flags=re.S)
    text = re.sub(r"(font: [^;\"]*?)(?:'[^']*'(?:, )?)+[^;\"]*", lambda found: found[1] + FONT.replace("'", ""), text)
    text = re.sub(r'<svg [^>]*viewBox="([^"]*)"[^>]*>', _opening(title), text, count=1, flags=re.S)
    return re.sub(r"[ \t]+\n", "\n", text).strip() + "\n"


def _opening(title):
    day = "; ".join(f"--plot-{word}: {light}" for word, light, _ in COLOURS.values())
    night = "; ".join(f"--plot-{word}: {dark}" for word, _, dark in COLOURS.values())
    return (
        '<svg xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink" '
        rf'viewBox="\1" class="plot" role="img" aria-label="{html.escape(title)}">'
        f"<style>.plot {{ {day} }} @media (prefers-color-scheme: dark) {{ .plot {{ {night} }} }}</style>"
    )
