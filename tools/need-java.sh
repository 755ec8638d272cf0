#!/usr/bin/env bash
# Makes sure that Java 17 or newer is there, which Spark needs. As root on Debian or Ubuntu it
# says so and installs it; DAYBREAK_NO_INSTALL=1 refuses. Elsewhere it names the command.
set -euo pipefail

java_version() {
  local java="java"
  [ -n "${JAVA_HOME:-}" ] && java="$JAVA_HOME/bin/java"
  "$java" -version 2>&1 | sed -nE 's/.*version "(1\.)?([0-9]+).*/\2/p' | head -n 1
}

found=$(java_version || true)
if [ -n "$found" ] && [ "$found" -ge 17 ]; then
  exit 0
fi
if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null && [ "${DAYBREAK_NO_INSTALL:-}" != 1 ]; then
  echo "Java 17 is missing: installing openjdk-17-jre-headless (about 200 MB, a minute or two)"
  export DEBIAN_FRONTEND=noninteractive
  apt-get update -qq && apt-get install -y -qq --no-install-recommends openjdk-17-jre-headless
  exit 0
fi
{
  if [ -n "$found" ]; then have="this is Java $found"; else have="there is none"; fi
  echo "error: Spark needs Java 17 or newer, and $have. Install it:"
  echo "  Debian/Ubuntu: apt-get install openjdk-17-jre-headless"
  echo "  Fedora:        dnf install java-21-openjdk-headless"
  echo "  macOS:         brew install openjdk@17"
} >&2
exit 2
