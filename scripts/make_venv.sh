#!/bin/sh
# Make a virtual environment: with venv, with apt's python3-venv where venv is missing, or with virtualenv.
set -eu
python=$1
venv=$2
[ -x "$venv/bin/python" ] && "$venv/bin/python" -m pip --version >/dev/null 2>&1 && exit 0
"$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' || {
    echo "headrace needs Python 3.11 or newer: make run PYTHON=python3.11" >&2
    exit 1
}
"$python" -m venv "$venv" >/dev/null 2>&1 && exit 0
rm -rf "$venv"
if command -v apt-get >/dev/null 2>&1; then
    sudo=$([ "$(id -u)" = 0 ] || command -v sudo || true)
    if [ "$(id -u)" = 0 ] || [ -n "$sudo" ]; then
        $sudo apt-get update -qq >/dev/null 2>&1 || true
        DEBIAN_FRONTEND=noninteractive $sudo apt-get install -y -qq python3-venv >/dev/null 2>&1 || true
        "$python" -m venv "$venv" >/dev/null 2>&1 && exit 0
        rm -rf "$venv"
    fi
fi
"$python" -m virtualenv -q "$venv" >/dev/null 2>&1 && exit 0
echo "Cannot make a virtual environment: install python3-venv (apt install python3-venv) or virtualenv." >&2
exit 1
