package launch

import (
	"io"
	"os"
	"time"

	"github.com/goshmem/goshmem/internal/xunix"
)

// terminal reads a terminal while this process is in its foreground. In the
// background of a shell, what is typed is not for the job, and reading would
// stop it.
type terminal struct{ f *os.File }

// input returns what the PEs read, nil for nothing.
func input(f *os.File) io.Reader {
	switch {
	case f == nil: // a nil *os.File is not a nil io.Reader
		return nil
	case xunix.IsTerminal(f.Fd()):
		return terminal{f}
	}
	return f
}

// backgroundPause is how often a job in the background looks whether it has
// come to the foreground, once something has been typed.
const backgroundPause = 100 * time.Millisecond

// Read waits for the foreground and for a line.
func (t terminal) Read(b []byte) (int, error) {
	for {
		if err := xunix.WaitReadable(t.f.Fd()); err != nil {
			return 0, err
		}
		if xunix.Foreground(t.f.Fd()) {
			return t.f.Read(b)
		}
		<-time.After(backgroundPause)
	}
}
