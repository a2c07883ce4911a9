package xunix

import (
	"errors"
	"os"
	"testing"
	"time"
)

// What is in a pipe is read although the deadline is over, and nothing is waited for.
func TestReadNow(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	if got := ReadNow(r, 10); len(got) > 0 {
		t.Errorf("got %q of an empty pipe", got)
	}
	if _, err := w.WriteString("last words"); err != nil {
		t.Fatal(err)
	}
	if err := r.SetReadDeadline(time.Unix(1, 0)); err != nil {
		t.Fatal(err)
	}
	if _, err := r.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("read: %v, want the deadline", err)
	}
	if got := string(ReadNow(r, 4)) + string(ReadNow(r, 100)); got != "last words" {
		t.Errorf("got %q", got)
	}
	r.Close()
	if got := ReadNow(r, 1); got != nil {
		t.Errorf("got %q of a closed pipe", got)
	}
}
