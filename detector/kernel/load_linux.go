//go:build 386 || amd64 || arm || arm64 || loong64 || mips64le || mipsle || ppc64le || riscv64

package kernel

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/btf"
	"github.com/cilium/ebpf/link"
	"github.com/cilium/ebpf/ringbuf"

	"github.com/goshmem/goshmem/internal/xunix"
)

const (
	exitPoint = "sched_process_exit" // the tracepoint of the exit programs
	typesFile = "/sys/kernel/btf/vmlinux"
	lackOfBTF = "BTF of the kernel (CONFIG_DEBUG_INFO_BTF, " + typesFile + ")"
	pointType = "btf_trace_" // before a tracepoint's name: the type of its programs
	iterFunc  = "bpf_iter_"  // before an iterator's name: its function
	// currentTask is the type of the helper that returns the current task (Linux 5.11).
	currentTask = "btf_bpf_get_current_task_btf"
	flavourSep  = "___" // ends the name of a structure that has further fields in other kernels
)

// kernelTypes are the types of the running kernel. They say where fields are, and what programs attach to.
type kernelTypes interface {
	// arguments returns how many arguments a tracepoint has. An error is a *TierError.
	arguments(tracepoint string) (int, error)
	// hasCurrentTask says whether programs can ask for the current task. The library has no probe for helpers of
	// tracing programs.
	hasCurrentTask() bool
	// load loads the programs and maps of a specification, which belongs to it.
	load(spec *ebpf.CollectionSpec) (*ebpf.Collection, error)
}

// openPrograms loads and attaches the programs. It reads the types that they need, and all types if that fails: an
// unusual kernel may have what the short way does not expect, and the library's errors say what a kernel lacks. A
// kernel that refuses the programs for lack of rights does so in either way, with the same error.
func openPrograms(cfg Config) (*programs, error) {
	spec, err := loadWatch()
	if err != nil {
		return nil, explainLoad(err)
	}
	if !cfg.whole {
		types, err := findNeededTypes(spec)
		if err == nil {
			var p *programs
			if p, err = openWith(cfg, types, spec); err == nil || errors.Is(err, os.ErrPermission) {
				return p, err
			}
		}
		cfg.Logger.Debug().Err(err).Msg("the types of the kernel are read as a whole")
	}
	return openWith(cfg, &wholeTypes{btf.NewCache()}, spec)
}

// openWith loads and attaches the programs by types of the kernel. Every failure is a *TierError that names what is
// missing.
//
// The signal program only makes some reports earlier. A kernel that refuses it runs the others.
func openWith(cfg Config, types kernelTypes, spec *ebpf.CollectionSpec) (*programs, error) {
	names, err := neededPrograms(cfg, types)
	if err != nil {
		return nil, err
	}
	for {
		p := &programs{}
		err := p.load(names, types, spec.Copy())
		if err == nil {
			return p, nil
		}
		_ = p.close() // the first error says more
		signals := slices.Index(names, watchProgDeliver)
		if signals < 0 || cfg.early {
			return nil, explainLoad(err)
		}
		cfg.Logger.Debug().Err(err).Msg("the kernel refuses the programs; without the one for signals")
		names = slices.Delete(names, signals, signals+1)
	}
}

// load loads the named programs into the kernel and attaches them.
//
//   - The other programs of the object are removed from the spec first: the kernel would refuse a program
//     whose tracepoint or helper it does not have, and with it all of them.
//   - The pid namespace is a constant of the programs, set before loading: they compare it with that of
//     each exiting task, because watched numbers are those of this namespace.
//   - On an error, the caller closes what was loaded and attached so far.
func (p *programs) load(names []string, types kernelTypes, spec *ebpf.CollectionSpec) error {
	ns, err := pidNamespace()
	if err != nil {
		return err
	}
	if p.clocks, err = clockOffsets(); err != nil {
		return err
	}
	if err := spec.Variables[watchVarPidNamespace].Set(ns); err != nil {
		return err
	}
	maps.DeleteFunc(spec.Programs, func(name string, _ *ebpf.ProgramSpec) bool { return !slices.Contains(names, name) })
	all, err := types.load(spec)
	if err != nil {
		return err
	}
	defer all.Close() // closes only what was not detached
	p.maps = watchMaps{Events: all.DetachMap(watchMapEvents), Watched: all.DetachMap(watchMapWatched), Endings: all.DetachMap(watchMapEndings)}
	for _, name := range names {
		prog := all.DetachProgram(name)
		p.progs = append(p.progs, prog)
		if name == watchProgSampleTask {
			if p.threads, err = link.AttachIter(link.IterOptions{Program: prog}); err != nil {
				return err
			}
			continue
		}
		l, err := link.AttachTracing(link.TracingOptions{Program: prog})
		if err != nil {
			return err
		}
		p.links = append(p.links, l)
	}
	if p.ring, err = ringbuf.NewReader(p.maps.Events); err != nil {
		return err
	}
	p.ring.SetDeadline(time.Unix(1, 0)) // a time in the past: reads never block
	return nil
}

