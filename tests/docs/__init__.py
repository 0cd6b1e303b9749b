"""The pages in README and docs: their generated parts, their links, their lengths."""
