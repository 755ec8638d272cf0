"""``log`` and ``store`` of ``[app]``: read, checked with their line, and without a password."""

from __future__ import annotations

from pathlib import Path

import pytest

from daybreak.model import ConfigError
from daybreak.model.pipeline import Pipeline
from daybreak.model.secrets import without_secrets

REST = """
[streams.readings]
format = "generator"
[queries.all]
sql = "SELECT reading FROM readings"
"""


def test_both_are_read_and_a_password_is_in_no_text(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DB_PASSWORD", "open%20sesame%21now")
    path = tmp_path / "p.toml"
    path.write_text(
        "[app]\n"
        'log = "postgresql://me:${DB_PASSWORD}@db:5432/streams?sslmode=require"\n'
        f'store = "shared/app"\n{REST}'
    )
    pipeline = Pipeline.read(path)
    assert pipeline.store == tmp_path / "shared/app"
    assert pipeline.log is not None
    assert pipeline.log.url == "postgresql://me:open%20sesame%21now@db:5432/streams?sslmode=require"
    assert pipeline.log.shown == "postgresql://me@db:5432/streams"
    assert "sesame" not in repr(pipeline)
    assert without_secrets("as open sesame!now, or open%20sesame%21now") == "as ***, or ***"
    assert Pipeline.parse(REST).log is None
    assert Pipeline.parse(REST).store is None


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ('log = "mysql://host/db"', r"p\.toml:2: .*scheme 'mysql'; give a database, such as log ="),
        ('log = "postgresql://a:b@c@host/db"', r"p\.toml:2: .*ends it; write @ as %40"),
        ('store = "s3://bucket/app"', r"p\.toml:2: .*not on a file system; mount a shared folder"),
    ],
)
def test_what_cannot_be_used_is_refused_with_its_line(
    tmp_path: Path, line: str, message: str
) -> None:
    path = tmp_path / "p.toml"
    path.write_text(f"[app]\n{line}\n{REST}")
    with pytest.raises(ConfigError, match=message):
        Pipeline.read(path)
