package launch

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/goshmem/goshmem/internal/daemon"
)

// slowReader takes everything and says when it does.
type slowReader struct{ takes chan struct{} }

func (s slowReader) Write(b []byte) (int, error) {
	<-s.takes
	return len(b), nil
}

// That the kernel takes long to free the memory of PEs after a signal is no reason
// to speak of output that is not read; output that is not read is.
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
					t.Errorf("cut: %t, want %t", out.isCut(), unread)
				}
				close(done)
				<-over
				close(reader.takes)
			})
		})
	}
}
