"""A user without an account: what its JVMs and Hadoop are told."""

from __future__ import annotations

import os
import pwd
import subprocess
import tempfile
from pathlib import Path

import pytest

from harness.model.failures import EnvironmentFailure
from harness.provision import account, postgres
from harness.provision.account import JVMS, give_account, hadoop_login
from harness.provision.cache import VARIABLE, cache_root
from harness.provision.inside_pyspark import pyspark_home
from harness.provision.java import find_java


@pytest.fixture
def unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    """The operating system knows no name for this process's uid."""

    def refuse(uid: int) -> pwd.struct_passwd:
        raise KeyError(uid)

    monkeypatch.setattr(pwd, "getpwuid", refuse)
    monkeypatch.setattr(os, "getuid", lambda: 54321)


def test_who_has_an_account_is_given_nothing() -> None:
    environ: dict[str, str] = {}
    give_account(environ)
    assert environ == {}
    assert hadoop_login(Path("java"), "", "") == {}


@pytest.mark.usefixtures("unknown")
def test_what_is_named_already_stays() -> None:
    """A home and a name that the container sets; a second call adds nothing."""
    environ = {"HOME": "/", "USER": "app", JVMS: "-Xint"}
    for _ in range(2):
        give_account(environ)
    assert environ == {
        "HOME": "/", "USER": "app", "LOGNAME": "uid-54321",
        JVMS: "-Xint -Duser.name=uid-54321 -Duser.home=/",
    }  # fmt: skip


@pytest.mark.usefixtures("unknown")
def test_postgres_runs_for_nobody_without_an_account() -> None:
    """Its initdb looks the user up: that is said before a cell waits for it."""
    with pytest.raises(EnvironmentFailure, match=r"without an account \(uid-54321\): add the user"):
        postgres._user()


UGI = "org.apache.hadoop.security.UserGroupInformation"


@pytest.mark.rest
@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become a uid without an account")
def test_hadoop_knows_a_user_without_an_account(monkeypatch: pytest.MonkeyPatch) -> None:
    """With the agent it logs in by the stand-in's name; without it, it ends. With a real uid."""
    java, jars = find_java(cache_root(), print).path, sorted(pyspark_home().glob("jars/*.jar"))
    if closed := [each for each in jars[0].parents if not each.stat().st_mode & 0o001]:
        pytest.skip(f"another user cannot enter {closed[0]}")
    classpath = ":".join(map(str, jars))
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        monkeypatch.setenv(VARIABLE, folder)
        monkeypatch.delenv(JVMS, raising=False)
        monkeypatch.setattr(account, "stand_in_name", lambda: "uid-54321")
        login = hadoop_login(java, classpath, "Spark")
        for file in Path(folder).rglob("*"):
            file.chmod(0o755)
        who = ("setpriv", "--reuid=54321", "--regid=54321", "--clear-groups")
        told = [
            subprocess.run(
                (*who, java, "-cp", classpath, UGI),
                env={**os.environ, **more}, cwd="/", capture_output=True, text=True, check=False,
            )
            for more in ({}, login)
        ]  # fmt: skip
    assert "LoginException" in told[0].stderr
    assert "UGI: uid-54321 (auth:SIMPLE)" in told[1].stdout, told[1].stderr
