#!/bin/sh
# Install packages of Debian that tests need: sh tests/install_debian.sh PACKAGE...
set -eu
if ! command -v apt-get >/dev/null || [ "$(id -u)" -ne 0 ]; then
  echo "These tests need $*: install it, or run this as root where there is apt-get." >&2
  exit 1
fi
export DEBIAN_FRONTEND=noninteractive
apt-get update -q >/dev/null
apt-get install -q -y --no-install-recommends "$@" >/dev/null
