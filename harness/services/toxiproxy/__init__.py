"""Toxiproxy: a real proxy server that damages a network connection (latency, bandwidth, resets),
behind a typed adapter.
"""

from __future__ import annotations

from harness.services.toxiproxy.toxics import (
    Bandwidth,
    Latency,
    ResetPeer,
    Slicer,
    Stream,
    Timeout,
    Toxic,
)

__all__ = ["Bandwidth", "Latency", "ResetPeer", "Slicer", "Stream", "Timeout", "Toxic"]
