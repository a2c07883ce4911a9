package server

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/rs/zerolog"

	"github.com/goshmem/goshmem/internal/xunix"
)

// Bounds on what a path and a folder may be like.
const (
	maxDepth = 128 // folders in each other that are cleaned; every level costs a descriptor
	maxLinks = 40  // on the way to a path, as the kernel allows
)

// cleaner removes what processes left behind, one thing after the other and apart from the loop: a file system may take
// its time.
//
// It acts for its own user on paths that a process of that user named, perhaps hours ago. Others on the machine may
// have put things in the way since, so it removes only what belongs to the user, reaches it only through folders and
// links that nobody but the user and root can have made, and never follows a link below that.
type cleaner struct {
	log  zerolog.Logger
	uid  uint32
	mu   sync.Mutex
	jobs []epilog
	busy bool
	wg   sync.WaitGroup
}

// add hands over what is to be removed.
func (c *cleaner) add(e epilog) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.jobs = append(c.jobs, e)
	if !c.busy {
		c.busy = true
		c.wg.Go(c.work)
	}
}

// finish returns when all that was added is done.
func (c *cleaner) finish() { c.wg.Wait() }

func (c *cleaner) work() {
	for {
		c.mu.Lock()
		if len(c.jobs) == 0 {
			c.busy = false
			c.mu.Unlock()
			return
		}
		e := c.jobs[0]
		c.jobs = c.jobs[1:]
		c.mu.Unlock()
		for _, item := range e.paths {
			if err := c.remove(item, e.ignore); err != nil && !errors.Is(err, fs.ErrNotExist) {
				c.log.Warn().Err(err).Str("path", item.path).Msg("not cleaned up")
			}
		}
	}
}

// remove removes one path that a process registered.
func (c *cleaner) remove(item cleanup, ignore []string) error {
	if slices.Contains(ignore, item.path) {
		return nil
	}
	parent, err := c.open(filepath.Dir(item.path))
	if err != nil {
		return err
	}
	defer func() { _ = parent.Close() }() // was only read
	name := filepath.Base(item.path)
	info, err := parent.Lstat(name)
	if err != nil {
		return err
	}
	switch {
	case !c.owns(info):
		return errors.New("belongs to another user")
	case item.dir && info.IsDir():
		return c.sweep(parent, name, info, &sweeping{cleanup: item, ignore: ignore})
	case item.dir || info.IsDir():
		return fmt.Errorf("is a %v, want a %s", info.Mode().Type(), map[bool]string{true: "folder", false: "file"}[item.dir])
	default:
		return parent.Remove(name)
	}
}

func (c *cleaner) owns(info fs.FileInfo) bool {
	uid, ok := xunix.Owner(info)
	return ok && uid == c.uid
}

// open opens a folder step by step, so that nothing can be changed behind a check: every folder and link on the way
// must belong to the user or to root.
func (c *cleaner) open(dir string) (*os.Root, error) {
	at, err := os.OpenRoot("/")
	if err != nil {
		return nil, err
	}
	way := &way{steps: steps(dir)}
	for err == nil && len(way.steps) > 0 {
		var next *os.Root
		if next, err = c.step(at, way); err == nil && next != at {
			_ = at.Close() // was only read
			at = next
		}
	}
	if err != nil {
		return nil, errors.Join(err, at.Close())
	}
	return at, nil
}

// way is what lies behind and before somebody who looks for a folder.
type way struct {
	behind string // without links
	steps  []string
	links  int
}

func steps(path string) []string {
	return slices.DeleteFunc(strings.Split(path, "/"), func(s string) bool { return s == "" || s == "." })
}

// step goes into the next folder. A link begins a new way from the root.
func (c *cleaner) step(at *os.Root, w *way) (*os.Root, error) {
	name := w.steps[0]
	path := filepath.Join("/", w.behind, name)
	info, err := at.Lstat(name)
	if err != nil {
		return nil, err
	}
	if uid, ok := xunix.Owner(info); !ok || uid != c.uid && uid != 0 {
		return nil, fmt.Errorf("reached through %s, which belongs to another user", path)
	}
	if info.Mode()&fs.ModeSymlink == 0 {
		w.behind, w.steps = path, w.steps[1:]
		next, err := at.OpenRoot(name)
		if err != nil {
			return nil, err
		}
		return same(next, info)
	}
	if w.links++; w.links > maxLinks {
		return nil, fmt.Errorf("reached through more than %d links", maxLinks)
	}
	target, err := at.Readlink(name)
	if err != nil {
		return nil, err
	}
	if !filepath.IsAbs(target) {
		target = filepath.Join("/", w.behind, target)
	}
	w.behind, w.steps = "", append(steps(filepath.Clean(target)), w.steps[1:]...)
	return os.OpenRoot("/")
}

// same makes sure that what was opened is what was looked at.
func same(root *os.Root, before fs.FileInfo) (*os.Root, error) {
	now, err := root.Stat(".")
	if err == nil && !os.SameFile(before, now) {
		err = errors.New("replaced while it was opened")
	}
	if err != nil {
		return nil, errors.Join(err, root.Close())
	}
	return root, nil
}

// sweeping is the removal of one folder's content.
type sweeping struct {
	cleanup
	ignore []string
	depth  int
}

// sweep removes what is in a folder, and the folder itself if nothing is left. What stays is not an error unless it
// should have gone.
func (c *cleaner) sweep(parent *os.Root, name string, before fs.FileInfo, s *sweeping) error {
	if s.depth >= maxDepth {
		return fmt.Errorf("%s: more than %d folders deep", s.path, maxDepth)
	}
	root, err := parent.OpenRoot(name)
	if err != nil {
		return err
	}
	if root, err = same(root, before); err != nil {
		return err
	}
	err = c.sweepEntries(root, s)
	if err := errors.Join(err, root.Close()); err != nil {
		return err
	}
	if s.depth == 0 && s.leaveTop {
		return nil
	}
	// It fails if something is left in it, which is as it should be.
	_ = parent.Remove(name)
	return nil
}

func (c *cleaner) sweepEntries(root *os.Root, s *sweeping) error {
	dir, err := root.Open(".")
	if err != nil {
		return err
	}
	names, err := dir.Readdirnames(-1)
	err = errors.Join(err, dir.Close())
	for _, name := range names {
		path := filepath.Join(s.path, name)
		if slices.Contains(s.ignore, path) {
			continue
		}
		info, statErr := root.Lstat(name)
		switch {
		case statErr != nil || !c.owns(info):
			// gone already, or not ours
		case !info.IsDir():
			if !s.emptyOnly {
				err = errors.Join(err, root.Remove(name))
			}
		case s.recursive:
			below := *s
			below.path, below.depth = path, s.depth+1
			err = errors.Join(err, c.sweep(root, name, info, &below))
		}
	}
	return err
}
