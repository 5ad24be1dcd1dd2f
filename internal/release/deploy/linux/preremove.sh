#!/bin/sh
# Stops the server before the package is removed: "remove" on Debian, "0" on RPM. An upgrade does not stop it.
set -e
case "$1" in
remove | 0)
	if [ -d /run/systemd/system ]; then
		systemctl disable --now sojourn.service || true
	fi
	;;
esac
