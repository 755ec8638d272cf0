"""What a user sees of a failure is one line, and the right one."""

from __future__ import annotations

import pytest

from daybreak.spark.failures import one_line


class JavaClass:
    def __init__(self, name: str) -> None:
        self._name = name

    def getSimpleName(self) -> str:  # noqa: N802  # Java's own
        return self._name


class JavaError:
    """An exception of the JVM as py4j shows it."""

    def __init__(self, name: str, message: str | None, cause: JavaError | None = None) -> None:
        self._name, self._message, self._cause = name, message, cause

    def getClass(self) -> JavaClass:  # noqa: N802
        return JavaClass(self._name)

    def getMessage(self) -> str | None:  # noqa: N802
        return self._message

    def getCause(self) -> JavaError | None:  # noqa: N802
        return self._cause


class Py4JJavaError(Exception):
    def __init__(self, java_exception: JavaError) -> None:
        super().__init__("An error occurred while calling o593.getResult.\n: org.apache...")
        self.java_exception = java_exception


WEEK = JavaError("IllegalArgumentException", "All week-based patterns are unsupported")
PATTERN = (
    "[INCONSISTENT_BEHAVIOR_CROSS_VERSION.DATETIME_PATTERN_RECOGNITION] You may get a different "
    "result due to the upgrading to Spark >= 3.0:\nFail to recognize 'YYYY-MM-DD' pattern in the "
    "DateTimeFormatter.\n1) You can set ... SQLSTATE: 42K0B"
)


@pytest.mark.parametrize(
    ("java", "expected"),
    [
        (
            JavaError(
                "SparkException",
                "Exception thrown in awaitResult: ",
                JavaError("SparkUpgradeException", PATTERN, WEEK),
            ),
            f"SparkUpgradeException: {' '.join(PATTERN.split()).removesuffix(' SQLSTATE: 42K0B')}",
        ),
        (
            JavaError(
                "SparkException",
                "[SCALAR_SUBQUERY_TOO_MANY_ROWS] More than one row returned. SQLSTATE: 21000\n"
                "== SQL (line 1, position 8) ==\nSELECT 1",
            ),
            "SparkException: [SCALAR_SUBQUERY_TOO_MANY_ROWS] More than one row returned.",
        ),
        (
            JavaError("SparkException", "Exception thrown in awaitResult: ", WEEK),
            "IllegalArgumentException: All week-based patterns are unsupported",
        ),
        (
            JavaError(
                "SparkException",
                "Job aborted due to stage failure: Task 0 in stage 3.0 failed 1 times, most "
                "recent failure: Lost task 0.0 in stage 3.0 (TID 3) (host executor driver): "
                "java.lang.RuntimeException: boom\n\tat org.x.Y.z(Y.scala:1)\n",
            ),
            "SparkException: java.lang.RuntimeException: boom",
        ),
        (JavaError("NullPointerException", None), "NullPointerException: no message"),
    ],
    ids=["deep", "with its SQL", "no class", "lost task", "silent"],
)
def test_the_cause_of_a_failed_job_is_the_most_specific_message_of_the_jvm(
    java: JavaError, expected: str
) -> None:
    assert one_line(Py4JJavaError(java)) == expected


def test_an_exception_in_python_code_is_named_by_its_last_line() -> None:
    text = (
        "An exception was thrown from the Python worker:\nTraceback (most recent call last):\n"
        '  File "x.py", line 8, in <lambda>\n    1//0\n    ~^^~\nZeroDivisionError: by zero\n'
    )
    assert one_line(ValueError(text)) == "ValueError: ZeroDivisionError: by zero"


def test_a_message_stays_one_line_of_bearable_length() -> None:
    assert one_line(ValueError("first\nsecond")) == "ValueError: first"
    assert one_line(ValueError("")) == "ValueError: no message"
    long = one_line(ValueError("[SOME_CLASS] " + "word\n" * 1000))
    assert len(long) < 650
    assert "\n" not in long
    assert long.endswith("...")
