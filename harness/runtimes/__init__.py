"""Where nodes live: :mod:`harness.runtimes.interface` says what a runtime is, one package each implements it."""
