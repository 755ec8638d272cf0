"""Credentials never survive in what is shown."""

from __future__ import annotations

import pytest

from daybreak.model.redaction import redacted, shown_url


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("redis://127.0.0.1:6379/0", "redis://127.0.0.1:6379/0"),
        ("redis://:hunter2@cache:6379/0", "redis://***@cache:6379/0"),
        ("redis://ann:hunter2@cache/0?password=other", "redis://***@cache/0?password=***"),
        ("https://t0ken@api.example/v1", "https://***@api.example/v1"),
        ("https://api.example/v1?token=t0ken&size=3", "https://api.example/v1?token=***&size=***"),
        ("postgresql://ann:p@ss@db/x", "postgresql://***@db/x"),
        ("postgresql://ann:pa/ss@db/x", "postgresql://***@db/x"),
        ("postgresql://ann:pa?ss@db/x", "postgresql://***@db/x"),
        ("postgresql://ann:pa#ss@db/x", "postgresql://***@db/x"),
        ("https://social.example/@ann", "https://social.example/@ann"),
        ("http://[::1]:80/@ann", "http://[::1]:80/@ann"),
        ("not a url", "not a url"),
    ],
)
def test_a_shown_url_has_no_credentials(url: str, shown: str) -> None:
    assert shown_url(url) == shown


def test_a_query_may_stay_except_for_its_secrets() -> None:
    url = "https://ann:hunter2@news.example/item?id=7&api_key=t0ken&X-Amz-Signature=5e"
    assert shown_url(url, keep_query=True) == (
        "https://***@news.example/item?id=7&api_key=***&X-Amz-Signature=***"
    )


@pytest.mark.parametrize(
    "text",
    [
        "401 for url 'https://ann:hunter2@api/v1?token=t0ken'",
        "Port could not be cast to integer value as 'hunter2@api'",
        "invalid DSN: https://ann:hunter2@api",
        "AUTH ann hunter2 failed",
        "GET /v1?token=t0ken",
    ],
)
def test_a_drivers_own_text_is_redacted(text: str) -> None:
    seen = redacted(text, "https://ann:hunter2@api/v1?token=t0ken")
    assert "hunter2" not in seen
    assert "t0ken" not in seen


def test_an_escaped_password_is_hidden_in_both_spellings() -> None:
    url = "redis://:p%40ss%2Fw0rd@cache/0"
    assert redacted("got p@ss/w0rd, that is p%40ss%2Fw0rd", url) == "got ***, that is ***"


def test_a_short_password_spares_longer_words_and_user_names_stay() -> None:
    text = "postgresql://db: password 'postgres' of user 'ann' is wrong"
    assert redacted(text, "postgresql://ann:postgres@db") == text.replace("'postgres'", "'***'")
    assert redacted("user 'ann'", "postgresql://ann@db") == "user 'ann'"


def test_urls_nobody_declared_are_redacted_in_a_text() -> None:
    assert redacted("moved to http://ann:pw@elsewhere/x") == "moved to http://***@elsewhere/x"


@pytest.mark.parametrize(
    "text",
    [
        "jdbc:sqlserver://h;user=u;password=hunter2;encrypt=true",
        "jdbc:sqlserver://h:1433;user=u;password=hunt@er2",
        "jdbc:sqlserver://h;password={hun;ter2};user=u",
        "https://h/x;token=hunter2",
        "https://h/x;v=1?token=hunter2",
        "https://h/x;token=hun?ter2#a",
        "host=h user=u password=hunter2 dbname=d",
        "host=h password = 'hun\\'t er2' dbname=d",
        "host=h password=hun\\ ter2",
        "postgresql://h/d?sslpassword=hunter2",
    ],
)
def test_a_parameter_in_any_notation_is_hidden(text: str) -> None:
    for seen in (shown_url(text), redacted(f"cannot open {text} now")):
        for piece in ("hun", "er2"):
            assert piece not in seen
        assert "h" in seen
    assert "er2" not in redacted("refused: hunter2", "jdbc:sqlserver://h;password=hunter2")
