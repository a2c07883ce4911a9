package xunix

import (
	"fmt"
	"net"
	"net/netip"
	"os"
	"testing"
)

// Both ways to find a socket find the same, and each end its own.
func TestFindSocket(t *testing.T) {
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	c, err := net.Dial("tcp4", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	local, remote := netip.MustParseAddrPort(c.LocalAddr().String()), netip.MustParseAddrPort(c.RemoteAddr().String())
	want, err := socketByTable(local, remote)
	if err != nil || want.Inode == 0 || int(want.UID) != os.Geteuid() {
		t.Fatalf("table: %+v, %v", want, err)
	}
	if got, err := socketByDiag(local, remote); err != nil {
		t.Logf("this kernel cannot be asked: %v", err)
	} else if got != want {
		t.Errorf("sock_diag: %+v, want %+v", got, want)
	}
	if got, err := FindSocket(local, remote); err != nil || got != want {
		t.Errorf("FindSocket = %+v, %v, want %+v", got, err, want)
	}
	if got, err := FindSocket(local, netip.MustParseAddrPort(fmt.Sprintf("127.0.0.1:%d", local.Port()))); err == nil {
		t.Errorf("a connection that is not there is %+v", got)
	}
}
