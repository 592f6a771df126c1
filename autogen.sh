#!/bin/sh
# Makes ./configure from configure.ac and Makefile.am.
set -e
cd "$(dirname "$0")"
mkdir -p build-aux m4
exec autoreconf --install --force
