"""Toxiproxy: a real server for byte-level faults, behind one typed adapter."""

from __future__ import annotations

from harness.services.toxiproxy.toxics import Bandwidth, Latency, ResetPeer, Slicer, Stream, Timeout, Toxic

__all__ = ["Bandwidth", "Latency", "ResetPeer", "Slicer", "Stream", "Timeout", "Toxic"]
