"""Options of a file source that say which files it reads and in what order, as Spark takes them."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from daybreak.spark.failures import one_line
from daybreak.spark.ingest.direct.paths import local_path

_DAY_MS = 86_400_000
#: Options of listings. ``FileStreamOptions`` checks the values of the first ones.
_LISTING = """latestFirst fileNameOnly maxFilesPerTrigger maxBytesPerTrigger maxFileAge
maxCachedFiles discardCachedInputRatio cleanSource sourceArchiveDir modifiedBefore modifiedAfter
pathGlobFilter recursiveFileLookup ignoreMissingFiles ignoreCorruptFiles"""
#: Options of readers. Those of a format that does not have them are ignored, as by Spark.
_READING = """path mode columnNameOfCorruptRecord timeZone locale dateFormat timestampFormat
timestampNTZFormat timeFormat enableDateTimeParsingFallback encoding charset lineSep multiLine
samplingRatio inferSchema compression mergeSchema datetimeRebaseMode int96RebaseMode
primitivesAsString prefersDecimal allowComments allowUnquotedFieldNames allowSingleQuotes
allowNumericLeadingZeros allowNonNumericNumbers allowBackslashEscapingAnyCharacter
allowUnquotedControlChars dropFieldIfAllNull ignoreNullFields useUnsafeRow singleVariantColumn
sep delimiter quote escape charToEscapeQuoteEscaping comment header enforceSchema
ignoreLeadingWhiteSpace ignoreTrailingWhiteSpace nullValue nanValue positiveInf negativeInf
maxColumns maxCharsPerColumn unescapedQuoteHandling emptyValue preferDate columnPruning
inputBufferSize wholetext rowTag excludeAttribute attributePrefix valueTag ignoreSurroundingSpaces
rowValidationXSDPath ignoreNamespace wildcardColName validateName avroSchema avroSchemaUrl
positionalFieldMatching ignoreExtension recursiveFieldMaxDepth enableStableIdentifiersForUnionType
stableIdentifierPrefixForUnionType"""
#: Settings by which Spark passes files over, and what the first one is if it is not set.
_IGNORED, _HIDDEN = "spark.sql.files.ignoredPathSegmentRegex", "^[._]"
_PATH_FILTER = "mapreduce.input.pathFilter.class"
#: Characters that make a path a pattern for Hadoop.
_GLOB = re.compile(r"[\[\]{}*?\\]")
_KNOWN = frozenset(f"{_LISTING} {_READING}".lower().split())
#: Globs that mean the same in Python's regular expressions as in Hadoop's.
_PLAIN_GLOB = re.compile(r"(?:[\w .*?=,{}+@%~#:-]|\[!?[\w.]+(?:-[\w.]+)*\])*", re.ASCII)


class NoListing(Exception):
    """An option has a meaning that only Spark's own listing knows; the text says which."""


