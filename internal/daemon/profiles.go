package daemon

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/goshmem/goshmem/internal/wire"
)

// profiles are the files in which a PE that is a Go program leaves its profiles, as Config.Profiles asks for. They are
// on the machine of the PE, so the step says whether they are there.
type profiles struct {
	names  []string      // nil: nobody asked for them
	before []os.FileInfo // those of an earlier run, by name; nil: there is none
}

// makeProfileDir makes the directory for profiles, if they are asked for.
func (c *Config) makeProfileDir() error {
	if c.Profiles == "" {
		return nil
	}
	if err := os.MkdirAll(c.Profiles, 0o755); err != nil {
		return &HintError{Err: fmt.Errorf("--pprof %s: %w", c.Profiles, err), Hint: "choose another directory"}
	}
	return nil
}

// expectProfiles looks at what is there before the start of a PE.
func (c *Config) expectProfiles(id ID) (p profiles) {
	if c.Profiles == "" {
		return p
	}
	name := filepath.Join(c.Profiles, wire.ProfileName(id.Job, id.PE))
	p.names = []string{name + ".cpu.pprof", name + ".heap.pprof"}
	for _, name := range p.names {
		info, _ := os.Stat(name) // nil: there is none
		p.before = append(p.before, info)
	}
	return p
}

// left says whether all are there, and not of an earlier run.
func (p *profiles) left() bool {
	for i, name := range p.names {
		info, err := os.Stat(name)
		if err != nil || p.before[i] != nil && os.SameFile(info, p.before[i]) {
			return false
		}
	}
	return len(p.names) > 0
}
