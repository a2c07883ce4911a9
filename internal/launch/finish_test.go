package launch

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/goshmem/goshmem/internal/daemon"
)

// slowReader takes a text when the test lets it.
type slowReader struct{ takes chan struct{} }

func (s slowReader) Write(b []byte) (int, error) {
	<-s.takes
	return len(b), nil
}

// Output is cut only if it is not read. It is not cut when the kernel takes long to free the memory of PEs after a
// signal.
func TestOnlyUnreadOutputIsCut(t *testing.T) {
	for name, unread := range map[string]bool{"all is read": false, "something is not": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				reader := slowReader{make(chan struct{})}
				out, err := newPrinter(&Options{Apps: []App{{NPEs: 1}}, Stdout: reader, Stderr: reader})
				if err != nil {
					t.Fatal(err)
				}
				r := &run{o: &Options{}, out: out, ending: true, status: StatusInterrupted, asked: time.Now()}
				if unread {
					out.write(daemon.ID{}, daemon.Stdout, []byte("text\n"))
				}
				done, over := make(chan struct{}), make(chan struct{})
				go func() { defer close(over); r.await(context.Background(), done) }()
				time.Sleep(askedAtMost + time.Second) // the PEs end late
				synctest.Wait()
				if out.isCut() != unread {
					t.Errorf("output cut: %t, want %t", out.isCut(), unread)
				}
				close(done)
				<-over
				close(reader.takes)
			})
		})
	}
}
