package layout

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"

	"recalld/memory"
)

// Verify reads the whole file, whatever was verified before, and reports the
// first damage: a checksum that does not match, or rows that are not as a writer
// writes them. progress, which may be nil, is told how many bytes are done.
func (s *Segment) Verify(ctx context.Context, progress func(done int64)) error {
	if err := s.Intact(); err != nil {
		return err
	}
	if err := s.checkHeader(); err != nil {
		return err
	}
	for section := range checks {
		for chunk := range s.chunks.plan.sections[section].chunks() {
			if err := ctx.Err(); err != nil {
				return err
			}
			if err := s.chunks.verify(section, chunk); err != nil {
				return err
			}
			if progress != nil {
				progress(min(s.chunks.plan.sections[section].at+int64(chunk+1)*ChunkBytes, s.chunks.plan.sections[section].end()))
			}
		}
	}
	if err := s.verifyOrder(ctx); err != nil {
		return err
	}
	if _, err := s.Absent(); err != nil {
		return err
	}
	same, err := sumMatches(ctx, s.file.bytes[HeaderBytes:], s.sum)
	if err == nil && !same {
		err = s.chunks.damage(checks, -1, "the bytes are not those of the file's name")
	}
	if err == nil && progress != nil {
		progress(int64(len(s.file.bytes)))
	}
	return err
}

// checkHeader reads the header and the checks once more.
func (s *Segment) checkHeader() error {
	return Guard(func() error {
		_, err := newSegment(s.file, s.header.Source)
		return err
	})
}

// verifyOrder checks that cells, and records inside each cell, ascend, and that no
// record has rows in two cells.
func (s *Segment) verifyOrder(ctx context.Context) error {
	rows, err := s.Rows()
	if err != nil {
		return err
	}
	parent := 0
	var last Cell
	for i := range s.header.Cells {
		if err := ctx.Err(); err != nil {
			return err
		}
		c, r, err := s.Cell(i)
		if err != nil {
			return err
		}
		if i > 0 && c.Compare(last) <= 0 || i == 0 && r.From != 0 {
			return s.chunks.damage(cells, int(int64(i)*cellBytes/ChunkBytes), "the directory is not in order")
		}
		last = c
		before := memory.Ref{}
		for ; parent < rows.count() && rows.first(parent) < r.To; parent++ {
			ref := rows.ref(parent)
			if memory.CompareRefs(ref, before) <= 0 || rows.first(parent+1) > r.To {
				return s.chunks.damage(parents, parent*parentBytes/ChunkBytes, "its records are not in order")
			}
			before = ref
		}
	}
	return nil
}

// Verify is [Segment.Verify] for a value file.
func (v *Values) Verify(ctx context.Context, progress func(done int64)) error {
	if err := v.Intact(); err != nil {
		return err
	}
	err := Guard(func() error {
		_, err := newValues(v.file, v.header.Source)
		return err
	})
	if err != nil {
		return err
	}
	for slot := range uint32(v.header.Slots) {
		if slot%1024 == 0 {
			if err := ctx.Err(); err != nil {
				return err
			}
		}
		if _, _, err := v.Row(slot); err != nil && !errors.Is(err, ErrErased) {
			return err
		}
		if progress != nil && slot%1024 == 1023 {
			_, to := v.Extent(slot)
			progress(to)
		}
	}
	same, err := sumMatches(ctx, v.file.bytes[HeaderBytes:], v.sum)
	if err == nil && !same {
		err = v.damage("file", -1, "the bytes are not those of the file's name")
	}
	if err == nil && progress != nil {
		progress(int64(len(v.file.bytes)))
	}
	return err
}

// sumMatches compares the SHA-256 of mapped bytes, a chunk at a time.
func sumMatches(ctx context.Context, b, want []byte) (same bool, err error) {
	h := sha256.New()
	for len(b) > 0 {
		if err := ctx.Err(); err != nil {
			return false, err
		}
		n := min(len(b), ChunkBytes)
		if err := Guard(func() error { h.Write(b[:n]); return nil }); err != nil {
			return false, err
		}
		b = b[n:]
	}
	return bytes.Equal(h.Sum(nil), want), nil
}
