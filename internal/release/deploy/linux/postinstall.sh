#!/bin/sh
# Runs after the files of the package are there: "configure [OLD VERSION]" on Debian, "1" or "2" on RPM.
set -e

if ! getent passwd sojourn >/dev/null; then
	if command -v systemd-sysusers >/dev/null; then
		systemd-sysusers /usr/lib/sysusers.d/sojourn.conf
	else
		shell=/usr/sbin/nologin
		useradd --system --user-group --home-dir /var/lib/sojourn --no-create-home --shell "$shell" --comment 'Sojourn job queue' sojourn
	fi
fi
mkdir -p /var/lib/sojourn
chown sojourn:sojourn /var/lib/sojourn
chmod 0700 /var/lib/sojourn
# The URL of a database may contain a password.
chgrp sojourn /etc/sojourn/sojourn.toml
chmod 0640 /etc/sojourn/sojourn.toml

if [ -d /run/systemd/system ]; then
	systemctl daemon-reload || true
	# An upgrade restarts the server if it runs. A first installation neither enables nor starts it.
	systemctl try-restart sojourn.service || true
fi
