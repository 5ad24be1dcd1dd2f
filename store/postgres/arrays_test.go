package postgres

import (
	"bytes"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"
)

// TestArraysAreThoseOfTheDriver: our codecs produce the same bytes as the driver.
func TestArraysAreThoseOfTheDriver(t *testing.T) {
	theirs, ours := pgtype.NewMap(), pgtype.NewMap()
	useArrays(ours)
	for _, c := range []struct {
		oid   uint32
		value any
	}{
		{pgtype.Int8ArrayOID, []int64{1, -1, 1 << 62}}, {pgtype.Int8ArrayOID, []int64{}}, {pgtype.Int8ArrayOID, []int64(nil)},
		{pgtype.TextArrayOID, []string{"a", "", "ü,\"{}"}}, {pgtype.TextArrayOID, []string{}}, {pgtype.TextArrayOID, []string(nil)},
		{pgtype.ByteaArrayOID, [][]byte{{0, 255}, {}}}, {pgtype.ByteaArrayOID, [][]byte{}}, {pgtype.ByteaArrayOID, [][]byte(nil)},
		{pgtype.Int4ArrayOID, []int64{7}}, {pgtype.Int8ArrayOID, []string{"7"}}, {pgtype.TextArrayOID, [][]byte{[]byte("x")}},
	} {
		for _, format := range []int16{pgx.BinaryFormatCode, pgx.TextFormatCode} {
			want, wantErr := theirs.Encode(c.oid, format, c.value, []byte("before"))
			got, err := ours.Encode(c.oid, format, c.value, []byte("before"))
			if !bytes.Equal(got, want) || (err == nil) != (wantErr == nil) {
				t.Errorf("%T %v as %d in format %d is\n%x (%v), want\n%x (%v)", c.value, c.value, c.oid, format, got, err, want, wantErr)
			}
		}
	}
	if ours.FormatCodeForOID(pgtype.TextArrayOID) != pgx.BinaryFormatCode {
		t.Error("arrays are sent as text")
	}
	if _, err := ours.Encode(pgtype.ByteaArrayOID, pgx.BinaryFormatCode, [][]byte{nil}, nil); err == nil {
		t.Error("an element that is nil is encoded")
	}
}
