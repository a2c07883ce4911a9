package wire

import "math"

// data reads a value of type t. It is the one place that knows which Go type stands for which PMIx type when reading.
func (d *Decoder) data(t DataType) any {
	if d.depth++; d.depth > maxDepth {
		d.fail(d.off, "value: nested more than %d deep", maxDepth)
	}
	defer func() { d.depth-- }()
	if d.err != nil {
		return nil
	}
	switch t {
	case TypeUndef:
		return nil
	case TypeBool:
		return d.Bool()
	case TypeByte, TypeUint8, TypePersist, TypePointer, TypeCommand, TypeProcState, TypeAllocDirective, TypeJobState, TypeLinkState:
		return d.Byte()
	case TypeString, TypeProcNspace:
		return d.Str()
	case TypeSize, TypeUint64, TypeTime, TypeDevType:
		return d.Uint()
	case TypePID:
		return d.pid()
	case TypeUint:
		return uint32(int32(d.int(32, "32-bit integer")))
	case TypeUint32, TypeInfoDirectives:
		return uint32(d.uint(math.MaxUint32, "32-bit integer"))
	case TypeUint16, TypeIOFChannel, TypeLocType:
		return uint16(d.uint(math.MaxUint16, "16-bit integer"))
	case TypeInt8:
		return int8(d.Byte())
	case TypeInt16:
		return int16(d.int(16, "16-bit integer"))
	case TypeInt, TypeInt32:
		return int32(d.int(32, "32-bit integer"))
	case TypeInt64:
		return d.Int()
	case TypeFloat:
		return float32(d.float(32))
	case TypeDouble:
		return d.float(64)
	case TypeStatus:
		return d.Status()
	case TypeScope:
		return Scope(d.Byte())
	case TypeDataRange:
		return Range(d.Byte())
	case TypeDataType:
		return d.dataType()
	case TypeProcRank:
		return d.Rank()
	case TypeByteObject, TypeCompressedString, TypeCompressedByteObject, TypeDataBuffer:
		return d.ByteObject()
	default:
		return d.structure(t)
	}
}

func (d *Decoder) structure(t DataType) any {
	switch t {
	case TypeTimeval:
		return d.timeval()
	case TypeValue:
		return d.Value()
	case TypeProc:
		return d.Proc()
	case TypeApp:
		return d.app()
	case TypeInfo:
		return d.Info()
	case TypePData:
		return d.pdata()
	case TypeKVal:
		return d.KVal()
	case TypeProcInfo:
		return d.procInfo()
	case TypeDataArray:
		return d.array()
	case TypeQuery:
		return d.query()
	case TypeEnvar:
		return d.envar()
	case TypeCoord:
		return d.coord()
	case TypeRegAttr:
		return d.regAttr()
	case TypeDeviceDist:
		return d.deviceDistance()
	case TypeEndpoint:
		return d.endpoint()
	default:
		d.fail(d.off, "value: type %d, want a known type", t)
		return nil
	}
}

// data packs v, whose Go type must be the one that stands for t; the counterpart of Decoder.data.
func (e *Encoder) data(t DataType, v any) {
	var ok bool // whether v has the Go type that t wants
	switch t {
	case TypeUndef:
		ok = v == nil
	case TypeBool:
		ok = with(v, e.Bool)
	case TypeByte, TypeUint8, TypePersist, TypePointer, TypeCommand, TypeProcState, TypeAllocDirective, TypeJobState, TypeLinkState:
		ok = with(v, e.Byte)
	case TypeString, TypeProcNspace:
		ok = with(v, e.String)
	case TypeSize, TypeUint64, TypeTime, TypeDevType:
		ok = with(v, e.Uint)
	case TypePID:
		ok = with(v, e.pid)
	case TypeUint:
		ok = with(v, func(x uint32) { e.Int(int64(int32(x))) }) // libpmix packs it as an int
	case TypeUint32, TypeInfoDirectives:
		ok = with(v, func(x uint32) { e.Uint(uint64(x)) })
	case TypeUint16, TypeIOFChannel, TypeLocType:
		ok = with(v, func(x uint16) { e.Uint(uint64(x)) })
	case TypeInt8:
		ok = with(v, func(x int8) { e.Byte(byte(x)) })
	case TypeInt16:
		ok = with(v, func(x int16) { e.Int(int64(x)) })
	case TypeInt, TypeInt32:
		ok = with(v, func(x int32) { e.Int(int64(x)) })
	case TypeInt64:
		ok = with(v, e.Int)
	case TypeFloat:
		ok = with(v, func(x float32) { e.float(float64(x), 32) })
	case TypeDouble:
		ok = with(v, func(x float64) { e.float(x, 64) })
	case TypeStatus:
		ok = with(v, e.Status)
	case TypeScope:
		ok = with(v, func(x Scope) { e.Byte(byte(x)) })
	case TypeDataRange:
		ok = with(v, func(x Range) { e.Byte(byte(x)) })
	case TypeDataType:
		ok = with(v, func(x DataType) { e.Uint(uint64(x)) })
	case TypeProcRank:
		ok = with(v, e.Rank)
	case TypeByteObject, TypeCompressedString, TypeCompressedByteObject, TypeDataBuffer:
		ok = with(v, e.ByteObject)
	default:
		ok = e.structure(t, v)
	}
	if !ok {
		e.fail("value: type %d with a Go %T, want the Go type that belongs to it", t, v)
	}
}

func (e *Encoder) structure(t DataType, v any) bool {
	switch t {
	case TypeTimeval:
		return with(v, e.timeval)
	case TypeValue:
		return with(v, e.Value)
	case TypeProc:
		return with(v, e.Proc)
	case TypeApp:
		return with(v, e.app)
	case TypeInfo:
		return with(v, e.Info)
	case TypePData:
		return with(v, e.pdata)
	case TypeKVal:
		return with(v, e.KVal)
	case TypeProcInfo:
		return with(v, e.procInfo)
	case TypeDataArray:
		return with(v, e.array)
	case TypeQuery:
		return with(v, e.query)
	case TypeEnvar:
		return with(v, e.envar)
	case TypeCoord:
		return with(v, e.coord)
	case TypeRegAttr:
		return with(v, e.regAttr)
	case TypeDeviceDist:
		return with(v, e.deviceDistance)
	case TypeEndpoint:
		return with(v, e.endpoint)
	default:
		return false
	}
}

// with packs v if it has the Go type that pack takes.
func with[T any](v any, pack func(T)) bool {
	x, ok := v.(T)
	if ok {
		pack(x)
	}
	return ok
}
