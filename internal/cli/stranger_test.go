package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/goshmem/goshmem/internal/envvar"
	"github.com/goshmem/goshmem/internal/wire"
	"github.com/goshmem/goshmem/internal/xunix"
	"github.com/goshmem/goshmem/pmix/client"
	pmix "github.com/goshmem/goshmem/pmix/codec"
)

// victim starts a job whose shells wait for the file go before they become PEs, so that a stranger can come first. It
// returns the environment of a PE, which a process of the same user can read.
func victim(t *testing.T, n int) (j *job, env func(string) (string, bool), letGo func()) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "go")
	j = start(t, "-n", fmt.Sprint(n), "sh", "-c",
		`echo "ready $$"; while [ ! -e "$1" ]; do sleep 0.02; done; exec "$0" pe t-pe barrier-ok`, self(t), file)
	pid := j.ready(n)[0]
	environ, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", pid))
	check(t, err)
	env = func(name string) (string, bool) {
		for kv := range bytes.SplitSeq(environ, []byte{0}) {
			if v, ok := strings.CutPrefix(string(kv), name+"="); ok {
				return v, true
			}
		}
		return "", false
	}
	return j, env, func() { check(t, os.WriteFile(file, nil, 0o600)) }
}

// A process that knows everything about a job but does not belong to it cannot take a PE's place, either before that PE
// has joined or while it waits.
func TestStrangerCannotTakeARank(t *testing.T) {
	j, env, letGo := victim(t, 2)
	opts, _, err := client.FromEnv(env)
	check(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for _, rank := range []pmix.Rank{0, 1, 2, pmix.RankWildcard} {
		opts.Rank = rank
		c, err := client.Dial(ctx, opts)
		if err == nil {
			t.Errorf("a stranger joined as rank %d", rank)
			_ = c.Finalize(ctx)
			continue
		}
		var refused *client.StatusError
		if !errors.As(err, &refused) || refused.Status != pmix.StatusErrNoPermissions {
			t.Errorf("a stranger's claim of rank %d: %v, want %v", rank, err, pmix.StatusErrNoPermissions)
		}
	}
	letGo()
	who := fmt.Sprintf(": process %d of user %d\n", os.Getpid(), os.Geteuid())
	j.expect(0,
		"oshrun: a client of the PMIx server is refused: no process of PE 0 (pid ", who,
		"oshrun: a client of the PMIx server is refused: job "+fmt.Sprintf("%q, PE 2: want a job of this step and one of its PEs", opts.Nspace)+who)
}

// The user is told of the first refusals, not of all.
func TestRefusalsAreBounded(t *testing.T) {
	j, env, letGo := victim(t, 1)
	opts, _, err := client.FromEnv(env)
	check(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for range 20 {
		if c, err := client.Dial(ctx, opts); err == nil {
			t.Error("a stranger joined")
			_ = c.Finalize(ctx)
		}
	}
	letGo()
	j.expect(0, "of further clients that are refused only the log tells: -v")
	if n := strings.Count(j.stderr.String(), "client of the PMIx server is refused"); n != 8 {
		t.Errorf("the user is told of %d refusals, want 8:\n%s", n, &j.stderr)
	}
}

// A stranger does not get the job's heaps either, whatever it sends.
func TestStrangerCannotReadHeaps(t *testing.T) {
	j, env, letGo := victim(t, 2)
	step, _ := env(envvar.Step)
	nspace, _ := env(envvar.PMIxNamespace)
	for pe := range uint32(2) {
		conn := dialStep(t, step)
		req := wire.AttachRequest{Nspace: nspace, PE: pe, Incarnation: 1}
		check(t, xunix.SendFDs(conn, req.Append(nil), nil))
		packet, fds, err := xunix.RecvFDs(conn, wire.MaxPacket, wire.MaxFDs)
		check(t, err)
		xunix.CloseFDs(fds)
		if r, err := wire.ParseAttachReply(packet); err != nil || r.Err == "" || len(fds) > 0 {
			t.Errorf("a stranger asked for the heaps as PE %d: %d descriptors, %+v, %v; want a refusal", pe, len(fds), r, err)
		}
	}
	letGo()
	j.expect(0)
}

func dialStep(t *testing.T, name string) *net.UnixConn {
	t.Helper()
	conn, err := net.DialUnix("unixpacket", nil, &net.UnixAddr{Name: name, Net: "unixpacket"})
	check(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	check(t, conn.SetDeadline(time.Now().Add(time.Minute)))
	return conn
}

// Connections that send nothing, half a packet or garbage do not keep the job from joining, meeting and ending, however
// many there are.
func TestStrangerCannotDisturb(t *testing.T) {
	j, env, letGo := victim(t, 4)
	opts, _, err := client.FromEnv(env)
	check(t, err)
	step, _ := env(envvar.Step)
	claim := pmix.AppendHandshake(nil, pmix.NewHandshake(pmix.Proc{Nspace: opts.Nspace}, pmix.SecurityNone, nil))
	garbage := [][]byte{
		nil,
		{0xff},
		claim[:len(claim)/2], bytes.Repeat([]byte{0xff}, 64), bytes.Repeat([]byte{0}, 4096),
		[]byte("GET / HTTP/1.1\r\n\r\n"), append(bytes.Clone(claim), bytes.Repeat([]byte{0xee}, 4096)...),
	}
	for i := range 400 {
		nc, err := net.Dial("tcp", opts.Address)
		check(t, err)
		t.Cleanup(func() { _ = nc.Close() })
		_, _ = nc.Write(garbage[i%len(garbage)]) // the connection may be closed already
	}
	for i := range 200 {
		conn := dialStep(t, step)
		if i%2 == 0 {
			_, _ = conn.Write(garbage[1+i/2%(len(garbage)-1)])
		}
	}
	letGo()
	j.expect(0)
	if out := j.stdout.String(); strings.Count(out, "ready") != 8 {
		t.Errorf("the PEs printed\n%s\nwant ready from each shell and each PE", out)
	}
	_, err = net.Dial("tcp", opts.Address)
	if err == nil {
		t.Error("the server's port still accepts connections after the job")
	}
}

// Nor does an endless flood of connections, to either socket, with and without data.
func TestStrangerCannotFlood(t *testing.T) {
	for _, door := range []string{"attach", "port", "claims"} {
		t.Run(door, func(t *testing.T) {
			j, env, letGo := victim(t, 8)
			opts, _, err := client.FromEnv(env)
			check(t, err)
			step, _ := env(envvar.Step)
			claim := pmix.AppendHandshake(nil, pmix.NewHandshake(pmix.Proc{Nspace: opts.Nspace, Rank: 1}, pmix.SecurityNone, nil))
			knock := func() {
				nc, err := net.Dial("tcp", opts.Address)
				switch {
				case err != nil:
					return // the job is over
				case door == "claims":
					_, _ = nc.Write(claim)
					_, _ = nc.Read(make([]byte, 1)) // the refusal
				default:
					_, _ = nc.Write([]byte{0xff})
				}
				_ = nc.Close()
			}
			if door == "attach" {
				knock = func() {
					if conn, err := net.DialUnix("unixpacket", nil, &net.UnixAddr{Name: step, Net: "unixpacket"}); err == nil {
						_ = conn.Close()
					}
				}
			}
			ctx, stop := context.WithCancel(t.Context())
			var floods, begun sync.WaitGroup
			for range 32 {
				begun.Add(1)
				floods.Go(func() {
					knock()
					begun.Done()
					for ctx.Err() == nil {
						knock()
					}
				})
			}
			begun.Wait()
			letGo()
			j.expect(0)
			stop()
			floods.Wait()
		})
	}
}
