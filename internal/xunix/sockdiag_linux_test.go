package xunix

import (
	"fmt"
	"net"
	"net/netip"
	"testing"
)

// Both ways to find a socket find the same, and each end its own.
func TestSocketInode(t *testing.T) {
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
	want, err := inodeByTable(local, remote)
	if err != nil || want == 0 {
		t.Fatalf("table: inode %d, %v", want, err)
	}
	if got, err := inodeByDiag(local, remote); err != nil {
		t.Logf("this kernel cannot be asked: %v", err)
	} else if got != want {
		t.Errorf("sock_diag: inode %d, want %d", got, want)
	}
	if got, err := SocketInode(local, remote); err != nil || got != want {
		t.Errorf("SocketInode = %d, %v, want %d", got, err, want)
	}
	if got, err := SocketInode(local, netip.MustParseAddrPort(fmt.Sprintf("127.0.0.1:%d", local.Port()))); err == nil {
		t.Errorf("a connection that is not there has inode %d", got)
	}
}
