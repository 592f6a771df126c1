#!/bin/bash -eu
# SPDX-License-Identifier: ISC
#
# Builds all fuzz targets, or those in the arguments, into $OUT, as OSS-Fuzz wants it: with its
# compilers, its flags and its engine in the environment ("try" beside this file sets them). The
# libraries that a target needs go with it, and the files that its corpus begins with.

top=$(cd "$(dirname "$(realpath "$0")")/../../.." && pwd)
# shellcheck source=test/lib/common.sh
. "$top/test/lib/common.sh"
mkdir -p "$OUT/lib" "$WORK"
[ -x "$top/configure" ] || (cd "$top" && ./autogen.sh)
cd "$WORK"
"$top/configure" --enable-fuzzing --disable-werror "LDFLAGS=-Wl,-rpath,'\$\$ORIGIN/lib'"
targets=${*:-$(make -pn 2>/dev/null | sed -n 's/^FUZZ_TARGETS = //p')}
# An engine may be a library in C++, so $CXX links.
# shellcheck disable=SC2086
make -j"$(nproc)" CFLAGS_SANITIZE= LDFLAGS_FUZZ="$LIB_FUZZING_ENGINE" CCLD="$CXX ${CXXFLAGS:-}" $targets
for target in $targets; do
	name=$(basename "$target")
	seeds=$(fuzz_seeds "$target")
	cp "$target" "$OUT"
	ldd "$target" | sed -nE 's/.* => (\/\S+).*/\1/p' | while read -r library; do
		case $library in */libc.so.* | */libm.so.* | */libgcc_s.so.*) ;; *) cp -L "$library" "$OUT/lib" ;; esac
	done
	(cd "$seeds" && zip -q -r -j "$OUT/${name}_seed_corpus.zip" .)
done
