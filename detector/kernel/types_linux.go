//go:build 386 || amd64 || arm || arm64 || loong64 || mips64le || mipsle || ppc64le || riscv64

package kernel

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"github.com/cilium/ebpf/btf"
)

// A kernel's BTF has more than 100,000 types in 5 MB and more. The programs use a dozen of them. typeReader reads
// the BTF in two passes, through a buffer, and keeps what was asked for:
//
//  1. The strings: the offsets of the wanted names.
//  2. The types: which of them have a wanted name, and where every 64th type begins.
//
// Then it reads these types, and the types of their members, one by one.
type typeReader struct {
	file   io.ReaderAt
	types  region
	names  map[uint32]string // wanted names, by offset among the strings
	starts []uint32          // of the types 1, 1+sparse, 1+2*sparse ...: offsets among the types
	last   typeID            // number of the last type
	buf    *bufio.Reader     // reused
	read   map[typeID]btf.Type
}

// region is a part of a file.
type region struct{ at, size int64 }

// typeID is the number of a type among the kernel's. 0 stands for void.
type typeID = btf.TypeID

const (
	sparse     = 64       // types from one entry of typeReader.starts to the next
	typeWindow = 64 << 10 // bytes of the buffer; no string is longer
	typeDepth  = 32       // steps from a type to those that it is made of; the kernel's types need 10
	magicBTF   = 0xeb9f
	headerBTF  = 24
	plainType  = 12 // bytes of a type without what follows some kinds
)

// Kinds of types.
const (
	kindInt = iota + 1
	kindPointer
	kindArray
	kindStruct
	kindUnion
	kindEnum
	kindForward
	kindTypedef
	kindVolatile
	kindConst
	kindRestrict
	kindFunc
	kindFuncProto
	kindVar
	kindSection
	kindFloat
	kindDeclTag
	kindTypeTag
	kindEnum64
)

// rawType is a type as the BTF has it: the 12 bytes that all kinds have, and what follows.
type rawType struct {
	name  uint32 // offset of its name among the strings; 0: none
	kind  uint8
	flag  bool   // struct and union: offsets of members include the sizes of bit fields
	count uint32 // members, values or parameters
	of    uint32 // size, or the type that this one is about
	more  []byte // what follows; set by find only
}

// following says how many bytes follow the first 12 of a type: fixed ones, and so many for each member.
var following = [...]struct{ fixed, each uint32 }{
	kindInt: {fixed: 4}, kindPointer: {}, kindArray: {fixed: 12}, kindStruct: {each: 12}, kindUnion: {each: 12}, kindEnum: {each: 8},
	kindForward: {}, kindTypedef: {}, kindVolatile: {}, kindConst: {}, kindRestrict: {}, kindFunc: {}, kindFuncProto: {each: 8},
	kindVar: {fixed: 4}, kindSection: {each: 12}, kindFloat: {}, kindDeclTag: {fixed: 4}, kindTypeTag: {}, kindEnum64: {each: 12},
}

// parseType parses the first 12 bytes of a type. size is that of the type with all that follows.
func parseType(b []byte) (t rawType, size int, err error) {
	info := binary.LittleEndian.Uint32(b[4:])
	t = rawType{
		name: binary.LittleEndian.Uint32(b), of: binary.LittleEndian.Uint32(b[8:]),
		kind: uint8(info >> 24 & 0x1f), flag: info>>31 != 0, count: info & 0xffff,
	}
	if t.kind == 0 || int(t.kind) >= len(following) {
		return rawType{}, 0, fmt.Errorf("type of kind %d, want 1 to %d", t.kind, len(following)-1)
	}
	f := following[t.kind]
	return t, int(plainType + f.fixed + f.each*t.count), nil
}

// newTypeReader reads the header of a little-endian BTF, and finds the wanted names among its strings.
func newTypeReader(file io.ReaderAt, wanted map[string]bool) (*typeReader, error) {
	var head [headerBTF]byte
	if _, err := file.ReadAt(head[:], 0); err != nil {
		return nil, fmt.Errorf("header: %w", err)
	}
	word := func(at int) int64 { return int64(binary.LittleEndian.Uint32(head[at:])) }
	if magic := binary.LittleEndian.Uint16(head[:]); magic != magicBTF || head[2] != 1 {
		return nil, fmt.Errorf("header: magic %#x and version %d, want %#x and 1", magic, head[2], magicBTF)
	}
	begin := word(4)
	r := &typeReader{
		file: file, types: region{begin + word(8), word(12)}, names: map[uint32]string{},
		buf: bufio.NewReaderSize(nil, typeWindow), read: map[typeID]btf.Type{},
	}
	if err := r.findNames(region{begin + word(16), word(20)}, wanted); err != nil {
		return nil, fmt.Errorf("strings: %w", err)
	}
	return r, nil
}

