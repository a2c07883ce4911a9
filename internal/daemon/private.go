package daemon

import (
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"

	"github.com/rs/zerolog"

	"github.com/goshmem/goshmem/internal/envvar"
	"github.com/goshmem/goshmem/internal/xunix"
)

// private is the step's directory for programs that need files: Open MPI keeps
// its session directories and the memory that its ranks share there. It is made
// when the first such program joins its job, so that there is none in jobs of
// goshmem programs.
//
// The directory's name tells its owner, goshmem-PID-START-SECRET, and the owner holds a
// lock on it. If the owner was killed, the next step of the same user removes it.
type private struct {
	path string
	once sync.Once
	lock *os.File
}

// sharedDir is where in it Open MPI keeps shared memory.
const sharedDir = "shm"

// backingDirs are the variables by which Open MPI is told where to put files
// that hold shared memory; otherwise they are in /dev/shm, where they stay when
// everybody is killed.
var backingDirs = []string{envvar.BackingVader, envvar.BackingOSCSM, envvar.BackingOSCRDMA, envvar.BackingHeap}

// choosePath chooses the directory's name. The directory is not made yet.
func (d *private) choosePath() error {
	base, err := filepath.Abs(os.TempDir())
	if err != nil {
		return fmt.Errorf("directory for temporary files: %w", err)
	}
	start, err := xunix.StartTime(os.Getpid())
	if err != nil {
		return err
	}
	var secret [6]byte
	_, _ = rand.Read(secret[:]) // never fails
	d.path = filepath.Join(base, fmt.Sprintf("%s%d-%d-%x", privatePrefix, os.Getpid(), start, secret))
	return nil
}

// privatePrefix is what the names of all such directories begin with.
const privatePrefix = "goshmem-"

// environ returns the variables by which programs find the directory, except those that env sets.
func (d *private) environ(env []string) (more []string) {
	for _, name := range backingDirs {
		if !isSet(env, name) {
			more = append(more, name+"="+filepath.Join(d.path, sharedDir))
		}
	}
	return more
}

// jobDir returns the directory of a job in it, which programs make themselves.
func (d *private) jobDir(number int) string {
	return filepath.Join(d.path, "job."+strconv.Itoa(number))
}

// makeOnce makes the directory at the first call, and calls failed if that is not possible.
func (d *private) makeOnce(failed func(error)) {
	d.once.Do(func() {
		err := os.Mkdir(d.path, 0o700)
		if err == nil {
			d.lock, err = os.Open(d.path)
		}
		if err == nil {
			err = errors.Join(xunix.Lock(d.lock), os.Mkdir(filepath.Join(d.path, sharedDir), 0o700))
		}
		if err != nil {
			failed(err)
		}
	})
}

// remove removes the directory if it was made. A later makeOnce does nothing.
func (d *private) remove() error {
	d.once.Do(func() {})
	if d.lock == nil {
		return nil
	}
	return errors.Join(os.RemoveAll(d.path), d.lock.Close())
}

// provideFor makes the directory if process pid, which is about to join its job, may need it. Pure Go programs need none.
func (d *private) provideFor(pid int, r *reporter) {
	if isPureGo(pid) {
		return
	}
	d.makeOnce(func(err error) { r.notice("directory for files of the programs: %v", err) })
}

// RemoveStale removes the directories that killed steps have left in this machine's directory for temporary files, as
// each step does at its start.
func RemoveStale(logger zerolog.Logger) {
	var d private
	if err := d.choosePath(); err != nil {
		logger.Warn().Err(err).Msg("files of killed jobs are not removed")
		return
	}
	removeStale(d.path, logger)
}

// removeStale removes the directories beside own that killed owners have left.
func removeStale(own string, logger zerolog.Logger) {
	base := filepath.Dir(own)
	found, _ := filepath.Glob(filepath.Join(quoteGlob(base), privatePrefix+"*-*-*"))
	for _, path := range found {
		pid, start, ok := ownerOf(filepath.Base(path))
		if !ok {
			continue
		}
		if owner := look(pid); !owner.over() && owner.start == start {
			continue // it lives: one that is only to be reaped has no use for files
		}
		if err := removeUnowned(path); err != nil {
			logger.Warn().Err(err).Str("dir", path).Msg("left by a killed job and not removed")
		}
	}
}

// quoteGlob makes a pattern that matches a path and nothing else.
func quoteGlob(path string) string {
	return strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`).Replace(path)
}

// ownerOf returns which process the name of a directory stands for.
func ownerOf(name string) (pid int, start uint64, ok bool) {
	parts := strings.Split(strings.TrimPrefix(name, privatePrefix), "-")
	if len(parts) != 3 || len(parts[2]) != 12 {
		return 0, 0, false
	}
	pid, err := strconv.Atoi(parts[0])
	start, serr := strconv.ParseUint(parts[1], 10, 64)
	return pid, start, err == nil && serr == nil && pid > 0
}

// removeUnowned removes a directory of this user unless somebody holds its lock:
// a process that has the number of another one elsewhere, in a container.
func removeUnowned(path string) error {
	root, err := os.OpenRoot(path)
	if err != nil {
		return err
	}
	defer func() { _ = root.Close() }()
	dir, err := root.Open(".")
	if err != nil {
		return err
	}
	defer func() { _ = dir.Close() }()
	mine, err := xunix.OwnedBySelf(dir)
	if err != nil || !mine {
		return err
	}
	if xunix.Lock(dir) != nil {
		return nil // it has an owner
	}
	entries, err := dir.ReadDir(-1)
	for _, e := range entries {
		err = errors.Join(err, root.RemoveAll(e.Name()))
	}
	return errors.Join(err, os.Remove(path))
}
