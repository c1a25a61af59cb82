"""Lists and tables in Markdown."""

from __future__ import annotations


def bullets(lines) -> str:
    """A list; nothing for no lines."""
    return "\n".join(f"- {line}" for line in lines)


def grid(heads, lines, rule) -> str:
    """A table of texts; `rule` is the line below the heads."""
    head, *body = ["| " + " | ".join(line) + " |" for line in [heads, *lines]]
    return "\n".join([head, rule, *body])


def table(found) -> str:
    """A table of cells, without its caption."""
    heads = [f"*{words}*" if kind == "published" else words for words, kind in found.heads]
    lines = []
    for label, *cells in found.rows:
        shown = [cell.shown for cell in cells]
        lines.append([label, *[f"{middle} ({spread})" if spread else middle for middle, spread in shown]])
    return grid(heads, lines, "|---|" + "---:|" * (len(heads) - 1))
