"""Progress on standard error: bars on a terminal, otherwise lines."""

from __future__ import annotations

import sys
import time

import tqdm


class Progress:
    """One bar for all parts, and one for the current part, whose text names cell and arm."""

    def __init__(self, parts):
        self.has_bars = sys.stderr.isatty()
        self.parts = tqdm.tqdm(total=parts, desc="parts", position=0, unit="part", disable=not self.has_bars)
        self.part = None

    def begin(self, name, steps):
        """A part begins; `steps` is the number of its reports, if it is known."""
        self.end()
        self.part = tqdm.tqdm(total=steps, desc=name, position=1, unit="arm", leave=False, disable=not self.has_bars)

    def end(self):
        """The current part has ended."""
        if self.part is not None:
            self.part.close()
            self.parts.update()
        self.part = None

    def close(self):
        """All parts have ended."""
        self.end()
        self.parts.close()

    def say(self, text):
        """Reports a step."""
        if not self.has_bars:
            print(time.strftime("%H:%M:%S"), text, file=sys.stderr, flush=True)
        elif self.part is not None:
            self.part.set_postfix_str(text.partition(": ")[2] or text, refresh=False)
            self.part.update()