// seek has the buffer read a region.
func (r *typeReader) seek(in region) {
	r.buf.Reset(io.NewSectionReader(r.file, in.at, in.size))
}

// findNames finds the wanted names among the strings. Each string ends with a zero byte.
func (r *typeReader) findNames(in region, wanted map[string]bool) error {
	r.seek(in)
	for at := int64(0); at < in.size; {
		text, err := r.buf.ReadSlice(0)
		if err != nil {
			return err
		}
		if name := text[:len(text)-1]; wanted[string(name)] {
			r.names[uint32(at)] = string(name)
		}
		at += int64(len(text))
	}
	return nil
}

// scan reads the heads of all types. It calls visit for those with a wanted name.
func (r *typeReader) scan(visit func(id typeID, t rawType)) error {
	r.seek(r.types)
	for at := int64(0); at < r.types.size; r.last++ {
		if r.last%sparse == 0 {
			r.starts = append(r.starts, uint32(at))
		}
		head, err := r.buf.Peek(plainType)
		if err != nil {
			return err
		}
		t, size, err := parseType(head)
		if err != nil {
			return err
		}
		if t.name != 0 && r.names[t.name] != "" {
			visit(r.last+1, t)
		}
		if _, err := r.buf.Discard(size); err != nil {
			return err
		}
		at += int64(size)
	}
	return nil
}

// find reads one type with all that follows it.
func (r *typeReader) find(id typeID) (rawType, error) {
	if id == 0 || id > r.last {
		return rawType{}, fmt.Errorf("type %d, want 1 to %d", id, r.last)
	}
	group := (id - 1) / sparse
	begin, end := int64(r.starts[group]), r.types.size
	if int(group)+1 < len(r.starts) {
		end = int64(r.starts[group+1])
	}
	r.seek(region{r.types.at + begin, end - begin})
	for skip := (id - 1) % sparse; ; skip-- {
		head, err := r.buf.Peek(plainType)
		if err != nil {
			return rawType{}, err
		}
		t, size, err := parseType(head)
		if err != nil {
			return rawType{}, err
		}
		if skip == 0 {
			t.more = make([]byte, size-plainType)
			_, _ = r.buf.Discard(plainType) // it was peeked
			_, err = io.ReadFull(r.buf, t.more)
			return t, err
		}
		if _, err := r.buf.Discard(size); err != nil {
			return rawType{}, err
		}
	}
}

// layout returns a type as far as its layout matters to the programs: with its size, and the members that have
// wanted names or none. Typedefs and qualifiers are left out, pointers point to void.
func (r *typeReader) layout(id typeID, depth int) (btf.Type, error) {
	if known := r.read[id]; known != nil {
		return known, nil
	}
	if depth == 0 {
		return nil, fmt.Errorf("type %d: made of itself, or of types more than %d deep", id, typeDepth)
	}
	t, err := r.find(id)
	if err != nil {
		return nil, err
	}
	var made btf.Type
	switch t.kind {
	case kindInt:
		made = &btf.Int{Name: "int", Size: t.of, Encoding: btf.IntEncoding(t.more[3] & 0xf)}
	case kindPointer:
		made = &btf.Pointer{Target: &btf.Void{}}
	case kindArray:
		var elem btf.Type
		if elem, err = r.layout(typeID(binary.LittleEndian.Uint32(t.more)), depth-1); err == nil {
			made = &btf.Array{Index: &btf.Int{Name: "int", Size: 4}, Type: elem, Nelems: binary.LittleEndian.Uint32(t.more[8:])}
		}
	case kindStruct:
		s := &btf.Struct{Name: r.names[t.name], Size: t.of}
		s.Members, err = r.members(t, depth)
		made = s
	case kindUnion:
		u := &btf.Union{Name: r.names[t.name], Size: t.of}
		u.Members, err = r.members(t, depth)
		made = u
	case kindEnum, kindEnum64:
		made = &btf.Enum{Size: t.of}
	case kindFloat:
		made = &btf.Float{Name: "float", Size: t.of}
	case kindTypedef, kindVolatile, kindConst, kindRestrict, kindTypeTag:
		made, err = r.layout(typeID(t.of), depth-1)
	default:
		err = fmt.Errorf("type %d of kind %d, want one with a size", id, t.kind)
	}
	if err != nil {
		return nil, err
	}
	r.read[id] = made
	return made, nil
}

