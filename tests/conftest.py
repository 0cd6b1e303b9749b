"""What all tests share: how hard Hypothesis looks. ``--hypothesis-profile=thorough`` looks harder, with new luck."""

from __future__ import annotations

from hypothesis import HealthCheck, settings

settings.register_profile("quick", derandomize=True, deadline=None, database=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("thorough", max_examples=2000, deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("quick")
