#!/bin/sh
# The jobs in /var/lib/sojourn and the user that owns them stay, also after a purge.
set -e
if [ -d /run/systemd/system ]; then
	systemctl daemon-reload || true
fi
if [ "$1" = purge ] && [ -d /var/lib/sojourn ]; then
	echo 'sojourn: /var/lib/sojourn and the user sojourn are kept; remove them by hand if the jobs are no longer needed'
fi
