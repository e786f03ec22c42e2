#!/usr/bin/env bash
# Builds the inspector's page (web/) into the Python package:
#   tools/web.sh build  builds it, or says why it cannot
#   tools/web.sh maybe  for `make serve`: only where npm is there, within a time, and never a reason to stop
# A page that is newer than all of web/ is left alone.
set -euo pipefail
cd "$(dirname "$0")/.."
static=src/penstock/_inspector/static
page=$static/index.html
patience=180  # seconds
say() { printf 'web: %s\n' "$*" >&2; }

fresh() {
  [ -f "$page" ] && [ -z "$(find web -name node_modules -prune -o -type f -newer "$page" -print -quit)" ]
}

# The stamp is the lockfile that was installed, written last: half an installation has none.
packages() {
  local stamp=web/node_modules/.installed-lock.json
  if cmp -s web/package-lock.json "$stamp"; then return; fi
  say "installing the packages of web/"
  (cd web && npm ci --ignore-scripts --no-audit --no-fund --loglevel=error)
  cp web/package-lock.json "$stamp"
}

build() {
  if fresh; then return; fi
  command -v npm >/dev/null || { say "npm is missing: run make web, which brings one"; return 1; }
  packages
  say "building the inspector's page"
  # Aside, then put in place: whoever is being served meanwhile finds the old page or the new one.
  local made
  made=$(mktemp -d "$(dirname "$static")/.static.XXXXXX")
  (cd web && npm run --silent build -- --outDir "$OLDPWD/$made" --emptyOutDir) || { rm -rf "$made"; return 1; }
  chmod 755 "$made"
  rm -rf "$static.old"
  if [ -d "$static" ]; then mv "$static" "$static.old"; fi
  mv "$made" "$static"
  rm -rf "$static.old"
  touch "$page"
}

case ${1:-} in
  build) build ;;
  maybe)
    if fresh || ! command -v npm >/dev/null; then exit 0; fi
    timeout "$patience" "$0" build >/dev/null || say "the page could not be built; the gateway works without it"
    ;;
  *) say "build or maybe?"; exit 1 ;;
esac
