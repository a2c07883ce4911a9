package codec

// Timeval is a time in seconds and microseconds.
type Timeval struct {
	Sec  int64
	Usec int64
}

// Info is a key and value with directive flags, as passed with requests.
type Info struct {
	Key   string
	Flags uint32
	Value Value
}

// KVal is a key and value as stored by put and in the job's description.
type KVal struct {
	Key   string
	Value Value
}

// PData is a published key and value with its owner.
type PData struct {
	Proc  Proc
	Key   string
	Value Value
}

// App describes one application of a spawn request.
type App struct {
	Cmd      string
	Argv     []string
	Env      []string
	Cwd      string
	MaxProcs int32
	Info     []Info
}

// Query is a set of keys asked for together, with qualifiers.
type Query struct {
	Keys       []string
	Qualifiers []Info
}

// ProcInfo is one row of a process table. The exit code of the standard's structure does not travel in this format.
type ProcInfo struct {
	Proc       Proc
	Hostname   string
	Executable string
	PID        uint32
	State      uint8
}

// Array is a typed array; every element has the Go type that Value lists for Type.
type Array struct {
	Type  DataType
	Elems []any
}

// Envar is a change of an environment variable.
type Envar struct {
	Name      string
	Value     string
	Separator byte
}

// Coord is a position in a fabric.
type Coord struct {
	View   uint8
	Coords []uint32
}

// RegAttr describes an attribute that a function supports.
type RegAttr struct {
	Name        string
	Key         string
	Type        DataType
	Description []string
}

// Endpoint is the fabric address of a device.
type Endpoint struct {
	UUID   string
	OSName string
	Addr   []byte
}

// DeviceDistance is the distance of a process from a device.
type DeviceDistance struct {
	UUID   string
	OSName string
	Type   uint64
	Min    uint16
	Max    uint16
}
