package job

import (
	"context"
	"net"
	"strings"
	"testing"

	"github.com/goshmem/goshmem/internal/wire"
	"github.com/goshmem/goshmem/internal/xunix"
)

// A PE gets the reason for a refusal even if the step closes the connection at once, before or after the PE has sent
// its request.
func TestRefusal(t *testing.T) {
	const reason = "process 17 of user 5, want user 4"
	for _, after := range []bool{false, true} {
		l, err := net.ListenUnix("unixpacket", &net.UnixAddr{Name: "@goshmem-test-" + strings.ReplaceAll(t.Name(), "/", "-"), Net: "unixpacket"})
		if err != nil {
			t.Skipf("no abstract Unix sockets: %v", err)
		}
		conn, err := dialStep(context.Background(), l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		step, err := l.AcceptUnix()
		if err != nil {
			t.Fatal(err)
		}
		refuse := func() {
			reply := wire.AttachReply{Err: reason}
			if err := xunix.SendFDs(step, reply.Append(nil), nil); err != nil {
				t.Error(err)
			}
			_ = step.Close() // the kernel tells the PE of unread data there
			_ = l.Close()
		}
		if after { // leave the request unread when the step closes the connection
			req := wire.AttachRequest{}
			if err := xunix.SendFDs(conn, req.Append(nil), nil); err != nil {
				t.Fatal(err)
			}
		}
		refuse()
		if _, _, err = requestAttach(conn, &wire.AttachRequest{}); err == nil || !strings.Contains(err.Error(), reason) {
			t.Errorf("request sent before the close: %v; got %v, want %q", after, err, reason)
		}
		_ = conn.Close()
	}
}
