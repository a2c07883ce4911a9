package daemon

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"os"

	"github.com/goshmem/goshmem/internal/xunix"
)

// describeNode adds to a report what the root compares with what it knows of other nodes. Nobody asks where there is one
// machine alone.
func (c *Config) describeNode(r *Report) {
	if !c.Share.isGiven() || c.Share.Emulated {
		return
	}
	r.Processors = xunix.Processors()
	if !c.Share.hasOthers() {
		return // there is no other file of a program
	}
	r.Programs = make([]string, len(c.Apps))
	first := 0
	for i := range c.Apps {
		a := &c.Apps[i]
		for pe := first; pe < first+a.NPEs; pe++ {
			if c.Share.Homes[pe] == c.Share.Node {
				r.Programs[i] = fingerprint(a.Path)
				break
			}
		}
		first += a.NPEs
	}
}

// mostHashed bounds how much of a program is read: the rest of a larger one is told by its size.
const mostHashed = 64 << 20

// fingerprint returns what tells a file from another one: its size, and the SHA-256 of its contents; empty: it cannot be
// read, as a program may forbid.
func fingerprint(path string) string {
	f, err := os.Open(path)
	if err != nil {
		return ""
	}
	defer func() { _ = f.Close() }() // only read
	info, err := f.Stat()
	if err != nil || !info.Mode().IsRegular() {
		return ""
	}
	h := sha256.New()
	if _, err := io.Copy(h, io.LimitReader(f, mostHashed)); err != nil {
		return ""
	}
	return fmt.Sprintf("%d:%s", info.Size(), hex.EncodeToString(h.Sum(nil)))
}
