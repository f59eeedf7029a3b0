#!/bin/sh
# Tests of the npm package: test_web.sh PYTHON. Without npm nothing can be tested; without a registry, only what needs no
# WebGPU in node. Dawn refuses Mesa's lavapipe, so it gets the SwiftShader that Chromium brings, unless VK_ICD_FILENAMES
# says otherwise.
set -eu
python=$(realpath -s "$1")
cd "$(dirname "$0")/../packages/web"
if ! command -v npm >/dev/null; then
    echo "npm is not installed: the tests of the npm package are left out"
    exit 0
fi
if ! npm install --no-audit --no-fund --loglevel=error; then
    echo "npm could not install typescript and webgpu: only what needs neither is tested"
    node build.mjs
    exec node --test test/tensor.test.mjs
fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
if [ -z "${VK_ICD_FILENAMES:-}" ]; then
    for library in /usr/lib/chromium /usr/lib/chromium-browser /opt/google/chrome; do
        if [ -f "$library/libvk_swiftshader.so" ]; then
            printf '{"file_format_version": "1.0.0", "ICD": {"library_path": "%s", "api_version": "1.3.0"}}' \
                "$library/libvk_swiftshader.so" >"$work/icd.json"
            export VK_ICD_FILENAMES="$work/icd.json"
        fi
    done
fi
"$python" test/bundles.py "$work"
XDG_RUNTIME_DIR="${XDG_RUNTIME_DIR:-$work}" HEADRACE_BUNDLES="$work" npm test --silent
