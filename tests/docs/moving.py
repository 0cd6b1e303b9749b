"""Draws the moving picture of ``lostack demo`` from its recording: an SVG without scripts.

Each line comes when it came in the run; silences are shortened (:data:`LONGEST_S`). Where nothing
moves (a printed page, a reader who has asked for less motion) the picture is its last moment.
"""

from __future__ import annotations

from itertools import groupby, pairwise
from typing import TYPE_CHECKING, Final
from xml.sax.saxutils import escape

from tests.docs.recording import COMMAND, ROOT, WIDTH, Recording

if TYPE_CHECKING:
    from collections.abc import Iterator

PICTURE: Final = ROOT / "docs" / "demo.svg"
LONGEST_S: Final = 1.6
"""The longest silence between two lines of the picture, in seconds."""
BEFORE_S: Final = 0.8
AFTER_S: Final = 8.0
"""How long the picture shows the command alone, and how long the whole at the end."""
ROWS: Final = 30
ROW, COLUMN, EDGE, BAR = 19, 8.0, 16, 34
"""Pixels: the height of a row, the width of a character, the edge, the bar of the window."""
DROP: Final = 5
"""How far letters reach below their row, in pixels: a row that has left shows none of them."""
COLOURS: Final = (
    ("✘ broken", "bad"),
    ("✔ kept", "good"),
    ("is killed", "warn"),
    ("the answer is held", "warn"),
    ("1  ", "head"),
    ("2  ", "head"),
    ("3  ", "head"),
)
"""What a line has in it (at its beginning, if it is a number), and the class it is drawn in."""
STYLE: Final = """\
text{font:13.3px ui-monospace,SFMono-Regular,Menlo,Consolas,"DejaVu Sans Mono",monospace;\
fill:#d0d7de;white-space:pre}
.head{fill:#fff;font-weight:bold}.bad{fill:#ff7b72;font-weight:bold}.good{fill:#7ee787}\
.warn{fill:#e3b341}.dim{fill:#8b949e}
"""


def drawn(recording: Recording) -> str:
    """Return the picture as an SVG."""
    rows = [(0.0, f"$ {' '.join(COMMAND)}"), *wrapped(recording)]
    end = rows[-1][0] + AFTER_S
    steps = [
        (at, [text for _, text in group]) for at, group in groupby(rows, key=lambda row: row[0])
    ]
    style, body, scroll, count = [STYLE], [], [], 0
    for number, (at, texts) in enumerate(steps):
        if number:
            style.append(
                f".s{number}{{animation:s{number} {end:.1f}s step-end infinite}}"
                f"@keyframes s{number}{{0%{{opacity:0}}{share(at, end)}{{opacity:1}}}}\n"
            )
        lines = "".join(
            f'<text class="{colour(text)}" y="{ROW * at_row - DROP}">{escape(text)}</text>\n'
            for at_row, text in enumerate(texts, start=count + 1)
        )
        body.append(f'<g class="s{number}">\n{lines}</g>\n')
        count += len(texts)
        scroll.append((share(at, end), -ROW * max(0, count - ROWS)))
    moves = "".join(f"{at}{{transform:translateY({by}px)}}" for at, by in scroll)
    last = f"transform:translateY({scroll[-1][1]}px)"
    style += [
        f".all{{{last};animation:all {end:.1f}s step-end infinite}}@keyframes all{{{moves}}}\n",
        "@media (prefers-reduced-motion:reduce){g{animation:none!important}}\n",
    ]
    width, height = round(WIDTH * COLUMN + 2 * EDGE), BAR + ROWS * ROW + EDGE
    title = escape(str(recording.about["title"]))
    return f"""\
<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img">
<title>{title}</title>
<style>
{"".join(style)}</style>
<rect width="{width}" height="{height}" rx="8" fill="#0d1117"/>
<circle cx="20" cy="17" r="5" fill="#ff7b72"/><circle cx="38" cy="17" r="5" fill="#e3b341"/>
<circle cx="56" cy="17" r="5" fill="#7ee787"/>
<text class="dim" x="{width / 2:.0f}" y="21" text-anchor="middle">{title}</text>
<svg x="{EDGE}" y="{BAR}" width="{width - 2 * EDGE}" height="{ROWS * ROW + 6}">
<g class="all">
{"".join(body)}</g>
</svg>
</svg>
"""


def wrapped(recording: Recording) -> Iterator[tuple[float, str]]:
    """Yield each row of the terminal, and when it comes: silences are shortened, long lines cut."""
    at = BEFORE_S
    times = [0.0, *(time for time, _ in recording.lines)]
    for (before, now), (_, line) in zip(pairwise(times), recording.lines, strict=True):
        at = round(at + min(now - before, LONGEST_S), 1)
        for start in range(0, max(1, len(line)), WIDTH):
            yield at, line[start : start + WIDTH]


def colour(text: str) -> str:
    """Return the class in which a row is drawn."""
    return next(
        (
            name
            for part, name in COLOURS
            if (text.startswith(part) if part[0].isdigit() else part in text)
        ),
        "",
    )


def share(at: float, end: float) -> str:
    """Return a moment as its share of the whole.

    >>> share(5.0, 20.0)
    '25%'
    """
    return f"{100 * at / end:.4g}%"
