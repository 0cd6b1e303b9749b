"""Masks secrets in texts that are printed or kept: by the name of a variable, by their shape, and
those that a declaration has brought.

The programs get the real values. What is printed, and what stays on disk, has :data:`MASK`.
"""

from __future__ import annotations

import os
import re
import shlex
from functools import partial
from pathlib import Path
from tempfile import mkstemp
from typing import IO, TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

MASK: Final = "***"
_WORDS: Final = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")
_NAMED: Final = re.compile(
    r"passw(or)?d|passphrase|passcode|passkey|secret|token|credential|apikey|accesskey|privatekey"
    r"|accountkey|jaas"
)
"""What the name of a secret holds, without its separators and in small letters."""
_LAST: Final = frozenset(
    {"pass", "pwd", "pw", "key", "keys", "auth", "authorization", "creds", "pin", "pins", "psk"}
    | {"otp", "totp", "cvv", "cvc"}
)
"""What the name of a secret may end with."""
_ABOUT: Final = re.compile(
    r"file|path|dir|folder|name|field|column|ur[li]|host|port|id|ttl|type|(de)?serializer|class"
    r"|location|timeout|ms|seconds|size|count|enabled|provider|source|region|version|prefix|suffix"
)
"""What a name ends with that only tells of a secret."""
_PLACE: Final = re.compile(r"\{[\w.]+\}(?:/.*)?")
"""A value that lostack fills in: ``{password}``, ``{work}/key.pem``."""
_KEY: Final = (
    r"(?:password|passwd|passphrase|passcode|passkey|pwd|secret|token|api[_-]?key|account[_-]?key"
    r"|credential)s?"
)
_OPEN: Final = r"(?!(?:\\?[\"']){0,9}\$?\{[\w.]+\})"
"""Not a value that lostack fills in, nor a variable that the shell does."""
_KEYS: Final = ("pass", "pwd", "secret", "token", "api", "account", "credential")
_SHORT: Final = r"(?:pin|t?otp|cv[vc])"
"""What numbers of a few digits are called that are secrets. Longer words hold these, too."""
_VALUE: Final = r"\"(?:\\[\s\S]|[^\"\\])*\"|'[^']*'|\\\"[^\"]*\""
"""A value in quotation marks, or in those of a text that has them escaped."""
_PIECE: Final = r"\"(?![\s,;:}\])])(?:\\.|[^\"\\\n])*\"|'(?![\s,;:}\])])[^'\n]*'|\\\"[^\"\n]*\"|\\."
"""A piece of a word in quotation marks that do not begin the word, as shells have it. Marks before
a sign of JSON end a word. A piece ends on its line: an apostrophe in a log begins none.
"""
_WORD: Final = rf"(?:(?:{_VALUE})(?:{_PIECE}|[^\s,;:}}\])\"'\\])*|[^\s,;-](?:{_PIECE}|\S)*)"
"""A word of a command line, of one piece or several: ``'it'\\''s'``."""
_TOKENS: Final = {
    # GitHub, GitLab, Bitbucket and Atlassian
    **dict.fromkeys(("ghp_", "gho_", "ghu_", "ghs_", "ghr_", "github_pat_"), r"\w{20,}"),
    **dict.fromkeys(("glpat-", "gldt-", "glrt-", "glptt-", "glcbt-", "glft-"), r"[\w-]{16,}"),
    **dict.fromkeys(("ATATT3", "ATBB", "ATCTT3"), r"[\w=-]{20,}"),
    # clouds
    **dict.fromkeys(("AKIA", "ASIA"), r"[0-9A-Z]{16}\b"),
    **dict.fromkeys(("AIza", "ya29.", "GOCSPX-"), r"[\w-]{20,}"),
    **dict.fromkeys(("dop_v1_", "doo_v1_", "dor_v1_"), r"[0-9a-f]{32,}"),
    "dapi": r"[0-9a-f]{32}(?:-\d)?\b",
    **dict.fromkeys(("hvs.", "hvb.", "hvr."), r"[\w-]{20,}"),
    "tskey-": r"[\w-]{16,}",
    # payments and shops
    **dict.fromkeys(("sk_live_", "sk_test_", "rk_live_", "rk_test_"), r"[0-9a-zA-Z]{8,}"),
    "whsec_": r"[\w+/=]{16,}",
    **dict.fromkeys(("shpat_", "shpss_", "shpca_", "shppa_"), r"[0-9a-fA-F]{16,}"),
    **dict.fromkeys(("sq0atp-", "sq0csp-"), r"[\w-]{20,}"),
    # messages, models and monitoring
    **dict.fromkeys(("xoxa-", "xoxb-", "xoxe-", "xoxo-", "xoxp-", "xoxr-"), r"[\w-]{10,}"),
    **dict.fromkeys(("xoxs-", "xapp-"), r"[\w-]{10,}"),
    "https://hooks.slack.com/services/": r"[\w/]{20,}",
    "SG.": r"[\w-]{16,}\.[\w-]{16,}",
    "sk-": r"[\w-]{20,}",
    "hf_": r"[0-9a-zA-Z]{30,}",
    **dict.fromkeys(("glsa_", "NRAK-", "PMAK-", "lin_api_", "ntn_"), r"[\w-]{20,}"),
    # registries of packages and images
    "npm_": r"[0-9a-zA-Z]{36}",
    "pypi-AgE": r"[\w-]{20,}",
    "rubygems_": r"[0-9a-f]{32,}",
    "dckr_pat_": r"[\w-]{20,}",
}
"""How tokens begin that are known by their beginning, and what follows."""
_SHAPES: Final = (
    (
        ("private key-----",),
        re.compile(
            r"()-----BEGIN [A-Z ]{0,20}PRIVATE KEY-----"
            r"(?:.{0,20000}?-----END [A-Z ]{0,20}KEY-----|.{0,20000})",
            re.DOTALL,
        ),
    ),
    (("://",), re.compile(r"(://[^\s/:@\"']{0,200}:)(?!\$\{\w+\}@)[^\s/\"']{1,500}(?=@)")),
    (
        ("authorization",),
        re.compile(r"(?i)(authorization[\"']?\s*[:=]\s*[\"']?(?:basic|bearer)\s+)[\w.~+/=-]+"),
    ),
    (("bearer",), re.compile(r"(?i)(\bbearer\s+)[\w.~+/-]{16,}=*")),
    (
        _KEYS,
        re.compile(
            rf"(?i)({_KEY}[ \t]?=[ \t]?){_OPEN}"
            rf"(?:(?:{_VALUE})(?:{_PIECE})*|[^\s&;,#\"'\[\]{{}}()]+)"
        ),
    ),
    (_KEYS, re.compile(rf"(?i)({_KEY}[\"'][ \t]?:[ \t]?){_OPEN}(?:{_VALUE}|[\w.+/-]+)")),
    (_KEYS, re.compile(rf"(?i)((?<!\S)--?[\w-]{{0,40}}{_KEY} ){_OPEN}{_WORD}")),
    (("eyj",), re.compile(r"()\beyJ[\w-]{6,}\.[\w-]{6,}\.[\w-]*")),
    (
        ("pin", "otp", "cv"),
        re.compile(
            rf"(?i)((?:(?:(?<![a-z])|(?-i:(?<=[a-z])(?=[A-Z]))){_SHORT}[\"']?[ \t]?[:=][ \t]?"
            rf"|(?<!\S)--?(?:[\w-]{{0,40}}-)?{_SHORT} )(?:\\?[\"'])?)\d{{3,12}}(?![\w.])"
        ),
    ),
    (
        tuple(each.lower() for each in _TOKENS),
        re.compile(
            rf"()\b(?:{'|'.join(re.escape(begin) + rest for begin, rest in _TOKENS.items())})"
        ),
    ),
)
"""Texts that are secrets wherever they stand: what every such text has, in small letters; the
pattern, whose first group stays.
"""
_FLAG: Final = re.compile(rf"(?i)--?(?:[\w-]{{0,40}}{_KEY}|(?:[\w-]{{0,40}}-)?{_SHORT})")
_LEAST: Final = 8
"""How many characters a secret has at least that is looked for everywhere."""
_BLOCK: Final = 1 << 20
"""How many bytes of a file are masked at once, if it has more."""
_AROUND: Final = 1 << 16
"""How many bytes before a cut, and behind it, are looked at for secrets that lie across it."""
_brought: list[str] = []
"""The longest first, for a secret may be part of another one."""
_NO_CHARACTER: Final = "\0"
"""What no word of a command line can hold."""
_VARIABLES: Final = {"environment", "settings"}
"""The tables of a declaration whose names are not lostack's, but a program's or a broker's."""


