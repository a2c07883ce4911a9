package server

import (
	"fmt"
	"strings"

	"github.com/goshmem/goshmem/pmix/wire"
)

// cleanup is a path to remove when its owner has ended.
type cleanup struct {
	path      string
	dir       bool
	recursive bool
}

func (c *core) jobControl(at caller, r *wire.JobControlRequest) {
	added := cleanups(r.Info)
	if len(at.cleanups)+len(added) > maxRemembered {
		c.refuse(at, wire.StatusErrOutOfResource, fmt.Sprintf("more than %d paths to clean up", maxRemembered))
		return
	}
	at.cleanups = append(at.cleanups, added...)
	c.reply(at, wire.StatusSuccess)
}

func cleanups(infos []wire.Info) []cleanup {
	var out []cleanup
	recursive := flag(infos, wire.KeyCleanupRecursive)
	for _, info := range infos {
		if info.Key != wire.KeyRegisterCleanup && info.Key != wire.KeyRegisterCleanupDir {
			continue
		}
		paths, _ := info.Value.Str()
		for path := range strings.SplitSeq(paths, ",") {
			if path != "" {
				out = append(out, cleanup{path, info.Key == wire.KeyRegisterCleanupDir, recursive})
			}
		}
	}
	return out
}
