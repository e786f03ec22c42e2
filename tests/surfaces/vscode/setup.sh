#!/bin/sh
# Installs what the extension and its tests in a real VS Code need: the npm packages of vscode/ and of this folder, and
# code-server's own. Run it as often as you like: what is in place is left alone. `setup.sh extension` installs only what
# packs the extension.
set -eu
cd "$(dirname "$0")"

say() { echo "tests/surfaces/vscode: $*"; }
die() { echo "tests/surfaces/vscode: $*" >&2; exit 1; }
command -v npm >/dev/null 2>&1 || die "npm is missing: run make, which brings one"

# The stamp is the lockfile that was installed, written last: half an installation has none.
install() {
  stamp="$1/node_modules/.installed-lock.json"
  if cmp -s "$1/package-lock.json" "$stamp"; then
    say "$1 is in place"
    return
  fi
  say "installing $1"
  # code-server's scripts would compile what is not needed here.
  (cd "$1" && npm ci --ignore-scripts --no-audit --no-fund --loglevel=error)
  if [ -d "$1/node_modules/code-server" ]; then
    # Held by the shrinkwrap that it brings; `npm ci` finds that one out of step with itself.
    (cd "$1/node_modules/code-server/lib/vscode" && npm install --omit=dev --ignore-scripts --no-audit --no-fund --loglevel=error)
  fi
  cp "$1/package-lock.json" "$stamp"
}

install ../../../vscode
if [ "${1:-}" = extension ]; then exit 0; fi
install .
say "ready"
