# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=sh
# Sourced by the other scripts, in the repository's root.

# True when version $1 is at least $2.
version_ge() {
	[ "$(printf '%s\n%s\n' "$2" "$1" | sort -V | head -n 1)" = "$2" ]
}
