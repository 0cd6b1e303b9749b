"""The errors of the engine's client."""

from docker.errors import APIError, DockerException, ImageNotFound

__all__ = ["APIError", "DockerException", "ImageNotFound"]
