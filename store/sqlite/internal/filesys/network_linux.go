package filesys

import (
	"bufio"
	"fmt"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// Network returns the name of the network file system that contains dir, or "". An unknown file
// system counts as local.
func Network(dir string) string {
	var fs unix.Statfs_t
	if unix.Statfs(dir, &fs) != nil {
		return ""
	}
	switch uint32(fs.Type) { // the field's width differs between architectures, the numbers have 32 bits
	case unix.NFS_SUPER_MAGIC:
		return "nfs"
	case unix.SMB_SUPER_MAGIC, unix.CIFS_SUPER_MAGIC, unix.SMB2_SUPER_MAGIC:
		return "cifs"
	case unix.AFS_SUPER_MAGIC, unix.AFS_FS_MAGIC:
		return "afs"
	case unix.CODA_SUPER_MAGIC:
		return "coda"
	case unix.FUSE_SUPER_MAGIC:
		return networkFUSE(dir)
	}
	return ""
}

// networkFUSE finds the remote file systems in user space, which all have one number, by the name
// under which they are mounted.
func networkFUSE(dir string) string {
	var stat unix.Stat_t
	if unix.Stat(dir, &stat) != nil {
		return ""
	}
	f, err := os.Open("/proc/self/mountinfo")
	if err != nil {
		return ""
	}
	defer f.Close()
	device := fmt.Sprintf("%d:%d", unix.Major(uint64(stat.Dev)), unix.Minor(uint64(stat.Dev)))
	for lines := bufio.NewScanner(f); lines.Scan(); {
		if kind := mountedAs(lines.Text(), device); remoteFUSE[kind] {
			return kind
		}
	}
	return ""
}

// mountedAs reads a line of mountinfo: the file system's type, if the line is about the device.
func mountedAs(line, device string) string {
	before, after, _ := strings.Cut(line, " - ")
	fields := strings.Fields(before)
	if len(fields) < 3 || fields[2] != device {
		return ""
	}
	kind, _, _ := strings.Cut(after, " ")
	return kind
}

var remoteFUSE = map[string]bool{
	"fuse.sshfs": true, "fuse.rclone": true, "fuse.s3fs": true, "fuse.gcsfuse": true, "fuse.goofys": true, "fuse.davfs": true,
	"fuse.curlftpfs": true, "fuse.glusterfs": true, "fuse.smbnetfs": true, "fuse.nfs": true,
}
