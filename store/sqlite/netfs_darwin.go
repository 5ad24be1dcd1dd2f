package sqlite

import "golang.org/x/sys/unix"

// networkFS names the network file system that dir is on, or is "". What cannot be found out counts
// as local.
func networkFS(dir string) string {
	var fs unix.Statfs_t
	if unix.Statfs(dir, &fs) != nil {
		return ""
	}
	switch name := unix.ByteSliceToString(fs.Fstypename[:]); name {
	case "nfs", "smbfs", "afpfs", "webdav", "ftp":
		return name
	}
	return ""
}
