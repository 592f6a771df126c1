#!/bin/bash -eu
# SPDX-License-Identifier: ISC
#
# Builds all fuzz targets into $OUT, as OSS-Fuzz wants it: with its compiler, its flags and its
# engine in the environment. The libraries that a target needs go with it. To try it elsewhere:
#
#   CC=clang CFLAGS="-O1 -g -fsanitize=address,fuzzer-no-link" LIB_FUZZING_ENGINE=-fsanitize=fuzzer \
#       OUT=/tmp/fuzz WORK=/tmp/fuzz-build test/fuzz/oss-fuzz/build.sh [test/fuzz/sql_fuzz ...]
#
# A corpus begins with the files of test/fuzz/seeds, where a target has any.

top=$(cd "$(dirname "$(realpath "$0")")/../../.." && pwd)
mkdir -p "$OUT/lib" "$WORK"
[ -x "$top/configure" ] || (cd "$top" && ./autogen.sh)
cd "$WORK"
"$top/configure" --enable-fuzzing --disable-werror "LDFLAGS=-Wl,-rpath,'\$\$ORIGIN/lib'"
targets=${*:-$(make -pn 2>/dev/null | sed -n 's/^FUZZ_TARGETS = //p')}
# shellcheck disable=SC2086
make -j"$(nproc)" CFLAGS_SANITIZE= LDFLAGS_FUZZ="$LIB_FUZZING_ENGINE" $targets
for target in $targets; do
	name=$(basename "$target")
	seeds=$top/test/fuzz/seeds/${name%_fuzz}
	cp "$target" "$OUT"
	ldd "$target" | sed -nE 's/.* => (\/\S+).*/\1/p' | while read -r library; do
		case $library in */libc.so.* | */libm.so.* | */libgcc_s.so.*) ;; *) cp -L "$library" "$OUT/lib" ;; esac
	done
	[ ! -d "$seeds" ] || (cd "$seeds" && zip -q -r -j "$OUT/${name}_seed_corpus.zip" .)
done
