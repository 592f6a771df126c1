# SPDX-License-Identifier: ISC
# Functions shared by quickstart and test/run: required packages, builds, the unprivileged user.
# Sourced by bash; $top is the checkout, $say prints a message.

packages_build="gcc libc6-dev make autoconf automake pkg-config libevent-dev libssl-dev libc-ares-dev
	libidn-dev uthash-dev"
# The PostgreSQL of this release of Debian or Ubuntu.
debian_postgresql=$(
	# shellcheck disable=SC1091
	. /etc/os-release 2>/dev/null
	case ${VERSION_ID:-sid} in 13) echo 17 ;; 24.04) echo 16 ;; sid) echo 18 ;; *) echo 15 ;; esac
)
packages_postgresql="postgresql-$debian_postgresql postgresql-client-$debian_postgresql"
packages_outside="libpam0g-dev libldap-dev" # for --with-pam and --with-ldap
packages_package="debhelper debootstrap dpkg-dev lintian"
packages_drivers="python3-venv php-cli php-pgsql php-doctrine-dbal ruby-activerecord ruby-pg"
packages_prometheus=prometheus # 19 MB to download, 96 MB on the disk
packages_probes="systemtap-sdt-dev gdb bpftrace binutils"
packages_page=chromium-headless-shell # 100 MB
packages_test="cmark-gfm mandoc pgcli slapd openssl haproxy keepalived nftables iproute2 curl check libpq-dev python3 python3-cryptography python3-pytest python3-psycopg python3-asyncpg python3-pg8000 python3-yaml postgresql-plperl-$debian_postgresql postgresql-plpython3-$debian_postgresql"

# Prints which of these packages are missing. Prints nothing on systems without dpkg.
missing_packages()
{
	local name
	for name in "$@"; do
		dpkg-query -W -f '${db:Status-Status}\n' "$name" 2>/dev/null | grep -qx installed ||
			printf '%s ' "$name"
	done
}

# Installs the missing packages, or prints what to install and fails.
need_packages()
{
	local missing
	if ! command -v dpkg-query >/dev/null; then
		check_by_hand "$@"
		return
	fi
	missing=$(missing_packages "$@")
	[ -z "$missing" ] && return 0
	if [ "$(id -u)" != 0 ]; then
		echo "These Debian packages are missing:" >&2
		echo "    sudo apt-get install --no-install-recommends $missing" >&2
		return 1
	fi
	$say "installing these Debian packages, which stay installed: $missing"
	# shellcheck disable=SC2086
	install_packages $missing
}

# Installed servers are not started: the tests start their own on private ports.
install_packages()
{
	local policy=/usr/sbin/policy-rc.d status=0
	if [ -e $policy ]; then
		policy=""
	else
		printf '#!/bin/sh\nexit 101\n' >$policy && chmod 755 $policy
	fi
	export DEBIAN_FRONTEND=noninteractive
	quietly apt-get -q update && quietly apt-get -q -y install --no-install-recommends "$@" || status=$?
	[ -z "$policy" ] || rm -f "$policy"
	return $status
}

# Without dpkg: look for the programs and libraries themselves.
check_by_hand()
{
	local absent="" tool library
	for tool in cc make autoconf automake pkg-config; do
		command -v "$tool" >/dev/null || absent="$absent $tool"
	done
	if command -v pkg-config >/dev/null; then
		for library in libevent openssl libcares libidn; do
			pkg-config --exists "$library" || absent="$absent $library"
		done
	fi
	find_postgresql >/dev/null || absent="$absent postgresql-server"
	[ -z "$absent" ] && return 0
	echo "This is not a Debian system, please install manually:$absent" >&2
	echo "(packages on Debian 12: $*)" >&2
	return 1
}

