//go:build !unix

package xunix

import "io/fs"

// Owner does not know here.
func Owner(fs.FileInfo) (uid uint32, ok bool) { return 0, false }