def is_secret(name: str) -> bool:
    """Return whether a variable of this name holds a secret.

    >>> all(map(is_secret, ["DB_PASSWORD", "PGPASSWORD", "apiKey", "AWS_SECRET_ACCESS_KEY"]))
    True
    >>> any(map(is_secret, ["KEY_SERIALIZER", "PASSWORD_FILE", "MONKEYS", "BOOTSTRAP"]))
    False
    """
    words = [word.lower() for word in _WORDS.findall(name)]
    if not words or _ABOUT.fullmatch(words[-1]):
        return False
    return words[-1] in _LAST or _NAMED.search("".join(words)) is not None


def masked(text: str, mask: str = MASK) -> str:
    """Return a text without the secrets in it, by their shape or because they were brought.
    ``mask`` takes their places.

    >>> print(masked('amqp://me:hunter2@db/shop --password hunter2 token = "abc"'))
    amqp://me:***@db/shop --password *** token = "***"
    """
    for value in _brought:
        text = text.replace(value, mask)
    small = text.lower()
    for needs, shape in _SHAPES:
        if any(need in small for need in needs):
            text = shape.sub(partial(_masked, mask), text)
    return text


def _masked(mask: str, found: re.Match[str]) -> str:
    """Keep the quotation marks around a secret, so that JSON and TOML stay what they are."""
    secret = found[0][len(found[1]) :]
    quote = secret[0] if re.fullmatch(_VALUE, secret) and secret[0] in "\"'" else ""
    return f"{found[1]}{quote}{mask}{quote}"


