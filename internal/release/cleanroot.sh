#!/usr/bin/env bash
# Installs a .deb in a clean Debian root, without a toolchain and without systemd, uses it, upgrades it with jobs in flight, and removes it:
#   cleanroot.sh OLD.deb NEW.deb SUITE
# The root is made once by debootstrap and kept in $SOJOURN_ROOT (default: sojourn-root in the temporary folder). It needs root.
set -euo pipefail
old=$(realpath "$1") new=$(realpath "$2") suite=${3:-bookworm}
base=${SOJOURN_ROOT:-${TMPDIR:-/tmp}/sojourn-root}
jobs=40 port=$((20000 + RANDOM % 20000))

if [[ ! -e $base/complete ]]; then
	rm -rf "$base"
	mkdir -p "$base"
	debootstrap --variant=minbase --include=curl,ca-certificates "$suite" "$base/root" http://deb.debian.org/debian >"$base/log" 2>&1 || { tail -n 20 "$base/log"; exit 1; }
	touch "$base/complete"
fi
work=$(mktemp -d)
root=$work/root
cp -a "$base/root" "$work"
mkdir "$root/test"
mount -t proc proc "$root/proc"
server= worker=
cleanup() {
	local status=$?
	[[ -z $worker ]] || kill "$worker" 2>/dev/null || true
	[[ -z $server ]] || kill "$server" 2>/dev/null || true
	wait || true
	((status == 0)) || tail -n 20 "$work"/*.log
	umount "$root/proc"
	rm -rf "$work"
}
trap cleanup EXIT
inside() { env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/test DEBIAN_FRONTEND=noninteractive chroot "$root" "$@"; }
fail() { echo "cleanroot: $*" >&2; exit 1; }

# The command line, the user and the working directory are those of the unit. It is a child of this shell, so that it can be awaited.
start() {
	local line
	line=$(sed -n 's/^ExecStart=//p' "$root/usr/lib/systemd/system/sojourn.service")
	env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/var/lib/sojourn chroot --userspec=sojourn:sojourn "$root" sh -c "cd /var/lib/sojourn && umask 0077 && exec $line" >>"$work/server.log" 2>&1 &
	server=$!
	for _ in $(seq 600); do
		inside sojourn health "http://127.0.0.1:$port" >/dev/null 2>&1 && return
		kill -0 "$server" 2>/dev/null || fail "the server ended"
		sleep 0.1
	done
	fail "the server is not ready"
}
stop() {
	kill -TERM "$server"
	wait "$server" || fail "the server ended with $?"
	server=
}
completed() { inside curl -sf "http://127.0.0.1:$port/v1/jobs?state=completed&limit=1000" | { grep -o '"state":"completed"' || true; } | wc -l; }

echo "== install $(basename "$old")"
cp "$old" "$root/test/old.deb"
cp "$new" "$root/test/new.deb"
inside dpkg -i /test/old.deb
inside sojourn version
inside id sojourn
[[ $(stat -c '%a %U' "$root/var/lib/sojourn") == '700 '* ]] || fail "/var/lib/sojourn has the wrong mode"
before=$(inside sojourn version)
# An operator's change, which an upgrade must keep.
sed -i "s/127.0.0.1:7575/127.0.0.1:$port/" "$root/etc/sojourn/sojourn.toml"
settings=$(sha256sum <"$root/etc/sojourn/sojourn.toml")

echo "== start by the command line of the unit, enqueue by curl"
start
for i in $(seq "$jobs"); do
	inside curl -sf -H 'Content-Type: application/json' -d "{\"kind\": \"mail\", \"args\": {\"n\": $i}}" "http://127.0.0.1:$port/v1/jobs" >/dev/null || fail "job $i was refused"
done

echo "== work by a script, upgrade with jobs in flight"
cat >"$root/test/handler" <<'HANDLER'
#!/bin/sh
echo "$SOJOURN_ID" >>/test/ran
sleep 0.2
HANDLER
chmod +x "$root/test/handler"
env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/test chroot "$root" sojourn work --store "http://127.0.0.1:$port" --kind mail --concurrency 2 --exec /test/handler >"$work/worker.log" 2>&1 &
worker=$!
for _ in $(seq 600); do
	[[ -e $root/test/ran ]] && (($(wc -l <"$root/test/ran") >= 4)) && break
	sleep 0.1
done
done_before=$(completed)
inside dpkg -i /test/new.deb
stop # without systemd the package does not restart the server
start
[[ $(inside sojourn version) != "$before" ]] || fail "the upgrade did not replace the command"
[[ $(sha256sum <"$root/etc/sojourn/sojourn.toml") == "$settings" ]] || fail "the upgrade changed the settings"
for _ in $(seq 1200); do
	(($(completed) == jobs)) && break
	sleep 0.1
done
(($(completed) == jobs)) || fail "$(completed) of $jobs jobs are completed"
((done_before < jobs)) || fail "all jobs were completed before the upgrade, so nothing was in flight"
(($(sort -u "$root/test/ran" | wc -l) == jobs)) || fail "the script ran for $(sort -u "$root/test/ran" | wc -l) jobs"
kill -TERM "$worker"
wait "$worker" || true
worker=
inside sojourn doctor --store "http://127.0.0.1:$port" >/dev/null || fail "doctor found violations"
stop

echo "== remove and purge"
inside dpkg -r sojourn
[[ ! -e $root/usr/bin/sojourn ]] || fail "the command is still there"
[[ $(sha256sum <"$root/etc/sojourn/sojourn.toml") == "$settings" ]] || fail "removal changed the settings"
[[ -s $root/var/lib/sojourn/sojourn.db ]] || fail "removal deleted the jobs"
inside dpkg -i /test/new.deb
start
(($(completed) == jobs)) || fail "jobs are missing after a new installation"
stop
inside dpkg -P sojourn
[[ ! -e $root/etc/sojourn/sojourn.toml ]] || fail "purge kept the settings"
[[ -s $root/var/lib/sojourn/sojourn.db ]] || fail "purge deleted the jobs"
echo "cleanroot: $jobs jobs, $done_before of them completed before the upgrade, none lost, settings kept"
