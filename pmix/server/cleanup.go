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

// Bounds on a path to remove.
const (
	maxDepth = 128 // nesting of directories that are removed; every level costs a descriptor
	maxLinks = 40  // symbolic links on the way to a path, as in the kernel
)

// cleaner removes files that processes registered. It has a goroutine of its own, because a file system may be slow.
//
// A process of the server's user named the paths, perhaps hours ago. Since then other users may have replaced parts of
// them. So the cleaner removes only what belongs to the user. It reaches a path only through directories and links that
// belong to the user or root, and follows no link below the path.
type cleaner struct {
	log   zerolog.Logger
	uid   uint32 // the server's user
	mu    sync.Mutex
	queue []epilog
	busy  bool // a goroutine works on the queue
	wg    sync.WaitGroup
}

// add queues paths to remove.
func (c *cleaner) add(e epilog) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.queue = append(c.queue, e)
	if !c.busy {
		c.busy = true
		c.wg.Go(c.work)
	}
}

// finish waits until the queue is done.
func (c *cleaner) finish() { c.wg.Wait() }

// work removes everything in the queue.
func (c *cleaner) work() {
	for {
		c.mu.Lock()
		if len(c.queue) == 0 {
			c.busy = false
			c.mu.Unlock()
			return
		}
		e := c.queue[0]
		c.queue = c.queue[1:]
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
	defer func() { _ = parent.Close() }() // errors of a read-only handle do not matter
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
		return fmt.Errorf("has mode %v, want a %s", info.Mode(), map[bool]string{true: "directory", false: "file"}[item.dir])
	default:
		return parent.Remove(name)
	}
}

func (c *cleaner) owns(info fs.FileInfo) bool {
	uid, ok := xunix.Owner(info)
	return ok && uid == c.uid
}

// open opens a directory one path element at a time, so that no element can be replaced after its check. Every
// directory and link on the way must belong to the user or to root.
func (c *cleaner) open(dir string) (*os.Root, error) {
	at, err := os.OpenRoot("/")
	if err != nil {
		return nil, err
	}
	w := &walk{ahead: elements(dir)}
	for err == nil && len(w.ahead) > 0 {
		var next *os.Root
		if next, err = c.openNext(at, w); err == nil && next != at {
			_ = at.Close() // errors of a read-only handle do not matter
			at = next
		}
	}
	if err != nil {
		return nil, errors.Join(err, at.Close())
	}
	return at, nil
}

// walk is the state of open on its way to a directory.
type walk struct {
	behind string   // path of the directory that is open, without links
	ahead  []string // elements still to open
	links  int      // links followed so far
}

// elements splits a path.
func elements(path string) []string {
	return slices.DeleteFunc(strings.Split(path, "/"), func(s string) bool { return s == "" || s == "." })
}

// openNext opens the next element. After a link it starts again at the root.
func (c *cleaner) openNext(at *os.Root, w *walk) (*os.Root, error) {
	name := w.ahead[0]
	path := filepath.Join("/", w.behind, name)
	info, err := at.Lstat(name)
	if err != nil {
		return nil, err
	}
	if uid, ok := xunix.Owner(info); !ok || uid != c.uid && uid != 0 {
		return nil, fmt.Errorf("reached through %s, which belongs to another user", path)
	}
	if info.Mode()&fs.ModeSymlink == 0 {
		w.behind, w.ahead = path, w.ahead[1:]
		next, err := at.OpenRoot(name)
		if err != nil {
			return nil, err
		}
		return checkSame(next, info)
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
	w.behind, w.ahead = "", append(elements(filepath.Clean(target)), w.ahead[1:]...)
	return os.OpenRoot("/")
}

// checkSame checks that root is the directory that was examined before it was opened.
func checkSame(root *os.Root, before fs.FileInfo) (*os.Root, error) {
	now, err := root.Stat(".")
	if err == nil && !os.SameFile(before, now) {
		err = errors.New("replaced while it was opened")
	}
	if err != nil {
		return nil, errors.Join(err, root.Close())
	}
	return root, nil
}

// sweeping is the removal of one directory's content.
type sweeping struct {
	cleanup
	ignore []string
	depth  int // number of directories above that are being removed
}

// sweep removes the content of a directory, and the directory itself if it is empty then. Entries that are to stay are
// no error.
func (c *cleaner) sweep(parent *os.Root, name string, before fs.FileInfo, s *sweeping) error {
	if s.depth >= maxDepth {
		return fmt.Errorf("%s: nested more than %d directories deep", s.path, maxDepth)
	}
	root, err := parent.OpenRoot(name)
	if err != nil {
		return err
	}
	if root, err = checkSame(root, before); err != nil {
		return err
	}
	err = c.sweepEntries(root, s)
	if err := errors.Join(err, root.Close()); err != nil {
		return err
	}
	if s.depth == 0 && s.leaveTop {
		return nil
	}
	_ = parent.Remove(name) // fails if the directory is not empty, which is intended
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
			// the entry is gone or belongs to another user
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
