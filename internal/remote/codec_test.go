package remote

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"reflect"
	"strings"
	"syscall"
	"testing"

	"github.com/goshmem/goshmem/detector/kernel"
	"github.com/goshmem/goshmem/internal/daemon"
	"github.com/goshmem/goshmem/internal/house/testenv"
	"github.com/goshmem/goshmem/internal/wire"
)

// form is how a type is coded.
type form struct {
	name string
	full []byte                // a value with all fields
	test func(t *testing.T)    // that value comes back, and the zero value
	back func(b []byte) string // what is wrong with a body that can be decoded; empty: nothing
}

// formOf returns the form of a type. Mend makes a full value one that may be sent; nil: it is.
func formOf[T any](code func(*wire.Coder, *T), mend func(v *T)) form {
	var full T
	testenv.Fill(reflect.ValueOf(&full).Elem())
	if mend != nil {
		mend(&full)
	}
	return form{
		name: reflect.TypeFor[T]().String(),
		full: encode(code, full),
		test: func(t *testing.T) {
			for _, v := range []T{full, *new(T)} {
				came, err := decode(&wire.Frame{Body: encode(code, v)}, code)
				if err != nil || !reflect.DeepEqual(came, v) {
					t.Errorf("%+v came as\n%+v, %v: code every field", v, came, err)
				}
			}
		},
		back: func(b []byte) string {
			v, err := decode(&wire.Frame{Body: b}, code)
			if err == nil && !bytes.Equal(encode(code, v), b) {
				return fmt.Sprintf("%x is %+v, which is encoded as %x", b, v, encode(code, v))
			}
			return ""
		},
	}
}

var forms = []form{
	formOf(codeConfig, nil),
	formOf(codeBinding, nil),
	formOf(codeReport, nil),
	formOf(codeHeartbeat, nil),
	formOf(codeHeartbeatAt, nil),
	formOf(codeWatch, nil),
	formOf(codeShare, nil),
	formOf(codeApp, nil),
	formOf(codePlace, nil),
	formOf(codeSetup, nil),
	formOf(codeWindow, nil),
	formOf(codeID, nil),
	formOf(codeEvent, nil),
	formOf(codeFarFailure, nil),
	formOf(codeChunk, nil),
	formOf(codeCredit, nil),
	formOf(codePEAnswer, nil),
	formOf(codeOrder, nil),
	formOf(codeQuit, nil),
	formOf(codeSource, func(v *source) { v.Stream = daemon.Stderr }),
	formOf(codeText, func(v *text) { v.Stream = daemon.Stderr }),
	formOf(codeFailure, nil),
	formOf(codeAnswer, nil),
	formOf(codeNothing, nil),
	formOf(wire.Integer[int], nil),
	formOf(wire.Integer[syscall.Signal], nil),
	formOf(codeSpawnRequest, nil),
	formOf(codeSpawnAnswer, nil),
	formOf(codeFurtherJob, nil),
}

// All fields of what is sent come.
func TestCodes(t *testing.T) {
	for _, f := range forms {
		t.Run(f.name, f.test)
	}
}

// The test of codes sees a field that is not coded.
func TestCodesSeeMissingField(t *testing.T) {
	var sent daemon.App
	testenv.Fill(reflect.ValueOf(&sent).Elem())
	without := func(c *wire.Coder, v *daemon.App) {
		if !c.Decodes() {
			short := *v
			short.Procs = 0
			v = &short
		}
		codeApp(c, v)
	}
	if came, err := decode(&wire.Frame{Body: encode(without, sent)}, without); err != nil || reflect.DeepEqual(came, sent) {
		t.Errorf("came %+v, %v, want a difference", came, err)
	}
}

// A stream that does not exist is refused.
func TestStreamRange(t *testing.T) {
	if _, err := decode(&wire.Frame{Kind: wire.KindLog, Body: encode(wire.Integer, 2)}, codeText); err == nil {
		t.Error("stream 2 is taken, want only 0 and 1")
	}
}

// FuzzMessages: nothing that comes makes a decoder panic, and each value has one encoding. The first byte says which
// message it is.
func FuzzMessages(f *testing.F) {
	for i, form := range forms {
		f.Add(append([]byte{byte(i)}, form.full...))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		if len(b) == 0 {
			return
		}
		form := forms[int(b[0])%len(forms)]
		if bad := form.back(b[1:]); bad != "" {
			t.Errorf("%s: %s", form.name, bad)
		}
	})
}

// Errors keep their text, and what a front end looks for in them.
func TestFailures(t *testing.T) {
	hint, tier := new(daemon.HintError), new(kernel.TierError)
	for _, x := range []struct {
		err   error
		hint  string
		tier  string
		errno syscall.Errno
	}{
		{errors.New("plain"), "", "", 0},
		{fmt.Errorf("program: %w", &daemon.HintError{Err: errors.New("no such program"), Hint: "build it"}), "build it", "", 0},
		{fmt.Errorf("PE 7: %w", &os.PathError{Op: "pipe", Path: "x", Err: syscall.EMFILE}), "", "", syscall.EMFILE},
		{&daemon.HintError{Err: syscall.EAGAIN, Hint: "fewer PEs"}, "fewer PEs", "", syscall.EAGAIN},
		{errors.Join(errors.New("start"), &kernel.TierError{Tier: kernel.BPF, Missing: "CAP_BPF", Err: syscall.EPERM}), "", "CAP_BPF", syscall.EPERM},
	} {
		sent := failureOf(x.err)
		f, err := decode(&wire.Frame{Body: encode(codeFailure, sent)}, codeFailure)
		if err != nil {
			t.Fatal(err)
		}
		got := f.error()
		if got.Error() != x.err.Error() {
			t.Errorf("%q came as %q", x.err, got)
		}
		if is := errors.As(got, &hint); is != (x.hint != "") || is && (hint.Hint != x.hint || hint.Error() != x.err.Error()) {
			t.Errorf("%q: hint %q, want %q", x.err, hint.Hint, x.hint)
		}
		if is := errors.As(got, &tier); is != (x.tier != "") || is && (tier.Missing != x.tier || tier.Tier != kernel.BPF) {
			t.Errorf("%q: missing is %q, want %q", x.err, tier.Missing, x.tier)
		}
		for _, errno := range []syscall.Errno{syscall.EMFILE, syscall.EAGAIN, syscall.EPERM} {
			if errors.Is(got, errno) != (x.errno == errno) {
				t.Errorf("%q: errors.Is(%v) is %t", x.err, errno, x.errno != errno)
			}
		}
	}
}

// Pieces that no sender makes are refused, and what is kept of them is bounded.
func TestPieces(t *testing.T) {
	for want, frames := range map[string][]wire.Frame{
		"without bytes":          {{Kind: wire.KindPiece}},
		"5 bytes, want at":       {{Kind: wire.KindLastPiece, Body: make([]byte, 5)}},
		"want at most 134217728": pieces(maxUnfinished/wire.MaxBody + 1),
	} {
		var a assembler
		var err error
		for _, f := range frames {
			if _, _, err = a.take(f); err != nil {
				break
			}
		}
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want one with %q", err, want)
		}
	}
}

// pieces returns a large piece of each of n messages.
func pieces(n int) (frames []wire.Frame) {
	body := make([]byte, wire.MaxBody)
	for i := range n {
		frames = append(frames, wire.Frame{Kind: wire.KindPiece, Stream: uint32(i), Body: body})
	}
	return frames
}
