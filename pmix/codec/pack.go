package codec

import "math"

// unpackData reads a value of type t. It maps PMIx types to Go types for reading; packData is its counterpart.
func unpackData(d *Decoder, t DataType) any {
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
		return unpackPID(d)
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
		return float32(unpackFloat(d, 32))
	case TypeDouble:
		return unpackFloat(d, 64)
	case TypeStatus:
		return d.Status()
	case TypeScope:
		return Scope(d.Byte())
	case TypeDataRange:
		return Range(d.Byte())
	case TypeDataType:
		return unpackDataType(d)
	case TypeProcRank:
		return d.Rank()
	case TypeByteObject, TypeCompressedString, TypeCompressedByteObject, TypeDataBuffer:
		return d.ByteObject()
	default:
		return unpackStructure(d, t)
	}
}

func unpackStructure(d *Decoder, t DataType) any {
	switch t {
	case TypeTimeval:
		return unpackTimeval(d)
	case TypeValue:
		return d.Value()
	case TypeProc:
		return d.Proc()
	case TypeApp:
		return unpackApp(d)
	case TypeInfo:
		return d.Info()
	case TypePData:
		return unpackPData(d)
	case TypeKVal:
		return unpackKVal(d)
	case TypeProcInfo:
		return unpackProcInfo(d)
	case TypeDataArray:
		return unpackArray(d)
	case TypeQuery:
		return unpackQuery(d)
	case TypeEnvar:
		return unpackEnvar(d)
	case TypeCoord:
		return unpackCoord(d)
	case TypeRegAttr:
		return unpackRegAttr(d)
	case TypeDeviceDist:
		return unpackDeviceDistance(d)
	case TypeEndpoint:
		return unpackEndpoint(d)
	default:
		d.fail(d.off, "value: type %d, want a known type", t)
		return nil
	}
}

// packData packs v, whose Go type must be the one that Value lists for t.
func packData(e *Encoder, t DataType, v any) {
	var ok bool // whether v has the Go type of t
	switch t {
	case TypeUndef:
		ok = v == nil
	case TypeBool:
		ok = with(e, v, (*Encoder).Bool)
	case TypeByte, TypeUint8, TypePersist, TypePointer, TypeCommand, TypeProcState, TypeAllocDirective, TypeJobState, TypeLinkState:
		ok = with(e, v, (*Encoder).Byte)
	case TypeString, TypeProcNspace:
		ok = with(e, v, (*Encoder).String)
	case TypeSize, TypeUint64, TypeTime, TypeDevType:
		ok = with(e, v, (*Encoder).Uint)
	case TypePID:
		ok = with(e, v, packPID)
	case TypeUint:
		ok = with(e, v, func(e *Encoder, x uint32) { e.Int(int64(int32(x))) }) // libpmix packs it as an int
	case TypeUint32, TypeInfoDirectives:
		ok = with(e, v, func(e *Encoder, x uint32) { e.Uint(uint64(x)) })
	case TypeUint16, TypeIOFChannel, TypeLocType:
		ok = with(e, v, func(e *Encoder, x uint16) { e.Uint(uint64(x)) })
	case TypeInt8:
		ok = with(e, v, func(e *Encoder, x int8) { e.Byte(byte(x)) })
	case TypeInt16:
		ok = with(e, v, func(e *Encoder, x int16) { e.Int(int64(x)) })
	case TypeInt, TypeInt32:
		ok = with(e, v, func(e *Encoder, x int32) { e.Int(int64(x)) })
	case TypeInt64:
		ok = with(e, v, (*Encoder).Int)
	case TypeFloat:
		ok = with(e, v, func(e *Encoder, x float32) { packFloat(e, float64(x), 32) })
	case TypeDouble:
		ok = with(e, v, func(e *Encoder, x float64) { packFloat(e, x, 64) })
	case TypeStatus:
		ok = with(e, v, (*Encoder).Status)
	case TypeScope:
		ok = with(e, v, func(e *Encoder, x Scope) { e.Byte(byte(x)) })
	case TypeDataRange:
		ok = with(e, v, func(e *Encoder, x Range) { e.Byte(byte(x)) })
	case TypeDataType:
		ok = with(e, v, func(e *Encoder, x DataType) { e.Uint(uint64(x)) })
	case TypeProcRank:
		ok = with(e, v, (*Encoder).Rank)
	case TypeByteObject, TypeCompressedString, TypeCompressedByteObject, TypeDataBuffer:
		ok = with(e, v, (*Encoder).ByteObject)
	default:
		ok = packStructure(e, t, v)
	}
	if !ok {
		e.fail("value: type %d holds a Go %T, want the Go type that Value lists for it", t, v)
	}
}

func packStructure(e *Encoder, t DataType, v any) bool {
	switch t {
	case TypeTimeval:
		return with(e, v, packTimeval)
	case TypeValue:
		return with(e, v, (*Encoder).Value)
	case TypeProc:
		return with(e, v, (*Encoder).Proc)
	case TypeApp:
		return with(e, v, packApp)
	case TypeInfo:
		return with(e, v, (*Encoder).Info)
	case TypePData:
		return with(e, v, packPData)
	case TypeKVal:
		return with(e, v, (*Encoder).KVal)
	case TypeProcInfo:
		return with(e, v, packProcInfo)
	case TypeDataArray:
		return with(e, v, packArray)
	case TypeQuery:
		return with(e, v, packQuery)
	case TypeEnvar:
		return with(e, v, packEnvar)
	case TypeCoord:
		return with(e, v, packCoord)
	case TypeRegAttr:
		return with(e, v, packRegAttr)
	case TypeDeviceDist:
		return with(e, v, packDeviceDistance)
	case TypeEndpoint:
		return with(e, v, packEndpoint)
	default:
		return false
	}
}

// with packs v if it has the Go type that pack takes.
func with[T any](e *Encoder, v any, pack func(*Encoder, T)) bool {
	x, ok := v.(T)
	if ok {
		pack(e, x)
	}
	return ok
}
