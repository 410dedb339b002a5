#!/usr/bin/env bash
# Installs what a build needs: Debian packages (scripts/packages.txt) and a Python
# environment in BUILD/venv (scripts/requirements.txt, and requirements-cuda.txt
# without what those ask for: an assembler for GPUs) with the command `sextant`.
# Says what it installs, does nothing when all is there, and names what is missing
# when it cannot go on.
#
#   scripts/setup.sh [BUILD]
set -euo pipefail
cd "$(dirname "$0")/.."
build=${1:-build}

fail() {
  printf 'setup: error: %s\n' "$@" >&2
  exit 1
}

# Packages whose file is not there, one per line.
missing_packages() {
  local package pattern
  while read -r package pattern; do
    case $package in '' | '#'*) continue ;; esac
    compgen -G "$pattern" >/dev/null || echo "$package"
  done <scripts/packages.txt
}

install_packages() {
  local missing unknown='' package
  missing=$(missing_packages | xargs)
  [ -n "$missing" ] || return 0
  command -v apt-get >/dev/null ||
    fail "missing: $missing" "this system has no apt-get; install them by hand"
  [ "$(id -u)" = 0 ] ||
    fail "missing: $missing" "not root, so install them yourself: sudo apt-get install $missing"
  echo "setup: installing Debian packages: $missing"
  apt-get update -qq || fail "apt-get update failed, so these stay missing: $missing"
  for package in $missing; do
    apt-cache show "$package" >/dev/null 2>&1 || unknown+=" $package"
  done
  [ -z "$unknown" ] ||
    fail "the package sources of this machine have no:$unknown" \
      "LLVM 22 is in the updates of Debian 12; see /etc/apt/sources.list"
  # shellcheck disable=SC2086 # a list of names
  DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends \
    -o Dpkg::Use-Pty=0 $missing >"$build/setup-apt.log" 2>&1 ||
    fail "apt-get install failed; the end of $build/setup-apt.log:" "$(tail -5 "$build/setup-apt.log")"
  missing=$(missing_packages | xargs)
  [ -z "$missing" ] || fail "still missing after installation: $missing"
}

install_python() {
  local venv=$build/venv want
  want=$(cat scripts/requirements.txt scripts/requirements-cuda.txt <(python3 --version) | sha256sum)
  [ "$(cat "$venv/.installed" 2>/dev/null)" != "$want" ] || return 0
  echo "setup: installing into $venv: $(grep -v '^#' scripts/requirements.txt | xargs)"
  [ -x "$venv/bin/python" ] || python3 -m venv "$venv" ||
    fail "python3 -m venv failed; is package python3-venv installed?"
  # PyTorch first: the others must fit it, not it them.
  "$venv/bin/python" -m pip install -qq "$(grep '^torch==' scripts/requirements.txt)" ||
    fail "pip could not install $(grep '^torch==' scripts/requirements.txt)"
  "$venv/bin/python" -m pip install -qq -r scripts/requirements.txt ||
    fail "pip could not install scripts/requirements.txt"
  # The programs alone: the libraries that these packages ask for are large, and unused.
  "$venv/bin/python" -m pip install -qq --no-deps -r scripts/requirements-cuda.txt ||
    fail "pip could not install scripts/requirements-cuda.txt"
  # The package is importable from the build tree.
  echo "$PWD/$build/python" >"$("$venv/bin/python" -c 'import site; print(site.getsitepackages()[0])')/sextant.pth"
  echo "$want" >"$venv/.installed"
}

# The command `sextant`, as an installed package has it.
install_command() {
  local command=$build/venv/bin/sextant
  cat >"$command.new" <<'END'
#!/bin/sh
exec "$(dirname "$(readlink -f "$0")")/python" -m sextant "$@"
END
  chmod +x "$command.new"
  mv "$command.new" "$command"
}

mkdir -p "$build"
install_packages
install_python
install_command