// members returns the members with wanted names, and those without a name: a wanted one may be in them.
func (r *typeReader) members(t rawType, depth int) (all []btf.Member, err error) {
	for b := t.more; len(b) >= 12; b = b[12:] {
		at, offset := binary.LittleEndian.Uint32(b), binary.LittleEndian.Uint32(b[8:])
		m := btf.Member{Name: r.names[at], Offset: btf.Bits(offset)}
		if at != 0 && m.Name == "" {
			continue
		}
		if t.flag {
			m.Offset, m.BitfieldSize = btf.Bits(offset&0xffffff), btf.Bits(offset>>24)
		}
		if m.Type, err = r.layout(typeID(binary.LittleEndian.Uint32(b[4:])), depth-1); err != nil {
			return nil, err
		}
		all = append(all, m)
	}
	return all, nil
}

// neededTypes are the kernel's types as far as programs need them.
type neededTypes struct {
	spec *btf.Spec         // structures and unions, without what the programs do not use
	ids  map[string]typeID // numbers of the types that programs are attached to
	args map[string]int    // by the name of the type: arguments of the tracepoint; of no use for helpers
}

// want is what a program or a set of programs needs to know of the kernel's types.
type want struct {
	structs map[string]bool // names of structures and unions
	members map[string]bool // names of their members
	points  map[string]bool // names of the types of tracepoints and helpers: typedefs of pointers to functions
	funcs   map[string]bool // names of the functions of iterators
}

// readNeededTypes reads the types that are wanted from a BTF file. A type that is missing is no error.
func readNeededTypes(file io.ReaderAt, w want) (*neededTypes, error) {
	names := map[string]bool{}
	for _, set := range []map[string]bool{w.structs, w.members, w.points, w.funcs} {
		for name := range set {
			names[name] = true
		}
	}
	r, err := newTypeReader(file, names)
	if err != nil {
		return nil, err
	}
	k := &neededTypes{ids: map[string]typeID{}, args: map[string]int{}}
	var structs []typeID
	twice := ""
	err = r.scan(func(id typeID, t rawType) {
		name := r.names[t.name]
		switch {
		case (t.kind == kindStruct || t.kind == kindUnion) && w.structs[name]:
			structs = append(structs, id)
		case t.kind == kindTypedef && w.points[name], t.kind == kindFunc && w.funcs[name]:
			if k.ids[name] != 0 {
				twice = name
			}
			k.ids[name] = id
		}
	})
	if err == nil && twice != "" {
		err = fmt.Errorf("two types have the name %s", twice)
	}
	if err != nil {
		return nil, fmt.Errorf("types: %w", err)
	}
	for name := range w.points {
		if id := k.ids[name]; id != 0 {
			if k.args[name], err = r.arguments(id); err != nil {
				return nil, fmt.Errorf("type %s: %w", name, err)
			}
		}
	}
	k.spec, err = r.pick(structs)
	return k, err
}

// arguments returns the number of arguments of a tracepoint. The first parameter is the kernel's own context.
func (r *typeReader) arguments(id typeID) (int, error) {
	for _, kind := range []uint8{kindTypedef, kindPointer, kindFuncProto} {
		t, err := r.find(id)
		if err != nil {
			return 0, err
		}
		if t.kind != kind {
			return 0, fmt.Errorf("type %d of kind %d, want %d", id, t.kind, kind)
		}
		if kind == kindFuncProto {
			return int(t.count) - 1, nil
		}
		id = typeID(t.of)
	}
	return 0, errors.New("no function") // not reached
}

// pick returns a specification of some types and what they are made of.
func (r *typeReader) pick(ids []typeID) (*btf.Spec, error) {
	all := make([]btf.Type, 0, len(ids))
	for _, id := range ids {
		t, err := r.layout(id, typeDepth)
		if err != nil {
			return nil, err
		}
		all = append(all, t)
	}
	b, err := btf.NewBuilder(all, nil)
	if err != nil {
		return nil, err
	}
	raw, err := b.Marshal(nil, nil)
	if err != nil {
		return nil, err
	}
	return btf.LoadSpecFromReader(bytes.NewReader(raw))
}
