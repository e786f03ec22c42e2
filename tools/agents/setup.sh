#!/bin/sh
# Installs the agents that `make agents` tries, each at the version of package-lock.json. More than a gigabyte: most of them bring
# a program for every system. Those written in Python are those of requirements.txt.
# What is in place is left alone.
set -eu
cd "$(dirname "$0")"
# The stamp is the lockfile that was installed, written last: half an installation has none.
stamp=node_modules/.installed-lock.json
if cmp -s package-lock.json "$stamp"; then
  echo "tools/agents: in place"
else
  echo "tools/agents: installing"
  # Not `npm ci`: it wants the programs for all systems in the lock, and not every registry has them all. Install scripts
  # run one by one: an agent without a program for this system must not undo the others.
  npm install --no-save --ignore-scripts --loglevel=error
  for package in @anthropic-ai/claude-code opencode-ai cline; do
    npm rebuild --loglevel=error "$package" >/dev/null 2>&1 || echo "tools/agents: $package has no program for this system"
  done
  cp package-lock.json "$stamp"
fi
# One environment for each: their requirements contradict each other.
while read -r requirement; do
  folder=.venv/${requirement%%=*}
  if [ "$(cat "$folder/.installed" 2>/dev/null)" != "$requirement" ]; then
    "${PYTHON:-python3}" -m venv "$folder"
    "$folder/bin/python" -m pip install --quiet --disable-pip-version-check "$requirement"
    echo "$requirement" >"$folder/.installed"
  fi
done <requirements.txt
