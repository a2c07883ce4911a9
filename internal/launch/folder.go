package launch

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync"

	"github.com/goshmem/goshmem/internal/daemon"
)

// folder holds a copy of each PE's output in files of its own.
type folder struct {
	dir     string
	byJob   bool
	digits  int      // of the number of a PE of the first job, with byJob
	streams []string // names of the files of a PE

	mu    sync.Mutex
	files map[source]*os.File // nil: writing has failed, and the file misses what follows
	torn  []string            // names of files that miss output at their end
}

// newFolder returns the folder of a job whose first part has that many PEs.
func newFolder(o *Output, npes int) *folder {
	d := &folder{dir: o.Dir, byJob: o.ByJob, digits: len(strconv.Itoa(npes - 1)), streams: streamNames[:], files: map[source]*os.File{}}
	if o.Merge {
		d.streams = d.streams[:1]
	}
	return d
}

// place returns the directory of a PE's files: rank.N, in job.J if the job was
// spawned; or, byJob, J/rank.N with jobs counted from 1 and, in the first one, zeros
// that give all ranks the same length.
func (d *folder) place(id daemon.ID) string {
	switch {
	case d.byJob && id.Job == 0:
		return filepath.Join(d.dir, "1", fmt.Sprintf("rank.%0*d", d.digits, id.PE))
	case d.byJob:
		return filepath.Join(d.dir, strconv.Itoa(id.Job+1), "rank."+strconv.Itoa(id.PE))
	case id.Job > 0:
		return filepath.Join(d.dir, "job."+strconv.Itoa(id.Job), "rank."+strconv.Itoa(id.PE))
	}
	return filepath.Join(d.dir, "rank."+strconv.Itoa(id.PE))
}

// open makes the files of a PE. The caller holds the lock, or is alone.
func (d *folder) open(id daemon.ID) error {
	dir := d.place(id)
	err := os.MkdirAll(dir, 0o755)
	for s, name := range d.streams {
		var f *os.File
		if err == nil {
			f, err = os.Create(filepath.Join(dir, name))
		}
		d.files[source{id, daemon.Stream(s)}] = f // nil after an error
	}
	if err != nil {
		return fmt.Errorf("output of PE %v: %w", id, err)
	}
	return nil
}

// write returns an error once for each file. A file that could not be written
// gets nothing more: it holds the output up to there.
func (d *folder) write(from source, text []byte) error {
	f, err := d.file(from)
	if f == nil {
		return err
	}
	if _, err = f.Write(text); err == nil {
		return nil
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.files[from] = nil
	d.torn = append(d.torn, f.Name())
	return errors.Join(err, f.Close())
}

// file returns the file of a source, and opens those of a PE that has come
// later.
func (d *folder) file(from source) (f *os.File, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if _, known := d.files[from]; !known {
		err = d.open(from.id)
	}
	return d.files[from], err
}

// incomplete returns the files that miss output.
func (d *folder) incomplete() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Clone(d.torn)
}

// close closes all files.
func (d *folder) close() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	var errs []error
	for from, f := range d.files {
		if f != nil {
			errs = append(errs, f.Close())
		}
		delete(d.files, from)
	}
	return errors.Join(errs...)
}
