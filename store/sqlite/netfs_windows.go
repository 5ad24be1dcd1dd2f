package sqlite

import (
	"path/filepath"

	"golang.org/x/sys/windows"
)

// networkFS names the network file system that dir is on, or is "". What cannot be found out counts
// as local.
func networkFS(dir string) string {
	root, err := windows.UTF16PtrFromString(filepath.VolumeName(dir) + `\`)
	if err == nil && windows.GetDriveType(root) == windows.DRIVE_REMOTE {
		return "a network drive"
	}
	return ""
}