def with_variables(words: Sequence[str]) -> tuple[str, list[str]]:
    """Return a command line with a variable of the shell in the place of each secret, and the names
    of these variables.

    Around them are single quotation marks, in which nothing means anything to a shell.

    >>> print(with_variables(["lostack", "init", "my shop", "--producer", "./a --token=t0k3n"])[0])
    lostack init 'my shop' --producer './a --token='"${SECRET_1}"
    """
    line, names = [], list[str]()
    for word in words:
        first, *others = masked(word, _NO_CHARACTER).split(_NO_CHARACTER)
        parts = [shlex.quote(first) if first or not others else ""]
        for other in others:
            names.append(f"SECRET_{len(names) + 1}")
            parts += [f'"${{{names[-1]}}}"', shlex.quote(other) if other else ""]
        line.append("".join(parts))
    return " ".join(line), names


def masked_value(name: str, value: str) -> str:
    """Return the value of a variable, masked if its name or its shape is that of a secret.

    >>> masked_value("DB_PASSWORD", "x"), masked_value("DB_PASSWORD", "{password}")
    ('***', '{password}')
    """
    if value and is_secret(name) and not _PLACE.fullmatch(value):
        return MASK
    return masked(value)


def masked_settings(value: object, name: str = "") -> Any:
    """Return settings, as plain data, with their secrets masked. ``name``: the field that holds
    them.
    """
    if isinstance(value, dict):
        variables = name in _VARIABLES
        return {
            key: masked_value(key, str(part))
            if variables and (isinstance(part, str) or _is_number_of(key, part))
            else masked_settings(part, key)
            for key, part in value.items()
        }
    if isinstance(value, list | tuple):
        behind = [False, *(isinstance(word, str) and bool(_FLAG.fullmatch(word)) for word in value)]
        return [
            MASK if flagged and isinstance(part, str) else masked_settings(part, name)
            for flagged, part in zip(behind, value, strict=False)
        ]
    return masked(value) if isinstance(value, str) else value


def _is_number_of(name: str, value: object) -> bool:
    """Say whether a secret is written as a number, as a PIN is."""
    return is_secret(name) and isinstance(value, int | float) and not isinstance(value, bool)


def mask_file(file: Path) -> None:
    """Mask the secrets in a text file, in its place, and let nobody else read it.

    Raises:
        OSError: the file cannot be read or written, or is a link. It stays as it was.
    """
    with open(os.open(file, os.O_RDONLY | os.O_NOFOLLOW), "rb") as source:  # noqa: PTH123 - no link
        descriptor, name = mkstemp(dir=file.parent, prefix=f".{file.name}.", suffix=".part")
        try:
            with open(descriptor, "wb") as target:  # noqa: PTH123 - a descriptor
                target.writelines(_masked_bytes(piece) for piece in _pieces(source))
            Path(name).replace(file)
        except BaseException:
            Path(name).unlink(missing_ok=True)
            raise


def _pieces(source: IO[bytes]) -> Iterator[bytes]:
    """Yield a text in pieces of which each can be masked by itself: no secret lies across two."""
    text = b""
    while block := source.read(_BLOCK):
        text += block
        back = cut = max(0, len(text) - _AROUND)
        step = 1
        while (cut := text.rfind(b"\n", 0, back) + 1) and _across(text, cut):
            back, step = max(0, cut - step), 2 * step
        yield text[:cut]
        text = text[cut:]
    yield text


def _across(text: bytes, cut: int) -> bool:
    """Say whether a secret begins before a place in a text and ends behind it."""
    before, behind = text[max(0, cut - _AROUND) : cut], text[cut : cut + _AROUND]
    return _masked_bytes(before + behind) != _masked_bytes(before) + _masked_bytes(behind)


def _masked_bytes(text: bytes) -> bytes:
    return masked(text.decode("utf-8", "surrogateescape")).encode("utf-8", "surrogateescape")


def mask_files(folder: Path, *patterns: str) -> None:
    """Mask the secrets in the regular files of a folder whose names match.

    Raises:
        OSError: one of them cannot be read or written.
    """
    for pattern in patterns:
        for file in folder.glob(pattern):
            if file.is_file() and not file.is_symlink():
                mask_file(file)


def register_secrets(environments: Iterable[Mapping[str, str]]) -> None:
    """Let :func:`masked` know the secrets of a declaration, wherever they will stand.

    A plain word (``public``) is left out: it would be masked where it is no secret, too.
    """
    for environment in environments:
        for name, value in environment.items():
            plain = value.isalpha() or len(value) < _LEAST
            known = plain or value in _brought
            if not known and is_secret(name) and not _PLACE.fullmatch(value):
                _brought.append(value)
    _brought.sort(key=len, reverse=True)
