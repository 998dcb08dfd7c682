#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Every header compiles by itself, and the public ones as C11 and C++17 without extensions, so that
# whoever includes one needs to know nothing else. Arguments: the source folder, and where the build
# has put the headers that it writes.
set -u
cd "$1" || exit 1
generated=$2
failed=0
cc=${CC:-cc}

try() {
	what=$1
	shift
	out=$("$@" -fsyntax-only 2>&1) && return
	echo "$what: $out"
	failed=1
}

for h in $(find src -name '*.h' ! -name 'hash_body_int.h'); do
	try "$h" "$cc" -std=gnu17 -D_GNU_SOURCE -Wall -Wextra -Werror -Wno-unused-parameter \
		-Wno-unused-function -Iinclude -Isrc -I"$generated" -include "$h" -x c /dev/null
done
for h in include/peal/*.h; do
	name=${h#include/}
	try "$h as C11" "$cc" -std=c11 -D_DEFAULT_SOURCE -pedantic -Wall -Wextra -Werror -Iinclude \
		-include "$name" -x c /dev/null
	try "$h as C++17" c++ -std=c++17 -pedantic -Wall -Wextra -Werror -Iinclude \
		-include "$name" -x c++ /dev/null
done
exit $failed