@dataclass(frozen=True)
class ListingOptions:
    """Options of one source. An empty one has Spark's defaults."""

    latest_first: bool = False
    #: Of one batch; None: all that are there.
    most_files: int | None = None
    most_bytes: int | None = None
    #: A file is too old if its time is so far behind the newest one that was read; None: never.
    max_age_ms: int | None = 7 * _DAY_MS
    #: What a name must match; None: all do.
    names: re.Pattern[str] | None = None

    @classmethod
    def of(cls, spark: SparkSession, options: Mapping[str, str]) -> ListingOptions:
        """Options as Spark reads them, whatever their case; raises ``NoListing``."""
        given = {key.lower(): value for key, value in options.items()}
        unknown = sorted(given.keys() - _KNOWN)
        if unknown:
            raise NoListing(f"option {unknown[0]!r} is not one that direct ingest knows")
        try:
            return cls._of_spark(spark, given)
        except PySparkException as error:
            raise NoListing(one_line(error)) from None
        except (Py4JError, TypeError) as error:
            raise NoListing(f"Spark's file options are not as expected: {error}") from None

    @classmethod
    def _of_spark(cls, spark: SparkSession, given: Mapping[str, str]) -> ListingOptions:
        jvm: Any = spark.sparkContext._jvm
        listing = {key: value for key, value in given.items() if key != "path"}
        found = jvm.org.apache.spark.sql.execution.streaming.runtime.FileStreamOptions(
            jvm.PythonUtils.toScalaMap(listing)
        )
        if found.cleanSource().toString() != "OFF":
            raise NoListing("cleanSource moves or removes files by Spark's own log of the source")
        latest_first = found.latestFirst()
        files, size = _value(found.maxFilesPerTrigger()), _value(found.maxBytesPerTrigger())
        ageless = latest_first and (files is not None or size is not None)
        glob = given.get("pathglobfilter")
        return cls(
            latest_first=latest_first,
            most_files=files,
            most_bytes=size,
            max_age_ms=None if ageless else found.maxFileAgeMs(),
            names=None if glob is None else _names(jvm, glob),
        )

    def wants(self, name: str) -> bool:
        """Tells whether a file of this name is read: Spark reads no hidden ones."""
        if name[0] in "._" and _is_hidden(name):
            return False
        if name.endswith("._COPYING_"):
            return False
        return self.names is None or self.names.fullmatch(name) is not None

    def too_old_ms(self, newest_ms: int) -> int:
        """The time before which a file is not read if that of the newest is this one."""
        return -1 if self.max_age_ms is None or newest_ms <= 0 else newest_ms - self.max_age_ms


def is_folder(path: str, options: Mapping[str, str]) -> bool:
    """Tells whether a source is one local folder, without its sub-folders.

    ``FolderListing`` is for such, ``SparkListing`` for all others.
    """
    local = local_path(path)
    if ":/" in local or _GLOB.search(local) or _is_set(options, "recursiveFileLookup"):
        return False
    if not Path(local).is_dir():
        return False
    with os.scandir(local) as entries:
        return not any("=" in one.name and one.is_dir() for one in entries)


def why_not(spark: SparkSession, path: str, options: Mapping[str, str]) -> str | None:
    """The reason why only a StreamingQuery chooses a source's files; None if listings do as well.

    ``path``: as Spark is given it, which has resolved it.
    """
    try:
        ListingOptions.of(spark, options)
    except NoListing as reason:
        return str(reason)
    if not is_folder(path, options) and _is_set(options, "fileNameOnly"):
        return "fileNameOnly compares the files of several folders"
    if (Path(local_path(path)) / "_spark_metadata").exists():
        return "a sink's log (_spark_metadata) says which of its files count"
    return _of_settings(spark)


def _is_set(options: Mapping[str, str], name: str) -> bool:
    given = {key.lower(): value.lower() for key, value in options.items()}
    return given.get(name.lower(), "false") == "true"


def _of_settings(spark: SparkSession) -> str | None:
    """The reason in the settings of a session why it lists folders in a way of its own."""
    ignored = spark.conf.get(_IGNORED, _HIDDEN)
    if ignored != _HIDDEN:
        return f"{_IGNORED} is set"
    hadoop = spark.sparkContext._jsc.hadoopConfiguration()
    if hadoop.get(_PATH_FILTER) is not None:
        return f"{_PATH_FILTER} is set"
    if not str(hadoop.get("fs.defaultFS", "file:///")).startswith("file:"):
        return "the default file system is not a local one"
    return None


def _is_hidden(name: str) -> bool:
    """``_metadata`` of Parquet counts as hidden: Spark lists it and reads no rows from it."""
    return name[0] == "." or "=" not in name


def _value(option: Any) -> int | None:
    return int(option.get()) if option.isDefined() else None


def _names(jvm: Any, glob: str) -> re.Pattern[str]:
    """Compiles a glob as Hadoop understands it."""
    if not _PLAIN_GLOB.fullmatch(glob):
        raise NoListing(f"pathGlobFilter {glob!r} has characters that only Hadoop's globs know")
    return re.compile(jvm.org.apache.hadoop.fs.GlobPattern(glob).compiled().pattern(), re.DOTALL)
