package codec

// ProcsValue returns an array of processes.
func ProcsValue(procs ...Proc) Value {
	elems := make([]any, len(procs))
	for i, p := range procs {
		elems[i] = p
	}
	return Value{TypeDataArray, Array{Type: TypeProc, Elems: elems}}
}

// Procs returns the elements of an array of processes, or the one process that the value holds.
func (v Value) Procs() (procs []Proc, ok bool) {
	switch x := v.Data.(type) {
	case Proc:
		return []Proc{x}, true
	case Array:
		for _, elem := range x.Elems {
			p, isProc := elem.(Proc)
			if !isProc {
				return nil, false
			}
			procs = append(procs, p)
		}
		return procs, true
	default:
		return nil, false
	}
}

// SizeValue returns a value of type size.
func SizeValue(v uint64) Value { return Value{TypeSize, v} }

// StatusValue returns a value of type status.
func StatusValue(v Status) Value { return Value{TypeStatus, v} }

// Find returns the value of a key.
func Find(infos []Info, key string) (Value, bool) {
	for _, info := range infos {
		if info.Key == key {
			return info.Value, true
		}
	}
	return Value{}, false
}

// Flag reports whether a key is given and not false. A key alone stands for true, so a value that is no bool counts as
// true.
func Flag(infos []Info, key string) bool {
	v, found := Find(infos, key)
	return found && v.isSet()
}

// isSet reports whether a flag with this value is set.
func (v Value) isSet() bool {
	b, isBool := v.Bool()
	return b || !isBool
}
