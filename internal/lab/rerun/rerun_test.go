package rerun

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestMain makes this test binary the program that is run again.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "again" {
		os.Exit(again(os.Args[2]))
	}
	os.Exit(m.Run())
}

func again(what string) int {
	switch what {
	case "say":
		fmt.Println("out")
		fmt.Fprintln(os.Stderr, strings.Repeat("x", 2*tail))
		fmt.Fprintln(os.Stderr, "the end")
		return 7
	case "kill":
		_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
	case "talk":
		fmt.Printf("noise\n{\"n\":-1}\n{\"n\":1,\"text\":%q}\n", strings.Repeat("x", 2*bufio.MaxScanTokenSize))
		_, _ = io.Copy(os.Stdout, os.Stdin)
	case "wait":
		fmt.Println("waiting")
		if n, err := io.Copy(io.Discard, os.Stdin); n == 0 && err == nil { // there is none
			<-time.After(time.Hour)
		}
	}
	return 0
}

func TestRun(t *testing.T) {
	for _, c := range []struct {
		what   string
		accept int
		status int
	}{{"fine", 0, 0}, {"say", 0, 7}, {"say", 7, 0}, {"kill", 0, 137}} {
		r, err := New(t.Context(), "again", c.what)
		if err != nil {
			t.Fatal(err)
		}
		var heard strings.Builder
		r.Listen(&heard)
		err = r.Ended(r.Run(), c.accept)
		var failed *FailedError
		if (err != nil) != (c.status != 0) || err != nil && (!errors.As(err, &failed) || failed.Status != c.status) {
			t.Errorf("%s, accepting %d: %v, want status %d", c.what, c.accept, err, c.status)
		}
		if got := StatusOf(err, 99); err != nil && got != c.status || err == nil && got != 99 {
			t.Errorf("%s: status of %v is %d", c.what, err, got)
		}
		if c.what != "say" {
			continue
		}
		if heard.Len() != 2*tail+1+len("the end\n") {
			t.Errorf("heard %d bytes, want all of both outputs", heard.Len())
		}
		if err != nil && (!strings.HasPrefix(err.Error(), "oshrun again say: exit status 7:\nx") || !strings.HasSuffix(err.Error(), "the end") || len(err.Error()) > tail+100) {
			t.Errorf("error of %d bytes: %.80s...", len(err.Error()), err)
		}
	}
}

// When the context ends, SIGTERM asks the run to end.
func TestRunEndsWithContext(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	r, err := New(ctx, "again", "wait")
	if err != nil {
		t.Fatal(err)
	}
	out, err := r.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Start(); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(out, make([]byte, len("waiting\n"))); err != nil {
		t.Fatal(err)
	}
	cancel()
	if err := r.Ended(r.Wait()); StatusOf(err, 0) != 128+int(syscall.SIGTERM) {
		t.Errorf("error %v, want an end by SIGTERM", err)
	}
	if r, err = New(ctx, "again", "fine"); err != nil {
		t.Fatal(err)
	}
	if err := r.Ended(r.Run()); !errors.Is(err, context.Canceled) {
		t.Errorf("run with an ended context: %v", err)
	}
}

// TestTalk: a run's lines are delivered whatever their length, also the last one without an end; other output is dropped.
func TestTalk(t *testing.T) {
	r, err := New(t.Context(), "again", "talk")
	if err != nil {
		t.Fatal(err)
	}
	type object struct {
		N    int
		Text string
	}
	stdin, lines, err := StartTalk(r, func(o *object) bool { return o.N > 0 })
	if err != nil {
		t.Fatal(err)
	}
	if o := <-lines; o.N != 1 || len(o.Text) != 2*bufio.MaxScanTokenSize {
		t.Errorf("first object %d has %d bytes, want number 1 and all of its bytes", o.N, len(o.Text))
	}
	_, err = io.WriteString(stdin, `{"n":2}`)
	if err := errors.Join(err, stdin.Close()); err != nil {
		t.Fatal(err)
	}
	if o := <-lines; o.N != 2 {
		t.Errorf("last object %d, want 2", o.N)
	}
	if o, more := <-lines; more {
		t.Errorf("object %d after the last one", o.N)
	}
	if err := r.Ended(r.Wait()); err != nil {
		t.Error(err)
	}
	if r, err = New(t.Context(), "again", "fine"); err != nil {
		t.Fatal(err)
	}
	r.Path = "/no/such/program"
	if _, _, err := StartTalk(r, func(*object) bool { return true }); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a program that does not exist: %v", err)
	}
}
