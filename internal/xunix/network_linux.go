package xunix

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"runtime"
	"syscall"

	"golang.org/x/sys/unix"
)

// namespaces are those of networks and host names.
const namespaces = unix.CLONE_NEWNET | unix.CLONE_NEWUTS

// NetworkAttr returns the attributes of a process with a network and a host name of its own and the right to change them.
// The process leads a session and may outlive this one.
//
//   - user: this process lacks the right to make networks. The new process gets it in a user namespace, which
//     has this process's user and group and no others.
func NetworkAttr(user bool) *syscall.SysProcAttr {
	attr := &syscall.SysProcAttr{Setsid: true, Cloneflags: namespaces}
	if user {
		attr.Cloneflags |= unix.CLONE_NEWUSER
		attr.UidMappings = []syscall.SysProcIDMap{{ContainerID: os.Getuid(), HostID: os.Getuid(), Size: 1}}
		attr.GidMappings = []syscall.SysProcIDMap{{ContainerID: os.Getgid(), HostID: os.Getgid(), Size: 1}}
		attr.AmbientCaps = []uintptr{unix.CAP_NET_ADMIN, unix.CAP_SYS_ADMIN} // they last through exec
	}
	return attr
}

// HostAttr returns the attributes of a process with a network and a host name of its own. The kernel kills it when the
// thread that started it ends.
func HostAttr() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setsid: true, Pdeathsig: unix.SIGKILL, Cloneflags: namespaces}
}

// DropAmbientRights keeps the rights of NetworkAttr from programs that the calling thread starts. The thread keeps them.
func DropAmbientRights() error {
	err := unix.Prctl(unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0)
	if err != nil {
		return fmt.Errorf("prctl PR_CAP_AMBIENT: %w", err)
	}
	return nil
}

// AddBridge brings loopback up and makes a bridge with an address.
//
// The bridge has a hardware address of its own, made of the address. Without one it takes the lowest of its ports, so
// that it changes with a port that comes or goes. The other hosts would then send to the old one, into the void, until
// their ARP has lost patience, which takes ten seconds.
func AddBridge(name string, addr netip.Prefix) error {
	r := route{}
	r.setUp(loopbackIndex)
	local := append([]byte{2, 0}, addr.Addr().AsSlice()...) // 2: not given by a maker
	r.newLink(name, "bridge", unix.IFLA_ADDRESS, local, nil)
	if r.err != nil {
		return r.err
	}
	bridge, err := interfaceIndex(name)
	if err != nil {
		return err
	}
	r.address(bridge, addr)
	return r.err
}

// ConnectHost gives a process that was started with HostAttr a name as its host's, and an interface with an address. Its
// other end is an interface port of the bridge in the network of this process.
func ConnectHost(pid int, host string, addr netip.Prefix, bridge, port string) error {
	master, err := interfaceIndex(bridge)
	if err != nil {
		return err
	}
	r := route{}
	r.newLink(port, "veth", unix.IFLA_MASTER, binary.NativeEndian.AppendUint32(nil, uint32(master)), func(data []byte) []byte {
		peer := appendAttr(make([]byte, unix.SizeofIfInfomsg), unix.IFLA_IFNAME, append([]byte(hostLink), 0))
		peer = appendAttr(peer, unix.IFLA_NET_NS_PID, binary.NativeEndian.AppendUint32(nil, uint32(pid)))
		return appendAttr(data, vethInfoPeer, peer)
	})
	if r.err != nil {
		return r.err
	}
	return InNetworkOf(pid, func() error { return configureHost(host, addr) })
}

// hostLink is the name of a host's interface.
const hostLink = "eth0"

