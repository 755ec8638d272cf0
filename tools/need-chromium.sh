#!/usr/bin/env bash
# Makes sure that Chromium (or Chrome) is there, which the tests of the dashboard drive. As root on
# Debian it says so and installs it; DAYBREAK_NO_INSTALL=1 refuses. Elsewhere it names the command.
set -euo pipefail

for name in chromium chromium-browser google-chrome; do
  if command -v "$name" >/dev/null; then
    exit 0
  fi
done
if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null && [ "${DAYBREAK_NO_INSTALL:-}" != 1 ]; then
  echo "Chromium is missing: installing it for the dashboard's tests (about 300 MB, a minute or two)"
  export DEBIAN_FRONTEND=noninteractive
  apt-get update -qq && apt-get install -y -qq --no-install-recommends chromium
  exit 0
fi
{
  echo "error: the dashboard's tests need Chromium or Chrome, and there is none. Install it:"
  echo "  Debian:  apt-get install chromium"
  echo "  Fedora:  dnf install chromium"
  echo "  macOS:   brew install --cask google-chrome, and put it on the PATH as google-chrome"
} >&2
exit 2
