# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=sh
# Sourced by the other scripts, in the repository's root: where bootstrap put tools that the
# distribution has only in a version that is too old.
if [ -d .cache/venv/bin ]; then
	PATH="$PWD/.cache/venv/bin:$PATH"
	export PATH
fi

# True when version $1 is at least $2.
version_ge() {
	[ "$(printf '%s\n%s\n' "$2" "$1" | sort -V | head -n 1)" = "$2" ]
}