// inNamespacesOf calls do in the namespaces of a process, and returns to those of this one: the thread may be the first,
// whose namespaces others take for those of the process. If it cannot return, it ends with the calling goroutine.
func inNamespacesOf(pid int, do func() error) error {
	runtime.LockOSThread()
	network, err := os.Open("/proc/thread-self/ns/net")
	if err != nil {
		return err
	}
	defer network.Close() //nolint:errcheck // it was not written to
	name, err := os.Open("/proc/thread-self/ns/uts")
	if err != nil {
		return err
	}
	defer name.Close() //nolint:errcheck // it was not written to
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return fmt.Errorf("pidfd_open %d: %w", pid, err)
	}
	defer unix.Close(fd) //nolint:errcheck // it was not written to
	if err := unix.Setns(fd, namespaces); err != nil {
		return fmt.Errorf("setns to the namespaces of process %d: %w", pid, err)
	}
	err = do()
	for _, f := range []*os.File{network, name} {
		if back := unix.Setns(int(f.Fd()), 0); back != nil {
			return errors.Join(err, fmt.Errorf("setns to %s: %w", f.Name(), back))
		}
	}
	runtime.UnlockOSThread()
	return err
}

// configureHost sets up the host in whose namespaces the calling thread is.
func configureHost(host string, addr netip.Prefix) error {
	if err := unix.Sethostname([]byte(host)); err != nil {
		return fmt.Errorf("sethostname %q: %w", host, err)
	}
	link, err := interfaceIndex(hostLink)
	if err != nil {
		return err
	}
	r := route{}
	r.setUp(loopbackIndex)
	r.address(link, addr)
	r.setUp(link) // its kind cannot be made up: it has no other end then
	return r.err
}

// interfaceIndex returns the index of an interface of the calling thread's network.
func interfaceIndex(name string) (int, error) {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return 0, fmt.Errorf("socket: %w", err)
	}
	defer unix.Close(fd) //nolint:errcheck // it was not written to
	req, err := unix.NewIfreq(name)
	if err == nil {
		err = unix.IoctlIfreq(fd, unix.SIOCGIFINDEX, req)
	}
	if err != nil {
		return 0, fmt.Errorf("index of interface %s: %w", name, err)
	}
	return int(req.Uint32()), nil
}

const (
	loopbackIndex = 1 // in each network
	vethInfoPeer  = 1 // VETH_INFO_PEER of linux/veth.h
)

// route changes the network of the calling thread. After the first error it does nothing more.
type route struct{ err error }

// setUp brings an interface up.
func (r *route) setUp(index int) {
	r.ask(unix.RTM_NEWLINK, 0, linkHead(index), fmt.Sprintf("bring interface %d up", index))
}

// newLink makes an interface of a kind with one more attribute. Data appends the attributes of the kind; nil: it has none.
func (r *route) newLink(name, kind string, attr uint16, value []byte, data func([]byte) []byte) {
	b := appendAttr(linkHead(0), unix.IFLA_IFNAME, append([]byte(name), 0))
	b = appendAttr(b, attr, value)
	info := appendAttr(nil, unix.IFLA_INFO_KIND, []byte(kind))
	if data != nil {
		info = appendAttr(info, unix.IFLA_INFO_DATA, data(nil))
	}
	b = appendAttr(b, unix.IFLA_LINKINFO, info)
	r.ask(unix.RTM_NEWLINK, unix.NLM_F_CREATE|unix.NLM_F_EXCL, b, fmt.Sprintf("make interface %s of kind %s", name, kind))
}

// address gives an interface an IPv4 address.
func (r *route) address(index int, addr netip.Prefix) {
	b := []byte{unix.AF_INET, byte(addr.Bits()), 0, unix.RT_SCOPE_UNIVERSE}
	b = binary.NativeEndian.AppendUint32(b, uint32(index))
	b = appendAttr(b, unix.IFA_LOCAL, addr.Addr().AsSlice())
	b = appendAttr(b, unix.IFA_ADDRESS, addr.Addr().AsSlice())
	r.ask(unix.RTM_NEWADDR, unix.NLM_F_CREATE|unix.NLM_F_EXCL, b, fmt.Sprintf("give interface %d the address %v", index, addr))
}

