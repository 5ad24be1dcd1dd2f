package postgres

import (
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"
)

// Nearly all writes bind whole columns as arrays. The driver makes an interface value of each
// element and looks up its encoding. These codecs encode the arrays of the three column types
// themselves, in the binary format of PostgreSQL's array_recv, and leave everything else to the
// driver.

// useArrays makes a connection encode them.
func useArrays(m *pgtype.Map) {
	for _, of := range []struct {
		name         string
		oid, element uint32
	}{{"_int8", pgtype.Int8ArrayOID, pgtype.Int8OID}, {"_text", pgtype.TextArrayOID, pgtype.TextOID}, {"_bytea", pgtype.ByteaArrayOID, pgtype.ByteaOID}} {
		element, _ := m.TypeForOID(of.element)
		m.RegisterType(&pgtype.Type{Name: of.name, OID: of.oid, Codec: &arrayCodec{pgtype.ArrayCodec{ElementType: element}}})
	}
}

type arrayCodec struct{ pgtype.ArrayCodec }

// PlanEncode implements pgtype.Codec.
func (c *arrayCodec) PlanEncode(m *pgtype.Map, oid uint32, format int16, value any) pgtype.EncodePlan {
	if format == pgx.BinaryFormatCode {
		switch value.(type) {
		case []int64:
			if oid == pgtype.Int8ArrayOID {
				return encodeInts{}
			}
		case []string:
			if oid == pgtype.TextArrayOID {
				return encodeTexts{}
			}
		case [][]byte:
			if oid == pgtype.ByteaArrayOID {
				return encodeBlobs{}
			}
		}
	}
	return c.ArrayCodec.PlanEncode(m, oid, format, value)
}

type (
	encodeInts  struct{}
	encodeTexts struct{}
	encodeBlobs struct{}
)

// Encode implements pgtype.EncodePlan.
func (encodeInts) Encode(value any, buf []byte) ([]byte, error) {
	v := value.([]int64)
	if v == nil {
		return nil, nil // NULL
	}
	buf = arrayHead(slices.Grow(buf, headSize+12*len(v)), pgtype.Int8OID, len(v))
	for _, n := range v {
		buf = binary.BigEndian.AppendUint32(buf, 8)
		buf = binary.BigEndian.AppendUint64(buf, uint64(n))
	}
	return buf, nil
}

// Encode implements pgtype.EncodePlan.
func (encodeTexts) Encode(value any, buf []byte) ([]byte, error) {
	v := value.([]string)
	if v == nil {
		return nil, nil
	}
	return appendEach(buf, pgtype.TextOID, v), nil
}

// Encode implements pgtype.EncodePlan.
func (encodeBlobs) Encode(value any, buf []byte) ([]byte, error) {
	v := value.([][]byte)
	if v == nil {
		return nil, nil
	}
	if i := slices.IndexFunc(v, func(b []byte) bool { return b == nil }); i >= 0 {
		return nil, fmt.Errorf("postgres: element %d of a column is nil", i)
	}
	return appendEach(buf, pgtype.ByteaOID, v), nil
}

func appendEach[T string | []byte](buf []byte, element uint32, values []T) []byte {
	size := headSize
	for _, v := range values {
		size += 4 + len(v)
	}
	buf = arrayHead(slices.Grow(buf, size), element, len(values))
	for _, v := range values {
		buf = binary.BigEndian.AppendUint32(buf, uint32(len(v)))
		buf = append(buf, v...)
	}
	return buf
}

const headSize = 20

// arrayHead begins an array of n elements: one dimension, no NULLs, the type, the length of the
// dimension and its first index.
func arrayHead(buf []byte, element uint32, n int) []byte {
	for _, v := range [...]uint32{1, 0, element, uint32(n), 1} {
		buf = binary.BigEndian.AppendUint32(buf, v)
	}
	return buf
}
