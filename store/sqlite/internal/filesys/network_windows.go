package filesys

import (
	"path/filepath"

	"golang.org/x/sys/windows"
)

// Network returns the name of the network file system that contains dir, or "". An unknown file
// system counts as local.
func Network(dir string) string {
	root, err := windows.UTF16PtrFromString(filepath.VolumeName(dir) + `\`)
	if err == nil && windows.GetDriveType(root) == windows.DRIVE_REMOTE {
		return "a network drive"
	}
	return ""
}