// wholeTypes reads all types of the kernel and of its modules: the library's way, which takes 40 ms and 7 MB.
type wholeTypes struct{ cache *btf.Cache }

func (w *wholeTypes) arguments(tracepoint string) (int, error) {
	kernel, err := w.cache.Kernel()
	if err != nil {
		return 0, &TierError{BPF, lackOfBTF, err}
	}
	missing := "tracepoint " + tracepoint
	var point *btf.Typedef
	if err := kernel.TypeByName(pointType+tracepoint, &point); err != nil {
		return 0, &TierError{BPF, missing, err}
	}
	pointer, ok := point.Type.(*btf.Pointer)
	if !ok {
		return 0, &TierError{BPF, missing, fmt.Errorf("its BTF type is %v, want a pointer", point.Type)}
	}
	proto, ok := pointer.Target.(*btf.FuncProto)
	if !ok {
		return 0, &TierError{BPF, missing, fmt.Errorf("its BTF type points to %v, want a function", pointer.Target)}
	}
	return len(proto.Params) - 1, nil // the first parameter is the kernel's own context
}

func (w *wholeTypes) hasCurrentTask() bool {
	kernel, err := w.cache.Kernel()
	var helper *btf.Typedef
	return err == nil && kernel.TypeByName(currentTask, &helper) == nil
}

func (w *wholeTypes) load(spec *ebpf.CollectionSpec) (*ebpf.Collection, error) {
	return ebpf.NewCollectionWithOptions(spec, ebpf.CollectionOptions{Cache: w.cache})
}

