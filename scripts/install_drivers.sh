#!/bin/sh
# What the tests need beside Python, on Debian and Ubuntu: a software Vulkan driver and Chromium. Does nothing where
# they are there, or where it may not install; the tests then say what is missing.
set -u
command -v apt-get >/dev/null 2>&1 || exit 0
missing=""
ls /usr/share/vulkan/icd.d/*.json /etc/vulkan/icd.d/*.json >/dev/null 2>&1 || missing="$missing mesa-vulkan-drivers"
ldconfig -p 2>/dev/null | grep -q libvulkan.so.1 || missing="$missing libvulkan1"
[ -e /usr/lib/chromium/libvk_swiftshader.so ] || command -v chromium >/dev/null 2>&1 || missing="$missing chromium"
[ -z "$missing" ] && exit 0
if [ "$(id -u)" = 0 ]; then sudo=""; elif command -v sudo >/dev/null 2>&1; then sudo=sudo; else
    echo "Missing for the WebGPU tests:$missing (apt install$missing)" >&2
    exit 0
fi
$sudo apt-get update -qq
# shellcheck disable=SC2086
DEBIAN_FRONTEND=noninteractive $sudo apt-get install -y -qq $missing >/dev/null