// SetLinksDown takes interfaces of the network of a process down, one after the other.
//
//   - Rights: CAP_SYS_ADMIN here and CAP_NET_ADMIN in the network. Users other than root do not have the former, though the
//     network be their own.
func SetLinksDown(pid int, names []string) error {
	return InNetworkOf(pid, func() error {
		r := route{}
		for _, name := range names {
			index, err := interfaceIndex(name)
			if err != nil {
				return err
			}
			r.setDown(index)
		}
		return r.err
	})
}

// InNetworkOf calls do, on a thread of its own, in the network (and with the host's name) of a process.
//
//   - Rights: CAP_SYS_ADMIN.
func InNetworkOf(pid int, do func() error) error {
	done := make(chan error)
	go func() { done <- inNamespacesOf(pid, do) }()
	return <-done
}

// setDown takes an interface down.
func (r *route) setDown(index int) {
	r.ask(unix.RTM_NEWLINK, 0, linkFlags(index, 0), fmt.Sprintf("take interface %d down", index))
}

// linkHead returns the head (struct ifinfomsg) of a message about an interface that is to be up. Index 0 is a new one.
func linkHead(index int) []byte { return linkFlags(index, unix.IFF_UP) }

// linkFlags returns the head of a message that changes whether an interface is up.
func linkFlags(index int, flags uint32) []byte {
	b := make([]byte, 4, 64) // family, padding, type
	b = binary.NativeEndian.AppendUint32(b, uint32(index))
	b = binary.NativeEndian.AppendUint32(b, flags)
	return binary.NativeEndian.AppendUint32(b, unix.IFF_UP) // the flags that change
}

// appendAttr appends an attribute to a message of rtnetlink.
func appendAttr(b []byte, kind uint16, value []byte) []byte {
	b = binary.NativeEndian.AppendUint16(b, uint16(unix.SizeofRtAttr+len(value)))
	b = binary.NativeEndian.AppendUint16(b, kind)
	b = append(b, value...)
	for len(b)%unix.NLMSG_ALIGNTO != 0 {
		b = append(b, 0)
	}
	return b
}

// ask has the kernel do what a message asks for.
func (r *route) ask(kind uint16, flags int, body []byte, what string) {
	if r.err != nil {
		return
	}
	if err := exchange(kind, flags, body); err != nil {
		r.err = fmt.Errorf("%s: %w", what, err)
	}
}

// exchange sends a message and returns the kernel's answer.
func exchange(kind uint16, flags int, body []byte) error {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.NETLINK_ROUTE)
	if err != nil {
		return fmt.Errorf("rtnetlink: %w", err)
	}
	defer unix.Close(fd) //nolint:errcheck // the answer has come, or never will
	b := binary.NativeEndian.AppendUint32(nil, uint32(unix.SizeofNlMsghdr+len(body)))
	b = binary.NativeEndian.AppendUint16(b, kind)
	b = binary.NativeEndian.AppendUint16(b, uint16(unix.NLM_F_REQUEST|unix.NLM_F_ACK|flags))
	b = append(b, make([]byte, 8)...) // sequence and port: there is one message, and the kernel numbers the port
	b = append(b, body...)
	if err := unix.Sendto(fd, b, 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
		return fmt.Errorf("rtnetlink: %w", err)
	}
	reply := make([]byte, 4096)
	n, _, err := unix.Recvfrom(fd, reply, 0)
	if err != nil {
		return fmt.Errorf("rtnetlink: %w", err)
	}
	if n < unix.SizeofNlMsghdr+4 || binary.NativeEndian.Uint16(reply[4:]) != unix.NLMSG_ERROR {
		return errors.New("rtnetlink: the kernel's answer is no acknowledgment")
	}
	if code := int32(binary.NativeEndian.Uint32(reply[unix.SizeofNlMsghdr:])); code != 0 {
		return unix.Errno(-code)
	}
	return nil
}
