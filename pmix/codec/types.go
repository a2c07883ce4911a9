package codec

import "strconv"

// DataType is the type number of a packed value.
//
//   - Source: PMIx Standard 4.1, section 3.3.
type DataType uint16

// Type numbers, named as in the standard without the PMIX_ prefix.
const (
	TypeUndef                DataType = 0
	TypeBool                 DataType = 1
	TypeByte                 DataType = 2
	TypeString               DataType = 3
	TypeSize                 DataType = 4
	TypePID                  DataType = 5
	TypeInt                  DataType = 6
	TypeInt8                 DataType = 7
	TypeInt16                DataType = 8
	TypeInt32                DataType = 9
	TypeInt64                DataType = 10
	TypeUint                 DataType = 11
	TypeUint8                DataType = 12
	TypeUint16               DataType = 13
	TypeUint32               DataType = 14
	TypeUint64               DataType = 15
	TypeFloat                DataType = 16
	TypeDouble               DataType = 17
	TypeTimeval              DataType = 18
	TypeTime                 DataType = 19
	TypeStatus               DataType = 20
	TypeValue                DataType = 21
	TypeProc                 DataType = 22
	TypeApp                  DataType = 23
	TypeInfo                 DataType = 24
	TypePData                DataType = 25
	TypeByteObject           DataType = 27
	TypeKVal                 DataType = 28
	TypePersist              DataType = 30
	TypePointer              DataType = 31 // travels as a byte without meaning
	TypeScope                DataType = 32
	TypeDataRange            DataType = 33
	TypeCommand              DataType = 34
	TypeInfoDirectives       DataType = 35
	TypeDataType             DataType = 36
	TypeProcState            DataType = 37
	TypeProcInfo             DataType = 38
	TypeDataArray            DataType = 39
	TypeProcRank             DataType = 40
	TypeQuery                DataType = 41
	TypeCompressedString     DataType = 42
	TypeAllocDirective       DataType = 43
	TypeIOFChannel           DataType = 45
	TypeEnvar                DataType = 46
	TypeCoord                DataType = 47
	TypeRegAttr              DataType = 48
	TypeJobState             DataType = 50
	TypeLinkState            DataType = 51
	TypeDeviceDist           DataType = 54
	TypeEndpoint             DataType = 55
	TypeDevType              DataType = 57
	TypeLocType              DataType = 58
	TypeCompressedByteObject DataType = 59
	TypeProcNspace           DataType = 60
	TypeDataBuffer           DataType = 65
)

// Limits of the standard on names, without the closing NUL.
const (
	MaxNspaceLen = 255
	MaxKeyLen    = 511
)

// Rank is the number of a process in its namespace.
type Rank uint32

// Ranks with a meaning of their own.
const (
	RankUndef      Rank = 0xffffffff
	RankWildcard   Rank = 0xfffffffe // every rank of the namespace; in a get, the job itself
	RankLocalNode  Rank = 0xfffffffd
	RankInvalid    Rank = 0xfffffffc
	RankLocalPeers Rank = 0xfffffffb
	RankMaxValid   Rank = 0xffffffff - 50 // ranks from here up are reserved
)

// String prints a reserved rank by name and any other as a number.
func (r Rank) String() string {
	switch r {
	case RankUndef:
		return "undef"
	case RankWildcard:
		return "*"
	default:
		return strconv.FormatUint(uint64(r), 10)
	}
}

// Proc names a process: its namespace and rank.
type Proc struct {
	Nspace string
	Rank   Rank
}

// String prints the process as nspace.rank.
func (p Proc) String() string { return p.Nspace + "." + p.Rank.String() }

// Scope says which processes may read a value that was put.
type Scope uint8

// Scopes of a put.
const (
	ScopeUndef    Scope = 0
	ScopeLocal    Scope = 1 // processes on the same node
	ScopeRemote   Scope = 2 // processes on other nodes
	ScopeGlobal   Scope = 3 // all
	ScopeInternal Scope = 4 // the putting process only
)

// Range says which processes an event or a published value reaches.
type Range uint8

// Ranges of events and published data.
const (
	RangeUndef     Range = 0
	RangeRM        Range = 1
	RangeLocal     Range = 2
	RangeNamespace Range = 3
	RangeSession   Range = 4
	RangeGlobal    Range = 5
	RangeCustom    Range = 6
	RangeProcLocal Range = 7
)

// Info flags.
const (
	InfoRequired uint32 = 1 // the receiver must honor the key or refuse the request
)