// findNeededTypes reads the types of the running kernel that the programs of a specification use.
func findNeededTypes(spec *ebpf.CollectionSpec) (_ *neededTypes, err error) {
	w, err := wantedTypes(spec)
	if err != nil {
		return nil, fmt.Errorf("types of the programs: %w", err)
	}
	file, err := os.Open(typesFile)
	if err != nil {
		return nil, &TierError{BPF, lackOfBTF, err}
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	k, err := readNeededTypes(file, w)
	if err != nil {
		return nil, &TierError{BPF, lackOfBTF, fmt.Errorf("%s: %w", typesFile, err)}
	}
	return k, nil
}

// wantedTypes lists the names that the programs of a specification have for types of the kernel.
func wantedTypes(spec *ebpf.CollectionSpec) (want, error) {
	w := want{structs: map[string]bool{}, members: map[string]bool{}, points: map[string]bool{}, funcs: map[string]bool{}}
	w.points[currentTask] = true
	for t, err := range spec.Types.All() {
		if err != nil {
			return want{}, err
		}
		var members []btf.Member
		switch t := t.(type) {
		case *btf.Struct:
			members = t.Members
		case *btf.Union:
			members = t.Members
		default:
			continue
		}
		if name, _, _ := strings.Cut(t.TypeName(), flavourSep); name != "" {
			w.structs[name] = true
		}
		for _, m := range members {
			if m.Name != "" {
				w.members[m.Name] = true
			}
		}
	}
	for _, p := range spec.Programs {
		switch p.AttachType {
		case ebpf.AttachTraceRawTp:
			w.points[pointType+p.AttachTo] = true
		case ebpf.AttachTraceIter:
			w.funcs[iterFunc+p.AttachTo] = true
		case ebpf.AttachTCXIngress:
		default:
			return want{}, fmt.Errorf("program %s is attached by %v, want a tracepoint, an iterator or packets that come in", p.Name, p.AttachType)
		}
		for i := range p.Instructions {
			if ins := &p.Instructions[i]; ins.IsKfuncCall() {
				w.funcs[ins.Reference()] = true
			}
		}
	}
	return w, nil
}

func (k *neededTypes) arguments(tracepoint string) (int, error) {
	n, ok := k.args[pointType+tracepoint]
	if !ok {
		return 0, &TierError{BPF, "tracepoint " + tracepoint, btf.ErrNotFound}
	}
	return n, nil
}

func (k *neededTypes) hasCurrentTask() bool { return k.ids[currentTask] != 0 }

// load has the library make the maps. It loads the programs itself: the library would look for the numbers of what
// they are attached to among all types of the kernel.
func (k *neededTypes) load(spec *ebpf.CollectionSpec) (_ *ebpf.Collection, err error) {
	programs := spec.Programs
	spec.Programs = map[string]*ebpf.ProgramSpec{}
	all, err := ebpf.NewCollection(spec)
	if err != nil {
		return nil, err
	}
	for name, p := range programs {
		if all.Programs[name], err = k.loadProgram(p, all.Maps); err != nil {
			delete(all.Programs, name)
			all.Close()
			return nil, fmt.Errorf("program %s: %w", name, err)
		}
	}
	return all, nil
}

func (k *neededTypes) loadProgram(p *ebpf.ProgramSpec, maps map[string]*ebpf.Map) (*ebpf.Program, error) {
	ready, err := k.relocate(p, func(ins *asm.Instruction) error {
		m := maps[ins.Reference()]
		if m == nil {
			return fmt.Errorf("no map %s", ins.Reference())
		}
		return ins.AssociateMap(m)
	})
	if err != nil {
		return nil, err
	}
	fd, err := xunix.LoadTracing(ready)
	if err != nil {
		return nil, err
	}
	return ebpf.NewProgramFromFD(fd)
}

// target returns the number of the type that a program is attached to; 0: it is attached to a network interface.
func (k *neededTypes) target(p *ebpf.ProgramSpec) (typeID, error) {
	name := pointType + p.AttachTo
	switch p.AttachType {
	case ebpf.AttachTCXIngress:
		return 0, nil
	case ebpf.AttachTraceIter:
		name = iterFunc + p.AttachTo
	}
	id := k.ids[name]
	if id == 0 {
		return 0, fmt.Errorf("attach to %s: %w", name, btf.ErrNotFound)
	}
	return id, nil
}

// relocate makes a program ready to load: with the offsets of this kernel, its maps, and the numbers of what it is
// attached to and of the kernel's functions that it calls. setMap is called for each instruction that names a map.
func (k *neededTypes) relocate(p *ebpf.ProgramSpec, setMap func(*asm.Instruction) error) (*xunix.TracingProgram, error) {
	id, err := k.target(p)
	if err != nil {
		return nil, err
	}
	code := slices.Clone(p.Instructions)
	var fields []*btf.CORERelocation
	var users []*asm.Instruction // of the fields
	for i := range code {
		ins := &code[i]
		if f := btf.CORERelocationMetadata(ins); f != nil {
			fields, users = append(fields, f), append(users, ins)
		}
		if ins.IsLoadFromMap() && ins.Reference() != "" {
			if err := setMap(ins); err != nil {
				return nil, err
			}
		}
		if ins.IsKfuncCall() {
			number := k.ids[ins.Reference()]
			if number == 0 {
				return nil, fmt.Errorf("the kernel's function %s: %w", ins.Reference(), btf.ErrNotFound)
			}
			ins.Constant = int64(number)
		}
	}
	fixes, err := btf.CORERelocate(fields, []*btf.Spec{k.spec}, p.ByteOrder, func(t btf.Type) (btf.TypeID, error) {
		return 0, fmt.Errorf("number of the program's own type %v, want the kernel's types only", t)
	})
	if err != nil {
		return nil, fmt.Errorf("find fields: %w", err)
	}
	for i := range fixes {
		if err := fixes[i].Apply(users[i]); err != nil {
			return nil, fmt.Errorf("find fields: %w", err)
		}
	}
	var b bytes.Buffer
	if err := code.Marshal(&b, p.ByteOrder); err != nil {
		return nil, err
	}
	attach := map[ebpf.AttachType]uint32{
		ebpf.AttachTraceRawTp: xunix.TraceRawTracepoint, ebpf.AttachTraceIter: xunix.TraceIterator, ebpf.AttachTCXIngress: xunix.TCXIngress,
	}[p.AttachType]
	return &xunix.TracingProgram{Name: p.Name, License: p.License, Code: b.Bytes(), Attach: attach, AttachTo: uint32(id)}, nil
}
