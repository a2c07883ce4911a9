package daemon

import (
	"errors"
	"io/fs"
	"os"
	"syscall"
	"testing"
)

// A missing /dev/null is explained. That too many files are open, which shows
// there, too, has another remedy.
func TestExplainNull(t *testing.T) {
	for errno, want := range map[syscall.Errno]bool{
		syscall.ENOENT: true, syscall.EACCES: true, syscall.EMFILE: false, syscall.ENFILE: false,
	} {
		err := explainNull(&fs.PathError{Op: "open", Path: os.DevNull, Err: errno})
		if got := errors.As(err, new(*HintError)); got != want || !errors.Is(err, errno) {
			t.Errorf("%v becomes %v, explained: %v, want %v", errno, err, got, want)
		}
	}
}
