"""Writes the generated parts of all pages anew: ``python -m tests.docs``."""

from __future__ import annotations

from tests.docs.pages import wanted


def main() -> None:
    """Write them."""
    for page, text in wanted().items():
        page.parent.mkdir(parents=True, exist_ok=True)
        page.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
