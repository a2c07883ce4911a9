package nodes

import (
	"bytes"
	"net/netip"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/goshmem/goshmem/internal/control"
	"github.com/goshmem/goshmem/internal/plan"
	"github.com/goshmem/goshmem/internal/wire"
)

func TestHandover(t *testing.T) {
	want := Handover{
		Secret: control.NewSecret(), Node: 3, Dial: 15 * time.Second, Lease: 90 * time.Second,
		Root: []netip.AddrPort{netip.MustParseAddrPort("127.0.0.1:4711"), netip.MustParseAddrPort("[fe80::1%eth0]:80")},
	}
	text := want.Append(nil)
	got, err := ReadHandover(bytes.NewReader(append(text, "what follows is not read"...)))
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, %v, want %+v", got, err, want)
	}
	for name, bad := range map[string]string{
		"empty":          "",
		"another text":   "hello\n",
		"cut":            string(text[:len(text)-1]),
		"no secret":      handoverMagic + " 1\nroot 127.0.0.1:1\n\n",
		"no root":        handoverMagic + " 1\nsecret " + want.Secret.Line() + "\n",
		"short secret":   handoverMagic + " 1\nsecret abcd\nroot 127.0.0.1:1\n\n",
		"no address":     handoverMagic + " 1\nsecret " + want.Secret.Line() + "root here\n\n",
		"other word":     handoverMagic + " 1\nsecret " + want.Secret.Line() + "key abcd\n\n",
		"other version":  handoverMagic + " 2\n\n",
		"endless line":   handoverMagic + " 1\n" + strings.Repeat("x", 2*handoverBytes),
		"not a number":   handoverMagic + " 1\nnode one\n\n",
		"no lease":       handoverMagic + " 1\nsecret " + want.Secret.Line() + "root 127.0.0.1:1\ndial 1s\n\n",
		"no dial":        handoverMagic + " 1\nsecret " + want.Secret.Line() + "root 127.0.0.1:1\nlease 1s\n\n",
		"not a duration": handoverMagic + " 1\ndial long\n\n",
		"secret at root": handoverMagic + " 1\nroot " + want.Secret.Line() + "\n",
	} {
		_, err := ReadHandover(strings.NewReader(bad))
		if err == nil {
			t.Errorf("%s: no error", name)
			continue
		}
		if strings.Contains(err.Error(), strings.TrimSpace(want.Secret.Line())) {
			t.Errorf("%s: the error shows the secret: %v", name, err)
		}
	}
}

func FuzzReadHandover(f *testing.F) {
	h := Handover{Secret: control.NewSecret(), Dial: time.Second, Lease: time.Second, Root: []netip.AddrPort{netip.MustParseAddrPort("10.0.0.1:1")}}
	f.Add(h.Append(nil))
	f.Fuzz(func(t *testing.T, text []byte) {
		h, err := ReadHandover(bytes.NewReader(text))
		if err != nil {
			return
		}
		again, err := ReadHandover(bytes.NewReader(h.Append(nil)))
		if err != nil || !reflect.DeepEqual(again, h) {
			t.Errorf("%+v was read again as %+v, %v", h, again, err)
		}
	})
}

func TestRelay(t *testing.T) {
	inner := wire.Frame{Kind: wire.KindFence, Stream: 7, Body: []byte("body")}
	node, got, err := parseRelay(relayFrame(5, inner))
	if node != 5 || err != nil || !reflect.DeepEqual(got, inner) {
		t.Errorf("got %+v for node %d, %v, want %+v for node 5", got, node, err, inner)
	}
	if _, _, err := parseRelay(wire.Frame{Kind: wire.KindRelay, Body: make([]byte, relayHead-1)}); err == nil {
		t.Error("no error for a frame without a head")
	}
}

// Users and ports of hosts are for ssh.
func TestArgv(t *testing.T) {
	hosts := []plan.Host{{Name: "a"}, {Name: "b", User: "me", Port: 2222}}
	for _, x := range []struct {
		agent Agent
		node  int
		want  string // empty: an error
	}{
		{SSHAgent("/opt/my oshrun"), 0, "ssh -o BatchMode=yes -o ServerAliveInterval=15 a '/opt/my oshrun' daemon --stdin"},
		{SSHAgent("/bin/oshrun"), 1, "ssh -o BatchMode=yes -o ServerAliveInterval=15 -l me -p 2222 b /bin/oshrun daemon --stdin"},
		{ExecAgent([]string{"in", "{host}.{node}"}, "oshrun"), 1, ""},
		{ExecAgent([]string{"in", "{host}.{node}", "{nodes}:{hosts}"}, "oshrun"), 0, ""},
	} {
		argv, err := x.agent.argv(x.node, hosts)
		if got := strings.Join(argv, " "); got != x.want || (err == nil) != (x.want != "") {
			t.Errorf("node %d of %q: got %q, %v, want %q", x.node, x.agent.Command, got, err, x.want)
		}
	}
	argv, err := ExecAgent([]string{"in", "{host}.{node}", "{nodes}:{hosts}"}, "oshrun").argv(1, []plan.Host{{Name: "a"}, {Name: "b"}})
	if got, want := strings.Join(argv, " "), "in b.1 2:a,b oshrun daemon --stdin"; got != want || err != nil {
		t.Errorf("got %q, %v, want %q", got, err, want)
	}
}
