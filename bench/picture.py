"""A picture of the report, its summary and the first plots, by Chromium without a display. Only README needs it; no test does."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from pathlib import Path

from PIL import Image

# From the summary to the plots of E1, in CSS pixels.
WIDTH, HEIGHT = 1280, 1830
WITHOUT_HEADER = "<style>header { display: none } #summary { margin: 0; border: 0; padding: 0 }</style></head>"
# A palette of this size keeps the file small and the text sharp.
COLOURS = 96
TIMEOUT_S = 120


def chromium() -> str | None:
    """The program, if it is installed."""
    return shutil.which("chromium") or shutil.which("chromium-browser")


def save(page: Path, path: Path):
    """Writes a PNG file of the page, in its light colours."""
    program = chromium()
    if program is None:
        raise RuntimeError("Chromium is not installed (Debian package chromium)")
    with tempfile.TemporaryDirectory(prefix="todana-picture-") as directory:
        shown, shot = Path(directory) / "report.html", Path(directory) / "report.png"
        shown.write_text(page.read_text().replace("</head>", WITHOUT_HEADER, 1))
        subprocess.run(
            [program, "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", f"--window-size={WIDTH},{HEIGHT}",
             f"--screenshot={shot}", shown.as_uri()],
            check=True, capture_output=True, timeout=TIMEOUT_S,
        )  # fmt: skip
        with Image.open(shot) as found:
            found.convert("RGB").quantize(COLOURS).save(path, optimize=True)
