package job

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"runtime/pprof"
	"strconv"
	"sync"

	"github.com/goshmem/goshmem/internal/envvar"
	"github.com/goshmem/goshmem/internal/wire"
)

// profile is the CPU profile of this process from Init on, and the heap profile at
// its end. Nil stands for no profile.
//
// Both are made in memory. They are written when the process leaves its job, aborts
// it, or gets OrderProfile. A process that is killed without notice leaves none. A
// file is never seen half written.
type profile struct {
	dir     string
	name    string // start of the files' names
	once    sync.Once
	running bool // the CPU profile has been started
	cpu     bytes.Buffer
}

// profiles counts the profiles of this process, which may join its job repeatedly.
var profiles int

// startProfile starts the profiles that GOSHMEM_PPROF asks for. In a program that has
// started a CPU profile itself, that one goes on.
func startProfile(job, pe int) *profile {
	dir := envvar.ProfileDir(os.LookupEnv)
	if dir == "" {
		return nil
	}
	p := &profile{dir: dir, name: wire.ProfileName(job, pe)}
	if profiles++; profiles > 1 {
		p.name += "." + strconv.Itoa(profiles)
	}
	err := pprof.StartCPUProfile(&p.cpu)
	if p.running = err == nil; !p.running {
		fmt.Fprintf(os.Stderr, "goshmem: PE %d: CPU profile: %v\n", pe, err)
	}
	return p
}

// end writes the profiles, once.
func (p *profile) end() {
	if p == nil {
		return
	}
	p.once.Do(func() {
		var heap bytes.Buffer
		runtime.GC() // a heap profile shows the state after the last collection
		err := pprof.Lookup("heap").WriteTo(&heap, 0)
		if p.running {
			pprof.StopCPUProfile()
			err = errors.Join(err, p.write("cpu", &p.cpu))
		}
		if err = errors.Join(err, p.write("heap", &heap)); err != nil {
			fmt.Fprintf(os.Stderr, "goshmem: %s: profile: %v\n", p.name, err)
		}
	})
}

// write writes a file, which appears as a whole or not at all.
func (p *profile) write(kind string, content *bytes.Buffer) error {
	name := p.name + "." + kind + ".pprof"
	temporary := filepath.Join(p.dir, "."+name+".tmp")
	if err := os.WriteFile(temporary, content.Bytes(), 0o644); err != nil {
		return err
	}
	return os.Rename(temporary, filepath.Join(p.dir, name))
}
