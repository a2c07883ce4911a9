//go:build linux && (amd64 || arm64)

package kernel

import (
	"bytes"
	"encoding/binary"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/btf"

	"github.com/goshmem/goshmem/internal/house/testenv"
)

// relocateAll returns the code of each program with the offsets of a kernel, and what it is attached to. Programs
// whose tracepoint or iterator the kernel lacks are left out.
func relocateAll(t *testing.T, k *neededTypes, spec *ebpf.CollectionSpec) map[string]string {
	t.Helper()
	out := map[string]string{}
	for name, p := range spec.Programs {
		ready, err := k.relocate(p, func(*asm.Instruction) error { return nil })
		if err != nil {
			t.Logf("%s: %v", name, err)
			continue
		}
		out[name] = string(binary.LittleEndian.AppendUint32(ready.Code, ready.AttachTo))
	}
	return out
}

// whole has all types of a kernel in the place of those that are needed.
func whole(t *testing.T, all *btf.Spec, w want) *neededTypes {
	t.Helper()
	k := &neededTypes{spec: all, ids: map[string]typeID{}, args: map[string]int{}}
	for name := range w.points {
		var point *btf.Typedef
		if all.TypeByName(name, &point) != nil {
			continue
		}
		id, err := all.TypeID(point)
		if err != nil {
			t.Fatal(err)
		}
		k.ids[name] = id
		k.args[name] = len(point.Type.(*btf.Pointer).Target.(*btf.FuncProto).Params) - 1
	}
	for name := range w.funcs {
		var f *btf.Func
		if all.TypeByName(name, &f) != nil {
			continue
		}
		id, err := all.TypeID(f)
		if err != nil {
			t.Fatal(err)
		}
		k.ids[name] = id
	}
	return k
}

// samePrograms checks that the needed types of a kernel make the same programs as all its types, and returns how many.
func samePrograms(t *testing.T, raw []byte) int {
	t.Helper()
	spec, err := loadWatch()
	if err != nil {
		t.Fatal(err)
	}
	w, err := wantedTypes(spec)
	if err != nil {
		t.Fatal(err)
	}
	all, err := btf.LoadSpecFromReader(bytes.NewReader(raw))
	if err != nil {
		t.Fatal(err)
	}
	k, err := readNeededTypes(bytes.NewReader(raw), w)
	if err != nil {
		t.Fatal(err)
	}
	truth := whole(t, all, w)
	if !maps.Equal(k.ids, truth.ids) || !maps.Equal(k.args, truth.args) {
		t.Errorf("numbers %v and arguments %v, want %v and %v", k.ids, k.args, truth.ids, truth.args)
	}
	got, want := relocateAll(t, k, spec), relocateAll(t, truth, spec)
	for name, code := range want {
		if got[name] != code {
			t.Errorf("%s: the code is\n%x, want\n%x", name, got[name], code)
		}
	}
	if len(got) != len(want) {
		t.Errorf("programs %v, want %v", slices.Sorted(maps.Keys(got)), slices.Sorted(maps.Keys(want)))
	}
	return len(want)
}

// TestNeededTypes: the types that are read of the running kernel make the same programs as all of its types.
func TestNeededTypes(t *testing.T) {
	raw, err := os.ReadFile(typesFile)
	if err != nil {
		t.Skipf("this kernel has no BTF: %v", err)
	}
	if n := samePrograms(t, raw); n != 4 {
		t.Errorf("%d programs, want 4", n)
	}
	if other := os.Getenv("KERNEL_TEST_BTF"); other != "" { // of another kernel
		for file := range strings.SplitSeq(other, ":") {
			raw, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			t.Logf("%s: %d programs", file, samePrograms(t, raw))
		}
	}
}

// ourTypes returns the programs, and the types that they need of this kernel.
func ourTypes(t *testing.T) (*ebpf.CollectionSpec, *neededTypes) {
	t.Helper()
	spec, err := loadWatch()
	if err != nil {
		t.Fatal(err)
	}
	types, err := findNeededTypes(spec)
	if err != nil {
		t.Fatal(err)
	}
	return spec, types
}

// TestWaysOfTypes: this kernel's programs load by the needed types, without the help of the whole ones, and by the
// whole ones.
func TestWaysOfTypes(t *testing.T) {
	testenv.Need(t, testenv.Root, testenv.EBPF)
	for name, cfg := range map[string]Config{"now": {Poll: time.Second}, "old": {early: true, alone: true}} {
		t.Run(name, func(t *testing.T) {
			spec, types := ourTypes(t)
			p, err := openWith(cfg, types, spec)
			if err != nil {
				t.Fatal(err)
			}
			if want := 2; len(p.progs) != want {
				t.Errorf("%d programs, want %d", len(p.progs), want)
			}
			if err := p.close(); err != nil {
				t.Error(err)
			}
		})
	}
	t.Run("whole", func(t *testing.T) {
		w, l := open(t, Config{Tier: BPF, Poll: time.Second, early: true, whole: true})
		v := spawn(t, "exit", "3")
		if err := w.Add(v.pid(), 1); err != nil {
			t.Fatal(err)
		}
		v.act()
		dead, _ := l.awaitEnd(t, 1)
		wantStatus(t, dead, v.reap())
		if dead.At == 0 {
			t.Error("Dead has no time, want that of the program")
		}
	})
}

