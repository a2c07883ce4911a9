package server

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sync"

	"github.com/rs/zerolog"

	"github.com/goshmem/goshmem/internal/xunix"
)

// maxDepth bounds how deep folders are cleaned; every level costs a descriptor.
const maxDepth = 128

// cleaner removes what processes left behind, one thing after the other and apart from the loop: a file system may take
// its time.
//
// It acts for its own user on paths that a process of that user named, perhaps hours ago. Others on the machine may have
// put things in the way since, so it removes only what belongs to the user, reaches it only through folders and links
// that nobody but the user and root can have made, and never follows a link below that.
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

// open opens a folder, having checked every step of the way to it.
func (c *cleaner) open(dir string) (*os.Root, error) {
	for at := dir; ; at = filepath.Dir(at) {
		info, err := os.Lstat(at)
		if err != nil {
			return nil, err
		}
		uid, ok := xunix.Owner(info)
		if !ok || uid != c.uid && uid != 0 {
			return nil, fmt.Errorf("reached through %s, which belongs to another user", at)
		}
		if writable := info.Mode().Perm()&0o022 != 0 && info.Mode()&(fs.ModeSticky|fs.ModeSymlink) == 0; writable && uid == 0 && c.uid != 0 {
			return nil, fmt.Errorf("reached through %s, where others can put what they like", at)
		}
		if at == filepath.Dir(at) {
			break
		}
	}
	before, err := os.Stat(dir)
	if err != nil {
		return nil, err
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	return c.same(root, before)
}

// same makes sure that what was opened is what was looked at.
func (c *cleaner) same(root *os.Root, before fs.FileInfo) (*os.Root, error) {
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
	if root, err = c.same(root, before); err != nil {
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
