//go:build 386 || amd64 || arm || arm64 || loong64 || mips64le || mipsle || ppc64le || riscv64

package responder

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"unsafe"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/btf"
	"github.com/cilium/ebpf/link"

	"github.com/goshmem/goshmem/detector/kernel"
	"github.com/goshmem/goshmem/internal/xunix"
)

// programs is the tier Kernel: programs in the kernel answer.
type programs struct {
	all    *ebpf.Collection
	links  []link.Link
	at     unsafe.Pointer // the page; nil: not mapped
	keeper *keeper        // nil: none
}

// openKernel loads and attaches the programs. Every failure is a *TierError.
func openKernel(r *Responder) (source, error) {
	at := r.cfg.Listen
	switch {
	case !at.Is4():
		return nil, &TierError{Kernel, "an IPv4 address (IPv6 is planned)", nil}
	case at.IsUnspecified():
		return nil, &TierError{Kernel, "the address of one interface", nil}
	}
	if err := needRights(); err != nil {
		return nil, err
	}
	places, err := findInterfaces(at)
	if err != nil {
		return nil, &TierError{Kernel, "an interface for the program", err}
	}
	p := &programs{}
	if err := p.load(r, places); err != nil {
		_ = p.close() // the first error says more
		return nil, explain(err)
	}
	return p, nil
}

// Numbers of the kernel's capabilities.
const (
	capNetAdmin = 12
	capSysAdmin = 21
	capPerfmon  = 38
	capBPF      = 39
)

// needRights checks the capabilities and namespaces of this process.
func needRights() error {
	have, err := xunix.EffectiveCapabilities()
	if err != nil {
		return &TierError{Kernel, "the list of capabilities", err}
	}
	missing := ""
	for _, c := range []struct {
		bit, instead int
		name         string
	}{{capBPF, capSysAdmin, "CAP_BPF"}, {capPerfmon, capSysAdmin, "CAP_PERFMON"}, {capNetAdmin, capNetAdmin, "CAP_NET_ADMIN"}} {
		if have&(1<<c.bit|1<<c.instead) != 0 {
			continue
		}
		if missing != "" {
			missing += " and "
		}
		missing += c.name
	}
	if missing != "" {
		return &TierError{Kernel, missing, nil}
	}
	ok, err := kernel.MachineNumbers()
	if err == nil && ok {
		return nil
	}
	return &TierError{Kernel, "the machine's numbers of processes, by which the program kills them (this is a pid namespace)", err}
}

// findInterfaces returns the interfaces on which packets to an address come in: the one that has it, and lo.
func findInterfaces(at netip.Addr) (places []net.Interface, err error) {
	all, err := net.Interfaces()
	if err != nil {
		return nil, fmt.Errorf("list network interfaces: %w", err)
	}
	found := false
	for _, i := range all {
		if i.Flags&net.FlagLoopback != 0 {
			places, found = append(places, i), found || at.IsLoopback()
			continue
		}
		has, err := hasAddress(&i, at)
		if err != nil {
			return nil, err
		}
		if !has {
			continue
		}
		const ethernet = 6 // bytes of a link address
		if len(i.HardwareAddr) != ethernet {
			return nil, fmt.Errorf("interface %s is no Ethernet: its link address is %q", i.Name, i.HardwareAddr)
		}
		places, found = append(places, i), true
	}
	if !found {
		return nil, fmt.Errorf("no interface has the address %v", at)
	}
	return places, nil
}

func hasAddress(i *net.Interface, at netip.Addr) (bool, error) {
	addrs, err := i.Addrs()
	if err != nil {
		return false, fmt.Errorf("list addresses of interface %s: %w", i.Name, err)
	}
	for _, a := range addrs {
		if p, err := netip.ParsePrefix(a.String()); err == nil && p.Addr().Unmap() == at {
			return true, nil
		}
	}
	return false, nil
}

// load loads the programs, sets the page, attaches them, and starts the keeper. On an error, the caller closes what there
// is.
func (p *programs) load(r *Responder, places []net.Interface) error {
	spec, err := loadRespond()
	if err != nil {
		return err
	}
	if p.all, err = kernel.LoadPrograms(spec, r.cfg.Logger); err != nil {
		return err
	}
	if p.at, err = xunix.Map(p.all.Maps[respondMapPages].FD(), pageSize, true); err != nil {
		return err
	}
	p.shared().set(&r.cfg, r.addr, os.Getpid(), 0)
	l, err := link.AttachTracing(link.TracingOptions{Program: p.all.Programs[respondProgDaemonExit]})
	if err != nil {
		return err
	}
	p.links = append(p.links, l)
	for _, i := range places {
		l, err := link.AttachTCX(link.TCXOptions{
			Interface: i.Index, Program: p.all.Programs[respondProgRespond], Attach: ebpf.AttachTCXIngress, Anchor: link.Head(),
		})
		if err != nil {
			return fmt.Errorf("interface %s: %w", i.Name, err)
		}
		p.links = append(p.links, l)
	}
	_ = r.socket.SetReadBuffer(1) // nobody reads what the program lets pass
	return p.keep(r)
}

// keep starts a keeper that holds the attachments and the socket.
func (p *programs) keep(r *Responder) error {
	if len(r.cfg.Keeper) == 0 {
		return nil
	}
	socket, err := r.socket.File()
	if err != nil {
		return err
	}
	p.keeper = newKeeper(&r.cfg, Kernel, socket)
	for _, l := range p.links {
		owner, ok := l.(interface{ FD() int })
		if !ok {
			return fmt.Errorf("attachment %T has no descriptor", l)
		}
		fd, err := xunix.KeepFD(owner.FD())
		if err != nil {
			return fmt.Errorf("descriptor for the keeper: %w", err)
		}
		p.keeper.files = append(p.keeper.files, os.NewFile(uintptr(fd), "attachment"))
	}
	p.keeper.order.Files = uint32(len(p.keeper.files))
	p.keeper.startLater()
	return nil
}

// explain turns an error of loading into a *TierError.
func explain(err error) error {
	missing := "a feature of the kernel (Linux 6.13 or newer)"
	var types *kernel.TierError
	switch {
	case errors.As(err, &types):
		missing, err = types.Missing, types.Err
	case errors.Is(err, os.ErrPermission):
		missing = "CAP_BPF, CAP_PERFMON and CAP_NET_ADMIN in the user namespace of the machine, on a kernel that lets them be used"
		err = os.ErrPermission
	case errors.Is(err, btf.ErrNotFound), errors.Is(err, ebpf.ErrNotSupported):
		missing = "tcx, and functions by which programs end processes (Linux 6.13)"
	}
	return &TierError{Kernel, missing, err}
}

func (p *programs) shared() *page { return (*page)(p.at) }

func (p *programs) startOf(pid int) (uint64, error) { return kernel.MachineStart(pid) }

func (p *programs) owns(pid int) bool { return p.keeper.owns(pid) }

func (p *programs) close() error {
	var all []error
	if p.keeper != nil {
		p.keeper.stop()
	}
	for _, l := range p.links {
		all = append(all, l.Close())
	}
	if p.at != nil {
		all = append(all, xunix.Unmap(p.at, pageSize))
	}
	if p.all != nil {
		p.all.Close()
	}
	return errors.Join(all...)
}
