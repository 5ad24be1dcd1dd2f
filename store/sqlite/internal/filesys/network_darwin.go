package filesys

import "golang.org/x/sys/unix"

// Network returns the name of the network file system that contains dir, or "". An unknown file
// system counts as local.
func Network(dir string) string {
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
