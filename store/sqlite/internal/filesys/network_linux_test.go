package filesys

import "testing"

func TestMountedAs(t *testing.T) {
	for line, want := range map[string]string{
		"36 35 0:47 / /home/u/remote rw,nosuid - fuse.sshfs user@host:/ rw,user_id=0": "fuse.sshfs",
		"36 35 0:47 / /a\\040-\\040b rw shared:1 master:2 - ext4 /dev/vda rw":         "ext4",
		"36 35 0:4 / /home/u/remote rw - fuse.sshfs user@host:/ rw":                   "",
		"": "",
	} {
		if got := mountedAs(line, "0:47"); got != want {
			t.Errorf("%q: %q, want %q", line, got, want)
		}
	}
}