# Prints the directory with initdb, postgres and psql.
find_postgresql()
{
	local folder
	for folder in "${PGBIN:-}" "$(pg_config --bindir 2>/dev/null)" \
		$(ls -d /usr/lib/postgresql/*/bin 2>/dev/null | sort -rV); do
		if [ -x "$folder/initdb" ] && [ -x "$folder/postgres" ]; then
			echo "$folder"
			return 0
		fi
	done
	return 1
}

# Runs a command quietly; if it fails, prints the end of its output.
quietly()
{
	local log status=0
	log=$(mktemp)
	"$@" >"$log" 2>&1 || status=$?
	if [ "$status" != 0 ]; then
		echo "failed: $*" >&2
		tail -n 40 "$log" >&2
	fi
	rm -f "$log"
	return "$status"
}

# build_in FOLDER [configure's options...]: builds out of tree, and runs configure if necessary.
# $targets: not all of it, but these.
build_in()
{
	local folder=$1 wish
	shift
	[ -x "$top/configure" ] && [ "$top/configure" -nt "$top/configure.ac" ] ||
		(cd "$top" && quietly ./autogen.sh) || return
	mkdir -p "$folder" || return
	wish="$*"
	if [ ! -f "$folder/Makefile" ] || [ "$(cat "$folder/.configured-with" 2>/dev/null)" != "$wish" ]; then
		(cd "$folder" && quietly "$top/configure" "$@") || return
		echo "$wish" >"$folder/.configured-with"
	fi
	# shellcheck disable=SC2086
	quietly make -C "$folder" -j"$(jobs_wanted)" ${targets:-}
}

# The folder of what a fuzz target begins with: its own, or one for the first word of its name.
fuzz_seeds() # TARGET
{
	local name=${1##*/} seeds=$top/test/fuzz/seeds
	name=${name%_fuzz}
	[ -d "$seeds/$name" ] || name=${name%%_*}
	[ -d "$seeds/$name" ] || { echo "$1 has no seeds in $seeds" >&2 && return 1; }
	echo "$seeds/$name"
}

jobs_wanted()
{
	echo "${JOBS:-$(nproc 2>/dev/null || echo 2)}"
}

# The user that daemons run as: PostgreSQL and pgweir refuse to run as root.
unprivileged_user()
{
	local name
	if [ "$(id -u)" != 0 ]; then
		id -un
		return
	fi
	for name in postgres nobody; do
		if id -u "$name" >/dev/null 2>&1; then
			echo "$name"
			return
		fi
	done
	echo "no unprivileged user to run the servers as" >&2
	return 1
}

# as_user NAME COMMAND...: replaces this shell (use it in a subshell or with &), so that $! is COMMAND.
as_user()
{
	local name=$1
	shift
	if [ "$(id -un)" = "$name" ]; then
		exec "$@"
	fi
	exec setpriv --reuid "$name" --regid "$(id -g "$name")" --clear-groups -- env HOME=/ "$@"
}

# A port of 127.0.0.1 that is not in use.
free_port()
{
	local port
	for _ in $(seq 100); do
		port=$((20000 + RANDOM % 12000))
		if ! (exec 3<>"/dev/tcp/127.0.0.1/$port") 2>/dev/null; then
			echo "$port"
			return
		fi
	done
	return 1
}

# wait_for SECONDS COMMAND...: waits until the command succeeds.
wait_for()
{
	local end=$((SECONDS + $1))
	shift
	until "$@" >/dev/null 2>&1; do
		[ "$SECONDS" -lt "$end" ] || return 1
		sleep 0.05
	done
}

# end_process PID SIGNAL: ends a child process and waits for its end.
end_process()
{
	[ -n "$1" ] || return
	kill -"$2" "$1" 2>/dev/null || return
	wait_for 10 process_has_ended "$1" || kill -KILL "$1" 2>/dev/null
	wait "$1" 2>/dev/null
}

process_has_ended()
{
	local state
	state=$(sed 's/.*) //; s/ .*//' "/proc/$1/stat" 2>/dev/null)
	[ -z "$state" ] || [ "$state" = Z ]
}

# postgres_in FOLDER USER PASSWORD: starts a PostgreSQL on a free port, as $account, with the
# programs in $bin; sets postgres_pid and postgres_port.
postgres_in()
{
	postgres_port=$(free_port)
	echo "$3" >"$1/password"
	chmod 644 "$1/password"
	(as_user "$account" "$bin/initdb" -D "$1/data" -U "$2" -A scram-sha-256 -N -E UTF8 \
		--locale=C --pwfile="$1/password") >"$1/initdb.log" 2>&1 || return
	rm -f "$1/password" "$1/initdb.log"
	(as_user "$account" "$bin/postgres" -D "$1/data" -k "$1" -p "$postgres_port" \
		-c listen_addresses=127.0.0.1 -c fsync=off) >"$1/postgres.log" 2>&1 &
	postgres_pid=$!
	wait_for 30 "$bin/pg_isready" -q -h 127.0.0.1 -p "$postgres_port" -d postgres
}