// TestRefusedSignals: a kernel that refuses the signal program runs the others.
func TestRefusedSignals(t *testing.T) {
	testenv.Need(t, testenv.Root, testenv.EBPF)
	spec, types := ourTypes(t)
	delete(types.ids, pointType+"signal_deliver") // the program cannot be loaded now
	types.args[pointType+exitPoint] = 1           // as before Linux 6.16
	p, err := openWith(Config{Poll: time.Second}, types, spec)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := p.close(); err != nil {
			t.Error(err)
		}
	}()
	if len(p.progs) != 2 || len(p.links) != 1 || p.threads == nil {
		t.Errorf("%d programs, %d attachments and iterator %v, want 2, 1 and one", len(p.progs), len(p.links), p.threads)
	}
}

// TestBadTypes: types that are cut, have unknown kinds or are made of themselves are an error.
func TestBadTypes(t *testing.T) {
	own := &btf.Struct{Name: "pid", Size: 8, Members: []btf.Member{{Name: "level", Type: &btf.Int{Name: "int", Size: 4}}}}
	b, err := btf.NewBuilder([]btf.Type{own}, nil)
	if err != nil {
		t.Fatal(err)
	}
	good, err := b.Marshal(nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	w := want{structs: map[string]bool{"pid": true}, members: map[string]bool{"level": true}}
	k, err := readNeededTypes(bytes.NewReader(good), w)
	if err != nil {
		t.Fatal(err)
	}
	var got *btf.Struct
	if err := k.spec.TypeByName("pid", &got); err != nil || got.Size != 8 || len(got.Members) != 1 || got.Members[0].Name != "level" {
		t.Errorf("got %+v, %v, want pid with its level", got, err)
	}
	for n := range good {
		if _, err := readNeededTypes(bytes.NewReader(good[:n]), w); err == nil {
			t.Errorf("%d of %d bytes: no error", n, len(good))
		}
	}
	for name, change := range map[string]func(b []byte){
		"magic":   func(b []byte) { b[0]++ },
		"version": func(b []byte) { b[2]++ },
		"kind":    func(b []byte) { b[headerBTF+7] = 31 },
	} {
		bad := bytes.Clone(good)
		change(bad)
		if _, err := readNeededTypes(bytes.NewReader(bad), w); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

// rawTypes returns a BTF of types and strings.
func rawTypes(words []uint32, names string) []byte {
	le := binary.LittleEndian
	out := le.AppendUint16(nil, magicBTF)
	out = le.AppendUint32(append(out, 1, 0), headerBTF)
	for _, n := range []int{0, 4 * len(words), 4 * len(words), len(names)} {
		out = le.AppendUint32(out, uint32(n))
	}
	for _, word := range words {
		out = le.AppendUint32(out, word)
	}
	return append(out, names...)
}

// TestEndlessTypes: a type that is made of itself is an error.
func TestEndlessTypes(t *testing.T) {
	w := want{structs: map[string]bool{"a": true}, members: map[string]bool{"b": true}}
	raw := func(inner uint32) []byte {
		return rawTypes([]uint32{
			1, kindStruct<<24 | 1, 4, 3, 2, 0, // struct a { T b; }, where T is type 2
			0, kindTypedef << 24, inner,
			0, kindInt << 24, 4, 32,
		}, "\x00a\x00b\x00")
	}
	if _, err := readNeededTypes(bytes.NewReader(raw(3)), w); err != nil {
		t.Fatal(err)
	}
	for _, inner := range []uint32{0, 1, 2, 4} {
		if _, err := readNeededTypes(bytes.NewReader(raw(inner)), w); err == nil {
			t.Errorf("a typedef of type %d: no error", inner)
		}
	}
}

// FuzzTypes: no types do harm, and structures have wanted names or none.
func FuzzTypes(f *testing.F) {
	f.Add(rawTypes([]uint32{1, kindStruct<<24 | 1, 4, 3, 2, 0, 0, kindInt << 24, 4, 32}, "\x00a\x00b\x00"))
	f.Add(rawTypes([]uint32{1, kindTypedef << 24, 2, 0, kindPointer << 24, 3, 0, kindFuncProto << 24, 0}, "\x00c\x00"))
	w := want{
		structs: map[string]bool{"a": true}, members: map[string]bool{"b": true},
		points: map[string]bool{"c": true}, funcs: map[string]bool{"d": true},
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		k, err := readNeededTypes(bytes.NewReader(b), w)
		if err != nil {
			return
		}
		for got, err := range k.spec.All() {
			if s, ok := got.(*btf.Struct); ok && err == nil && s.Name != "" && !strings.Contains("abcd", s.Name) {
				t.Errorf("structure %q, want a name of a to d", s.Name)
			}
		}
	})
}

func BenchmarkFindNeededTypes(b *testing.B) {
	spec, err := loadWatch()
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := findNeededTypes(spec); err != nil {
			b.Fatal(err)
		}
	}
}
