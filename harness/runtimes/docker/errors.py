"""The errors of the container engine's client, imported in one place."""

from typing import Final

from docker.errors import APIError, DockerException, ImageNotFound
from requests.exceptions import RequestException
from urllib3.exceptions import HTTPError

SILENT: Final = (RequestException, HTTPError)
"""Raised when the engine does not answer, or dies while it does."""

__all__ = ["SILENT", "APIError", "DockerException", "ImageNotFound"]
